"""The streams of tinytown: what is written, where it goes, how it is read. With a real server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.compat.tinytown import AgentId, EventStream, EventType, SpawnMode, TownEvent, id_of_name
from tests.compat.wire_readers import TOWN_KEYS, TOWN_TYPES, read_town_entry
from tests.servers import Valkey

ADA, BO, CY, TASK, MISSION = (UUID(int=number, version=4) for number in range(1, 6))
AT = datetime(2026, 4, 22, 21, 6, 55, 123456, tzinfo=UTC)


@pytest.fixture
def conn(valkey: Valkey) -> redis.Redis:
    valkey.wipe()
    return redis.Redis.from_url(valkey.url)


@pytest.fixture
def stream(conn: redis.Redis) -> EventStream:
    return EventStream(conn, "harbour")


def entries(conn: redis.Redis, key: str) -> list[dict[bytes, bytes]]:
    raw: Any = conn.xrange(key)
    return [fields for _, fields in raw]


def test_an_event_is_the_bytes_of_tinytown(conn: redis.Redis, stream: EventStream) -> None:
    event = TownEvent(EventType.AGENT_INTERRUPTED, "Agent interrupted (paused)", timestamp=AT).with_agent(ADA)
    stream.emit(event.with_transition("Working", "Paused"))
    [fields] = entries(conn, "tt:harbour:events")
    assert fields == {
        b"event_type": b"agent_interrupted",
        b"data": b'{"event_type":"agent_interrupted","agent_id":"00000000-0000-4000-8000-000000000001","old_state":"Working",'
        b'"new_state":"Paused","message":"Agent interrupted (paused)","timestamp":"2026-04-22T21:06:55.123456Z"}',
    }


def test_there_are_the_22_types_and_an_event_is_now() -> None:
    assert [kind.value for kind in EventType] == TOWN_TYPES
    before = datetime.now(UTC)
    event = TownEvent.new(EventType.MISSION_EVENT, "note")
    assert before <= event.timestamp <= datetime.now(UTC)
    assert str(EventType.MISSION_EVENT) == "mission_event"


def test_builders_return_copies_that_can_be_chained() -> None:
    first = TownEvent.new(EventType.AGENT_SPAWNED, "up")
    whole = (
        first.with_agent(ADA)
        .with_task(str(TASK))
        .with_mission(MISSION)
        .with_transition("idle", "working")
        .with_parent_agent(BO)
        .with_child_agent(CY)
        .with_scope("parser")
        .with_spawn_mode(SpawnMode.FORKED_CONTEXT)
    )
    assert first.agent_id is None
    assert TownEvent.from_json(whole.to_json()) == whole
    assert all(getattr(whole, key) is not None for key in TOWN_KEYS)


def test_an_id_is_a_uuid() -> None:
    with pytest.raises(ValueError, match="id_of_name"):
        TownEvent.new(EventType.AGENT_SPAWNED, "up").with_agent("ada")
    assert isinstance(id_of_name("harbour", "ada"), AgentId)


@pytest.mark.parametrize(
    ("parent", "child", "streams"),
    [(None, None, {ADA}), (BO, CY, {ADA, BO, CY}), (ADA, ADA, {ADA}), (BO, BO, {ADA, BO}), (ADA, BO, {ADA, BO})],
)
def test_an_event_goes_once_to_each_stream_that_it_concerns(
    conn: redis.Redis, stream: EventStream, parent: UUID | None, child: UUID | None, streams: set[UUID]
) -> None:
    stream.emit(TownEvent(EventType.TASK_DELEGATED, "d", ADA, TASK, MISSION, parent_agent_id=parent, child_agent_id=child))
    keys = {"tt:harbour:events", f"tt:harbour:events:mission:{MISSION}", *(f"tt:harbour:events:agent:{agent}" for agent in streams)}
    assert {key.decode() for key in conn.scan_iter("*")} == keys
    assert all(len(entries(conn, key)) == 1 for key in keys)


def test_streams_are_trimmed_by_default(conn: redis.Redis, stream: EventStream) -> None:
    # Nodes of a stream are trimmed as a whole: small ones show the caps. The server is shared by all tests of this process.
    conn.config_set("stream-node-max-entries", 10)
    try:
        for number in range(1100):
            stream.emit(TownEvent.new(EventType.MISSION_EVENT, f"{number}").with_agent(ADA).with_mission(MISSION))
    finally:
        conn.config_set("stream-node-max-entries", 100)
    lengths = [conn.xlen(f"tt:harbour:events{end}") for end in ("", f":agent:{ADA}", f":mission:{MISSION}")]
    assert all(most <= length < most + 20 for length, most in zip(lengths, (1000, 100, 500), strict=True))


def test_reading_starts_with_the_last_id_itself(stream: EventStream) -> None:
    ids = [stream.emit(TownEvent.new(EventType.MISSION_EVENT, f"{number}").with_agent(ADA).with_mission(MISSION)) for number in range(5)]
    assert [event.message for _, event in stream.read_town_events("0-0", 3)] == ["0", "1", "2"]
    assert [(id, event.message) for id, event in stream.read_town_events(ids[3], 10)] == [(ids[3], "3"), (ids[4], "4")]
    assert [event.message for _, event in stream.read_agent_events(ADA, "0-0", 2)] == ["0", "1"]
    assert [event.message for _, event in stream.read_mission_events(MISSION, "0-0", 2)] == ["0", "1"]
    assert stream.read_agent_events(uuid4(), "0-0", 10) == []
    assert stream.read_town_events("0-0", 0) == stream.read_recent_town_events(0) == []


def test_the_newest_are_read_oldest_first(stream: EventStream) -> None:
    for number in range(5):
        stream.emit(TownEvent.new(EventType.MISSION_EVENT, f"{number}"))
    assert [event.message for _, event in stream.read_recent_town_events(2)] == ["3", "4"]


def test_unreadable_entries_are_skipped_and_unknown_keys_ignored(conn: redis.Redis, stream: EventStream) -> None:
    good = TownEvent.new(EventType.MISSION_EVENT, "good").to_json()
    stamp = '"timestamp":"2026-04-22T21:06:55.123456789Z"'
    fields_of_bad: list[dict[Any, Any]] = [
        *({"data": raw} for raw in ("{", "[]", b"\xff", '{"event_type":"mission_event"}')),
        {"other": good},
        {"data": f'{{"event_type":"dance","message":"m",{stamp}}}'},
        {"data": '{"event_type":"mission_event","message":"m","timestamp":"noon"}'},
        {"data": f'{{"event_type":"mission_event","message":5,{stamp}}}'},
        {"data": f'{{"event_type":"agent_spawned","agent_id":"ada","message":"m",{stamp}}}'},
        {"data": f'{{"event_type":"agent_spawned","spawn_mode":"cloned","message":"m",{stamp}}}'},
    ]
    for fields in (
        *fields_of_bad,
        {"extra": "1", "data": good},
        {"data": f'{{"event_type":"mission_event","message":"m",{stamp},"new":1}}'},
    ):
        conn.xadd("tt:harbour:events", fields)
    assert [event.message for _, event in stream.read_town_events("0-0", 100)] == ["good", "m"]
    assert stream.read_recent_town_events(1)[0][1].timestamp == AT


def test_errors_reach_the_caller(conn: redis.Redis, stream: EventStream) -> None:
    conn.set("tt:harbour:events", "no stream")
    with pytest.raises(redis.RedisError):
        stream.emit(TownEvent.new(EventType.MISSION_EVENT, "m"))


async def test_with_an_asyncio_connection_the_methods_are_awaited(valkey: Valkey) -> None:
    valkey.wipe()
    async with redis.asyncio.Redis.from_url(valkey.url, decode_responses=True) as conn:
        stream = EventStream(conn, "harbour")
        id = await stream.emit(TownEvent.new(EventType.AGENT_RESUMED, "up").with_agent(ADA))
        assert [(one, event.message) for one, event in await stream.read_agent_events(ADA, "0-0", 5)] == [(id, "up")]
        assert len(await stream.read_recent_town_events(5)) == 1


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
IDS = st.none() | st.uuids()
EVENTS = st.builds(
    TownEvent,
    st.sampled_from(EventType),
    TEXT,
    IDS,
    IDS,
    IDS,
    st.none() | TEXT,
    st.none() | TEXT,
    st.datetimes(timezones=st.just(UTC)).filter(lambda at: at.year >= 1000),
    IDS,
    IDS,
    st.none() | TEXT,
    st.none() | st.sampled_from(SpawnMode),
)


@given(EVENTS)
def test_a_strict_reader_accepts_every_event(event: TownEvent) -> None:
    raw = event.to_json().encode()
    if b"\\" not in raw and b"\x7f" not in raw:  # escapes may be spelled in several ways
        read_town_entry({b"event_type": event.event_type.value.encode(), b"data": raw})
    assert TownEvent.from_json(raw) == event


def test_the_log_and_the_stream_share_a_town(valkey: Valkey, conn: redis.Redis, stream: EventStream) -> None:
    """A log on the same server reads what tinytown wrote, and its own entries pass the strict reader and this one."""
    stream.emit(TownEvent.new(EventType.TASK_ASSIGNED, "by tinytown").with_agent(ADA).with_task(TASK))
    with connect(f"{valkey.url}?town=harbour").blocking() as log:
        log.append([Event(kind=f"town.{kind}", actor="bo", agent="bo", task="t1", text=kind) for kind in TOWN_TYPES])
        assert [event.text for event in log.read()][:2] == ["by tinytown", "agent_state_changed"]
    for fields in entries(conn, "tt:harbour:events"):
        read_town_entry(fields, own_key=True)
    found = stream.read_agent_events(id_of_name("harbour", "bo"), "0-0", 100)
    assert [event.event_type.value for _, event in found] == TOWN_TYPES
