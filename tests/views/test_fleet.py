"""The fleet as a fold: what it knows of each agent, what late events may do, and that nothing breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.events.envelope import Event, Origin
from fleetlore.testing import START, given
from fleetlore.views import fleet
from fleetlore.views.fleet import FleetAgent, FleetState
from tests.strategies import events

HOUR = timedelta(hours=1)


def ada(*recorded: Event) -> FleetAgent:
    return given(fleet, *recorded).state.agents["ada"]


def folded(recorded: list[Event]) -> FleetState:
    state = fleet.initial()
    for event in recorded:
        state = fleet.apply(state, event)
    return state


@pytest.mark.parametrize("flags", [{"flags": ["--no-verify"]}, {}])
def test_what_an_agent_is_doing_shows_the_flags_that_skip_checks(flags: dict[str, list[str]]) -> None:
    """An event of 0.1 has the command, and no flags."""
    data = {"tool": "Bash", "input": {"command": "git commit --no-verify -m x", "description": "Commit"}, **flags}
    assert ada(Event(kind="tool.called", agent="ada", text="Bash: Commit", data=data)).doing == "Bash: Commit (--no-verify)"


def test_an_agent_is_known_by_what_it_was_given_and_did() -> None:
    agent = ada(
        Event(kind="fleet.dispatch", agent="ada", task="t1", mission="m", text="Fix the parser", parent="lead"),
        Event(kind="tool.called", agent="ada", task="t1", run="s1", data={"tool": "Bash"}),
        Event(kind="fleet.commit", agent="ada", task="t1", text="Parse comments\nin all forms"),
        Event(kind="fleet.heartbeat", agent="ada", text="cycle 9"),
    )
    assert (agent.standing, agent.doing, agent.kind) == ("working", "Parse comments", "fleet.commit")
    assert (agent.task, agent.mission, agent.goal, agent.run, agent.parent) == ("t1", "m", None, "s1", "lead")
    assert (agent.since, agent.last_seen) == (START, START + timedelta(seconds=3))
    assert agent.counts == {"claim": 1, "pulse": 2, "progress": 1}
    assert (agent.last_position, agent.last_at) == (f"{4:020d}", START + timedelta(seconds=3))


def test_who_works_and_says_nothing_is_silent_after_a_while() -> None:
    agent = ada(Event(kind="fleet.dispatch", agent="ada"))
    assert fleet.standing_at(agent, now=START + timedelta(minutes=10)) == "working"
    assert fleet.standing_at(agent, now=START + timedelta(minutes=10, seconds=1)) == "silent"
    assert fleet.standing_at(agent, now=START + HOUR, silent_after=2 * HOUR) == "working"


def test_a_heartbeat_ends_silence_and_changes_nothing_else() -> None:
    recorded = given(fleet, Event(kind="fleet.dispatch", agent="ada", text="Fix it"))
    recorded.when(Event(kind="fleet.heartbeat", agent="ada", text="cycle 2", task="t9", at=START + HOUR))
    agent = recorded.state.agents["ada"]
    assert fleet.standing_at(agent, now=START + HOUR) == "working"
    assert (agent.doing, agent.task, agent.since) == ("Fix it", None, START)


@pytest.mark.parametrize("kind", ["session.waiting", "fleet.idle", "session.ended"])
def test_only_work_turns_silent(kind: str) -> None:
    agent = ada(Event(kind=kind, agent="ada"))
    assert fleet.standing_at(agent, now=START + 100 * HOUR) == agent.standing


def test_an_agent_that_was_only_named_is_idle() -> None:
    assert fleet.standing_at(ada(Event(kind="work.updated", agent="ada")), now=START) == "idle"


def test_a_delivered_task_is_no_longer_held() -> None:
    agent = ada(Event(kind="fleet.dispatch", agent="ada", task="t1"), Event(kind="fleet.pr_merge", agent="ada", task="t1", mission="m"))
    assert (agent.standing, agent.task, agent.mission) == ("idle", None, "m")


def test_delivering_another_task_leaves_an_agent_at_work() -> None:
    agent = ada(
        Event(kind="fleet.dispatch", agent="ada", task="t1"),
        Event(kind="fleet.dispatch", agent="ada", task="t2"),
        Event(kind="town.task_completed", agent="ada", task="t1", text="done with t1"),
    )
    assert (agent.standing, agent.task) == ("working", "t2")


def test_a_person_answers_and_the_agent_goes_on() -> None:
    waiting = Event(kind="session.waiting", agent="ada", text="May I?", data={"why": "permission"})
    answer = Event(kind="control.requested", actor="mira", agent="ada", data={"action": "decide"})
    given(fleet, waiting, answer).then(lambda state: state.agents["ada"].standing == "working")
    given(fleet, Event(kind="fleet.idle", agent="ada"), answer).then(lambda state: state.agents["ada"].standing == "idle")


def test_a_goal_without_an_agent_is_about_anybody_who_is_on_it() -> None:
    """Drivers name the goal alone."""
    recorded = given(fleet, Event(kind="goal.checkpointed", agent="ada", goal="g1"), Event(kind="fleet.dispatch", agent="bo", goal="g2"))
    recorded.when(Event(kind="driver.escalate", actor="nexo", goal="g1", text="stuck"))
    assert (recorded.state.agents["ada"].standing, recorded.state.agents["bo"].standing) == ("needs you", "working")
    recorded.when(Event(kind="control.requested", actor="mira", goal="g1", data={"action": "resume"}))
    assert recorded.state.agents["ada"].standing == "working"
    recorded.when(Event(kind="driver.goal_completed", actor="nexo", goal="g1"))
    assert (recorded.state.agents["ada"].standing, recorded.state.agents["ada"].goal, recorded.state.held) == (
        "ended",
        None,
        {"goal:g2": ["bo"]},
    )


def test_a_finished_run_ends_its_whole_cast_and_nobody_else() -> None:
    recorded = given(fleet, *(Event(kind="agent.spoke", agent=name, run=run) for name, run in (("ada", "r1"), ("bo", "r1"), ("cy", "r2"))))
    recorded.when(Event(kind="oracle.spoke", actor="oracle", run="r1"), Event(kind="run.finished", actor="stage", run="r1"))
    assert {name: agent.standing for name, agent in recorded.state.agents.items()} == {"ada": "ended", "bo": "ended", "cy": "working"}
    assert recorded.state.held == {"run:r2": ["cy"]}


def test_a_mission_asks_for_help_until_it_moves_on() -> None:
    recorded = given(fleet, Event(kind="town.mission_help_needed", mission="m", text="nobody is free"))
    assert recorded.state.asking["m"].text == "nobody is free"
    assert (recorded.state.agents, recorded.state.without_agent) == ({}, 1)
    recorded.when(Event(kind="town.mission_work_assigned", agent="ada", mission="m"))
    assert recorded.state.asking == {}


def test_a_trimmed_log_is_known_to_begin_late() -> None:
    given(fleet, Event(kind="log.trimmed", data={"before": "7"})).then(lambda state: state.trimmed_before == "7")


def test_private_thoughts_are_not_shown_as_what_an_agent_does() -> None:
    agent = ada(
        Event(kind="agent.spoke", agent="ada", text="hello"), Event(kind="agent.thought", agent="ada", text="x", visibility="private")
    )
    assert agent.doing == "hello"


def test_those_who_need_you_come_first_and_then_who_was_seen_last() -> None:
    recorded = given(
        fleet,
        Event(kind="session.ended", agent="gone"),
        Event(kind="fleet.dispatch", agent="lost", at=START - HOUR),
        Event(kind="fleet.dispatch", agent="old"),
        Event(kind="fleet.dispatch", agent="new"),
        Event(kind="fleet.idle", agent="resting"),
        Event(kind="session.waiting", agent="asking"),
    )
    order = fleet.sort_by_standing(recorded.state, now=recorded.now)
    assert [agent.name for _, agent in order] == ["asking", "new", "old", "resting", "lost", "gone"]
    assert [standing for standing, _ in order] == ["needs you", "working", "working", "idle", "silent", "ended"]


def test_a_late_event_does_not_turn_the_state_back() -> None:
    recorded = given(fleet, Event(kind="fleet.idle", agent="ada", text="done"))
    recorded.when(Event(kind="fleet.dispatch", agent="ada", task="t1", text="Start", at=START - HOUR))
    agent = recorded.state.agents["ada"]
    assert (agent.standing, agent.doing, agent.last_seen, agent.last_at) == ("idle", "done", START, START)
    assert agent.counts == {"rest": 1, "claim": 1}
    assert agent.task == "t1", "nobody newer has said anything about the task"


def test_a_late_event_counts_where_only_a_heartbeat_is_newer() -> None:
    recorded = given(fleet, Event(kind="fleet.dispatch", agent="ada", at=START - HOUR), Event(kind="fleet.heartbeat", agent="ada"))
    recorded.when(Event(kind="session.waiting", agent="ada", at=START - HOUR / 2))
    assert recorded.state.agents["ada"].standing == "needs you"


def test_imported_lines_of_one_moment_keep_the_order_of_their_file() -> None:
    def line(n: int, kind: str) -> Event:
        return Event(kind=kind, agent="ada", at=START, origin=Origin(dialect="nexus", source="a.jsonl", n=n))

    assert ada(line(2, "fleet.idle"), line(1, "fleet.dispatch")).standing == "idle"
    assert ada(line(1, "fleet.dispatch"), line(2, "fleet.idle")).standing == "idle"


def test_live_events_of_one_moment_keep_the_order_of_the_log() -> None:
    assert ada(Event(kind="fleet.idle", agent="ada", at=START), Event(kind="fleet.dispatch", agent="ada", at=START)).standing == "working"


@settings(max_examples=80, deadline=None)
@for_all(st.lists(events(), max_size=12))
def test_any_events_fold_without_raising_always_alike_and_through_json(recorded: list[Event]) -> None:
    few = [replace(event, agent="ada" if n % 2 else event.agent) for n, event in enumerate(recorded)]
    state = folded(few)
    assert state == folded(few)
    assert state.events == len(few) == sum(state.counts.values())
    assert msgspec.json.decode(msgspec.json.encode(state), type=FleetState) == state
    for standing, _ in fleet.sort_by_standing(state, now=START):
        assert standing in ("needs you", "working", "idle", "silent", "ended")


@settings(max_examples=50, deadline=None)
@for_all(st.lists(events(), max_size=6), st.lists(events(), max_size=6))
def test_a_checkpoint_goes_on_like_the_fold_that_it_was_taken_from(before: list[Event], after: list[Event]) -> None:
    state = msgspec.json.decode(msgspec.json.encode(folded(before)), type=FleetState)
    for event in after:
        state = fleet.apply(state, event)
    assert state == folded(before + after)


@settings(max_examples=50, deadline=None)
@for_all(st.lists(events(), max_size=8))
def test_nothing_late_ever_turns_a_state_back(late: list[Event]) -> None:
    end = datetime.max.replace(tzinfo=UTC)
    newest = Event(kind="town.agent_stopped", agent="ada", task="t1", mission="m", text="stopped", at=end, actor="ada")
    state = folded([newest, *(replace(event, agent="ada") for event in late if event.at != end)])
    agent = state.agents["ada"]
    assert (agent.standing, agent.doing, agent.since, agent.last_seen) == ("ended", "stopped", end, end)
    assert (agent.task, agent.mission) == (None, "m")


PLAIN = ["fleet.dispatch", "fleet.commit", "fleet.idle", "session.waiting", "session.turn_ended", "tool.called", "town.agent_stopped"]


@settings(max_examples=50, deadline=None)
@for_all(
    st.lists(st.tuples(st.sampled_from(PLAIN), st.sampled_from([None, "t1", "t2"])), max_size=8).flatmap(
        lambda x: st.permutations(list(enumerate(x)))
    )
)
def test_the_order_of_arrival_changes_nothing_that_is_shown(shuffled: list[tuple[int, tuple[str, str | None]]]) -> None:
    def event(n: int, kind: str, task: str | None) -> Event:
        return Event(id=str(n), kind=kind, agent="ada", task=task, text=f"{n}", at=START + timedelta(seconds=n))

    def shown(state: FleetState) -> list[object]:
        return [(a.standing, a.doing, a.task, a.last_seen, sorted(a.counts.items()), a.last_id) for a in state.agents.values()]

    arrived = [event(n, *rest) for n, rest in shuffled]
    assert shown(folded(arrived)) == shown(folded(sorted(arrived, key=lambda e: e.at or START)))
