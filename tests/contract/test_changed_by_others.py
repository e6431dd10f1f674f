"""What other programs do to an open log: deletions become a `log.gap`; a log that was emptied or replaced is not written to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread

import apsw
import nats
import pytest
import redis

from fleetlore import connect
from fleetlore.errors import LogError, Unsuitable
from fleetlore.log import base
from fleetlore.log.nats.subjects import stream_name
from fleetlore.log.recorder import BlockingRecorder
from tests.contract.helpers import make_event
from tests.patience import PATIENCE
from tests.servers import Nats, Valkey

COUNT = 100
KEPT = 80
STREAM = stream_name("default")


def in_jetstream(url: str, act: Callable[..., object]) -> None:
    """Do something as another client of the NATS server."""

    async def run() -> None:
        client = await nats.connect(url)
        try:
            await act(client.jetstream())  # type: ignore[misc]
        finally:
            await client.close()

    asyncio.run(run())


def delete_old_events(url: str, first_kept: str) -> None:
    """Delete everything before a position, as another program would."""
    match url.partition(":")[0]:
        case "sqlite":
            connection = apsw.Connection(url.removeprefix("sqlite:"))
            connection.execute("DELETE FROM events_1 WHERE seq < ?", (int(first_kept),))
            connection.close()
        case "redis":
            with redis.Redis.from_url(url) as client:
                client.xtrim("tt:default:events", minid=f"{int(first_kept[:20])}-{int(first_kept[20:])}", approximate=False)
        case _:
            in_jetstream(url, lambda jetstream: jetstream.purge_stream(STREAM, seq=int(first_kept)))


@pytest.mark.parametrize("limit", [None, 15])
def test_events_that_others_delete_are_one_gap(shared_url: str, limit: int | None) -> None:
    with connect(shared_url).blocking() as log:
        positions = [log.append([make_event(str(n))])[0] for n in range(COUNT)]
        following = log.follow(after=positions[9])
        if limit is not None:  # some events were read before
            following.close()
            following = log.follow(after=positions[limit])
        delete_old_events(shared_url, positions[KEPT])
        found = list(islice(following, COUNT - KEPT + 1))
        assert [event.kind for event in found] == ["log.gap", *["fleet.commit"] * (COUNT - KEPT)]
        assert [event.text for event in found[1:]] == [str(n) for n in range(KEPT, COUNT)]


def test_an_erased_event_is_no_gap(shared_url: str) -> None:
    with connect(shared_url).blocking() as log:
        positions = [log.append([make_event(str(n))])[0] for n in range(5)]
        first = [event.id or "" for event in log.read(limit=3)]
        log.erase(first[:2], "asked to")
        assert next(log.follow(after=positions[0])).text == "2"
    with connect(shared_url).blocking() as log:
        assert next(log.follow(after=positions[0])).text == "2"


# --- emptied or replaced: SQLite is tested in tests/log/test_lost_file.py


@pytest.fixture(params=["redis", "nats"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Valkey | Nats]:
    with Valkey(tmp_path / "valkey") if request.param == "redis" else Nats(tmp_path / "nats") as running:
        yield running


@pytest.fixture
def log(server: Valkey | Nats) -> Iterator[BlockingRecorder]:
    with connect(server.url).blocking() as log:
        yield log


def append_after_loss(server: Valkey | Nats, log: BlockingRecorder) -> None:
    """A log that was emptied and begun again by another process."""
    server.wipe()
    with connect(server.url).blocking() as other:
        other.append([make_event("of another log")])
        with pytest.raises(LogError, match=r"open the log again with connect\(\)"):
            log.append([make_event("lost")])
        assert [event.text for event in other.read()] == ["of another log"]


def test_nothing_is_acknowledged_in_place_of_a_log_that_was_emptied(server: Valkey | Nats, log: BlockingRecorder) -> None:
    log.append([make_event("1"), make_event("2")])
    append_after_loss(server, log)
    for attempt in (log.head, lambda: list(log.read()), lambda: log.append([make_event("lost too")]), lambda: next(log.follow())):
        with pytest.raises(LogError, match="nothing more"):
            attempt()
    with connect(server.url).blocking() as again:
        again.append([make_event("after")])


def test_an_emptied_server_is_noticed_by_the_next_append(server: Valkey | Nats, log: BlockingRecorder) -> None:
    log.append([make_event("1")])
    server.wipe()
    with pytest.raises(LogError):
        log.append([make_event("lost")])


def test_who_waits_for_events_is_told_of_the_loss(server: Valkey | Nats, log: BlockingRecorder) -> None:
    [position] = log.append([make_event("1")])
    found: list[BaseException] = []

    def wait() -> None:
        try:
            next(log.follow(after=position))
        except LogError as error:
            found.append(error)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    append_after_loss(server, log)
    thread.join(PATIENCE)
    assert found


def test_an_older_copy_of_the_log_is_not_taken_for_it(tmp_path: Path) -> None:
    """A failover to a replica that lacks the newest events."""
    with Valkey(tmp_path / "valkey") as server, connect(server.url).blocking() as log, redis.Redis.from_url(server.url) as raw:
        log.append([make_event("1")])
        older = {key: raw.dump(key) for key in raw.scan_iter()}
        log.append([make_event("2")])
        raw.flushall()
        for key, value in older.items():
            raw.restore(key, 0, value)
        with pytest.raises(LogError, match=r"is an older copy that lacks events \(a failover or a restore\)"):
            log.append([make_event("3")])
        with pytest.raises(LogError, match="is an older copy"):
            log.head()


# --- settings


@pytest.fixture
def recheck_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "RECHECK_SECONDS", 0.0)


@pytest.mark.usefixtures("recheck_at_once")
def test_an_eviction_policy_that_deletes_events_is_noticed_while_the_log_is_open(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server, connect(server.url).blocking() as log, redis.Redis.from_url(server.url) as raw:
        log.append([make_event("1")])
        raw.config_set("maxmemory-policy", "allkeys-lru")
        for attempt in (lambda: log.append([make_event("2")]), log.head):
            with pytest.raises(Unsuitable, match=r"maxmemory-policy allkeys-lru the server throws events away.*set it to noeviction"):
                attempt()
        raw.config_set("maxmemory-policy", "noeviction")
        log.append([make_event("3")])
        assert [event.text for event in log.read()] == ["1", "3"]


@pytest.mark.usefixtures("recheck_at_once")
@pytest.mark.parametrize(("name", "value", "before"), [("appendfsync", "no", "always"), ("appendonly", "no", "yes")])
def test_a_server_that_became_less_durable_is_noticed(tmp_path: Path, name: str, value: str, before: str) -> None:
    with Valkey(tmp_path / "valkey") as server, connect(server.url).blocking() as log, redis.Redis.from_url(server.url) as raw:
        log.append([make_event("1")])
        raw.config_set(name, value)
        with pytest.raises(
            Unsuitable, match=f"durability was reduced while the log was open: appendfsync always before, {name} {value} now"
        ):
            log.append([make_event("2")])
        raw.config_set(name, before)
        log.append([make_event("3")])


def test_no_memory_under_an_unsafe_policy_is_not_called_safe(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server, connect(server.url).blocking() as log, redis.Redis.from_url(server.url) as raw:
        log.append([make_event("1")])
        raw.config_set("maxmemory-policy", "allkeys-lru")
        raw.config_set("maxmemory", "1")
        with pytest.raises(LogError) as error:
            log.append_all(make_event(str(n)) for n in range(1000))
        assert "what was acknowledged is safe" not in str(error.value)


@pytest.mark.usefixtures("recheck_at_once")
def test_a_limit_on_the_stream_is_noticed_while_the_log_is_open(tmp_path: Path) -> None:
    with Nats(tmp_path / "nats") as server, connect(server.url).blocking() as log:
        log.append([make_event("1")])

        async def limit(jetstream: nats.js.JetStreamContext, most: int) -> None:
            config = (await jetstream.stream_info(STREAM)).config
            config.max_msgs = most
            await jetstream.update_stream(config)

        in_jetstream(server.url, lambda jetstream: limit(jetstream, 5))
        for attempt in (lambda: log.append([make_event("2")]), log.head):
            with pytest.raises(Unsuitable, match="would lose events or refuse them; change max_msgs"):
                attempt()
        in_jetstream(server.url, lambda jetstream: limit(jetstream, -1))
        log.append([make_event("3")])


def test_a_key_of_another_type_is_named(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server, redis.Redis.from_url(server.url) as raw:
        raw.set("tt:default:events", "not a stream")
        named = "the key {} is a string of another program, but must be a {}"
        with pytest.raises(LogError, match=named.format("tt:default:events", "stream")):
            connect(server.url).blocking().__enter__()
        raw.flushall()
        with connect(server.url).blocking() as log:
            raw.set("tt:default:fleetlore:ids", "not a hash")
            with pytest.raises(LogError, match=named.format("tt:default:fleetlore:ids", "hash")):
                log.append([make_event("1")])


def test_an_entry_with_the_highest_id_says_what_to_do(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server, connect(server.url).blocking() as log, redis.Redis.from_url(server.url) as raw:
        log.append([make_event("1")])
        raw.xadd("tt:default:events", {"event_type": "x", "data": "{}"}, id=f"{2**64 - 1}-{2**64 - 1}")
        with pytest.raises(LogError, match=r"used the highest possible entry id.*tt:default:events.*XDEL"):
            log.append([make_event("2")])


def test_a_server_that_must_be_durable_is_refused_if_it_is_not(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey", fsync="everysec") as server:
        with pytest.raises(Unsuitable, match="set appendonly yes and appendfsync always"):
            connect(f"{server.url}?require=durable").blocking().__enter__()
        connect(server.url).blocking().__enter__().close()
