"""Each arc: where it is, where it is not, and where it nearly is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event
from fleetlore.chronicle import sift
from fleetlore.chronicle.arcs import KINDS
from fleetlore.events.catalog import beat_of
from tests.chronicle.scripts import KINDS as BEATS
from tests.chronicle.scripts import START, arcs, events, numbers, told

CLOSED: list[tuple[str, str, list[int], list[str]]] = [
    ("struggle_and_recovery", "ada:claim ada:setback ada:recovery", [1, 2], ["ada"]),
    ("struggle_and_recovery", "ada:setback ada:setback bo:pulse ada:progress ada:recovery", [0, 1, 4], ["ada"]),
    ("struggle_and_recovery", "ada:setback bo:setback bo:recovery", [1, 2], ["bo"]),
    ("abandon_then_retry", "ada:claim ada:release bo:claim", [1, 2], ["ada", "bo"]),
    ("abandon_then_retry", "ada:release ada:pulse ada:claim", [0, 2], ["ada"]),
    ("solo_sprint", "ada:claim ada:progress ada:propose ada:deliver", [0, 1, 2, 3], ["ada"]),
    ("solo_sprint", "ada:claim ada:progress bo:pulse ada:progress bo:approve ada:propose ada:deliver", [0, 1, 3, 5, 6], ["ada"]),
    ("fleet_convergence", "ada:claim bo:together", [0, 1], ["ada", "bo"]),
    ("fleet_convergence", "ada:claim ada:progress bo:progress ada:together", [0, 2, 3], ["ada", "bo"]),
    ("silent_grind", "ada:claim " + "ada:progress " * 5 + "ada:deliver", [1, 2, 3, 4, 5, 6], ["ada"]),
    ("silent_grind", "ada:progress ada:pulse ada:progress ada:rest " + "ada:progress " * 4 + "ada:deliver", [0, 2, 4, 5, 6, 7, 8], ["ada"]),
    ("silent_grind", "ada:setback bo:claim " + "bo:progress " * 5 + "bo:deliver", [2, 3, 4, 5, 6, 7], ["bo"]),
    ("silent_grind", "ada:propose ada:deliver " + "bo:progress " * 5 + "bo:deliver", [2, 3, 4, 5, 6, 7], ["bo"]),
    ("silent_grind", "ada:progress bo:progress bo:claim " + "bo:progress " * 5 + "bo:deliver", [3, 4, 5, 6, 7, 8], ["bo"]),
    ("silent_grind", "ada:progress " * 4 + "ada:claim ada:progress ada:deliver bo:reject", [0, 1, 2, 3, 5, 6], ["ada"]),
    ("handoff_chain", "ada:handoff bo:handoff cy:deliver", [0, 1, 2], ["ada", "bo", "cy"]),
    ("review_ping_pong", "bo:reject ada:progress bo:reject ada:progress ada:deliver", [0, 1, 2, 3, 4], ["bo", "ada"]),
    ("review_ping_pong", "bo:reject cy:reject ada:progress bo:reject ada:progress ada:deliver", [0, 1, 2, 3, 4, 5], ["bo", "cy", "ada"]),
    ("budget_death", "ada:claim ada:spent ada:failed", [1, 2], ["ada"]),
    ("rescue", "ada:setback bo:recovery", [0, 1], ["ada", "bo"]),
    ("rescue", "ada:claim ada:setback ada:progress bo:claim bo:deliver", [1, 4], ["ada", "bo"]),
    ("comeback", "ada:setback ada:setback bo:setback ada:deliver", [0, 1, 2, 3], ["ada", "bo"]),
    ("comeback", "ada:setback ada:deliver " + "ada:setback ada:recovery " * 3 + "bo:deliver", [2, 4, 6, 8], ["ada", "bo"]),
    ("milestone", "ada:feat", [0], ["ada"]),
]

NOT_THERE: list[tuple[str, str]] = [
    ("struggle_and_recovery", "ada:recovery ada:setback"),
    ("struggle_and_recovery", "ada:setback bo:recovery"),
    ("struggle_and_recovery", "ada:setback ada:deliver ada:recovery"),
    ("struggle_and_recovery", "ada:setback ada:release ada:claim ada:recovery"),
    ("struggle_and_recovery", "ada:setback bo:recovery ada:recovery"),
    ("abandon_then_retry", "ada:claim ada:release ada:progress"),
    ("abandon_then_retry", "ada:claim bo:claim ada:release"),
    ("abandon_then_retry", "ada:release bo:deliver bo:claim"),
    ("solo_sprint", "ada:deliver ada:propose ada:progress ada:claim"),
    ("solo_sprint", "ada:claim ada:propose ada:progress ada:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:setback ada:propose ada:deliver"),
    ("solo_sprint", "ada:claim bo:progress ada:progress ada:propose ada:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:propose bo:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:propose bo:reject ada:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:propose ada:progress ada:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:deliver"),
    ("solo_sprint", "ada:claim ada:progress ada:propose bo:together ada:deliver"),
    ("solo_sprint", "ada:progress ada:propose ada:deliver"),
    ("solo_sprint", "bo:claim bo:release ada:claim ada:progress ada:propose ada:deliver"),
    ("fleet_convergence", "ada:claim ada:progress ada:together"),
    ("fleet_convergence", "bo:together ada:claim"),
    ("fleet_convergence", "ada:pulse bo:together"),
    ("fleet_convergence", "ada:claim ada:deliver bo:together"),
    ("fleet_convergence", "ada:claim ada:release bo:together"),
    ("silent_grind", "ada:progress " * 4 + "ada:deliver"),
    ("silent_grind", "ada:progress " * 3 + "bo:progress " + "ada:progress " * 3 + "ada:deliver"),
    ("silent_grind", "ada:progress " * 3 + "ada:setback " + "ada:progress " * 4 + "ada:deliver"),
    ("silent_grind", "ada:progress " * 5 + "ada:propose ada:deliver"),
    ("silent_grind", "ada:setback " + "ada:progress " * 5 + "ada:deliver"),
    ("silent_grind", "ada:claim ada:setback ada:pulse ada:rest " + "ada:progress " * 7 + "ada:deliver"),
    ("silent_grind", "ada:progress " * 5 + "ada:pulse ada:setback ada:deliver"),
    ("silent_grind", "ada:progress " * 5 + "bo:setback ada:deliver"),
    ("silent_grind", "ada:setback ada:recovery " + "ada:progress " * 5 + "ada:deliver"),
    ("silent_grind", "bo:approve " + "ada:progress " * 5 + "ada:deliver"),
    ("silent_grind", "bo:progress " + "ada:progress " * 5 + "ada:deliver"),
    ("silent_grind", "ada:progress " * 4 + "ada:deliver ada:progress ada:deliver"),
    ("silent_grind", "ada:progress " * 5 + "bo:deliver"),
    ("handoff_chain", "ada:handoff bo:progress cy:deliver"),
    ("handoff_chain", "ada:handoff bo:deliver bo:handoff cy:deliver"),
    ("handoff_chain", "ada:handoff bo:release bo:handoff cy:deliver"),
    ("review_ping_pong", "bo:reject ada:progress ada:deliver"),
    ("review_ping_pong", "bo:reject ada:progress bo:reject ada:deliver"),
    ("review_ping_pong", "bo:reject ada:progress ada:deliver bo:reject ada:progress ada:deliver"),
    ("review_ping_pong", "bo:reject bo:reject ada:progress ada:deliver"),
    ("review_ping_pong", "bo:approve ada:progress bo:approve ada:progress ada:deliver"),
    ("budget_death", "ada:spent ada:deliver ada:done"),
    ("budget_death", "ada:spent ada:done"),
    ("budget_death", "ada:failed"),
    ("rescue", "ada:setback ada:recovery bo:deliver"),
    ("rescue", "bo:deliver ada:setback"),
    ("rescue", "ada:setback ada:deliver bo:recovery"),
    ("rescue", "ada:setback ada:recovery bo:recovery bo:deliver"),
    ("rescue", "ada:setback bo:progress"),
    ("comeback", "ada:setback ada:setback ada:deliver"),
    ("comeback", "ada:setback ada:deliver ada:setback ada:setback"),
    ("comeback", "ada:setback ada:deliver ada:setback ada:setback ada:deliver"),
    ("comeback", "ada:setback ada:setback ada:setback ada:recovery"),
    ("milestone", "ada:deliver"),
]

OPEN: list[tuple[str, str, list[int]]] = [
    ("struggle_and_recovery", "ada:claim ada:setback ada:progress", [1]),
    ("solo_sprint", "ada:claim ada:progress ada:propose", [0, 1, 2]),
    ("silent_grind", "ada:progress " * 6, [0, 1, 2, 3, 4, 5]),
    ("handoff_chain", "ada:handoff bo:handoff", [0, 1]),
    ("review_ping_pong", "bo:reject ada:progress bo:reject ada:progress bo:reject", [0, 1, 2, 3, 4]),
    ("budget_death", "ada:spent ada:progress", [0]),
]


@pytest.mark.parametrize(("kind", "script", "proof", "agents"), CLOSED)
def test_an_arc_is_found_with_its_proof(kind: str, script: str, proof: list[int], agents: list[str]) -> None:
    [arc] = arcs(told(events(script)), kind=kind)
    assert (arc.state, arc.thread, arc.agents) == ("closed", "task:t7", agents)
    assert numbers(arc) == proof
    assert (arc.first, arc.last, arc.count) == (arc.evidence[0], arc.evidence[-1], len(proof))


@pytest.mark.parametrize(("kind", "script"), NOT_THERE)
def test_what_only_looks_like_an_arc_is_none(kind: str, script: str) -> None:
    assert [arc for arc in arcs(told(events(script)), kind=kind) if arc.state == "closed"] == []


UNDER_WAY_NO_MORE: list[tuple[str, str]] = [
    ("silent_grind", "ada:setback " + "ada:progress " * 6),
    ("silent_grind", "ada:progress " * 6 + "ada:setback"),
    ("silent_grind", "ada:progress " * 4),
    ("handoff_chain", "ada:handoff bo:deliver bo:handoff"),
    ("handoff_chain", "ada:handoff bo:failed bo:handoff"),
    ("review_ping_pong", "bo:reject ada:progress ada:release bo:reject ada:progress"),
    ("solo_sprint", "ada:claim ada:progress ada:propose bo:reject"),
    ("budget_death", "ada:spent ada:deliver"),
]


@pytest.mark.parametrize(("kind", "script"), UNDER_WAY_NO_MORE)
def test_what_was_broken_or_has_not_come_far_enough_is_not_open(kind: str, script: str) -> None:
    assert arcs(told(events(script)), kind=kind) == []


@pytest.mark.parametrize(("kind", "script", "proof"), OPEN)
def test_an_arc_that_is_under_way_is_open(kind: str, script: str, proof: list[int]) -> None:
    [arc] = arcs(told(events(script)), kind=kind)
    assert (arc.state, numbers(arc)) == ("open", proof)


def test_threads_do_not_mix() -> None:
    """One agent's error with another's recovery elsewhere is no arc."""
    sifted = told(events("ada:setback", thread="t1"), events("bo:recovery ada:recovery", thread="t2", start=1))
    assert arcs(sifted, kind="rescue") == []
    assert [arc.state for arc in arcs(sifted, kind="struggle_and_recovery")] == ["open"]


def test_it_is_said_by_whom_an_abandoned_task_was_taken_up() -> None:
    [arc] = arcs(told(events("ada:release ada:claim")), kind="abandon_then_retry")
    assert arc.note == "by the same agent"
    [arc] = arcs(told(events("ada:release bo:claim")), kind="abandon_then_retry")
    assert arc.note == "by another agent"


def test_several_arcs_are_told_of_one_thread() -> None:
    script = "ada:claim ada:setback ada:recovery ada:setback ada:setback bo:together bo:deliver ada:feat"
    kinds = sorted({arc.kind for arc in arcs(told(events(script))) if arc.state == "closed"})
    assert kinds == ["comeback", "fleet_convergence", "milestone", "rescue", "struggle_and_recovery"]


def test_the_same_arc_can_come_twice() -> None:
    found = arcs(told(events("ada:setback ada:recovery ada:progress ada:setback ada:recovery")), kind="struggle_and_recovery")
    assert [numbers(arc) for arc in found] == [[0, 1], [3, 4]]


def test_the_proof_of_a_very_long_arc_is_its_beginning_and_its_end() -> None:
    [arc] = arcs(told(events("ada:progress " * 5000 + "ada:deliver")), kind="silent_grind")
    assert arc.count == 5001
    assert len(arc.evidence) == 100
    assert numbers(arc)[:3] == [0, 1, 2]
    assert numbers(arc)[-2:] == [4999, 5000]


def test_a_sprint_can_come_again_after_a_delivery() -> None:
    sprint = "ada:claim ada:progress ada:propose ada:deliver "
    found = arcs(told(events(sprint + "bo:pulse " + sprint)), kind="solo_sprint")
    assert [numbers(arc) for arc in found] == [[0, 1, 2, 3], [5, 6, 7, 8]]


def test_on_an_agent_s_own_thread_any_claim_can_begin_a_sprint() -> None:
    script = events("ada:setback ada:recovery ada:claim ada:progress ada:propose ada:deliver")
    [arc] = arcs(told([replace(event, task=None) for event in script]), kind="solo_sprint")
    assert (arc.thread, numbers(arc)) == ("agent:ada", [2, 3, 4, 5])


def test_a_goal_whose_end_alone_says_that_the_budget_is_spent_has_died_of_it_once() -> None:
    spent = {"outcome": {"outcome": {"kind": "budget_exhausted", "axis": "turns"}}}
    for script in ("ada:claim ada:failed", "ada:claim ada:spent ada:failed"):
        *before, end = events(script)
        [arc] = arcs(told([*before, replace(end, data=spent)]), kind="budget_death")
        assert (arc.state, numbers(arc)[-1]) == ("closed", len(before))


# --- across threads


def linked(*links: tuple[str, str, str | None, int | None], then: str = "") -> list[Event]:
    """Setbacks: agent, thread, its parent, and the number of its cause."""
    made = []
    for number, (agent, thread, parent, cause) in enumerate(links):
        [event] = events(f"{agent}:setback", thread=thread, start=number, parent=parent)
        made.append(event if cause is None else replaced(event, cause=f"00000000-0000-7000-8000-{cause:012d}"))
    return [*made, *events(then, start=len(made))]


def replaced(event: Event, **fields: object) -> Event:
    from msgspec.structs import replace

    return replace(event, **fields)


def test_setbacks_that_spread_by_cause_and_by_parent_are_a_cascade() -> None:
    chain = linked(("ada", "t1", None, None), ("bo", "t2", None, 0), ("cy", "t3", "bo", None))
    [arc] = arcs(told(chain), kind="cascade")
    assert (arc.state, arc.agents, numbers(arc), arc.thread) == ("open", ["ada", "bo", "cy"], [0, 1, 2], "task:t1")


def test_a_cascade_is_over_when_everyone_in_it_is_out_of_trouble() -> None:
    chain = linked(("ada", "t1", None, None), ("bo", "t2", None, 0), ("ada", "t1", None, 1), then="bo:recovery ada:recovery")
    [arc] = arcs(told(chain), kind="cascade")
    assert (arc.state, numbers(arc)) == ("closed", [0, 1, 2, 4])


@pytest.mark.parametrize(
    "chain",
    [
        linked(("ada", "t1", None, None), ("bo", "t2", None, None), ("cy", "t3", None, None)),
        linked(("ada", "t1", None, None), ("bo", "t2", None, 0)),
        linked(("ada", "t1", None, None), ("ada", "t1", None, 0), ("ada", "t1", None, 1)),
        [*events("ada:setback", thread="t1"), *events("ada:recovery bo:setback cy:setback", thread="t2", start=1, parent="ada")],
    ],
    ids=["not linked", "too few", "one agent", "the parent is well again"],
)
def test_setbacks_that_do_not_spread_are_no_cascade(chain: list[Event]) -> None:
    assert arcs(told(chain), kind="cascade") == []


def edit(agent: str, number: int, *paths: str, cwd: str | None = None) -> Event:
    data = {"tool": "Edit", "paths": list(paths)} | ({"cwd": cwd} if cwd else {})
    [event] = events(f"{agent}:pulse", thread=f"of-{agent}", start=number)
    return replaced(event, kind="tool.returned", data=data)


def commit(agent: str, number: int, *files: str) -> Event:
    [event] = events(f"{agent}:progress", thread=f"of-{agent}", start=number)
    return replaced(event, data={"files": list(files)})


def test_two_agents_in_one_file_with_no_commit_between_collide() -> None:
    [arc] = arcs(told([edit("ada", 0, "src/a.py"), edit("bo", 1, "src/b.py", "src/a.py")]), kind="collision")
    assert (arc.agents, numbers(arc), arc.note, arc.thread) == (["ada", "bo"], [0, 1], "src/a.py", "task:of-ada")


@pytest.mark.parametrize(
    "story",
    [
        [edit("ada", 0, "a.py"), commit("ada", 1), edit("bo", 2, "a.py")],
        [edit("ada", 0, "/repo/src/a.py"), commit("ada", 1, "src/a.py"), edit("bo", 2, "/repo/src/a.py")],
        [edit("ada", 0, "a.py"), edit("ada", 1, "a.py")],
        [edit("ada", 0, "a.py", cwd="/one"), edit("bo", 1, "a.py", cwd="/two")],
    ],
    ids=["committed", "committed by name", "alone", "two worktrees"],
)
def test_agents_out_of_each_others_way_do_not_collide(story: list[Event]) -> None:
    assert arcs(told(story), kind="collision") == []


def test_a_commit_of_other_files_does_not_clear_the_way() -> None:
    story = [edit("ada", 0, "a.py"), commit("ada", 1, "b.py"), edit("bo", 2, "a.py")]
    assert len(arcs(told(story), kind="collision")) == 1


# --- silence


@pytest.mark.parametrize(
    ("script", "minutes", "silence", "stalls"),
    [
        ("ada:claim ada:progress ada:progress", 1.0, 11, True),
        ("ada:claim ada:progress ada:progress", 1.0, 9, False),
        ("ada:claim ada:progress ada:progress", 1.0, 10, False),
        ("ada:claim ada:progress ada:progress", 4.0, 20, False),
        ("ada:claim ada:progress ada:progress", 4.0, 19, False),
        ("ada:claim ada:progress ada:progress", 4.0, 21, True),
        ("ada:claim ada:progress ada:deliver", 1.0, 600, False),
        ("ada:claim", 1.0, 11, True),
    ],
)
def test_silence_is_measured_by_the_threads_own_rhythm(script: str, minutes: float, silence: int, stalls: bool) -> None:
    story = events(script, minutes=minutes)
    last = story[-1].at
    assert last is not None
    found = arcs(told(story), kind="stall", now=last + timedelta(minutes=silence))
    assert bool(found) is stalls
    if found:
        assert (found[0].state, found[0].agents, found[0].evidence) == ("open", ["ada"], [story[-1].id])


@pytest.mark.parametrize(
    ("script", "agent"),
    [("ada:claim bo:progress ada:progress", "ada"), ("ada:claim bo:progress", "bo"), ("ada:claim bo:progress ada:pulse", "ada")],
)
def test_a_stall_names_the_agent_that_acted_last(script: str, agent: str) -> None:
    story = events(script)
    [stall] = arcs(told(story), kind="stall", now=START + timedelta(days=1))
    assert (stall.agents, stall.evidence) == ([agent], [story[-1].id])


def test_a_stall_on_a_task_names_who_acted_last_on_the_run_that_became_its_beginning() -> None:
    """The run's last event is newer than the one that binds it to the task: it was read first."""
    run = [replace(event, task=None, run="r") for event in events("ada:progress bo:progress", start=5)]
    sifted = sift.initial()
    for event in [*run, *events("cy:claim", run="r")]:
        sift.apply(sifted, event)
    [stall] = arcs(sifted, kind="stall", now=START + timedelta(days=1))
    assert (stall.agents, stall.evidence) == (["bo"], [run[-1].id])


