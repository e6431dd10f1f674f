"""Servers that a whole run of tests shares, one of each a worker, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Nats, Valkey


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("valkey") / "data", fsync="everysec") as server:
        yield server


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats") / "data") as server:
        yield server
