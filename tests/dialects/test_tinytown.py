"""The records of a town's streams."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleetlore.dialects.tinytown import DIALECT, derive_town_uuid
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id, is_uuid

AGENT = "6f1c0a52-8a7e-4f6f-9d59-0d2f3f1e7a10"
TASK = "1d3e2f4a-0b1c-4d5e-8f60-718293a4b5c6"
AT = datetime(2026, 4, 22, 21, 6, 55, 123_456, tzinfo=UTC)


def test_a_delegation_names_who_what_and_how() -> None:
    raw = (
        f'{{"event_type":"task_delegated","agent_id":"{AGENT}","task_id":"{TASK}","mission_id":"m","old_state":"Idle","new_state":"Working",'
        f'"message":"yours","timestamp":"2026-04-22T21:06:55.123456789Z","parent_agent_id":"{AGENT}","child_agent_id":"c",'
        '"scope":"fence","spawn_mode":"forkedcontext"}'
    ).encode()
    event = DIALECT.decode(raw)
    assert event == Event(
        id=derive_id("tinytown", raw),
        at=AT,
        kind="town.task_delegated",
        actor=AGENT,
        agent=AGENT,
        parent=AGENT,
        child="c",
        task=TASK,
        mission="m",
        old_state="Idle",
        new_state="Working",
        text="yours",
        data={"scope": "fence", "spawn_mode": "forkedcontext"},
        origin=event.origin,
    )
    assert event.origin is not None
    assert (event.origin.at, event.origin.rest) == ("2026-04-22T21:06:55.123456789Z", None)


@pytest.mark.parametrize("fraction", ["", ".120", ".123456", ".123456789", ".1", ".000000", ".1234567890123"])
@pytest.mark.parametrize("zone", ["Z", "+00:00", "-07:30", "z"])
def test_a_time_is_written_as_it_was_whatever_its_digits_and_zone(fraction: str, zone: str) -> None:
    raw = f'{{"event_type":"mission_event","message":"x","timestamp":"2026-04-22T21:06:55{fraction}{zone}"}}'.encode()
    assert DIALECT.encode(DIALECT.decode(raw)) == raw


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"event_type":"mission_event","message":"x"}', "$.timestamp: missing"),
        (b'{"event_type":"mission_event","timestamp":"2026-04-22T21:06:55Z"}', "$.message: missing"),
        (b'{"message":"x","timestamp":"2026-04-22T21:06:55Z"}', "$.event_type: missing"),
        (
            b'{"event_type":"agent_danced","message":"x","timestamp":"2026-04-22T21:06:55Z"}',
            "$.event_type: not one of the 22 types: 'agent_danced'",
        ),
        (b'{"event_type":"mission_event","message":null,"timestamp":"2026-04-22T21:06:55Z"}', "$.message: a string is needed, not null"),
        (b'{"event_type":"mission_event","message":"x","timestamp":5}', "$.timestamp: a string is needed, not a number"),
        (b'{"event_type":"mission_event","message":"x","timestamp":"2026-04-22"}', "$.timestamp: not an RFC 3339 time: '2026-04-22'"),
        (
            b'{"event_type":"mission_event","message":"x","timestamp":"2026-02-30T00:00:00Z"}',
            "$.timestamp: not an RFC 3339 time: '2026-02-30T00:00:00Z'",
        ),
        (
            b'{"event_type":"mission_event","message":"x","timestamp":"0001-01-01T00:00:00+01:00"}',
            "$.timestamp: not an RFC 3339 time: '0001-01-01T00:00:00+01:00'",
        ),
        (b'{"event_type":"mission_event","message":NaN,"timestamp":""}', "not JSON: NaN is no JSON number"),
    ],
)
def test_a_record_that_tinytown_would_not_write_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(raw)
    assert str(refused.value) == reason


def test_a_native_event_is_written_with_the_uuids_that_its_town_gives_to_names() -> None:
    event = Event(
        at=AT.replace(microsecond=0),
        kind="town.task_delegated",
        actor="ada",
        agent="ada",
        child=AGENT.upper(),
        task="t7",
        text="yours",
        data={"scope": "fence", "spawn_mode": "sideways", "lease": 3},
    )
    assert (
        DIALECT.encode(event, town="west")
        == (
            f'{{"event_type":"task_delegated","agent_id":"{derive_town_uuid("west", "ada")}","task_id":"{derive_town_uuid("west", "t7")}",'
            '"message":"yours",'
            f'"timestamp":"2026-04-22T21:06:55.000000Z","child_agent_id":"{AGENT}","scope":"fence"}}'
        ).encode()
    )


def test_a_name_has_one_uuid_in_a_town_and_another_in_the_next() -> None:
    assert derive_town_uuid("west", "ada") == derive_town_uuid("west", "ada")
    assert len({derive_town_uuid("west", "ada"), derive_town_uuid("east", "ada"), derive_town_uuid("west", "bert")}) == 3
    assert is_uuid(derive_town_uuid("west", "ada"))
    assert derive_town_uuid("west", AGENT.upper()) == AGENT


@pytest.mark.parametrize(
    "event",
    [
        Event(at=AT, kind="town.agent_danced", actor="a"),
        Event(at=AT, kind="fleet.idle", actor="a"),
        Event(kind="town.agent_stopped", actor="a"),
    ],
)
def test_what_tinytown_has_no_word_for_cannot_be_said(event: Event) -> None:
    assert DIALECT.encode(event) is None


def test_a_leap_second_is_the_first_moment_of_the_next_minute_and_written_as_it_was() -> None:
    raw = b'{"event_type":"mission_event","message":"x","timestamp":"2016-12-31T23:59:60.5Z"}'
    event = DIALECT.decode(raw)
    assert event.at == datetime(2017, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)
    assert DIALECT.encode(event) == raw
