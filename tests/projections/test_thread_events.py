"""A task's thread: the events that name the task, and those of its goals and runs that name none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.chronology import Chronology
from fleetlore.projections.thread_events import ThreadEvents, read_selection, select_thread
from fleetlore.views import threads as view
from fleetlore.views.threads import ThreadsState

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def stored(log: BlockingRecorder, *events: dict[str, Any]) -> ThreadsState:
    """The threads of a log with these events, a second apart."""
    log.append_all(
        Event(id=f"00000000-0000-8000-8000-{number:012d}", at=NOON + timedelta(seconds=number), kind="fleet.commit", actor="ada", **fields)
        for number, fields in enumerate(events)
    )
    known = view.initial()
    for event in log.read():
        known = view.apply(known, event)
    return known


def numbers(log: BlockingRecorder, key: str, known: ThreadsState, **options: Any) -> list[int]:
    return [int((event.id or "")[-12:]) for event in read_selection(log, select_thread(key, known), **options)]


SESSION = ({"run": "r1"}, {"run": "r1", "task": "t1"}, {"run": "r1"}, {"run": "r2"}, {"task": "t1"}, {"run": "r1"})


def test_a_session_that_names_its_task_once_is_all_in_its_thread() -> None:
    with connect("memory:").blocking() as log:
        known = stored(log, *SESSION)
        assert numbers(log, "task:t1", known) == [0, 1, 2, 4, 5]
        assert numbers(log, "task:t1", known, newest_first=True, limit=3) == [5, 4, 2]
        assert numbers(log, "run:r1", known) == [0, 1, 2, 5]


def test_a_session_that_goes_from_task_to_task_is_divided_among_them() -> None:
    with connect("memory:").blocking() as log:
        known = stored(
            log,
            {"run": "r"},
            {"run": "r", "task": "a"},
            {"run": "r"},
            {"run": "r", "task": "b"},
            {"run": "r"},
            {"run": "r", "task": "a"},
            {"run": "r"},
        )
        assert numbers(log, "task:a", known) == [0, 1, 2, 5, 6]
        assert numbers(log, "task:b", known) == [3, 4]


def test_a_task_without_goals_and_runs_is_its_scope() -> None:
    with connect("memory:").blocking() as log:
        known = stored(log, {"task": "t1"}, {"run": "r1"})
        assert select_thread("task:t1", known) == "task:t1"
        assert select_thread("town", known) == "town"


def test_a_thread_is_read_in_the_order_of_time_as_a_scope_is() -> None:
    with connect("memory:").blocking() as log:
        known = stored(log, *SESSION)
        late = Event(id="00000000-0000-8000-8000-000000000099", at=NOON - timedelta(hours=1), kind="fleet.commit", actor="ada", run="r1")
        log.append([late])
        with Chronology(log, select_thread("task:t1", known)) as chronology:
            chronology.scan_batches(lambda events: None)
            assert [int((event.id or "")[-12:]) for event in chronology.iterate_in_order()] == [99, 0, 1, 2, 4, 5]


def test_a_live_thread_learns_which_runs_are_its_own() -> None:
    with connect("memory:").blocking() as log:
        thread = select_thread("task:t1", stored(log), live=True)
        assert isinstance(thread, ThreadEvents)
        stored(log, *SESSION, {"run": "r1", "task": "t2"}, {"run": "r1"})
        assert [int((event.id or "")[-12:]) for event in log.read() if thread.holds_event(event)] == [1, 2, 4, 5]


names = st.sampled_from([None, "1", "2", "3"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.fixed_dictionaries({"task": names, "goal": names, "run": names}), max_size=40))
def test_a_thread_has_as_many_events_as_the_threads_page_says(events: list[dict[str, Any]]) -> None:
    with connect("memory:").blocking() as log:
        known = stored(log, *events)
        for key, thread in known.threads.items():
            if key.startswith("task:"):
                assert len(numbers(log, key, known)) == thread.events, key


@pytest.mark.parametrize("newest_first", [False, True])
def test_each_event_is_there_once_in_the_order_of_the_log(newest_first: bool) -> None:
    with connect("memory:").blocking() as log:
        known = stored(log, *[{"run": "r", "goal": "g", "task": "t"}, {"run": "r"}, {"goal": "g"}] * 5)
        found = numbers(log, "task:t", known, newest_first=newest_first)
        assert found == sorted(range(15), reverse=newest_first)
