"""Missions in the town view: dependencies, reviews, watches, help requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleetlore.events.envelope import Event
from fleetlore.views.town_missions import MAX_NOTES, find_pull_requests
from fleetlore.views.town_payloads import MAX_WORDS_CHARS
from fleetlore.views.town_rules import MISSION_STEPS, find_mission_refusal
from fleetlore.views.town_state import MissionState
from tests.growing import grows_in_proportion
from tests.views.town_facts import (
    about_item,
    approved,
    assigned,
    cancelled,
    completed,
    created,
    fact,
    failed,
    faults,
    idle,
    item,
    item_in,
    item_task,
    lost,
    mission,
    mission_in,
    recorded,
    rejected,
    reopened,
    started,
    worked_on,
)

INTO: dict[MissionState, list[Event]] = {
    "planning": [mission("planning")],
    "running": [mission("planning"), mission("running")],
    "blocked": [mission("running"), mission("blocked")],
    "completed": [mission("running"), mission("completed")],
    "failed": [mission("running"), mission("failed")],
}
REVIEWED = [mission(), item(), *worked_on()]
"""An item whose work waits for a reviewer."""


@pytest.mark.parametrize("to", list(MISSION_STEPS))
@pytest.mark.parametrize("state", list(MISSION_STEPS))
def test_a_mission_passes_where_the_table_lets_it_and_nowhere_else(state: MissionState, to: MissionState) -> None:
    before = recorded(*INTO[state]).when(mission(to))
    if to == state or to in MISSION_STEPS[state]:
        assert (mission_in(before.state).state, before.state.refused) == (to, 0)
    else:
        assert (mission_in(before.state).state, before.state.refused) == (state, 1)
        reason = find_mission_refusal(state, to)
        assert reason is not None
        assert reason.startswith(f"a mission that is {state} cannot become {to}; it can become ")


def test_what_is_completed_becomes_nothing_else() -> None:
    assert find_mission_refusal("completed", "running") == "a mission that is completed cannot become running; it can become nothing else"


def test_a_mission_has_the_policy_that_it_was_begun_with() -> None:
    before = recorded(mission("planning", title="Ship it", max_parallel=7, review=False, watch=True, tries=9)).when(mission("running"))
    known = mission_in(before.state)
    assert (known.title, known.max_parallel, known.needs_review, known.watches_pulls, known.tries) == ("Ship it", 7, False, True, 9)
    wild = mission_in(recorded(mission(max_parallel=10**9, tries=0, review="no")).state)
    assert (wild.max_parallel, wild.tries, wild.needs_review) == (1000, 1, True)


# --- items


def test_an_item_waits_until_all_that_it_depends_on_is_done() -> None:
    before = recorded(mission(), item("c", "a", "b"), item("a", type="design"), item("b", type="design"))
    assert item_in(before.state, "c").missing == ["a", "b"]
    before.when(about_item("completed", "a"))
    assert item_in(before.state, "c").missing == ["b"]
    before.when(about_item("completed", "b"), about_item("promoted", "c"))
    assert (item_in(before.state, "c").missing, item_in(before.state, "c").state, faults(before.state)) == ([], "ready", [])


def test_an_item_is_added_once_and_does_not_wait_for_itself() -> None:
    before = recorded(mission(), item("a", "a", title="first"), item("a", title="second"))
    assert (item_in(before.state, "a").title, item_in(before.state, "a").missing, before.state.refused) == ("first", [], 1)


def test_an_item_goes_the_way_of_its_task() -> None:
    before = recorded(*idle(), mission(), item(), about_item("promoted"), item_task("w1"))
    for event, state in ((assigned("w1"), "assigned"), (started("w1"), "running"), (lost("w1"), "ready")):
        before.when(event)
        assert (item_in(before.state).state, item_in(before.state).task) == (state, "w1")
    before.when(assigned("w1", epoch=2), started("w1", epoch=2), completed("w1", epoch=2, result="see o/r#12"))
    known = item_in(before.state)
    assert (known.state, known.work, known.authors, known.artifacts) == ("blocked", "w1", ["ada"], ["o/r#12"])


def test_an_item_whose_task_was_put_aside_is_stuck_until_that_is_taken_up_again() -> None:
    before = recorded(mission(), item(), item_task("w1"), assigned("w1"), started("w1"), failed("w1", final=True, error="no compiler"))
    assert (item_in(before.state).is_stuck, item_in(before.state).state, item_in(before.state).reason) == (True, "blocked", "no compiler")
    before.when(reopened("w1"))
    assert (item_in(before.state).is_stuck, item_in(before.state).state) == (False, "ready")


def test_an_item_that_cannot_go_on_says_why() -> None:
    state = recorded(mission(), item(), about_item("blocked", reason="the pull request was closed")).state
    assert (item_in(state).state, item_in(state).reason) == ("blocked", "the pull request was closed")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://github.com/o/r/pull/7 and o/r#8", ["o/r#7", "o/r#8"]),
        ("http://forge.example/o/r/pulls/7", []),
        ("https://forge.example:3000/o/r/pulls/9.", ["o/r#9"]),
        ("o/r#0 and #5 and r#5", []),
        ("(my-org/my.repo#12), --o/r#3 ...o/r#4", ["my-org/my.repo#12", "o/r#3", "o/r#4"]),
        ("group/sub/r#5", ["sub/r#5"]),
        (f"{'o' * 100}/{'r' * 100}#5", [f"{'o' * 100}/{'r' * 100}#5"]),
        (f"{'o' * 101}/r#5 o/{'r' * 101}#5", []),
    ],
)
def test_pull_requests_are_read_from_what_was_reported(text: str, found: list[str]) -> None:
    assert find_pull_requests(text) == found


@pytest.mark.parametrize("part", ["a.", "a", "-", "a/", "a/a.", "https://a.", "https://a/", "o/r#", "-.a"])
def test_reading_them_takes_time_in_proportion_to_the_text(part: str) -> None:
    assert grows_in_proportion(find_pull_requests, lambda size: part * (size // len(part)), 2_000)


def test_what_a_task_came_to_is_kept_as_long_as_other_words() -> None:
    long = "a." * 9_990
    spoken = [
        fact("town.task_completed", _task="t1", _agent="ada", _text=long, epoch=1),
        fact("town.task_failed", _task="t2", _agent="ada", _text=long, epoch=1),
        fact("town.mission_event", _mission="m1", _actor="jo", _text=long),
    ]
    begun = [event for id in ("t1", "t2") for event in (created(id), assigned(id), started(id))]
    state = recorded(mission(), item(), *idle(), *begun, *spoken).state
    kept = [state.tasks["t1"].result, state.tasks["t2"].error, *(note.text for note in mission_in(state).notes)]
    assert kept == [long[:MAX_WORDS_CHARS]] * 3


# --- the review gate


def test_work_waits_for_an_explicit_approval() -> None:
    before = recorded(*REVIEWED).when(about_item("completed"))
    assert (item_in(before.state).state, before.state.refused) == ("blocked", 1)
    before.when(approved(), about_item("completed"))
    known = item_in(before.state)
    assert (known.state, known.verdict, known.approved_by) == ("done", "approved", "rev")


def test_that_a_review_task_is_completed_approves_nothing() -> None:
    before = recorded(*REVIEWED, *worked_on("r1", agent="rev", purpose="review")).when(about_item("completed"))
    assert (item_in(before.state).verdict, item_in(before.state).state, item_in(before.state).review) == ("", "blocked", "r1")


@pytest.mark.parametrize(
    "event", [approved("ada"), rejected("ada"), fact("town.reviewer_approval", _mission="m1", _actor="ada", item="i1")]
)
def test_an_author_judges_nothing(event: Event) -> None:
    before = recorded(*REVIEWED).when(event)
    assert (item_in(before.state).verdict, before.state.refused) == ("", 1)


def test_everybody_who_worked_on_it_is_an_author() -> None:
    tries = [
        item_task("w1"),
        assigned("w1"),
        started("w1"),
        lost("w1"),
        assigned("w1", "bob", 2),
        started("w1", "bob", 2),
        completed("w1", "bob", 2),
    ]
    before = recorded(mission(), item(), *tries).when(approved("ada"), approved("bob"))
    assert (item_in(before.state).authors, item_in(before.state).verdict, before.state.refused) == (["ada", "bob"], "", 2)


def test_what_was_rejected_is_fixed_and_reviewed_again() -> None:
    before = recorded(*REVIEWED, rejected(reason="no tests"))
    known = item_in(before.state)
    assert (known.verdict, known.round, known.reason, known.state) == ("rejected", 1, "no tests", "blocked")
    before.when(approved(), about_item("completed"))
    assert (item_in(before.state).verdict, before.state.refused) == ("rejected", 2)
    before.when(*worked_on("f1", purpose="fix"))
    assert (item_in(before.state).verdict, item_in(before.state).work, item_in(before.state).state) == ("", "f1", "blocked")
    before.when(approved(), about_item("completed"))
    assert (item_in(before.state).state, item_in(before.state).round) == ("done", 1)


def test_nobody_approves_what_was_not_done_yet() -> None:
    before = recorded(mission(), item(), item_task("w1"), assigned("w1"), started("w1")).when(approved())
    assert (item_in(before.state).verdict, before.state.refused) == ("", 1)


@pytest.mark.parametrize("ended", [failed("r1", "rev", final=True), cancelled("r1")])
def test_a_review_without_a_verdict_is_stuck(ended: Event) -> None:
    before = recorded(*REVIEWED, item_task("r1", purpose="review"), assigned("r1", "rev"), started("r1", "rev"), ended)
    assert item_in(before.state).is_stuck
    assert item_in(before.state).reason.startswith("its review ended without a verdict: ")


def test_a_mission_without_reviews_and_a_design_need_no_approval() -> None:
    free = recorded(mission(review=False), item(), *worked_on()).when(about_item("completed"))
    design = recorded(mission(), item(type="design"), *worked_on()).when(about_item("completed"))
    assert (item_in(free.state).state, item_in(design.state).state) == ("done", "done")


# --- watches, help, notes, the archive


def watch(kind: str, **data: object) -> Event:
    return fact(kind, _mission="m1", watch="o/r#1 merge", **data)


def test_a_watch_is_over_once_what_it_watched_for_has_come() -> None:
    before = recorded(mission(), item(), watch("work.watch_added", type="merge", item="i1", target="o/r#1", action="advance"))
    [known] = mission_in(before.state).watches.values()
    assert (known.type, known.item, known.target, known.action, known.state) == ("merge", "i1", "o/r#1", "advance", "active")
    before.when(watch("town.mission_watch_triggered", action="fix"), watch("work.watch_snoozed", until="2026-01-02T03:04:05+01:00"))
    assert (known.state, known.triggered, known.until) == ("snoozed", 1, datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC))
    before.when(watch("town.mission_watch_triggered", action="advance"), watch("town.mission_watch_triggered", action="fix"))
    assert (known.state, known.triggered) == ("done", 2)
    before.when(watch("work.watch_snoozed", until="never"))
    assert known.state == "done"


def test_a_call_for_help_stands_until_somebody_does_something() -> None:
    call = fact("town.mission_help_needed", _mission="m1", reason="nobody can take it", attempt=2)
    before = recorded(mission(), call)
    known = mission_in(before.state)
    assert known.help is not None
    assert (known.help.reason, known.help.attempt) == ("nobody can take it", 2)
    before.when(fact("control.requested", _mission="m1", _actor="jo", action="helped"))
    assert known.help is None
    before.when(call, mission("blocked"))
    assert known.help is None


def test_the_newest_notes_are_kept() -> None:
    before = recorded(mission(), *(fact("town.mission_event", _mission="m1", _actor="jo", _text=f"note {n}") for n in range(MAX_NOTES + 5)))
    notes = mission_in(before.state).notes
    assert (len(notes), notes[0].text, notes[-1].text, notes[-1].by) == (MAX_NOTES, "note 5", f"note {MAX_NOTES + 4}", "jo")


def test_only_a_mission_that_is_over_is_put_away() -> None:
    away = fact("work.archived", _mission="m1", _actor="jo")
    assert not mission_in(recorded(mission(), away).state).is_archived
    assert mission_in(recorded(mission(), mission("failed"), away).state).is_archived


def test_others_missions_are_shown_with_what_they_report() -> None:
    state = recorded(mission(), fact("town.mission_work_assigned", _mission="m1", _task="x", _agent="zoe", item="nothing")).state
    assert (mission_in(state).state, mission_in(state).items) == ("running", {})
    ours = recorded(mission(), item(), fact("town.mission_work_assigned", _mission="m1", _task="x", _agent="zoe", item="i1")).state
    assert (item_in(ours).state, item_in(ours).task) == ("assigned", "x")
