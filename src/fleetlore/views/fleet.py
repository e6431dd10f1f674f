"""The fleet view: every agent, what it is doing, and which need a person. docs/status.md describes the rules.

Events may arrive out of order. For each field of an agent the newest event wins (`FleetAgent.marks`): a late event is counted
and sets fields that no newer event has set, but never overwrites newer values.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, field

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.views import approvals, session_status
from fleetlore.views.agent_status_rules import (
    AGENT_STANDINGS,
    CHILD_EFFECTS,
    LEFT_SCOPES_BY_KIND,
    PARENT_KINDS,
    TASK_CLOSING_KINDS,
    AgentStanding,
    StandingEffect,
    find_standing_effect,
    has_activity_text,
)
from fleetlore.views.approvals import Approval
from fleetlore.views.event_text import EPOCH, EventStamp, event_line, event_stamp
from fleetlore.views.session_status import SessionStatus, SessionView

VERSION = 9
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""

SILENT_AFTER = timedelta(minutes=10)
INACTIVE_AFTER = timedelta(days=1)
DROPPED_AFTER = timedelta(days=7)
MAX_AGENTS = 1500
"""With more agents, those that were not seen for `DROPPED_AFTER` before the newest are dropped: the state of a log with
155,000 sessions took 900 MB. Their sessions stay on record (`lore sessions`)."""
OTHER_BEAT = "other"
"""Counts events of unknown kinds."""

_SCOPE_FIELDS = ("task", "mission", "goal", "run")
_CHILD_SCOPE_FIELDS = ("task", "mission")
_HELD_SCOPE_FIELDS = ("goal", "run")
_HELP_ENDING_KINDS = frozenset(
    (
        "town.mission_state_changed",
        "town.mission_work_assigned",
        "town.mission_work_promoted",
        "town.mission_work_completed",
        "control.requested",
    )
)


class FleetAgent(Struct, kw_only=True):
    """One agent, as far as the log says."""

    name: str
    standing: Literal["needs you", "working", "idle", "ended"] | None = None
    """The status that was last reported; `standing_at` also knows \"silent\". `None` if other agents' events only mention it."""
    since: datetime | None = None
    """When it entered this status, on this task."""
    doing: str = ""
    """What it last did or was asked to do, in its own words. Untrusted text."""
    kind: str = ""
    """The kind of the event that `doing` comes from."""
    last_seen: datetime | None = None
    """Its last sign of life; being assigned work counts."""
    task: str | None = None
    mission: str | None = None
    goal: str | None = None
    run: str | None = None
    parent: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    """Events by beat."""
    last_id: str | None = None
    last_position: str | None = None
    last_at: datetime | None = None
    session: str | None = None
    """The run of its newest session, also after its end."""
    follows_session: bool = False
    """Whether the status comes from the session's status."""
    marks: dict[str, EventStamp] = field(default_factory=dict)
    """Field → stamp of the event that wrote it."""


class OpenHelpCall(Struct, kw_only=True):
    """A mission that asked for help without naming an agent."""

    text: str
    since: datetime


class FleetState(Struct, kw_only=True):
    """All agents of a town, and the number of events by beat. Serialises to JSON."""

    version: int = VERSION
    events: int = 0
    without_agent: int = 0
    """Events about no agent; only counted."""
    position: str | None = None
    trimmed_before: str | None = None
    """Events before this position were trimmed."""
    counts: dict[str, int] = field(default_factory=dict)
    agents: dict[str, FleetAgent] = field(default_factory=dict)
    asking: dict[str, OpenHelpCall] = field(default_factory=dict)
    """Mission → its open help request."""
    held: dict[str, list[str]] = field(default_factory=dict)
    """`goal:X` and `run:X` → agents that work on it, for events without an agent."""
    sessions: dict[str, SessionStatus] = field(default_factory=dict)
    """Run → the status of its session."""
    bound: dict[str, str] = field(default_factory=dict)
    """Run → agent of the goal that drives the session. Hooks report that session under another agent name; both are one agent."""
    approvals: dict[str, Approval] = field(default_factory=dict)
    """Id → an approval request that nothing has ended; its time may be up."""
    dropped: int = 0
    """How many agents were dropped."""
    drop_above: int = MAX_AGENTS
    """The number of agents at which the next ones are dropped."""


def initial() -> FleetState:
    """The state before the first event."""
    return FleetState()


