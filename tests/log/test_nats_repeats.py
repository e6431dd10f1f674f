"""On NATS a request that is not answered soon is sent again. An attempt that comes late, or twice, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.nats import client
from fleetlore.log.tokens import create_token
from fleetlore.testing import START
from tests.servers import Nats

ROUNDS = 40


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordination]:
    """Every request is sent several times before the first answer comes, for the server takes its time to store anything."""
    monkeypatch.setattr(client, "ATTEMPT_SECONDS", 0.0002)
    monkeypatch.setattr(client, "MAX_ATTEMPTS", 10**9)
    with Nats(tmp_path / "server", sync="always") as server, open_shared(server.url) as opened:
        yield opened


def test_no_lease_is_refused_or_lost(shared: Coordination) -> None:
    for n in range(ROUNDS):
        lease = shared.acquire(f"goal:{n}", "ada", 60)
        assert lease is not None
        for _ in range(3):
            lease = shared.renew(lease)
        assert shared.find_lease(f"goal:{n}") is not None
        assert shared.acquire(f"goal:{n}", "bo", 60) is None
        shared.release(lease)
        assert shared.find_lease(f"goal:{n}") is None
        assert shared.acquire(f"goal:{n}", "bo", 60) is not None


def test_a_token_that_was_dropped_does_not_come_back(shared: Coordination) -> None:
    for _ in range(ROUNDS):
        _, token = create_token("read", label="a page", now=START)
        shared.save_token(token)
        shared.delete_token(token.id)
        assert shared.list_tokens() == []


def test_a_cursor_is_where_it_was_put_last(shared: Coordination) -> None:
    for n in range(ROUNDS):
        shared.commit_cursor("shipper", f"{n:016}")
        assert shared.load_cursor("shipper") == f"{n:016}"
        shared.delete_cursor("shipper")
        assert shared.load_cursor("shipper") is None
        shared.commit_cursor("shipper", f"{n:016}")
        assert shared.list_cursors() == {"shipper": f"{n:016}"}
