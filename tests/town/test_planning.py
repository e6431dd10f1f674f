"""What the dispatcher proposes for a state of the town: assignments, items to start, fixes, help requests."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from fleetlore.events.envelope import Event, Origin
from fleetlore.log.base import Expect
from fleetlore.testing import START
from fleetlore.town import planning
from fleetlore.views.town_state import TownState
from tests.views.town_facts import (
    about_item,
    approved,
    asked,
    assigned,
    completed,
    created,
    fact,
    failed,
    idle,
    item,
    item_task,
    mission,
    recorded,
    rejected,
    started,
    worked_on,
)

NOW = START + timedelta(hours=1)


def given(state: TownState, **on_their_way: list[str]) -> list[tuple[str, str]]:
    return [(move.task, move.agent) for move in planning.propose_assignments(state, **on_their_way)]


def moves(state: TownState) -> list[str]:
    """What a mission needs, as kinds and what they are about."""
    planned = planning.propose_for_mission(state, state.missions["m1"])
    return [f"{event.kind} {event.task or event.data.get('item', '')}".strip() for move in planned for event in move.events]


# --- who gets what


def test_each_agent_is_given_one_task_and_who_has_waited_longest_comes_first() -> None:
    state = recorded(*idle("ada"), *idle("bob"), created("t1"), created("t2"), created("t3")).state
    assert given(state) == [("t1", "ada"), ("t2", "bob")]
    assert given(state, taken=["t1"], busy=["ada"]) == [("t2", "bob")]


def test_an_assignment_is_outdated_once_the_task_was_given_out_and_came_back() -> None:
    before = recorded(*idle(), created()).state
    [move] = planning.propose_assignments(before)
    came_back = recorded(*idle(), created(), assigned(), started(), failed()).state.tasks["t1"]
    assert came_back.state == "pending"
    assert (move.is_still_valid(before.tasks["t1"]), move.is_still_valid(came_back)) == (True, False)


def test_an_assignment_has_the_next_epoch_and_expects_the_task_as_it_is_known() -> None:
    state = recorded(*idle(), created(), assigned(), started(), failed()).state
    [move] = planning.propose_assignments(state)
    assert (move.events[-1].data["epoch"], move.expect) == (2, Expect("task:t1", state.tasks["t1"].position))


def test_who_can_do_just_this_comes_before_who_can_do_anything() -> None:
    state = recorded(*idle("any"), *idle("tess", "tester"), created("t1", role="tester"), created("t2", role="tester")).state
    assert given(state) == [("t1", "tess"), ("t2", "any")]


def test_a_task_for_one_agent_waits_for_that_one() -> None:
    state = recorded(*idle("ada"), *idle("bob"), asked("drain", "bob"), created("t1", agent="bob"), created("t2")).state
    assert given(state) == [("t2", "ada")]


def test_a_review_is_never_given_to_an_author_and_holds_up_nobody() -> None:
    reviews = [created("r1", role="reviewer", not_by=["rev"]), created("r2", role="reviewer")]
    assert given(recorded(*idle("rev", "reviewer"), *reviews).state) == [("r2", "rev")]


def test_a_fix_goes_to_its_author_if_that_one_is_free() -> None:
    assert given(recorded(*idle("ada"), *idle("bob"), created("f1", prefer="bob")).state) == [("f1", "bob")]
    assert given(recorded(*idle("ada"), created("f1", prefer="bob")).state) == [("f1", "ada")]


def test_items_of_a_mission_that_is_held_are_given_to_nobody() -> None:
    before = recorded(*idle(), mission(), item(), item_task("w1"))
    assert given(before.state) == [("w1", "ada")]
    assert given(before.when(mission("blocked")).state) == []


# --- missions


def test_an_item_is_promoted_once_all_that_it_waits_for_is_done() -> None:
    before = recorded(mission(), item("a", type="design"), item("b", "a"))
    assert moves(before.state) == ["town.mission_work_promoted a"]
    before.when(about_item("promoted", "a"), *worked_on("w1", "a"), about_item("completed", "a"))
    assert moves(before.state) == ["town.mission_work_promoted b"]


def test_no_more_items_begin_than_may_be_worked_on_at_once() -> None:
    items = [event for name in "abc" for event in (item(name), about_item("promoted", name))]
    before = recorded(*idle(), mission(max_parallel=2), *items)
    assert moves(before.state) == ["work.task_created m1/a", "work.task_created m1/b"]
    before.when(item_task("m1/a", "a"), assigned("m1/a"), item_task("m1/b", "b"))
    assert moves(before.state) == []
    before.when(started("m1/a"), completed("m1/a"))
    assert moves(before.state) == ["work.task_created m1/a/review-1", "work.task_created m1/c"]


def test_work_is_reviewed_fixed_and_reviewed_again() -> None:
    before = recorded(mission(), item("a"), about_item("promoted", "a"), *worked_on("m1/a", "a"))
    [review] = [move.events[-1] for move in planning.propose_for_mission(before.state, before.state.missions["m1"])]
    assert (review.task, review.data["role"], review.data["not_by"]) == ("m1/a/review-1", "reviewer", ["ada"])
    before.when(item_task("m1/a/review-1", "a", "review"), rejected(item="a"))
    assert moves(before.state) == ["town.mission_work_blocked m1/a", "work.task_created m1/a/fix-1"]
    before.when(*worked_on("m1/a/fix-1", "a", purpose="fix"))
    assert moves(before.state) == ["work.task_created m1/a/review-2"]
    before.when(item_task("m1/a/review-2", "a", "review"), approved(item="a"))
    assert moves(before.state) == ["town.mission_work_completed m1/a/fix-1"]
    before.when(about_item("completed", "a"))
    assert moves(before.state) == ["town.mission_state_changed"]


# --- watches

WATCHED = [
    mission(watch=True),
    item(),
    *worked_on("m1/i1", result="see o/r#7"),
    approved(),
    *(
        fact("work.watch_added", _mission="m1", watch=f"o/r#7 {type}", type=type, item="i1", target="o/r#7", action=action)
        for type, action in (("checks", "fix"), ("merge", "advance"))
    ),
]


def forge(kind: str, **more: str) -> Event:
    return Event(kind=kind, task="#7", text="word from the forge", origin=Origin(dialect="forge"), **more)  # type: ignore[arg-type]


def test_a_pull_request_is_watched_until_it_is_merged() -> None:
    before = recorded(*WATCHED[:-2])
    assert moves(before.state) == ["work.watch_added i1", "work.watch_added i1"]
    before.when(*WATCHED[-2:])
    assert moves(before.state) == []
    merged = [move.events[0] for move in planning.propose_for_forge_event(before.state, forge("fleet.pr_merge", mission="o/r"), NOW)]
    assert [event.data["action"] for event in merged] == ["advance", "advance"]
    before.when(*merged)
    assert moves(before.state) == ["town.mission_work_completed m1/i1"]


def test_a_mission_does_not_end_while_a_pull_request_is_watched() -> None:
    merged, watched = recorded(*WATCHED), recorded(*WATCHED)
    merged.when(*[move.events[0] for move in planning.propose_for_forge_event(merged.state, forge("fleet.pr_merge", mission="o/r"), NOW)])
    item_done = [event for move in planning.propose_for_mission(merged.state, merged.state.missions["m1"]) for event in move.events]
    merged.when(*item_done)
    watched.when(*item_done)
    assert (moves(merged.state), moves(watched.state)) == (["town.mission_state_changed"], [])


def test_a_failed_check_is_fixed_and_its_watch_rests_meanwhile() -> None:
    before = recorded(*WATCHED)
    [move] = planning.propose_for_forge_event(before.state, forge("fleet.error"), NOW)
    assert [event.kind for event in move.events] == ["town.mission_watch_triggered", "work.watch_snoozed", "work.task_created"]
    assert (move.task, move.events[-1].data["purpose"]) == ("m1/i1/mend-1", "fix")
    before.when(*move.events)
    assert list(planning.propose_for_forge_event(before.state, forge("fleet.error"), NOW)) == []


def test_others_pull_requests_and_what_does_not_come_from_a_forge_move_nothing() -> None:
    state = recorded(*WATCHED).state
    merged = forge("fleet.pr_merge")
    strange = [replace(merged, mission="o/other"), replace(merged, origin=None), replace(merged, task="#8")]
    assert [move for event in strange for move in planning.propose_for_forge_event(state, event, NOW)] == []


# --- help


def calls(state: TownState, after: timedelta) -> list[str]:
    planned = planning.propose_help_requests(state, state.missions["m1"], START + after)
    return [f"{move.events[0].data['attempt']}: {move.events[0].data['reason']}" for move in planned]


def test_help_is_asked_for_at_once_and_again_only_after_a_while_that_doubles() -> None:
    stuck = [item_task("w1"), assigned("w1"), started("w1"), failed("w1", final=True, error="no compiler")]
    before, reason = recorded(mission(), item(), *stuck), "i1 is stuck: no compiler"
    assert calls(before.state, timedelta(0)) == [f"1: {reason}"]
    for attempt, wait in ((1, 30), (2, 60), (3, 120), (4, 240), (5, 240)):
        asked_at = before.now
        before.when(fact("town.mission_help_needed", _mission="m1", reason=reason, attempt=attempt))
        assert calls(before.state, asked_at - START + timedelta(minutes=wait - 1)) == []
        assert calls(before.state, asked_at - START + timedelta(minutes=wait)) == [f"{attempt + 1}: {reason}"]


def test_a_task_that_nobody_can_take_is_a_reason_after_a_moment() -> None:
    state = recorded(*idle("ada", "builder"), mission(), item(), item_task("w1", role="tester")).state
    assert calls(state, timedelta(seconds=5)) == []
    [call] = calls(state, timedelta(minutes=1))
    assert call.startswith("1: no agent can take w1: no tester is running; start one with `lore worker --roles tester`")


def test_a_mission_that_goes_on_asks_for_nothing() -> None:
    state = recorded(*idle(), mission(), item(), item_task("w1"), assigned("w1"), started("w1")).state
    assert calls(state, timedelta(hours=9)) == []