def apply(fleet: FleetState, event: Event) -> FleetState:
    """Return the fleet after one more event; modifies the given one. Never raises."""
    beat = find_beat(event) or OTHER_BEAT
    fleet.events += 1
    fleet.position = event.position or fleet.position
    fleet.counts[beat] = fleet.counts.get(beat, 0) + 1
    stamp = event_stamp(event)
    kind = event.kind
    if kind == "agent.identified" and event.agent is not None and session_status.is_named_after(event.agent, (event.trace or "")[3:35]):
        _remove_provisional_agent(fleet, event.agent)
        return fleet
    if kind == "goal.session_bound":
        _bind_session(fleet, event)
    if kind in approvals.KINDS:
        approvals.apply(fleet.approvals, event)
    session = _follow_session(fleet, event) if event.run is not None and kind in session_status.KINDS else None
    affected = _find_affected_agents(fleet, event)
    for name, effect, is_child in affected:
        agent = fleet.agents.get(name)
        if agent is None:
            agent = fleet.agents[name] = FleetAgent(name=name)
        if not is_child or name != event.agent:
            agent.counts[beat] = agent.counts.get(beat, 0) + 1
        is_own = session is not None and event.agent is not None and not is_child and not session_status.find_helper(session, event)
        own = session if is_own else None
        _update_agent(fleet, agent, event, stamp, effect, is_child, own)
    if not affected:
        fleet.without_agent += 1
    if not affected or kind in _HELP_ENDING_KINDS:
        _update_fleet(fleet, event, stamp)
    if len(fleet.agents) > fleet.drop_above:
        _drop_old_agents(fleet)
    return fleet


