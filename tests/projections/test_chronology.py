"""The order of a story: by time, source and line; if these are equal, by content, not by the time of import."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.events.envelope import Origin
from fleetlore.programs.registry import find_recording, list_recordings
from fleetlore.projections.chronology import Chronology, OutOfOrder

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def make_event(
    number: int, *, dialect: str = "nexus", source: str | None = "a.jsonl", run: str | None = None, id: str | None = None
) -> Event:
    origin = None if source is None and id is None else Origin(dialect=dialect, source=source, n=None if source is None else 1, id=id)
    own = f"00000000-0000-8000-8000-{number:012d}"
    return Event(id=own, at=NOON, kind="fleet.commit", agent="ada", run=run, origin=origin)


def order(stored: Sequence[Event]) -> list[int]:
    with connect("memory:").blocking() as log, Chronology(log, "town") as chronology:
        log.append_all(stored)
        chronology.scan_batches(lambda events: None)
        return [int((event.id or "")[-12:]) for event in chronology.iterate_in_order()]


def test_lines_of_one_name_number_and_time_have_one_order_whichever_was_stored_first() -> None:
    assert {tuple(order(stored)) for stored in permutations([make_event(1), make_event(2), make_event(3)])} == {(1, 2, 3)}


def test_what_came_live_keeps_the_order_of_the_log() -> None:
    assert order([make_event(3, source=None), make_event(1, source=None), make_event(2, source=None, id="delivery", dialect="forge")]) == [
        3,
        1,
        2,
    ]


@pytest.mark.parametrize("name", list_recordings())
def test_what_one_line_of_a_recording_shows_stays_in_its_order(name: str) -> None:
    dialect = find_recording(name).name
    one, other = ([make_event(number, dialect=dialect, run=run) for number in numbers] for run, numbers in (("r1", (4, 2)), ("r2", (3, 1))))
    assert order([*one, *other]) == order([*other, *one]) == [4, 2, 3, 1]


def test_deliveries_of_one_moment_are_reported_one_after_the_other() -> None:
    one, other = ([make_event(number, dialect="forge", id=id) for number in numbers] for id, numbers in (("d1", (4, 2)), ("d2", (3, 1))))
    assert order([*one, *other]) == order([*other, *one]) == [4, 2, 3, 1]


def read_once(stored: Sequence[Event]) -> list[int]:
    with connect("memory:").blocking() as log, Chronology(log, "town") as chronology:
        log.append_all(stored)
        return [int((event.id or "")[-12:]) for batch in chronology.read_in_order_once() for event in batch]


def test_a_log_in_order_can_be_read_once() -> None:
    stored = [
        make_event(1),
        make_event(2),
        *(replace(make_event(number, source=None), at=NOON + timedelta(seconds=number)) for number in range(3, 300)),
    ]
    assert read_once(stored) == order(stored) == list(range(1, 300))


@pytest.mark.parametrize("late", [make_event(1), replace(make_event(1, source=None), at=NOON - timedelta(seconds=1))])
def test_a_late_event_ends_the_reading_of_a_log_in_order(late: Event) -> None:
    with pytest.raises(OutOfOrder):
        read_once([make_event(2), late])
