"""The fleet: every agent, what it is doing, and who needs a person. docs/status.md tells the rules.

Every fact about an agent is a register that keeps the newest writer: an event that arrives late
adds to the counts and fills in what nobody newer has said, and never turns anything back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, field

from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.views.agent_status_rules import BEGETS, CLOSES, ENDS, STANDINGS, WITH_CHILD, Effect, Standing, effect_of, says_what
from fleetlore.views.event_text import EPOCH, Stamp, line_of, stamp_of

VERSION = 3
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

SILENT_AFTER = timedelta(minutes=10)
AT_REST_AFTER = timedelta(days=1)
OTHER = "other"
"""Where events of unknown kinds are counted."""

_SCOPES = ("task", "mission", "goal", "run")
_OF_A_CHILD = ("task", "mission")
_HELD = ("goal", "run")
_HELP_ENDS = frozenset(
    (
        "town.mission_state_changed",
        "town.mission_work_assigned",
        "town.mission_work_promoted",
        "town.mission_work_completed",
        "control.requested",
    )
)


class Agent(Struct, kw_only=True):
    """One agent, as far as the log tells."""

    name: str
    standing: Literal["needs you", "working", "idle", "ended"] | None = None
    """What was last said of it; `standing()` adds silence. `None`: it was only named."""
    since: datetime | None = None
    """When it came to this standing, on this task."""
    doing: str = ""
    """What it last did or was given to do, in its own words: hostile."""
    kind: str = ""
    """The kind of the event that `doing` comes from."""
    last_seen: datetime | None = None
    """Its last sign of life; to be given work counts as one."""
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
    marks: dict[str, Stamp] = field(default_factory=dict)
    """Field → stamp of the event that wrote it."""


class Ask(Struct, kw_only=True):
    """A mission that asked for help and named no agent."""

    text: str
    since: datetime


class Fleet(Struct, kw_only=True):
    """All agents of a town, and how many events of each beat there were. Encodes to JSON and back."""

    version: int = VERSION
    events: int = 0
    without_agent: int = 0
    """Events that were about no agent: they are only counted."""
    position: str | None = None
    trimmed_before: str | None = None
    """What lay before this position was trimmed away, and is not known here."""
    counts: dict[str, int] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    asking: dict[str, Ask] = field(default_factory=dict)
    """Mission → its open call for help."""
    held: dict[str, list[str]] = field(default_factory=dict)
    """`goal:X` and `run:X` → the agents that are on it, for events that name no agent."""


def initial() -> Fleet:
    """A fleet of nobody."""
    return Fleet()


def apply(fleet: Fleet, event: Event) -> Fleet:
    """The fleet after one more event. Never raises. Consumes the fleet: go on with the one that is returned."""
    beat = beat_of(event) or OTHER
    fleet.events += 1
    fleet.position = event.position or fleet.position
    fleet.counts[beat] = fleet.counts.get(beat, 0) + 1
    stamp = stamp_of(event)
    about = list(_about(fleet, event))
    for name, effect, is_child in about:
        agent = fleet.agents.get(name)
        if agent is None:
            agent = fleet.agents[name] = Agent(name=name)
        if not is_child or name != event.agent:
            agent.counts[beat] = agent.counts.get(beat, 0) + 1
        _touch(fleet, agent, event, stamp, effect, is_child)
    if not about:
        fleet.without_agent += 1
    if not about or event.kind in _HELP_ENDS:
        _note(fleet, event, stamp)
    return fleet


def standing(agent: Agent, *, now: datetime, silent_after: timedelta = SILENT_AFTER) -> Standing:
    """How an agent stands at a moment: one that works and gave no sign of life for too long is silent."""
    if agent.standing is None:
        return "idle"
    if agent.standing == "working" and agent.last_seen is not None and now - agent.last_seen > silent_after:
        return "silent"
    return agent.standing


def in_order(fleet: Fleet, *, now: datetime, silent_after: timedelta = SILENT_AFTER) -> list[tuple[Standing, Agent]]:
    """All agents as people want to see them: by standing, who needs you first, then the last sign of life, newest first."""
    standings = [(standing(agent, now=now, silent_after=silent_after), agent) for agent in fleet.agents.values()]
    standings.sort(key=lambda pair: pair[1].name)
    standings.sort(key=lambda pair: pair[1].last_seen or EPOCH, reverse=True)
    standings.sort(key=lambda pair: STANDINGS.index(pair[0]))
    return standings


def is_at_rest(agent: Agent, standing: Standing, now: datetime) -> bool:
    """Whether an agent gave no sign of life for so long that a board need not show it; one that needs a person is always shown."""
    return standing not in ("needs you", "working") and now - (agent.last_seen or EPOCH) >= AT_REST_AFTER


def _about(fleet: Fleet, event: Event) -> Iterator[tuple[str, Effect, bool]]:
    """Whom an event is about, and what it does to each; the last says whether it is the event's child."""
    both = WITH_CHILD.get(event.kind) if event.child is not None else None
    if both is not None and event.kind == "town.reviewer_handoff" and event.actor != event.agent:
        both = ("nothing", both[1])  # somebody else handed it over: whose work it was may be at something else by now
    if event.agent is not None:
        yield event.agent, (effect_of(event) if both is None else both[0]), False
    elif event.goal is not None:
        yield from ((name, effect_of(event), False) for name in tuple(fleet.held.get(f"goal:{event.goal}", ())))
    elif event.run is not None and event.kind.startswith(("run.", "session.")):
        yield from ((name, effect_of(event), False) for name in tuple(fleet.held.get(f"run:{event.run}", ())))
    if both is not None and event.child is not None:
        yield event.child, both[1], True


