"""What rules wait for. A watch sees every event of its scope in order, and is asked from time to time about the clock.

It has seen only the last few thousand events: what it does not know counts as new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from fleetlore.chronicle import sift
from fleetlore.chronicle.arcs import Arc, without_hidden
from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.grammar import ended, number, span, words
from fleetlore.chronicle.live import MANY_THREADS
from fleetlore.chronicle.naming import Naming
from fleetlore.chronicle.phrasing import say
from fleetlore.chronicle.signs import EXHAUSTED, signs_of
from fleetlore.chronicle.telling_deeds import key_of
from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.log.base import matches_kind
from fleetlore.server.notifications.rules import Rule
from fleetlore.server.notifications.schedule import Schedule
from fleetlore.server.notifications.scheduled_brief import BriefPeriod, find_period
from fleetlore.views import beats, fleet
from fleetlore.views.agent_status_rules import find_standing_effect
from fleetlore.views.event_text import event_stamp
from fleetlore.views.fleet import SILENT_AFTER, FleetAgent

TURNS = ("session.turn_ended", "driver.attempt_completed")
"""Kinds that end a turn of an agent."""
MANY_SETBACKS = 3
"""This many setbacks without a recovery are a struggle worth a notification."""
DONE_STATES = frozenset(("completed", "done", "delivered"))
"""New states of a mission that mean success."""
STRUGGLE = "struggle_and_recovery"
LONGEST_LINE = 500

Words: TypeAlias = Callable[[Event, Naming], str]
Counter: TypeAlias = Callable[[str, str | None], int]
"""Number of turns of a scope that ended before a position."""


class Occasion(NamedTuple):
    """Something that a rule waited for."""

    key: str
    """Identifies the occasion, whenever it is found."""
    cause: str
    """Id of the event it is about."""
    at: datetime
    """When it happened."""
    words: Words
    event: Event | None = None
    """The event itself, if it has just come."""
    arc: Arc | None = None
    period: BriefPeriod | None = None
    """Of a scheduled brief: what it covers."""


class Watch:
    """What one rule waits for."""

    looks_back = False
    """Whether earlier events matter."""

    def see(self, event: Event) -> Iterable[Occasion]:
        """Handle one more event; return the occasions it brings."""
        del event
        return ()

    def look(self, now: datetime) -> Iterable[Occasion]:
        """Time-based occasions at a moment, found before or not."""
        del now
        return ()


def watch_for(rule: Rule, count: Counter) -> Watch:
    """The watch for a rule."""
    match rule.by:
        case "kind":
            return Each(lambda event: matches_kind(event.kind, (rule.what,)))
        case "arc":
            return Arcs(rule.what)
        case "brief":
            return ScheduledBrief(rule.schedule)
        case "when":
            return WATCHES[rule.what](rule, count)


class Each(Watch):
    """Every event that satisfies a condition."""

    def __init__(self, is_meant: Callable[[Event], bool]) -> None:
        self._is_meant = is_meant

    def see(self, event: Event) -> Iterator[Occasion]:
        """Return the event if it satisfies the condition."""
        if self._is_meant(event):
            yield occasion_of(event)


class ScheduledBrief(Watch):
    """The newest scheduled time of a brief."""

    def __init__(self, schedule: Schedule | None) -> None:
        self._schedule = schedule

    def look(self, now: datetime) -> Iterator[Occasion]:
        """The brief that was due last."""
        if self._schedule is not None:
            period = find_period(self._schedule, now)
            yield Occasion(period.key, "", period.until, lambda event, naming: "", period=period)


def is_done(event: Event) -> bool:
    """Whether a task, a goal, a run or a mission was delivered."""
    if event.kind == "town.mission_state_changed":
        return (event.new_state or "").lower() in DONE_STATES
    return beat_of(event) == "deliver"


def is_spent(event: Event) -> bool:
    """Whether a budget was exhausted."""
    beat = beat_of(event)
    return beat is not None and EXHAUSTED in signs_of(event, beat)


class Needs(Watch):
    """Agents and missions that start to need a person; no repetition while they do."""

    looks_back = True

    def __init__(self) -> None:
        self._fleet = fleet.initial()

    def see(self, event: Event) -> Iterator[Occasion]:
        """Return the event if somebody newly needs a person because of it."""
        if find_standing_effect(event) != "needs you":
            self._fleet = fleet.apply(self._fleet, event)
            return
        before = self._in_need()
        self._fleet = fleet.apply(self._fleet, event)
        if self._in_need() - before or self._is_about_nobody_known(event):
            yield occasion_of(event)

    def _in_need(self) -> set[tuple[str, str]]:
        agents = {("agent", name) for name, agent in self._fleet.agents.items() if agent.standing == "needs you"}
        return agents | {("mission", name) for name in self._fleet.asking}

    def _is_about_nobody_known(self, event: Event) -> bool:
        if event.agent is not None or (event.kind == "town.mission_help_needed" and event.mission is not None):
            return False
        return self._fleet.held.keys().isdisjoint((f"goal:{event.goal}", f"run:{event.run}"))


class Progress(Watch):
    """Every n turns of an agent or, without one, of a goal or run, counted from the beginning of the log."""

    def __init__(self, every: int, count: Counter) -> None:
        self._every, self._count = every, count
        self._turns: dict[str, int] = {}

    def see(self, event: Event) -> Iterator[Occasion]:
        """Return the event if it ends such a turn."""
        if event.kind not in TURNS:
            return
        scope = turn_of(event)
        if scope not in self._turns:
            self._turns[scope] = self._count(scope, event.position)
        self._turns[scope] += 1
        if self._turns[scope] % self._every == 0:
            yield occasion_of(event, _turns_told(scope, self._turns[scope]))


def turn_of(event: Event) -> str:
    """The scope whose turn an event ends."""
    for kind in ("agent", "goal", "run"):
        if (name := getattr(event, kind)) is not None:
            return f"{kind}:{name}"
    return "town"


def _turns_told(scope: str, turns: int) -> Words:
    kind, _, name = scope.partition(":")

    def describe(_: Event, naming: Naming) -> str:
        who = naming.agent(name) if kind == "agent" else naming.label(scope)
        return f"{who} has come to the end of {number(turns)} {'turn' if turns == 1 else 'turns'}"

    return describe


class Sifting(Watch):
    """A watch that follows threads and arcs."""

    looks_back = True

    def __init__(self) -> None:
        self._sifted = sift.initial()

    def see(self, event: Event) -> Iterable[Occasion]:
        """Add the event to its thread."""
        sift.sift(self._sifted, event, beats.classify_beat(self._sifted.beats, event))
        self._sifted.closed.clear()
        if len(self._sifted.threads.threads) > MANY_THREADS:
            sift.settle(self._sifted)
            sift.drop_closed(self._sifted)
        return ()

    def open_ones(self, now: datetime) -> Iterator[Occasion]:
        """Agents with one setback after another."""
        sift.settle(self._sifted)
        for arc in sift.arcs_open(self._sifted, now):
            if arc.kind == STRUGGLE and arc.count >= MANY_SETBACKS:
                yield _of_arc(arc, f"{STRUGGLE} {arc.thread} {arc.first}", arc.last_at)


class Arcs(Sifting):
    """Closed arcs of one kind; never of a hidden kind (`Rule.note` tells the user)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def see(self, event: Event) -> Iterator[Occasion]:
        """Return the arcs of this kind that the event closes."""
        super().see(event)
        sift.settle(self._sifted)
        for arc in without_hidden(self._sifted.closed):
            if arc.kind == self._kind:
                yield _of_arc(arc, f"{event.id} {arc.kind} {arc.thread}", event_stamp(event)[0], event=event)


