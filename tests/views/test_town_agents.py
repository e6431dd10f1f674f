"""Agents in the town view: state transitions, leases and control requests."""

from __future__ import annotations

import pytest

from fleetlore.events.envelope import Event
from fleetlore.testing import START
from fleetlore.views import town_agents
from fleetlore.views.town_agents import CONTROL_STATES
from fleetlore.views.town_rules import AGENT_STEPS, find_agent_refusal
from fleetlore.views.town_state import AgentState
from tests.views.town_facts import (
    LEASE,
    agent_in,
    asked,
    assigned,
    becomes,
    created,
    fact,
    faults,
    idle,
    recorded,
    spawned,
    started,
)

INTO: dict[AgentState, list[Event]] = {
    "cold": [spawned()],
    "starting": [spawned(), becomes("starting")],
    "idle": idle(),
    "working": [*idle(), becomes("working")],
    "paused": [*idle(), becomes("paused")],
    "draining": [*idle(), becomes("draining")],
    "stopped": [*idle(), becomes("stopped")],
    "error": [*idle(), becomes("error")],
}
"""The facts that bring an agent into each state."""


@pytest.mark.parametrize("to", list(AGENT_STEPS))
@pytest.mark.parametrize("state", list(AGENT_STEPS))
def test_an_agent_passes_where_the_table_lets_it_and_nowhere_else(state: AgentState, to: AgentState) -> None:
    before = recorded(*INTO[state])
    assert agent_in(before.state).state == state
    before.when(becomes(to))
    stays = to == state and to != "starting"
    if stays or to in AGENT_STEPS[state]:
        assert (agent_in(before.state).state, before.state.refused) == (to, 0)
    else:
        assert (agent_in(before.state).state, before.state.refused) == (state, 1)
    assert faults(before.state) == []


@pytest.mark.parametrize("state", list(AGENT_STEPS))
def test_a_refusal_says_what_an_agent_can_become(state: AgentState) -> None:
    for to in AGENT_STEPS.keys() - AGENT_STEPS[state]:
        assert (
            find_agent_refusal(state, to)
            == f"an agent that is {state} cannot become {to}; it can become {', '.join(sorted(AGENT_STEPS[state]))}"
        )
    assert all(find_agent_refusal(state, to) is None for to in AGENT_STEPS[state])


def test_an_agent_joins_with_what_it_can_do_and_who_brought_it() -> None:
    data = {"harness": "command", "type": "supervisor", "spawn_mode": "forkedcontext"}
    agent = agent_in(recorded(spawned("ada", "tester", "reviewer", _parent="eve", _child="ada", **data)).state)
    assert (agent.state, agent.roles, agent.harness, agent.type) == ("cold", ["tester", "reviewer"], "command", "supervisor")
    assert (agent.parent, agent.spawn_mode, agent.at) == ("eve", "forkedcontext", START)


def test_a_name_is_taken_until_its_agent_has_stopped() -> None:
    before = recorded(*idle("ada", "tester")).when(spawned("ada", "reviewer"))
    assert (before.state.refused, agent_in(before.state).roles, agent_in(before.state).state) == (1, ["tester"], "idle")
    before.when(becomes("stopped"), spawned("ada", "reviewer"))
    assert (agent_in(before.state).roles, agent_in(before.state).state, faults(before.state)) == (["reviewer"], "cold", [])


def test_of_two_workers_the_first_runs_an_agent() -> None:
    before = recorded(spawned(), becomes("starting", lease="w1@1"), becomes("starting", lease="w2@1"), becomes("idle", lease="w2@1"))
    assert (agent_in(before.state).state, agent_in(before.state).lease, before.state.refused) == ("starting", "w1@1", 2)
    before.when(becomes("idle", lease="w1@1"))
    assert (agent_in(before.state).state, before.state.holdings) == ("idle", {"w1@1": {"ada": None}})


