"""The agents of a town: who they are, who runs them, and what they were asked to do."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views.town_payloads import MAX_TITLE_CHARS, get_names, get_text
from fleetlore.views.town_rules import AGENT_STEPS, find_agent_refusal
from fleetlore.views.town_state import Agent, AgentState, TownState

AGENTS_KEPT = 20_000
INACTIVE_STATES: frozenset[AgentState] = frozenset(("cold", "stopped", "error"))
"""States in which nobody runs an agent."""
RUNNING_STATES: frozenset[AgentState] = frozenset(AGENT_STEPS) - INACTIVE_STATES
_STATE_BY_NAME: dict[str, AgentState] = {state: state for state in AGENT_STEPS}
CONTROL_STATES: dict[str, frozenset[AgentState]] = {
    "interrupt": RUNNING_STATES - {"paused", "draining"},
    "resume": frozenset(("paused",)),
    "drain": RUNNING_STATES - {"draining"},
    "kill": RUNNING_STATES,
    "restart": RUNNING_STATES,
}
"""What an agent may be asked while somebody runs it, and in which states."""
_FULFILLED_STATES: dict[str, frozenset[AgentState]] = {
    "interrupt": INACTIVE_STATES | {"paused"},
    "resume": INACTIVE_STATES | {"idle", "working"},
    "drain": INACTIVE_STATES | {"draining"},
    "kill": INACTIVE_STATES,
    "restart": INACTIVE_STATES,
}
"""Where an agent has done what it was asked. Whatever else it tells of itself it may have written before it heard of the wish."""


def on_agent_spawned(town: TownState, event: Event) -> None:
    """An agent joined, or one that had stopped was wanted again."""
    name = event.child or event.agent
    if name is None:
        return
    agent = town.agents.get(name)
    if agent is not None and agent.state not in INACTIVE_STATES:
        town.refused += 1
        return
    if agent is None:
        agent = _add_agent(town, name)
        agent.at = event.at
    data = event.data
    agent.roles = get_names(data, "roles", "role") or agent.roles
    agent.harness = get_text(data, "harness", 100) or agent.harness
    agent.type = get_text(data, "type", 40) or agent.type
    agent.spawn_mode = get_text(data, "spawn_mode", 40) or agent.spawn_mode
    agent.parent = event.parent or agent.parent
    agent.seen_at = event.at
    _set_agent_state(town, agent, "cold", event)


def on_agent_state(town: TownState, event: Event) -> None:
    """An agent passed from one state to another, or was said to."""
    to = _STATE_BY_KIND.get(event.kind) or _parse_agent_state(event.new_state)
    if event.agent is None or to is None:
        return
    agent = town.agents.get(event.agent)
    if agent is None:
        agent = _add_agent(town, event.agent)
        agent.at, agent.state = event.at, "cold" if to == "starting" else to
    if _is_transition_refused(agent, to, event):
        town.refused += 1
        return
    agent.seen_at = event.at
    agent.reason = get_text(event.data, "reason", MAX_TITLE_CHARS) or get_text(event.data, "error", MAX_TITLE_CHARS)
    if to in _FULFILLED_STATES.get(agent.wish, ()):
        agent.wish = ""
    _set_agent_state(town, agent, to, event)


def on_agent_completed(town: TownState, event: Event) -> None:
    """An agent has done what it was there for; it stops by a fact of its own."""
    agent = town.agents.get(event.agent or "")
    if agent is not None:
        agent.seen_at = event.at


def on_agent_control(town: TownState, name: str, action: str) -> None:
    """Somebody wants something of an agent."""
    agent = town.agents.get(name)
    if agent is not None and agent.state in CONTROL_STATES.get(action, ()):
        agent.wish = action
        update_idle_agents(town, agent)


def update_last_seen(town: TownState, event: Event) -> None:
    """A sign of life of an agent: whatever it does or is told to have done by whoever runs it."""
    agent = town.agents.get(event.agent or "")
    if agent is not None and event.actor == agent.name and event.at is not None and (agent.seen_at is None or event.at > agent.seen_at):
        agent.seen_at = event.at


def update_idle_agents(town: TownState, agent: Agent) -> None:
    """Have it among those with nothing to do, or not."""
    is_free = agent.state == "idle" and bool(agent.lease) and agent.task is None and not agent.queue and not agent.wish
    for role in agent.roles or [""]:
        free = town.idle.get(role)
        if is_free:
            town.idle.setdefault(role, {}).setdefault(agent.name)
        elif free is not None and agent.name in free:
            del free[agent.name]
            if not free:
                del town.idle[role]


def _add_agent(town: TownState, name: str) -> Agent:
    if len(town.agents) >= AGENTS_KEPT:
        gone = next((each for each, agent in town.agents.items() if agent.state in INACTIVE_STATES), next(iter(town.agents)))
        _release_lease(town, town.agents[gone])
        update_idle_agents(town, town.agents.pop(gone))
    agent = town.agents[name] = Agent(name=name)
    return agent


def _is_transition_refused(agent: Agent, to: AgentState, event: Event) -> bool:
    """Only who runs it tells how it is, and only what can be; a dispatcher tells that nobody runs it any more."""
    lease = get_text(event.data, "lease", MAX_TITLE_CHARS)
    if agent.lease and lease and lease != agent.lease:
        return True
    if to == "starting":
        return agent.state != "cold"
    return to != agent.state and find_agent_refusal(agent.state, to) is not None


def _set_agent_state(town: TownState, agent: Agent, to: AgentState, event: Event) -> None:
    agent.state = to
    if to in INACTIVE_STATES:
        _release_lease(town, agent)
    elif to == "starting":
        agent.lease = get_text(event.data, "lease", MAX_TITLE_CHARS)
        if agent.lease:
            town.holdings.setdefault(agent.lease, {})[agent.name] = None
    update_idle_agents(town, agent)


def _release_lease(town: TownState, agent: Agent) -> None:
    held = town.holdings.get(agent.lease)
    if held is not None:
        held.pop(agent.name, None)
        if not held:
            del town.holdings[agent.lease]
    agent.lease = ""


def _parse_agent_state(text: str | None) -> AgentState | None:
    """A state as tinytown writes it, too."""
    return _STATE_BY_NAME.get((text or "").lower())


_STATE_BY_KIND: dict[str, AgentState] = {"town.agent_interrupted": "paused"}
