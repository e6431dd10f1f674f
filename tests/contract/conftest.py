"""One suite for every backend: a new one adds its name to `BACKENDS` and a line to `address`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.connect import Log
from tests.contract import simulated
from tests.servers import Nats, Valkey

BACKENDS = ("memory", "sqlite", "redis", "nats")
SHARED = tuple(name for name in BACKENDS if name != "memory")
"""Those that several handles and processes can open at once."""


def address(backend: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a fresh log of this backend is."""
    match backend:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:{folder / 'fleet.db'}"
        case _:
            server: Valkey | Nats = request.getfixturevalue({"redis": "valkey", "nats": "nats_server"}[backend])
            server.wipe()
            return server.url


@pytest.fixture(params=(*BACKENDS, *simulated.ENGINES))
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param in simulated.ENGINES:
        simulated.open_simulated_urls(monkeypatch)
        return f"simulated:{request.param}"
    return address(request.param, request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def log(url: str) -> AsyncIterator[Recorder]:
    async with connect(url) as recorder:
        yield recorder


@pytest.fixture
def reopen(shared_url: str) -> Callable[..., Log]:
    def again(**options: str) -> Log:
        return connect(shared_url, **options)  # type: ignore[arg-type]

    return again
