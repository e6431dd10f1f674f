"""Agents in the town view: their state, the worker that runs them, and pending control requests."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views.town_payloads import MAX_TITLE_CHARS, get_names, get_text
from fleetlore.views.town_rules import AGENT_STEPS, find_agent_refusal
from fleetlore.views.town_state import Agent, AgentState, TownState

AGENTS_KEPT = 20_000
INACTIVE_STATES: frozenset[AgentState] = frozenset(("cold", "stopped", "error"))
"""States in which no worker runs the agent."""
RUNNING_STATES: frozenset[AgentState] = frozenset(AGENT_STEPS) - INACTIVE_STATES
_STATE_BY_NAME: dict[str, AgentState] = {state: state for state in AGENT_STEPS}
CONTROL_STATES: dict[str, frozenset[AgentState]] = {
    "interrupt": RUNNING_STATES - {"paused", "draining"},
    "resume": frozenset(("paused",)),
    "drain": RUNNING_STATES - {"draining"},
    "kill": RUNNING_STATES,
    "restart": RUNNING_STATES,
}
"""Control request → states in which a running agent accepts it."""
_FULFILLED_STATES: dict[str, frozenset[AgentState]] = {
    "interrupt": INACTIVE_STATES | {"paused"},
    "resume": INACTIVE_STATES | {"idle", "working"},
    "drain": INACTIVE_STATES | {"draining"},
    "kill": INACTIVE_STATES,
    "restart": INACTIVE_STATES,
}
"""Control request → states that fulfil it. Other state changes may have been written before the agent read the request."""


def on_agent_spawned(town: TownState, event: Event) -> None:
    """An agent joined, or a stopped one was spawned again."""
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
    agent.session = get_text(data, "session", 200) or agent.session
    agent.parent = event.parent or agent.parent
    agent.seen_at = event.at
    _set_agent_state(town, agent, "cold", event)


def on_agent_state(town: TownState, event: Event) -> None:
    """An agent's state changed."""
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
    """A drained agent finished its work; the stop is a separate event."""
    agent = town.agents.get(event.agent or "")
    if agent is not None:
        agent.seen_at = event.at


def on_agent_control(town: TownState, name: str, action: str) -> None:
    """Somebody requested a control action."""
    agent = town.agents.get(name)
    if agent is not None and agent.state in CONTROL_STATES.get(action, ()):
        agent.wish = action
        update_idle_agents(town, agent)


def update_last_seen(town: TownState, event: Event) -> None:
    """Remember the time of an agent's own event as its last sign of life."""
    agent = town.agents.get(event.agent or "")
    if agent is not None and event.actor == agent.name and event.at is not None and (agent.seen_at is None or event.at > agent.seen_at):
        agent.seen_at = event.at


def update_idle_agents(town: TownState, agent: Agent) -> None:
    """Add the agent to the idle ones, or remove it, depending on its state."""
    is_idle = agent.state == "idle" and bool(agent.lease) and agent.task is None and not agent.queue and not agent.wish
    for role in agent.roles or [""]:
        idle = town.idle.get(role)
        if is_idle:
            town.idle.setdefault(role, {}).setdefault(agent.name)
        elif idle is not None and agent.name in idle:
            del idle[agent.name]
            if not idle:
                del town.idle[role]


def _add_agent(town: TownState, name: str) -> Agent:
    if len(town.agents) >= AGENTS_KEPT:
        evicted = next((each for each, agent in town.agents.items() if agent.state in INACTIVE_STATES), next(iter(town.agents)))
        _release_lease(town, town.agents[evicted])
        update_idle_agents(town, town.agents.pop(evicted))
    agent = town.agents[name] = Agent(name=name)
    return agent


def _is_transition_refused(agent: Agent, to: AgentState, event: Event) -> bool:
    """Only the worker that holds the agent reports its state, and only possible transitions count."""
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
    agents = town.holdings.get(agent.lease)
    if agents is not None:
        agents.pop(agent.name, None)
        if not agents:
            del town.holdings[agent.lease]
    agent.lease = ""


def _parse_agent_state(text: str | None) -> AgentState | None:
    """Also accepts tinytown's spelling."""
    return _STATE_BY_NAME.get((text or "").lower())


_STATE_BY_KIND: dict[str, AgentState] = {"town.agent_interrupted": "paused"}
