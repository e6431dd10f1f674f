"""`lore verify` on Redis and NATS: damage on the server's disk is noticed, and nothing else is taken for damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fleetlore import Event, connect
from fleetlore.log.check_report import LogCheckReport
from fleetlore.log.connect import check_log
from tests.neighbour import Tinytown
from tests.servers import Nats, Valkey

EVENTS = 60
LONG_TEXT = "a whole text. " * 2000


def make_events() -> Iterator[Event]:
    for n in range(EVENTS):
        data = {"prompt": LONG_TEXT} if n == 5 else {"n": n}
        yield Event(kind="x.note", agent="ada", task=f"t{n % 3}", text=f"step <{n}>", data=data)


def fill(url: str) -> list[str]:
    with connect(url).blocking() as log:
        return log.append_all(make_events())


def flip_bit(path: Path, text: bytes, occurrence: int = 0) -> None:
    """Flip a bit in one of the places where a file has a text."""
    content = bytearray(path.read_bytes())
    at = -1
    for _ in range(occurrence + 1):
        at = content.index(text, at + 1)
    content[at + len(text) - 2] ^= 1
    path.write_bytes(content)


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[Valkey]:
    with Valkey(tmp_path / "valkey") as server:
        yield server


@pytest.mark.parametrize("copy", range(3), ids=["the town's", "the agent's", "the task's"])
def test_a_flipped_bit_in_the_append_only_file_of_redis_is_noticed(own_valkey: Valkey, copy: int) -> None:
    positions = fill(own_valkey.url)
    own_valkey.stop()
    [file] = own_valkey.folder.glob("appendonlydir/*.incr.aof")
    flip_bit(file, b'"text":"step <30>"', copy)
    own_valkey.start()
    report = check_log(own_valkey.url)
    assert report.events == EVENTS
    [problem] = [problem for problem in report.problems if "copy" not in problem] if copy == 0 else report.problems
    what = "its checksum differs" if copy == 0 else f"the copy in the scope {('agent:ada', 'task:t0')[copy - 1]} is another"
    assert positions[30] in problem
    assert what in problem


def test_entries_that_are_gone_from_redis_are_noticed(own_valkey: Valkey) -> None:
    positions = fill(own_valkey.url)
    with redis.Redis(port=own_valkey.port) as raw:
        key = "tt:default:events"
        last = raw.xrevrange(key, count=1)[0][0]
        raw.delete(key)
        raw.xadd(key, {"event_type": "x", "data": "{}"}, id="1-1")
        assert last
    [problem, *_] = check_log(own_valkey.url).problems
    assert f"but {positions[-1]} was acknowledged" in problem


def test_what_tinytown_trims_and_erasures_leave_is_no_damage_on_redis(own_valkey: Valkey) -> None:
    positions = fill(own_valkey.url)
    neighbour = Tinytown(own_valkey.port)
    neighbour.emit("agent_spawned", "hello")
    neighbour.close()
    with redis.Redis(port=own_valkey.port) as raw:
        [stream, *_] = raw.keys("tt:default:events:agent:*")
        raw.xtrim(stream, maxlen=5)  # as tinytown's writers do
    with connect(own_valkey.url).blocking() as log:
        log.trim(positions[10])
        log.erase([next(iter(log.read(limit=1))).id or ""], "left")
    report = check_log(own_valkey.url)
    assert report.problems == []
    assert report.without_checksum == 1  # tinytown's
    assert report.events == EVENTS - 10 - 1 + 1 + 1  # trimmed, erased, tinytown's, log.forgotten


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[Nats]:
    with Nats(tmp_path / "nats") as server:
        yield server


def damage_nats(server: Nats, *, crash: bool) -> LogCheckReport:
    """Flip a bit in an event while the server does not run. After a crash it reads every message when it starts."""
    server.kill() if crash else server.stop()
    [file] = server.folder.glob("jetstream/**/msgs/1.blk")
    flip_bit(file, b'"text":"step <30>"')
    server.start()
    return check_log(server.url)


def test_a_flipped_bit_in_a_stream_of_nats_is_noticed(own_nats: Nats) -> None:
    """JetStream leaves the message out."""
    positions = fill(own_nats.url)
    report = damage_nats(own_nats, crash=False)
    [problem] = report.problems
    assert positions[30] in problem
    assert "is damaged" in problem
    assert report.events == EVENTS - 1


def test_what_nats_drops_when_it_starts_is_noticed(own_nats: Nats) -> None:
    fill(own_nats.url)
    report = damage_nats(own_nats, crash=True)
    assert "the server dropped" in report.problems[0]
    assert report.events < EVENTS


def test_what_trims_and_erasures_leave_is_no_damage_on_nats(own_nats: Nats) -> None:
    positions = fill(own_nats.url)
    with connect(own_nats.url).blocking() as log:
        log.trim(positions[10])
        log.erase([next(iter(log.read(limit=1))).id or ""], "left")
        log.append([Event(kind="x.note", agent="ada", text="later")])
    report = check_log(own_nats.url)
    assert report.problems == []
    assert report.events == EVENTS - 10 - 1 + 1 + 1
