"""What each rule waits for. A watch is told every event of its scope, in order, and is asked from time to time what the clock brings.

Only the past of a few thousand events is behind it: what it does not know of, it takes for new.
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
from fleetlore.views import beats, fleet
from fleetlore.views.agent_status_rules import find_standing_effect
from fleetlore.views.event_text import event_stamp
from fleetlore.views.fleet import SILENT_AFTER, FleetAgent

TURNS = ("session.turn_ended", "driver.attempt_completed")
"""Kinds that end a turn of an agent."""
MANY_SETBACKS = 3
"""So many without a recovery are a struggle that somebody should know of."""
DONE_STATES = frozenset(("completed", "done", "delivered"))
"""What a mission's new state is called when it is over and well."""
STRUGGLE = "struggle_and_recovery"
LONGEST_LINE = 500

Words: TypeAlias = Callable[[Event, Naming], str]
Counter: TypeAlias = Callable[[str, str | None], int]
"""How many turns a scope has ended before a position."""


class Occasion(NamedTuple):
    """Something that a rule waited for."""

    key: str
    """By which it is known again, whenever it is found."""
    cause: str
    """Id of the event that it is about."""
    at: datetime
    """When it came about."""
    words: Words
    event: Event | None = None
    """The event itself, where it has just come."""
    arc: Arc | None = None


class Watch:
    """What one rule waits for."""

    looks_back = False
    """Whether what came before bears on what comes."""

    def see(self, event: Event) -> Iterable[Occasion]:
        """One more event."""
        del event
        return ()

    def look(self, now: datetime) -> Iterable[Occasion]:
        """What there is at a moment, whether it was found before or not."""
        del now
        return ()


def watch_for(rule: Rule, count: Counter) -> Watch:
    """The watch that a rule asks for."""
    match rule.by:
        case "kind":
            return Each(lambda event: matches_kind(event.kind, (rule.what,)))
        case "arc":
            return Arcs(rule.what)
        case "when":
            return WATCHES[rule.what](rule, count)


class Each(Watch):
    """Every event of which something is true."""

    def __init__(self, is_meant: Callable[[Event], bool]) -> None:
        self._is_meant = is_meant

    def see(self, event: Event) -> Iterator[Occasion]:
        """The event, if it is meant."""
        if self._is_meant(event):
            yield occasion_of(event)


def is_done(event: Event) -> bool:
    """Whether a task, a goal, a run or a mission was delivered."""
    if event.kind == "town.mission_state_changed":
        return (event.new_state or "").lower() in DONE_STATES
    return beat_of(event) == "deliver"


def is_spent(event: Event) -> bool:
    """Whether a budget ran out."""
    beat = beat_of(event)
    return beat is not None and EXHAUSTED in signs_of(event, beat)


class Needs(Watch):
    """Agents and missions that begin to need a person; while they need one, they are not told again."""

    looks_back = True

    def __init__(self) -> None:
        self._fleet = fleet.initial()

    def see(self, event: Event) -> Iterator[Occasion]:
        """The event, if somebody needs a person because of it who did not before."""
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
    """Every so many turns of an agent; where nobody is named, of a goal or a run. They are counted from the beginning of the log."""

    def __init__(self, every: int, count: Counter) -> None:
        self._every, self._count = every, count
        self._turns: dict[str, int] = {}

    def see(self, event: Event) -> Iterator[Occasion]:
        """The event, if it ends such a turn."""
        if event.kind not in TURNS:
            return
        whose = turn_of(event)
        if whose not in self._turns:
            self._turns[whose] = self._count(whose, event.position)
        self._turns[whose] += 1
        if self._turns[whose] % self._every == 0:
            yield occasion_of(event, _turns_told(whose, self._turns[whose]))


def turn_of(event: Event) -> str:
    """The scope whose turn an event ends."""
    for kind in ("agent", "goal", "run"):
        if (name := getattr(event, kind)) is not None:
            return f"{kind}:{name}"
    return "town"