def test_a_worker_that_lost_an_agent_shows_nothing_of_it_any_more() -> None:
    before = recorded(*idle(), becomes("cold"), becomes("starting", lease="w2@1"), becomes("idle", lease="w2@1"))
    before.when(becomes("stopped", lease=LEASE), becomes("working", lease=LEASE))
    assert (agent_in(before.state).state, agent_in(before.state).lease, before.state.refused) == ("idle", "w2@1", 2)


def test_who_has_waited_longest_is_first_among_those_with_nothing_to_do() -> None:
    before = recorded(*idle("ada"), *idle("bob"), *idle("cid", "tester"), created(), assigned(agent="ada"), started(agent="ada"))
    assert (list(before.state.idle[""]), list(before.state.idle["tester"])) == (["bob"], ["cid"])
    before.when(fact("town.task_completed", _task="t1", _agent="ada", epoch=1))
    assert list(before.state.idle[""]) == ["bob", "ada"]


# --- wishes


@pytest.mark.parametrize("state", list(AGENT_STEPS))
@pytest.mark.parametrize("command", list(CONTROL_STATES))
def test_an_agent_is_asked_what_can_be_asked_of_it(command: str, state: AgentState) -> None:
    before = recorded(*INTO[state], asked(command))
    assert agent_in(before.state).wish == (command if state in CONTROL_STATES[command] else "")
    assert faults(before.state) == []


def test_what_nobody_can_be_asked_is_not_kept() -> None:
    assert agent_in(recorded(*idle(), asked("dance")).state).wish == ""


def test_an_agent_that_is_asked_something_is_given_no_work() -> None:
    assert recorded(*idle(), asked("drain")).state.idle == {}


@pytest.mark.parametrize(
    ("command", "ends"), [("interrupt", "paused"), ("drain", "draining"), ("kill", "stopped"), ("restart", "stopped"), ("kill", "cold")]
)
def test_a_request_is_kept_until_it_is_fulfilled(command: str, ends: str) -> None:
    """Events that the agent wrote before it read the request do not clear the request."""
    before = recorded(*idle(), asked(command), becomes("working"), becomes("idle"))
    assert agent_in(before.state).wish == command
    before.when(becomes(ends))
    assert (agent_in(before.state).wish, faults(before.state)) == ("", [])


def test_a_paused_agent_that_goes_on_has_done_what_it_was_asked() -> None:
    before = recorded(*INTO["paused"], asked("resume"))
    before.when(fact("town.agent_resumed", _agent="ada", _new_state="idle", lease=LEASE))
    assert (agent_in(before.state).state, agent_in(before.state).wish) == ("idle", "")


# --- signs of life, and others' towns


def test_the_last_sign_of_life_is_what_an_agent_reported_itself() -> None:
    before = recorded(*idle())
    seen = agent_in(before.state).seen_at
    before.when(fact("work.message_sent", _actor="jo", _agent="ada"))
    assert agent_in(before.state).seen_at == seen
    moment = before.now
    before.when(fact("tool.called", _actor="ada", _agent="ada", tool="Bash"))
    assert agent_in(before.state).seen_at == moment


def test_an_agent_that_nobody_runs_here_is_shown_and_never_given_work() -> None:
    state = recorded(fact("town.agent_state_changed", _agent="zoe", _new_state="Idle")).state
    assert (agent_in(state, "zoe").state, state.idle, state.holdings) == ("idle", {}, {})


def test_an_agent_that_has_done_all_is_received_and_stops_by_itself() -> None:
    before = recorded(*idle())
    moment = before.now
    before.when(fact("town.agent_completed", _agent="ada", _actor="eve"), fact("town.agent_completed", _agent="nobody"))
    assert (agent_in(before.state).state, agent_in(before.state).seen_at, set(before.state.agents)) == ("idle", moment, {"ada"})


def test_of_too_many_agents_those_that_nobody_runs_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(town_agents, "AGENTS_KEPT", 2)
    before = recorded(*idle("ada"), spawned("bob"), *idle("cid"))
    assert set(before.state.agents) == {"ada", "cid"}
    before.when(*idle("dan"))
    assert (set(before.state.agents), faults(before.state)) == ({"cid", "dan"}, [])