def _drop_old_agents(fleet: FleetState) -> None:
    """Drop agents that were not seen for long, with their sessions. Those that asked for a person outside a session stay."""
    seen = sorted(agent.last_seen or EPOCH for agent in fleet.agents.values())
    limit = seen[len(seen) * 19 // 20] - DROPPED_AFTER  # not the newest: its clock may be wrong
    old = [
        agent
        for agent in fleet.agents.values()
        if (agent.last_seen or EPOCH) < limit and (agent.follows_session or agent.standing != "needs you")
    ]
    for agent in old:
        del fleet.agents[agent.name]
        for name in _HELD_SCOPE_FIELDS:
            if (value := getattr(agent, name)) is not None:
                _remove_holder(fleet.held, f"{name}:{value}", agent.name)
    for run in [run for run, session in fleet.sessions.items() if (session.last or EPOCH) < limit]:
        del fleet.sessions[run]
        fleet.bound.pop(run, None)
    fleet.dropped += len(old)
    fleet.drop_above = max(MAX_AGENTS, len(fleet.agents) * 5 // 4)


def standing_at(
    agent: FleetAgent, *, now: datetime, silent_after: timedelta = SILENT_AFTER, session: SessionStatus | None = None
) -> AgentStanding:
    """An agent's status at a time: a working agent without a sign of life for too long is silent.

    `session` is the status of its session (`find_session`): if the session's events decided last, it is that one.
    """
    if agent.standing is None:
        return "idle"
    standing: AgentStanding = agent.standing
    if session is not None and agent.follows_session:
        standing = _standing_of_session(session, now)
        if standing == "working" and session_status.has_open_helpers(session) and session.turn == "ended":
            return standing
    # A sign of life from the future comes from a wrong clock: it does not say that the agent works now.
    if standing == "working" and agent.last_seen is not None and abs(now - agent.last_seen) > silent_after:
        return "silent"
    return standing


def _standing_of_session(session: SessionStatus, now: datetime) -> AgentStanding:
    if session.closed_at is not None:
        return "ended"
    view = session_status.decide_status(session, now)
    if view.waiting_for == "permission" or (view.waiting_for == "person" and now - (session.last or now) < INACTIVE_AFTER):
        return "needs you"
    if session.turn == "none" and session.observed != "busy":
        return "idle"
    if view.status == "running":
        return "working"
    return "silent" if view.status == "interrupted" and session.turn != "interrupted" else "idle"


def find_session(fleet: FleetState, agent: FleetAgent) -> SessionStatus | None:
    """The status of an agent's newest session; `None` for agents without one, and for helpers."""
    session = fleet.sessions.get(agent.session) if agent.session is not None else None
    return session if session is not None and agent.name in (session.agent, fleet.bound.get(agent.session or "")) else None


def view_session(fleet: FleetState, agent: FleetAgent, now: datetime) -> SessionView | None:
    """The status of an agent's newest session at a time; the same as in the session's outcome record."""
    session = find_session(fleet, agent)
    return None if session is None else session_status.decide_status(session, now)


def describe_activity(agent: FleetAgent, session: SessionView | None) -> str:
    """What an agent waits for, else what it does."""
    if session is not None and session.waiting_for == "person" and session.question:
        return session.question
    if session is not None and session.waiting_for == "helpers":
        return "waiting for helpers"
    return f"in a loop: {agent.doing}" if session is not None and session.is_looping else agent.doing


def sort_by_standing(fleet: FleetState, *, now: datetime, silent_after: timedelta = SILENT_AFTER) -> list[tuple[AgentStanding, FleetAgent]]:
    """All agents in display order: by status, those that need a person first, then by the last sign of life."""
    standings = [
        (standing_at(agent, now=now, silent_after=silent_after, session=find_session(fleet, agent)), agent)
        for agent in fleet.agents.values()
    ]
    standings.sort(key=lambda pair: pair[1].name)
    # Who is ahead of our clock comes last, so that it does not hide what happens today.
    standings.sort(key=lambda pair: EPOCH if is_clock_ahead(pair[1], now) else pair[1].last_seen or EPOCH, reverse=True)
    standings.sort(key=lambda pair: AGENT_STANDINGS.index(pair[0]))
    return standings


def is_clock_ahead(agent: FleetAgent, now: datetime) -> bool:
    """Whether an agent's newest event is from the future: the clock of its machine is wrong."""
    return agent.last_seen is not None and agent.last_seen - now > session_status.CLOCK_SKEW


def is_inactive(agent: FleetAgent, standing: AgentStanding, now: datetime) -> bool:
    """Whether an agent was silent for so long that boards hide it; one that needs a person is always shown."""
    return standing not in ("needs you", "working") and now - (agent.last_seen or EPOCH) >= INACTIVE_AFTER


def _follow_session(fleet: FleetState, event: Event) -> SessionStatus:
    """The session that an event belongs to, after the event."""
    run = event.run or ""
    session = fleet.sessions.get(run)
    if session is None:
        session = fleet.sessions[run] = SessionStatus()
    session_status.apply(session, event)
    return session


def _bind_session(fleet: FleetState, event: Event) -> None:
    """Record that a goal's agent drives this session, and merge the counts of the session's own agent into it; both are the same agent."""
    run = event.data.get("session")
    if not isinstance(run, str) or event.agent is None:
        return
    fleet.bound[run] = event.agent
    session = fleet.sessions.get(run)
    same = fleet.agents.get(session.agent) if session is not None and session.agent != event.agent else None
    if same is None:
        return
    del fleet.agents[same.name]
    for name in _HELD_SCOPE_FIELDS:
        if (value := getattr(same, name)) is not None:
            _remove_holder(fleet.held, f"{name}:{value}", same.name)
    agent = fleet.agents.setdefault(event.agent, FleetAgent(name=event.agent))
    for beat, count in same.counts.items():
        agent.counts[beat] = agent.counts.get(beat, 0) + count


def _remove_provisional_agent(fleet: FleetState, name: str) -> None:
    """What it did is stored under the names of the real agents. Its name holds the trace: no other agent can be removed by it."""
    agent = fleet.agents.pop(name, None)
    for scope in _HELD_SCOPE_FIELDS if agent is not None else ():
        if (value := getattr(agent, scope)) is not None:
            _remove_holder(fleet.held, f"{scope}:{value}", name)


def _resolve_name(fleet: FleetState, event: Event, name: str) -> str:
    """The agent that `name` stands for: the goal's agent if a goal drives the session, otherwise `name`. Helpers keep their own names."""
    if event.run is None or event.run not in fleet.bound:
        return name
    session = fleet.sessions.get(event.run)
    is_own = session is None or session.agent in ("", name) or session_status.is_named_after(name, event.run)
    return fleet.bound[event.run] if is_own else name


def _find_affected_agents(fleet: FleetState, event: Event) -> list[tuple[str, StandingEffect, bool]]:
    """The agents that an event is about, the effect on each, and whether it is the event's child."""
    effects = CHILD_EFFECTS.get(event.kind) if event.child is not None else None
    if effects is not None and event.kind == "town.reviewer_handoff" and event.actor != event.agent:
        effects = ("nothing", effects[1])  # handed over by somebody else: the agent may be working on something else by now
    affected: list[tuple[str, StandingEffect, bool]] = []
    if event.agent is not None:
        affected.append((_resolve_name(fleet, event, event.agent), find_standing_effect(event) if effects is None else effects[0], False))
    elif event.goal is not None:
        affected += [(name, find_standing_effect(event), False) for name in fleet.held.get(f"goal:{event.goal}", ())]
    elif event.run is not None and event.kind.startswith(("run.", "session.")):
        affected += [(name, find_standing_effect(event), False) for name in fleet.held.get(f"run:{event.run}", ())]
    if effects is not None and event.child is not None:
        affected.append((event.child, effects[1], True))
    return affected


def _update_agent(
    fleet: FleetState,
    agent: FleetAgent,
    event: Event,
    stamp: EventStamp,
    effect: StandingEffect,
    is_child: bool,
    session: SessionStatus | None,
) -> None:
    """Update an agent from an event about it. `session` is given only for events of the agent's own session."""
    if effect == "answered":
        effect = "working" if agent.standing == "needs you" else "nothing"
    _update_lineage(agent, event, stamp, is_child)
    if effect == "nothing":
        return
    if agent.last_seen is None or stamp[0] > agent.last_seen:
        agent.last_seen = stamp[0]
    if effect == "alive":
        if agent.standing is None:
            agent.standing, agent.since = "working", stamp[0]
        return
    if _closes_other_task(agent, event):
        return
    is_free = event.goal is None and event.run not in fleet.bound  # of a goal, its own events decide
    if session is not None and is_free:
        found = _standing_of_session(session, session.last or stamp[0])
        effect = "working" if found == "silent" else found
    if _set_standing(agent, effect, stamp):
        agent.follows_session = session is not None and is_free
        agent.session = event.run if session is not None else agent.session
    _update_scopes(fleet, agent, event, stamp, is_child)
    _update_activity(agent, event, stamp)


def _update_lineage(agent: FleetAgent, event: Event, stamp: EventStamp, is_child: bool) -> None:
    """The agent's newest event and its parent."""
    if _claim_field(agent, "last", stamp):
        agent.last_id, agent.last_position, agent.last_at = event.id, event.position, stamp[0]
    parent = event.agent if is_child and event.kind in PARENT_KINDS else None if is_child else event.parent
    if parent is not None and _claim_field(agent, "parent", stamp):
        agent.parent = parent


def _closes_other_task(agent: FleetAgent, event: Event) -> bool:
    """Whether this closes another task than the agent's current one."""
    return (
        event.kind in TASK_CLOSING_KINDS
        and agent.standing == "working"
        and None not in (event.task, agent.task)
        and event.task != agent.task
    )


def _set_standing(agent: FleetAgent, effect: Literal["needs you", "working", "idle", "ended"], stamp: EventStamp) -> bool:
    """Whether no newer event has set it."""
    if not _claim_field(agent, "standing", stamp):
        return False
    if agent.standing != effect:
        agent.standing, agent.since = effect, stamp[0]
    return True


def _update_scopes(fleet: FleetState, agent: FleetAgent, event: Event, stamp: EventStamp, is_child: bool) -> None:
    """Set the scopes that the event names and clear those that it closes."""
    left = LEFT_SCOPES_BY_KIND.get(event.kind, ())
    if event.kind in TASK_CLOSING_KINDS and not is_child:
        left = (*left, "task")
    for name in _CHILD_SCOPE_FIELDS if is_child and not left else _SCOPE_FIELDS:
        value = getattr(event, name)
        if name in left:
            value = None
        elif value is None:
            continue
        if _claim_field(agent, name, stamp) and getattr(agent, name) != value:
            _set_scope(fleet, agent, name, value, stamp)


def _set_scope(fleet: FleetState, agent: FleetAgent, name: str, value: str | None, stamp: EventStamp) -> None:
    old = getattr(agent, name)
    setattr(agent, name, value)
    if name == "task" and agent.marks.get("standing") == stamp:
        agent.since = stamp[0]
    if name in _HELD_SCOPE_FIELDS:
        if old is not None:
            _remove_holder(fleet.held, f"{name}:{old}", agent.name)
        if value is not None:
            fleet.held.setdefault(f"{name}:{value}", []).append(agent.name)


def _remove_holder(held: dict[str, list[str]], scope: str, name: str) -> None:
    names = held.get(scope, [])
    if name in names:
        names.remove(name)
    if not names:
        held.pop(scope, None)


def _update_activity(agent: FleetAgent, event: Event, stamp: EventStamp) -> None:
    line = event_line(event) if can_see(event, PUBLIC) and has_activity_text(event) else None
    if line and _claim_field(agent, "doing", stamp):
        agent.doing, agent.kind = line, event.kind


def _claim_field(agent: FleetAgent, name: str, stamp: EventStamp) -> bool:
    """Whether no newer event wrote this field; if so, mark it as written by this one."""
    mark = agent.marks.get(name)
    if mark is not None and stamp < mark:
        return False
    agent.marks[name] = stamp
    return True


def _update_fleet(fleet: FleetState, event: Event, stamp: EventStamp) -> None:
    """Update what is not about an agent: where the log begins, and which missions ask for help."""
    is_own = event.origin is None or event.origin.log is None  # a log that was shipped here reports its own trimming too
    if event.kind == "log.trimmed" and is_own and isinstance(before := event.data.get("before"), str):
        fleet.trimmed_before = before
    if event.mission is None:
        return
    open_since = fleet.asking[event.mission].since if event.mission in fleet.asking else EPOCH
    if event.kind == "town.mission_help_needed" and stamp[0] >= open_since:
        fleet.asking[event.mission] = OpenHelpCall(text=event_line(event) or "", since=stamp[0])
    elif event.kind in _HELP_ENDING_KINDS and stamp[0] >= open_since:
        fleet.asking.pop(event.mission, None)
