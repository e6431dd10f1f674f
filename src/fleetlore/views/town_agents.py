"""The agents of a town: who they are, who runs them, and what they were asked to do."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views.town_payloads import LONGEST_TITLE, names_in, words_in
from fleetlore.views.town_rules import AGENT_STEPS, agent_refusal
from fleetlore.views.town_state import Agent, AgentState, Town

AGENTS_KEPT = 20_000
GONE: frozenset[AgentState] = frozenset(("cold", "stopped", "error"))
"""States in which nobody runs an agent."""
RUN: frozenset[AgentState] = frozenset(AGENT_STEPS) - GONE
_NAMED: dict[str, AgentState] = {state: state for state in AGENT_STEPS}
HEEDED: dict[str, frozenset[AgentState]] = {
    "interrupt": RUN - {"paused", "draining"},
    "resume": frozenset(("paused",)),
    "drain": RUN - {"draining"},
    "kill": RUN,
    "restart": RUN,
}
"""What an agent may be asked while somebody runs it, and in which states."""
_FULFILLED: dict[str, frozenset[AgentState]] = {
    "interrupt": GONE | {"paused"},
    "resume": GONE | {"idle", "working"},
    "drain": GONE | {"draining"},
    "kill": GONE,
    "restart": GONE,
}
"""Where an agent has done what it was asked. Whatever else it tells of itself it may have written before it heard of the wish."""


def spawned(town: Town, event: Event) -> None:
    """An agent joined, or one that had stopped was wanted again."""
    name = event.child or event.agent
    if name is None:
        return
    agent = town.agents.get(name)
    if agent is not None and agent.state not in GONE:
        town.refused += 1
        return
    if agent is None:
        agent = _known(town, name)
        agent.at = event.at
    data = event.data
    agent.roles = names_in(data, "roles", "role") or agent.roles
    agent.harness = words_in(data, "harness", 100) or agent.harness
    agent.type = words_in(data, "type", 40) or agent.type
    agent.spawn_mode = words_in(data, "spawn_mode", 40) or agent.spawn_mode
    agent.parent = event.parent or agent.parent
    agent.seen_at = event.at
    _pass(town, agent, "cold", event)


def moved(town: Town, event: Event) -> None:
    """An agent passed from one state to another, or was said to."""
    to = _STATE_OF.get(event.kind) or _state(event.new_state)
    if event.agent is None or to is None:
        return
    agent = town.agents.get(event.agent)
    if agent is None:
        agent = _known(town, event.agent)
        agent.at, agent.state = event.at, "cold" if to == "starting" else to
    if _is_refused(agent, to, event):
        town.refused += 1
        return
    agent.seen_at = event.at
    agent.reason = words_in(event.data, "reason", LONGEST_TITLE) or words_in(event.data, "error", LONGEST_TITLE)
    if to in _FULFILLED.get(agent.wish, ()):
        agent.wish = ""
    _pass(town, agent, to, event)


def completed(town: Town, event: Event) -> None:
    """An agent has done what it was there for; it stops by a fact of its own."""
    agent = town.agents.get(event.agent or "")
    if agent is not None:
        agent.seen_at = event.at


def asked(town: Town, name: str, action: str) -> None:
    """Somebody wants something of an agent."""
    agent = town.agents.get(name)
    if agent is not None and agent.state in HEEDED.get(action, ()):
        agent.wish = action
        settle(town, agent)


def heard(town: Town, event: Event) -> None:
    """A sign of life of an agent: whatever it does or is told to have done by whoever runs it."""
    agent = town.agents.get(event.agent or "")
    if agent is not None and event.actor == agent.name and event.at is not None and (agent.seen_at is None or event.at > agent.seen_at):
        agent.seen_at = event.at


def settle(town: Town, agent: Agent) -> None:
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


def _known(town: Town, name: str) -> Agent:
    if len(town.agents) >= AGENTS_KEPT:
        gone = next((each for each, agent in town.agents.items() if agent.state in GONE), next(iter(town.agents)))
        _unhold(town, town.agents[gone])
        settle(town, town.agents.pop(gone))
    agent = town.agents[name] = Agent(name=name)
    return agent


def _is_refused(agent: Agent, to: AgentState, event: Event) -> bool:
    """Only who runs it tells how it is, and only what can be; a dispatcher tells that nobody runs it any more."""
    lease = words_in(event.data, "lease", LONGEST_TITLE)
    if agent.lease and lease and lease != agent.lease:
        return True
    if to == "starting":
        return agent.state != "cold"
    return to != agent.state and agent_refusal(agent.state, to) is not None


def _pass(town: Town, agent: Agent, to: AgentState, event: Event) -> None:
    agent.state = to
    if to in GONE:
        _unhold(town, agent)
    elif to == "starting":
        agent.lease = words_in(event.data, "lease", LONGEST_TITLE)
        if agent.lease:
            town.holdings.setdefault(agent.lease, {})[agent.name] = None
    settle(town, agent)


def _unhold(town: Town, agent: Agent) -> None:
    held = town.holdings.get(agent.lease)
    if held is not None:
        held.pop(agent.name, None)
        if not held:
            del town.holdings[agent.lease]
    agent.lease = ""


def _state(text: str | None) -> AgentState | None:
    """A state as tinytown writes it, too."""
    return _NAMED.get((text or "").lower())


_STATE_OF: dict[str, AgentState] = {"town.agent_interrupted": "paused"}
