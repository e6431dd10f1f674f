"""The numbers behind a story: who, when, how much. Folded in any order."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fleetlore.chronicle.story import Summary
from fleetlore.events.catalog import bare_beats, beat_of
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import event_stamp

MOST_USD = 1e9
_PARTS = 1_000_000_000


class _Tally:
    """One agent's events of one kind and beat."""

    __slots__ = ("count", "first", "last")

    def __init__(self, at: datetime) -> None:
        self.count, self.first, self.last = 0, at, at


class Overview:
    """Counts events by agent and kind, and what models cost."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, str], _Tally] = {}
        self._billionths: int | None = None
        self._tokens: int | None = None

    def see_all(self, events: Iterable[Event]) -> None:
        """Several more."""
        tallies = self._tallies
        for event in events:
            kind, at, data = event.kind, event.at, event.data
            beat = beat_of(event) if data else bare_beats[kind]
            tally = tallies.get((event.agent or event.actor or "", kind, beat or ""))
            if tally is None or kind == "model.replied" or at is None or at.tzinfo is None:
                self.see(event)
                continue
            tally.count += 1
            if at > tally.last:
                tally.last = at
            elif at < tally.first:
                tally.first = at

    def see(self, event: Event) -> None:
        """One more event."""
        kind, at = event.kind, event.at
        if at is None or at.tzinfo is None:
            at = event_stamp(event)[0]
        key = (event.agent or event.actor or "", kind, beat_of(event) or "")
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(at)
        tally.count += 1
        if at > tally.last:
            tally.last = at
        elif at < tally.first:
            tally.first = at
        if kind == "model.replied":
            self._add_cost(event.data)

    def _add_cost(self, data: dict[str, Any]) -> None:
        usd = data.get("usd")
        if isinstance(usd, int | float) and not isinstance(usd, bool) and -MOST_USD < usd < MOST_USD:
            # In whole billionths, so that the sum does not depend on the order of adding.
            self._billionths = (self._billionths or 0) + round(usd * _PARTS)
        for key in ("input", "output", "cache_read", "cache_write"):
            if isinstance(tokens := data.get(key), int) and not isinstance(tokens, bool):
                self._tokens = (self._tokens or 0) + tokens

    @property
    def events(self) -> int:
        """How many."""
        return sum(tally.count for tally in self._tallies.values())

    @property
    def first_at(self) -> datetime | None:
        """When it begins."""
        return min((tally.first for tally in self._tallies.values()), default=None)

    @property
    def last_at(self) -> datetime | None:
        """When it ends."""
        return max((tally.last for tally in self._tallies.values()), default=None)

    def agents(self) -> list[str]:
        """Everybody, the busiest first."""
        counts: dict[str, int] = {}
        for (agent, _, _), tally in self._tallies.items():
            counts[agent] = counts.get(agent, 0) + tally.count
        return sorted((agent for agent in counts if agent), key=lambda agent: (-counts[agent], agent))

    def summary(self, threads: int) -> Summary:
        """All of it, in an order that does not depend on the order of seeing."""
        first, last = self.first_at, self.last_at
        usd = None if self._billionths is None else round(self._billionths / _PARTS, 6)
        summary = Summary(events=self.events, threads=threads, usd=usd, tokens=self._tokens)
        summary.seconds = (last - first).total_seconds() if first is not None and last is not None else 0.0
        for (name, kind, beat), tally in sorted(self._tallies.items(), key=lambda item: item[0]):
            agent = summary.agents.setdefault(name, {"events": 0, "kinds": {}, "first": tally.first, "last": tally.last})
            agent["events"] += tally.count
            agent["kinds"][kind] = agent["kinds"].get(kind, 0) + tally.count
            agent["first"], agent["last"] = min(agent["first"], tally.first), max(agent["last"], tally.last)
            summary.kinds[kind] = summary.kinds.get(kind, 0) + tally.count
            if beat:
                summary.beats[beat] = summary.beats.get(beat, 0) + tally.count
        summary.kinds = dict(sorted(summary.kinds.items()))
        summary.beats = dict(sorted(summary.beats.items()))
        return summary