class Stuck(Sifting):
    """Agents that fall silent while working, and series of setbacks. No event reports either."""

    def __init__(self) -> None:
        super().__init__()
        self._fleet = fleet.initial()

    def see(self, event: Event) -> Iterable[Occasion]:
        """Add the event to the fleet and its thread."""
        self._fleet = fleet.apply(self._fleet, event)
        return super().see(event)

    def look(self, now: datetime) -> Iterator[Occasion]:
        """Silent agents, then struggles."""
        for agent in self._fleet.agents.values():
            if fleet.standing_at(agent, now=now) == "silent":
                yield _silence(agent, now)
        yield from self.open_ones(now)


def _silence(agent: FleetAgent, now: datetime) -> Occasion:
    seen = agent.last_seen or now
    at_work = f", last at work on task {words(agent.task)}" if agent.task else ""

    def describe(_: Event, naming: Naming) -> str:
        return f"No sign of life from {naming.agent(agent.name)} for {span(now - seen)}{at_work}"

    return Occasion(f"silent {agent.name} {seen.isoformat()}", agent.last_id or "", seen + SILENT_AFTER, describe)


def occasion_of(event: Event, text: Words | None = None) -> Occasion:
    """An event that is itself the occasion, with the chronicle's text or another."""
    return Occasion(event.id or "", event.id or "", event_stamp(event)[0], text or _event_told, event)


def _event_told(event: Event, naming: Naming) -> str:
    return say(event, key=key_of(event, beat_of(event)), naming=naming)


def _of_arc(arc: Arc, key: str, at: datetime, event: Event | None = None) -> Occasion:
    cause = arc.last if event is None else event.id or ""
    return Occasion(key, cause, at, lambda _, naming: arc_told(arc, naming=naming), event, arc)


def line_of(occasion: Occasion, event: Event, naming: Naming) -> str:
    """The notification's text: one line of printable characters. Still untrusted."""
    text = "".join(letter if letter.isprintable() else " " for letter in occasion.words(event, naming))
    line = " ".join(text.split())
    return ended(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rsplit(' ', 1)[0]}…")


WATCHES: Mapping[str, Callable[[Rule, Counter], Watch]] = {
    "needs you": lambda rule, count: Needs(),
    "stuck": lambda rule, count: Stuck(),
    "budget": lambda rule, count: Each(is_spent),
    "done": lambda rule, count: Each(is_done),
    "progress": lambda rule, count: Progress(rule.every, count),
}
"""`when` → its watch."""
