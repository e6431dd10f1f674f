"""The newest events are those that happened last, also where older ones were stored after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import connect
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.newest_events import read_newest
from fleetlore.views import time_ranges
from fleetlore.views.time_ranges import TimeBlock

START = datetime(2026, 11, 1, tzinfo=UTC)


def store(log: BlockingRecorder, hours: Sequence[float]) -> None:
    log.append_all(
        [Event(kind="fleet.commit", agent=f"ada{n % 3}", at=START + timedelta(hours=hour), text=str(n)) for n, hour in enumerate(hours)]
    )


def blocks_of(log: BlockingRecorder, upto: int | None = None) -> list[TimeBlock]:
    state = time_ranges.initial()
    for event in log.read(limit=upto):
        state = time_ranges.apply(state, event)
    return time_ranges.newest_blocks(state)


def texts(events: object) -> list[str | None]:
    assert isinstance(events, Iterator | list)
    return [event.text for event in events]


def in_pages(log: BlockingRecorder, blocks: Sequence[TimeBlock], size: int, scope: str = "town") -> list[Event]:
    found: list[Event] = []
    while page := list(read_newest(log, blocks, scope, before=found[-1].position if found else None, limit=size)):
        found += page
    return found


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_ranges, "SEGMENT_EVENTS", 7)


@settings(max_examples=60, deadline=None)
@given(hours=st.lists(st.integers(-2000, 2000), min_size=1, max_size=60), size=st.integers(1, 9), known=st.integers(1, 60))
def test_pages_hold_every_event_once_in_the_order_of_time(hours: list[int], size: int, known: int) -> None:
    with connect("memory:").blocking() as log:
        store(log, [*hours, 0, 3000, 0])
        blocks = blocks_of(log) if known > len(hours) else blocks_of(log, known)
        found = in_pages(log, blocks, size)
        if blocks:
            expected = sorted(log.read(), key=lambda event: (event.at, event.position), reverse=True)
        else:
            expected = list(log.read(newest_first=True))
        assert texts(found) == texts(expected)
        if blocks:
            ours = [event for event in expected if event.agent == "ada1"]
            assert texts(in_pages(log, blocks, size, "agent:ada1")) == texts(ours)


def test_a_log_without_late_events_is_read_in_its_own_order() -> None:
    with connect("memory:").blocking() as log:
        store(log, [0, 30, 29, 60, 40])  # a day's disorder is usual
        assert blocks_of(log) == []
        assert texts(read_newest(log, [], limit=3)) == ["4", "3", "2"]


def test_history_that_is_stored_later_does_not_come_before_what_is_newer(tmp_path: Path) -> None:
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        store(log, [1000 + n for n in range(20)] + list(range(50)))
        blocks = blocks_of(log)
        assert texts(read_newest(log, blocks, limit=3)) == ["19", "18", "17"]
        store(log, [2000])
        assert next(iter(read_newest(log, blocks, limit=1))).at == START + timedelta(hours=2000), "the calendar need not know the newest"


@pytest.mark.parametrize("place", ["abcdefghijklmnop", "", "9" * 16, "²" * 16])
def test_what_is_no_position_is_refused(place: str) -> None:
    with connect("memory:").blocking() as log:
        store(log, [1000, 0])
        with pytest.raises(Invalid, match="not a position"):
            read_newest(log, blocks_of(log), before=place, limit=3)


def test_filters_hold_in_the_order_of_time() -> None:
    with connect("memory:").blocking() as log:
        store(log, [1000, 1001, 1002, 0, 1, 2])
        blocks = blocks_of(log)
        fifth = list(log.read())[4].position or ""
        assert texts(read_newest(log, blocks, end=position_after(fifth), limit=9)) == ["2", "1", "0", "4", "3"]
        assert texts(read_newest(log, blocks, since=START + timedelta(hours=2), limit=9)) == ["2", "1", "0", "5"]
        assert texts(read_newest(log, blocks, kinds=["tool.*"], limit=9)) == []
        assert texts(read_newest(log, blocks, limit=0)) == []