def _turns_told(whose: str, turns: int) -> Words:
    kind, _, name = whose.partition(":")

    def told(_: Event, naming: Naming) -> str:
        who = naming.agent(name) if kind == "agent" else naming.label(whose)
        return f"{who} has come to the end of {number(turns)} {'turn' if turns == 1 else 'turns'}"

    return told


class Sifting(Watch):
    """A watch that follows threads and arcs."""

    looks_back = True

    def __init__(self) -> None:
        self._sifted = sift.initial()

    def see(self, event: Event) -> Iterable[Occasion]:
        """One more event of its thread."""
        sift.sift(self._sifted, event, beats.classify_beat(self._sifted.beats, event))
        self._sifted.closed.clear()
        if len(self._sifted.threads.threads) > MANY_THREADS:
            sift.settle(self._sifted)
            sift.drop_closed(self._sifted)
        return ()

    def open_ones(self, now: datetime) -> Iterator[Occasion]:
        """Agents that meet one setback after another."""
        sift.settle(self._sifted)
        for arc in sift.arcs_open(self._sifted, now):
            if arc.kind == STRUGGLE and arc.count >= MANY_SETBACKS:
                yield _of_arc(arc, f"{STRUGGLE} {arc.thread} {arc.first}", arc.last_at)


class Arcs(Sifting):
    """Arcs of one kind, once they are closed; never a hidden kind (`Rule.note` says so to the user)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def see(self, event: Event) -> Iterator[Occasion]:
        """The arcs that the event closes, if they are of the kind."""
        super().see(event)
        sift.settle(self._sifted)
        for arc in without_hidden(self._sifted.closed):
            if arc.kind == self._kind:
                yield _of_arc(arc, f"{event.id} {arc.kind} {arc.thread}", event_stamp(event)[0], event=event)


class Stuck(Sifting):
    """Agents that fall silent at work, and setbacks without end. No event says so by itself."""

    def __init__(self) -> None:
        super().__init__()
        self._fleet = fleet.initial()

    def see(self, event: Event) -> Iterable[Occasion]:
        """One more event of the fleet and of its thread."""
        self._fleet = fleet.apply(self._fleet, event)
        return super().see(event)

    def look(self, now: datetime) -> Iterator[Occasion]:
        """Agents that are silent, then struggles."""
        for agent in self._fleet.agents.values():
            if fleet.standing_at(agent, now=now) == "silent":
                yield _silence(agent, now)
        yield from self.open_ones(now)


def _silence(agent: FleetAgent, now: datetime) -> Occasion:
    seen = agent.last_seen or now
    at_work = f", last at work on task {words(agent.task)}" if agent.task else ""

    def told(_: Event, naming: Naming) -> str:
        return f"No sign of life from {naming.agent(agent.name)} for {span(now - seen)}{at_work}"

    return Occasion(f"silent {agent.name} {seen.isoformat()}", agent.last_id or "", seen + SILENT_AFTER, told)


def occasion_of(event: Event, told: Words | None = None) -> Occasion:
    """An event that is itself the occasion, in the chronicle's words or in others."""
    return Occasion(event.id or "", event.id or "", event_stamp(event)[0], told or _event_told, event)


def _event_told(event: Event, naming: Naming) -> str:
    return say(event, key=key_of(event, beat_of(event)), naming=naming)


def _of_arc(arc: Arc, key: str, at: datetime, event: Event | None = None) -> Occasion:
    cause = arc.last if event is None else event.id or ""
    return Occasion(key, cause, at, lambda _, naming: arc_told(arc, naming=naming), event, arc)


def line_of(occasion: Occasion, event: Event, naming: Naming) -> str:
    """One sentence on one line, with nothing in it that is not seen; still hostile."""
    told = "".join(letter if letter.isprintable() else " " for letter in occasion.words(event, naming))
    line = " ".join(told.split())
    return ended(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rsplit(' ', 1)[0]}…")


WATCHES: Mapping[str, Callable[[Rule, Counter], Watch]] = {
    "needs you": lambda rule, count: Needs(),
    "stuck": lambda rule, count: Stuck(),
    "budget": lambda rule, count: Each(is_spent),
    "done": lambda rule, count: Each(is_done),
    "progress": lambda rule, count: Progress(rule.every, count),
}
"""What each `when` means."""