def test_every_kind_of_arc_is_tested_here() -> None:
    tested = {kind for kind, *_ in CLOSED} | {"cascade", "collision", "stall"}
    assert tested == set(KINDS)
    assert {kind for kind, _ in NOT_THERE} | {"cascade", "collision", "stall"} == set(KINDS)


def test_late_events_change_no_arc() -> None:
    story = events("ada:setback ada:recovery ada:progress")
    late = events("ada:setback", start=0)[0]
    sifted = sift.initial()
    for event in [*story, replaced(late, id="00000000-0000-7000-8000-000000000099", at=START - timedelta(hours=1))]:
        sift.apply(sifted, event)
    assert [numbers(arc) for arc in arcs(sifted, kind="struggle_and_recovery")] == [[0, 1]]
    assert sifted.late == 1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ada", "bo"]), st.sampled_from([*BEATS])), max_size=60))
def test_steps_alike_in_a_row_are_no_different_from_steps_one_by_one(story: list[tuple[str, str]]) -> None:
    script = " ".join(f"{agent}:{beat}" for agent, beat in story)
    quick, slow = told(events(script)), sift.initial()
    for event in events(script):
        slow.repeats.clear()
        sift.apply(slow, event)
    assert arcs(quick) == arcs(slow)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ada", "bo"]), st.sampled_from([*BEATS]), st.sampled_from("ab")), max_size=60))
def test_steps_that_wait_for_each_other_are_no_different_from_steps_one_by_one(story: list[tuple[str, str, str]]) -> None:
    """Setbacks are linked across threads; a goal is bound to a task in the middle of it."""
    script = " ".join(f"{agent}:{beat}" for agent, beat, _ in story)
    placed = [
        replaced(event, task=None if thread == "b" and number < 30 else thread, goal=f"g{thread}", parent="ada", cause=None)
        for number, (event, (_, _, thread)) in enumerate(zip(events(script), story, strict=True))
    ]
    waiting = sift.initial()
    for event in placed:
        sift.sift(waiting, event, beat_of(event))
    sift.settle(waiting)
    assert arcs(waiting) == arcs(told(placed))
