"""One suite for every keeper, as in `tests/contract/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

import pytest

from fleetlore.state.shared import Shared, open_shared
from tests.contract.conftest import BACKENDS, SHARED, address

PATIENCE = 10.0


class Opening(Protocol):
    def __call__(self, *, town: str | None = None) -> Shared: ...


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; it has to become so soon."""
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, "it does not come about"
        sleep(0.005)


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where several handles see the same."""
    return address(request.param, request, tmp_path)


@pytest.fixture
def shared(url: str) -> Iterator[Shared]:
    with open_shared(url) as opened:
        yield opened


@pytest.fixture
def another(shared_url: str) -> Iterator[Opening]:
    """One more handle on the same log each time, closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda *, town=None: stack.enter_context(open_shared(shared_url, town=town))
