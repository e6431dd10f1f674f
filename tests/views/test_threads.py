"""Threads as a fold: which are over, and what is let go of, so that a log of years takes no more memory than one of weeks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.views import threads
from fleetlore.views.threads import MAX_BINDINGS, MAX_CLOSED_THREADS, MAX_GAPS, PRUNED_EVERY, StoryThread, ThreadsState

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


def apply_event(known: ThreadsState, number: int, kind: str, **scopes: Any) -> ThreadsState:
    return threads.apply(known, Event(id=f"e{number}", kind=kind, at=START + timedelta(seconds=number), agent="ada", actor="ada", **scopes))


def test_runs_and_threads_of_long_ago_are_let_go_and_what_still_works_is_not() -> None:
    known = apply_event(threads.initial(), 0, "fleet.dispatch", run="old", task="first")
    for number in range(1, MAX_BINDINGS + 2 * PRUNED_EVERY):
        known = apply_event(known, number, "town.task_completed", run=f"r{number}", task=f"t{number}")
        if number == MAX_BINDINGS:
            known = apply_event(known, number, "fleet.dispatch", run="old", task="second")
    assert len(known.bound) <= MAX_BINDINGS + PRUNED_EVERY
    assert len(known.threads) <= MAX_CLOSED_THREADS + PRUNED_EVERY + 2
    assert known.bound["run:old"] == "task:second", "bound anew, it is one of the newest"
    known = apply_event(known, number + 1, "fleet.commit", run="old")
    assert known.threads["task:second"].counts["progress"] == 1
    known = apply_event(known, number + 2, "fleet.commit", run="r1")
    assert "run:r1" in known.threads, "nobody knows any more what it was for"


def test_threads_with_nothing_but_signs_of_life_are_let_go_as_closed_ones_are() -> None:
    """An agent that rests after what is long closed, and forgotten, opens nothing that would stay for ever."""
    known = apply_event(threads.initial(), 0, "fleet.dispatch", task="at work")
    for number in range(1, MAX_CLOSED_THREADS + 3 * PRUNED_EVERY):
        known = apply_event(known, number, "fleet.idle", task=f"t{number}")
    assert len(known.threads) <= MAX_CLOSED_THREADS + PRUNED_EVERY + 1
    assert "task:at work" in known.threads


def test_work_that_another_task_fixes_is_over_and_work_that_waits_is_not() -> None:
    known = threads.initial()
    for task, data in (("mended", {"item": "i1", "fix": "mended/fix-1"}), ("waiting", {"item": "i2"})):
        known = apply_event(known, 1, "town.task_completed", task=task)
        known = apply_event(known, 2, "town.reviewer_handoff", task=task)
        known = apply_event(known, 3, "work.review_rejected", task=task)
        known = apply_event(known, 4, "town.mission_work_blocked", task=task, data=data)
    assert {key: thread.state for key, thread in known.threads.items()} == {"task:mended": "closed", "task:waiting": "open"}


GUESSED = {"task_guessed": True}


def test_a_task_that_was_only_guessed_closes_with_the_turn_and_opens_with_the_next_prompt() -> None:
    known = apply_event(threads.initial(), 1, "session.started", run="r", task="#7", data=GUESSED)
    known = apply_event(known, 2, "prompt.submitted", run="r", task="#7", data=GUESSED)
    known = apply_event(known, 3, "session.turn_ended", run="r")
    assert known.threads["task:#7"].state == "closed"
    known = apply_event(known, 4, "prompt.submitted", run="r", task="#7", data=GUESSED)
    assert known.threads["task:#7"].state == "open"


def test_a_task_that_somebody_gave_out_stays_open_when_a_turn_ends() -> None:
    for names in (("fleet.dispatch", "prompt.submitted"), ("prompt.submitted", "fleet.dispatch")):
        known = threads.initial()
        for number, kind in enumerate(names):
            known = apply_event(known, number, kind, run="r", task="#7", data=GUESSED if kind == "prompt.submitted" else {})
        known = apply_event(known, 3, "session.turn_ended", run="r")
        assert known.threads["task:#7"].state == "open"


def test_a_shell_command_of_the_person_does_not_open_a_session_again() -> None:
    known = apply_event(threads.initial(), 1, "prompt.submitted", run="r", text="go")
    known = apply_event(known, 2, "session.turn_ended", run="r")
    known = apply_event(known, 3, "prompt.submitted", run="r", text="!git status")
    assert known.threads["run:r"].state == "closed"
    known = apply_event(known, 4, "prompt.submitted", run="r", text="go on")
    assert known.threads["run:r"].state == "open"


def test_the_rhythm_of_a_thread_is_that_of_its_newest_events_whenever_it_is_worked_out() -> None:
    chance, often, once = Random(1), StoryThread(key="task:t"), StoryThread(key="task:t")
    numbers = sorted(chance.sample(range(10_000), 500))
    for number in numbers:
        for thread in (often, once):
            threads.add_to_thread(
                thread, Event(id=f"e{number}", kind="fleet.commit"), "progress", (START + timedelta(seconds=number), "", 0)
            )
        if chance.random() < 0.1:
            threads.update_gaps(often)
    threads.update_gaps(often)
    threads.update_gaps(once)
    assert often == once
    assert once.gaps == [10 * (after - before) for before, after in pairwise(numbers)][-MAX_GAPS:]


def test_a_rhythm_goes_on_where_a_prologue_ends() -> None:
    known = threads.initial()
    for number in (1, 4, 9):
        known = apply_event(known, number, "fleet.commit", run="r")
    known = apply_event(known, 20, "fleet.commit", run="r", task="t")
    assert known.threads["task:t"].gaps == [30, 50, 110]
