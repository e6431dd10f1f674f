"""How a telling ends: which arcs there were, and what is still open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from heapq import heappush, heappushpop

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.grammar import ended, listed, number, plural, span, times
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.phrases_arcs import ARCS, OPEN_ARCS
from fleetlore.chronicle.phrasing import variant
from fleetlore.chronicle.vocabulary import installed

MOST_ARCS = 12
MOST_OPEN = 8
WEIGHTS = {
    "cascade": 9, "budget_death": 8, "rescue": 8, "comeback": 8, "collision": 7, "review_ping_pong": 6, "handoff_chain": 6,
    "abandon_then_retry": 5, "fleet_convergence": 5, "milestone": 4, "struggle_and_recovery": 3, "solo_sprint": 3, "silent_grind": 2,
    "stall": 0,
}  # fmt: skip
"""What matters more where not all arcs can be told; a stall matters least, for every old open thread has one."""
WEIGHT_OF_OTHERS = 4
"""For arcs that installed packages add."""


class Highlights:
    """The arcs that a closing tells, out of however many there were; holds no more than those."""

    def __init__(self) -> None:
        self._best: list[tuple[tuple[int, datetime, datetime, str, str], int, Arc]] = []
        self.rest: dict[str, int] = {}
        """Kind → how many are not told."""
        self._count = 0

    def add(self, arc: Arc) -> None:
        """One more."""
        self._count += 1
        ranked = ((WEIGHTS.get(arc.kind, WEIGHT_OF_OTHERS), arc.last_at, arc.first_at, arc.kind, arc.thread), self._count, arc)
        if len(self._best) < MOST_ARCS:
            heappush(self._best, ranked)
            return
        left_out = heappushpop(self._best, ranked)[2].kind
        self.rest[left_out] = self.rest.get(left_out, 0) + 1

    def in_order(self) -> list[Arc]:
        """Those that are told, by the time of their end; what is open comes last."""
        arcs = (arc for _, _, arc in sorted(self._best, key=lambda ranked: ranked[:2]))
        return sorted(arcs, key=lambda arc: (arc.state == "open", arc.last_at, arc.first_at))


def told(arcs: Highlights, open_threads: Sequence[str], naming: Naming = AS_THEY_ARE) -> str:
    """The closing paragraph."""
    sentences = [arc_told(arc, again=True, naming=naming) for arc in arcs.in_order()]
    if arcs.rest:
        ranked = sorted(arcs.rest.items(), key=lambda item: (-item[1], item[0]))
        more = listed([f"{count:,} {_named(kind, count)}" for kind, count in ranked], most=4)
        sentences.append(f"Besides, there {'was' if list(arcs.rest.values()) == [1] else 'were'} {more}; `lore arcs` lists them all.")
    if open_threads:
        sentences.append(f"Still open: {listed([naming.label(thread) for thread in open_threads], most=MOST_OPEN)}.")
    else:
        sentences.append("Nothing is left open.")
    return " ".join(sentences)


_PLURALS = {
    "struggle_and_recovery": "struggles and recoveries",
    "abandon_then_retry": "second tries",
    "review_ping_pong": "rounds of review",
}


def _named(kind: str, count: int) -> str:
    """The kind of arc as a noun."""
    if count == 1:
        return {"abandon_then_retry": "second try", "review_ping_pong": "round of review"}.get(kind, kind.replace("_", " "))
    return _PLURALS.get(kind, f"{kind.replace('_', ' ')}s")


def arc_told(arc: Arc, *, again: bool = False, naming: Naming = AS_THEY_ARE) -> str:
    """One arc as a sentence; `again` says it in other words than before, if there are any."""
    agents = [naming.agent(agent) for agent in arc.agents]
    table = OPEN_ARCS if arc.state == "open" else ARCS
    kind = arc.kind
    if kind == "abandon_then_retry":
        kind = f"{kind}:{'same' if arc.note == 'by the same agent' else 'other'}"
    variants = table.get(kind) or ARCS.get(kind) or _of_a_package(arc)
    if not variants:
        return ended(f"{arc.kind.replace('_', ' ')} on {naming.label(arc.thread)} ({listed(agents)})")
    values = {
        "agents": listed(agents) or "nobody",
        "agent": agents[0] if agents else "somebody",
        "other": agents[1] if len(agents) > 1 else "somebody else",
        "thread": _where(arc, naming),
        "count": number(arc.count),
        "count_times": times(arc.count),
        "span": span(arc.last_at - arc.first_at),
        "note": arc.note,
        "setbacks": plural(arc.count - (arc.kind == "comeback"), "setback"),
    }
    return ended(variant(variants, f"{arc.last} {arc.kind}" if again else arc.first).format_map(values))


def _of_a_package(arc: Arc) -> Sequence[str]:
    added = installed()
    return (added.open_arcs_told.get(arc.kind, ()) if arc.state == "open" else ()) or added.arcs_told.get(arc.kind, ())


def _where(arc: Arc, naming: Naming) -> str:
    """The thread of an arc; not by the agent's name, where the sentence names the agent."""
    kind, _, name = arc.thread.partition(":")
    return "work outside of any task" if kind == "agent" and name in arc.agents else naming.label(arc.thread)