def _touch(fleet: Fleet, agent: Agent, event: Event, stamp: Stamp, effect: Effect, is_child: bool) -> None:
    if effect == "answered":
        effect = "working" if agent.standing == "needs you" else "nothing"
    if _wins(agent, "last", stamp):
        agent.last_id, agent.last_position, agent.last_at = event.id, event.position, stamp[0]
    above = event.agent if is_child and event.kind in BEGETS else None if is_child else event.parent
    if above is not None and _wins(agent, "parent", stamp):
        agent.parent = above
    if effect == "nothing":
        return
    if agent.last_seen is None or stamp[0] > agent.last_seen:
        agent.last_seen = stamp[0]
    if effect == "alive":
        if agent.standing is None:
            agent.standing, agent.since = "working", stamp[0]
        return
    if _is_aside(agent, event):
        return
    _stand(agent, effect, stamp)
    _place(fleet, agent, event, stamp, is_child)
    _describe(agent, event, stamp)


def _is_aside(agent: Agent, event: Event) -> bool:
    """Whether this closes another task than the one that the agent is at."""
    return event.kind in CLOSES and agent.standing == "working" and None not in (event.task, agent.task) and event.task != agent.task


def _stand(agent: Agent, effect: Literal["needs you", "working", "idle", "ended"], stamp: Stamp) -> None:
    if _wins(agent, "standing", stamp) and agent.standing != effect:
        agent.standing, agent.since = effect, stamp[0]


def _place(fleet: Fleet, agent: Agent, event: Event, stamp: Stamp, is_child: bool) -> None:
    """Where the agent is now: the scopes that the event names, without those that it closes."""
    left = () if is_child and event.kind not in ENDS else ENDS.get(event.kind, ())
    if event.kind in CLOSES and not is_child:
        left = (*left, "task")
    for name in _OF_A_CHILD if is_child and not left else _SCOPES:
        value = None if name in left else getattr(event, name)
        if (value is not None or name in left) and _wins(agent, name, stamp) and getattr(agent, name) != value:
            _move(fleet, agent, name, value, stamp)


def _move(fleet: Fleet, agent: Agent, name: str, value: str | None, stamp: Stamp) -> None:
    old = getattr(agent, name)
    setattr(agent, name, value)
    if name == "task" and agent.marks.get("standing") == stamp:
        agent.since = stamp[0]
    if name in _HELD:
        if old is not None:
            _let_go(fleet.held, f"{name}:{old}", agent.name)
        if value is not None:
            fleet.held.setdefault(f"{name}:{value}", []).append(agent.name)


def _let_go(held: dict[str, list[str]], scope: str, name: str) -> None:
    names = held.get(scope, [])
    if name in names:
        names.remove(name)
    if not names:
        held.pop(scope, None)


def _describe(agent: Agent, event: Event, stamp: Stamp) -> None:
    words = line_of(event) if event.visibility == "public" and says_what(event) else None
    if words and _wins(agent, "doing", stamp):
        agent.doing, agent.kind = words, event.kind


def _wins(agent: Agent, name: str, stamp: Stamp) -> bool:
    """Whether nobody newer wrote this field; if so, it is now this event's."""
    mark = agent.marks.get(name)
    if mark is not None and stamp < mark:
        return False
    agent.marks[name] = stamp
    return True


def _note(fleet: Fleet, event: Event, stamp: Stamp) -> None:
    """What is kept of an event beside its agents: where the log now begins, and which missions call for help."""
    is_own = event.origin is None or event.origin.log is None  # a log that was shipped here tells of its own trimming, too
    if event.kind == "log.trimmed" and is_own and isinstance(before := event.data.get("before"), str):
        fleet.trimmed_before = before
    if event.mission is None:
        return
    open_since = fleet.asking[event.mission].since if event.mission in fleet.asking else EPOCH
    if event.kind == "town.mission_help_needed" and stamp[0] >= open_since:
        fleet.asking[event.mission] = Ask(text=line_of(event) or "", since=stamp[0])
    elif event.kind in _HELP_ENDS and stamp[0] >= open_since:
        fleet.asking.pop(event.mission, None)
