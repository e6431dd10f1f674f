"""CloudEvents: anybody's in, every event out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.dialects.cloudevents import DIALECT, make_kind_from_type
from fleetlore.errors import DialectError
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event, Origin

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
EVENT = Event(
    id="01890000-0000-7000-8000-000000000000",
    at=datetime(2026, 11, 15, 20, 23, 12, tzinfo=UTC),
    kind="work.updated",
    actor="ada",
    agent="ada",
    goal="g",
    trace=TRACE,
    text="é",
    data={"share": 1e16},
    origin=Origin(dialect="nexus", n=3),
)


def foreign(**changes: Any) -> bytes:
    """A CloudEvent of somebody else; `None` takes an attribute away."""
    record = {"specversion": "1.0", "id": "7", "source": "/door", "type": "com.example.opened", **changes}
    return json.dumps({key: value for key, value in record.items() if value is not None}).encode()


def test_an_event_is_the_data_of_its_cloudevent() -> None:
    assert (
        DIALECT.encode(EVENT, town="west")
        == (
            '{"specversion":"1.0","id":"01890000-0000-7000-8000-000000000000","source":"fleetlore:west","type":"fleetlore.work.updated",'
            f'"time":"2026-11-15T20:23:12.000000Z","datacontenttype":"application/json","subject":"goal:g","traceparent":"{TRACE}",'
            f'"data":{codec.encode_event(EVENT).decode()}}}'
        ).encode()
    )


def test_reading_our_own_gives_the_very_event_back() -> None:
    raw = DIALECT.encode(EVENT)
    assert raw is not None
    assert DIALECT.decode(raw) == EVENT


def test_what_a_broker_adds_on_the_way_does_not_make_it_another_event() -> None:
    record = json.loads(DIALECT.encode(EVENT) or b"")
    assert DIALECT.decode(json.dumps({**record, "brokertime": "2026-11-15T20:23:13Z"}, indent=1).encode()) == EVENT


@pytest.mark.parametrize(
    "change",
    [{"id": "other"}, {"source": "elsewhere"}, {"type": "fleetlore.work.started"}, {"data": {"kind": "work.updated", "surprise": 1}}],
)
def test_what_only_looks_like_ours_is_taken_as_anybody_s(change: dict[str, Any]) -> None:
    record = {**json.loads(DIALECT.encode(EVENT) or b""), **change}
    event = DIALECT.decode(json.dumps(record).encode())
    assert event.origin is not None
    assert event.origin.dialect == "cloudevents"
    assert json.loads(DIALECT.encode(event) or b"") == record


def test_an_event_that_was_never_stored_can_be_said_too() -> None:
    raw = DIALECT.encode(Event(kind="x.happened", actor="ada"))
    assert raw is not None
    assert b'"time"' not in raw
    again = DIALECT.decode(raw)
    assert replace(again, id=None) == Event(kind="x.happened", actor="ada")


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        ({"task": "t", "goal": "g"}, "task:t"),
        ({"run": "r", "mission": "m"}, "run:r"),
        ({"mission": "m", "agent": "a"}, "mission:m"),
        ({}, None),
    ],
)
def test_the_subject_is_the_thread(named: dict[str, str], subject: str | None) -> None:
    raw = DIALECT.encode(Event(kind="x.happened", actor="ada", **named))  # type: ignore[arg-type]
    assert json.loads(raw or b"").get("subject") == subject


def test_anybody_s_event_is_an_event_of_its_source() -> None:
    event = DIALECT.decode(foreign(time="2026-06-01T10:00:00+02:00", data={"a": 1}, traceparent=TRACE))
    assert (event.kind, event.actor, event.data, event.trace) == ("com.example.opened", "/door", {"a": 1}, TRACE)
    assert event.at == datetime(2026, 6, 1, 8, tzinfo=UTC)
    assert event.origin is not None
    assert (event.origin.id, event.origin.at) == ("7", "2026-06-01T10:00:00+02:00")


@pytest.mark.parametrize("attributes", [{}, {"data": {"a": 1}}, {"subject": "x"}])
@pytest.mark.parametrize("time", ["", ',"time":null'])
def test_an_event_without_a_time_is_written_without_one(attributes: dict[str, Any], time: str) -> None:
    raw = foreign(**attributes)[:-1] + time.encode() + b"}"
    event = DIALECT.decode(raw)
    assert event.at is None
    for stamped in (event, replace(event, at=EVENT.at)):
        assert json.loads(DIALECT.encode(stamped) or b"") == json.loads(raw)


def test_an_id_is_unique_within_its_source_only() -> None:
    assert DIALECT.decode(foreign()).id == DIALECT.decode(foreign(subject="x")).id
    assert DIALECT.decode(foreign()).id != DIALECT.decode(foreign(source="/window")).id
    assert DIALECT.decode(foreign(id="01890000-0000-7000-8000-00000000000A")).id == "01890000-0000-7000-8000-00000000000a"


@pytest.mark.parametrize(
    ("own_type", "kind"),
    [
        ("com.example.Opened", "com.example.opened"),
        ("Alert.Raised-High", "alert.raised_high"),
        ("ping", "cloudevents.ping"),
        ("v1.2", "v1.x2"),
        ("..a..b..", "a.b"),
        (".", "cloudevents.event"),
        ("a/b c", "cloudevents.a_b_c"),
        ("事件.ok", "x__.ok"),
        ("x" * 300, "cloudevents." + "x" * 88),
        ("a." + "b." * 60, "a." + ".".join("b" * 49)),
    ],
)
def test_a_type_becomes_the_nearest_kind(own_type: str, kind: str) -> None:
    assert make_kind_from_type(own_type) == kind
    assert catalog.KIND_PATTERN.fullmatch(kind)
    assert len(kind) <= catalog.LONGEST_KIND


def test_a_word_of_ours_for_another_thing_is_set_apart() -> None:
    assert DIALECT.decode(foreign(type="session.waiting", data={"why": 7})).kind == "cloudevents.session.waiting"
    assert DIALECT.decode(foreign(type="session.waiting", data={"why": "permission"})).kind == "session.waiting"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"specversion": None}, "$.specversion"),
        ({"specversion": "0.3"}, "$.specversion"),
        ({"id": None}, "$.id"),
        ({"id": ""}, "$.id"),
        ({"id": 7}, "$.id"),
        ({"source": None}, "$.source"),
        ({"type": None}, "$.type"),
        ({"type": ""}, "$.type"),
        ({"time": "yesterday"}, "$.time"),
        ({"time": 5}, "$.time"),
    ],
)
def test_what_is_no_cloudevent_is_refused_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(foreign(**changes))
    assert refused.value.path == path
