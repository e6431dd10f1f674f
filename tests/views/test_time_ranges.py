"""The calendar: where in the log which time lies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.projections.runner import Runner
from fleetlore.projections.time_index import TIME_INDEX_VIEW, read_ranges
from fleetlore.views import time_ranges
from tests.strategies import events

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_ranges, "SEGMENT_EVENTS", 3)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=25), st.integers(-1, 31), st.integers(-1, 31), st.integers(0, 25))
def test_the_events_between_two_moments_are_all_found_wherever_they_are_stored(times: list[int], one: int, other: int, upto: int) -> None:
    with connect("memory:").blocking() as log:
        if times:
            log.append([Event(kind="fleet.idle", actor="ada", at=START + timedelta(hours=hours)) for hours in times])
        known = Runner(log, TIME_INDEX_VIEW).catch_up().state
        since, until = START + timedelta(hours=one), START + timedelta(hours=other)
        place = f"{upto:016d}"
        expected = [e for e in log.read() if e.at and since <= e.at < until and (e.position or "") <= place]
        assert list(read_ranges(log, time_ranges.find_ranges(known, since, until), since, until, upto=place)) == expected
        assert len(list(read_ranges(log, time_ranges.find_ranges(known, None, None), None, None))) == len(times)


def test_what_lies_elsewhere_is_not_read() -> None:
    with connect("memory:").blocking() as log:
        log.append([Event(kind="fleet.idle", actor="ada", at=START + timedelta(hours=hours)) for hours in range(30)])
        known = Runner(log, TIME_INDEX_VIEW).catch_up().state
    [span] = time_ranges.find_ranges(known, START + timedelta(hours=10), START + timedelta(hours=11))
    assert (span.after, span.through) == (f"{9:016d}", f"{12:016d}")


@given(st.lists(events(), max_size=20))
def test_no_stored_event_makes_it_raise(some: list[Event]) -> None:
    state = time_ranges.initial()
    for event in some:
        state = time_ranges.apply(state, event)
    list(time_ranges.find_ranges(state, START, None))
