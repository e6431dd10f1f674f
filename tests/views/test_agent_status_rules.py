"""The rule for each kind: complete, and told in docs/status.md as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore.events import catalog
from fleetlore.events.envelope import Event
from fleetlore.testing import given
from fleetlore.views import fleet
from fleetlore.views.agent_status_rules import (
    AGENT_STANDINGS,
    CHILD_EFFECTS,
    EFFECT_BY_KIND,
    EFFECT_BY_STATE,
    EFFECT_DECIDERS,
    LEFT_SCOPES_BY_KIND,
    PARENT_KINDS,
    TASK_CLOSING_KINDS,
    find_standing_effect,
)

PAGES = Path(__file__).parents[2] / "docs"
DOCS = (PAGES / "status.md").read_text()
LINES = [*DOCS.splitlines(), *(PAGES / "reference" / "status.md").read_text().splitlines()]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("| `")]
RULES = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 5}


def test_every_known_kind_has_a_rule_and_no_other_has() -> None:
    assert set(EFFECT_BY_KIND) == set(catalog.known_kinds())
    assert {*CHILD_EFFECTS, *TASK_CLOSING_KINDS, *LEFT_SCOPES_BY_KIND, *EFFECT_DECIDERS, *PARENT_KINDS} <= set(EFFECT_BY_KIND)


@pytest.mark.parametrize("kind", EFFECT_BY_KIND)
def test_the_rule_of_each_kind_is_documented_as_it_is(kind: str) -> None:
    agent, child, closes, remark = RULES[kind]
    with_child = CHILD_EFFECTS.get(kind)
    assert agent == EFFECT_BY_KIND[kind]
    assert child == ("–" if with_child is None else with_child[1])
    assert closes == ("✓" if kind in TASK_CLOSING_KINDS else "")
    assert remark or kind not in EFFECT_DECIDERS, "an exception to the rule is explained"
    if with_child is not None and with_child[0] != agent:
        assert f"*{with_child[0]}* where it names a child" in remark


def test_a_shell_command_of_the_person_gives_the_agent_nothing_to_do() -> None:
    assert find_standing_effect(Event(kind="prompt.submitted", agent="ada", text="!git status")) == "alive"
    assert find_standing_effect(Event(kind="prompt.submitted", agent="ada", text="go on")) == "working"


def test_every_state_of_a_town_is_documented() -> None:
    documented = {name.strip(" `"): row[1] for row in ROWS if len(row) == 2 for name in row[0].split(",")}
    assert documented == EFFECT_BY_STATE


def test_the_five_states_are_documented_in_their_order() -> None:
    described = [line for line in DOCS.splitlines() if line.startswith("| ") and line[2] in "▲●○◌■"]
    assert [line[4:].partition(" |")[0] for line in described] == list(AGENT_STANDINGS)


@pytest.mark.parametrize("kind", EFFECT_BY_KIND)
def test_what_a_kind_says_is_what_an_agent_at_rest_becomes(kind: str) -> None:
    recorded = given(fleet, Event(kind="fleet.idle", agent="ada", text="rests"), Event(kind=kind, agent="ada"))
    becomes = {"alive": "idle", "answered": "idle", "nothing": "idle"}.get(EFFECT_BY_KIND[kind], EFFECT_BY_KIND[kind])
    recorded.then(lambda state: state.agents["ada"].standing == becomes)


@pytest.mark.parametrize(("kind", "effects"), CHILD_EFFECTS.items())
def test_a_child_is_mentioned_too(kind: str, effects: tuple[str, str]) -> None:
    recorded = given(fleet, Event(kind="fleet.idle", agent="ada"), Event(kind=kind, agent="ada", child="bo", task="t1"))
    agents = recorded.state.agents
    assert agents["ada"].standing == ("idle" if effects[0] == "alive" else effects[0])
    assert agents["bo"].standing == effects[1]
    assert agents["bo"].parent == ("ada" if kind in PARENT_KINDS else None)


OUTCOME = {"result": {"outcome": {"kind": "sleep"}}}


@pytest.mark.parametrize(
    ("event", "standing"),
    [
        (Event(kind="goal.waiting", data={"why": "review"}), "needs you"),
        (Event(kind="goal.waiting", data={"why": "rate limit", "until": "2026-01-01T10:00:00Z"}), "idle"),
        (Event(kind="goal.waiting", data={"why": "paused"}), "idle"),
        (Event(kind="town.agent_state_changed", new_state="Working"), "working"),
        (Event(kind="town.agent_state_changed", new_state="Stopped"), "ended"),
        (Event(kind="town.agent_state_changed", new_state="paused"), "idle"),
        (Event(kind="town.agent_state_changed", new_state="waiting"), "needs you"),
        (Event(kind="town.agent_state_changed", new_state="levitating"), "working"),
        (Event(kind="town.agent_resumed", new_state="Idle"), "idle"),
        (Event(kind="town.agent_resumed"), "working"),
        (Event(kind="town.agent_spawned", new_state="starting"), "working"),
        (Event(kind="driver.attempt_completed", data=OUTCOME), "idle"),
        (Event(kind="driver.attempt_completed", data={"result": {"outcome": {"kind": "escalate"}}}), "needs you"),
        (Event(kind="driver.attempt_completed", data={"result": ["strange"]}), "working"),
        (Event(kind="driver.replay_decision", data={"decision": {"kind": "escalate"}}), "needs you"),
        (Event(kind="driver.goal_completed", data={"outcome": {"outcome": {"kind": "escalate"}}}), "needs you"),
        (Event(kind="driver.goal_completed", data={"outcome": {"outcome": {"kind": "done"}}}), "ended"),
        (Event(kind="deploy.finished"), "working"),
        (Event(kind="fleet.heartbeat"), "working"),
        (Event(kind="work.updated"), None),
    ],
    ids=lambda value: value.kind if isinstance(value, Event) else str(value),
)
def test_an_event_may_say_more_than_its_kind(event: Event, standing: str | None) -> None:
    recorded = given(fleet, Event(kind=event.kind, agent="ada", data=event.data, new_state=event.new_state))
    assert recorded.state.agents["ada"].standing == standing
