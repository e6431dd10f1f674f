"""Steps of a thread, and walks along a pattern. They stand apart from `matcher.py`, which may be compiled: a Struct cannot be."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

MOST_EVIDENCE = 100


class Step(Struct, frozen=True, gc=False):
    """One event of a thread, as far as arcs look at it."""

    signs: frozenset[str]
    who: str
    id: str
    at: datetime
    thread: str


class Walk(Struct, gc=False):
    """One walk along a pattern: how far it has come, whose it is, and what it met."""

    kind: str
    agent: str
    at: int
    """The part that it is in; the number of parts once all are met."""
    times: int
    evidence: list[str]
    agents: list[str]
    first_at: datetime
    last_at: datetime
    count: int = 0

    def take_more(self, ids: list[str], last_at: datetime) -> None:
        """Add several events of the agent that did the last one."""
        self.times += len(ids)
        self.count += len(ids)
        self.last_at = last_at
        self.evidence += ids
        if len(self.evidence) > MOST_EVIDENCE:
            del self.evidence[MOST_EVIDENCE // 2 : -MOST_EVIDENCE // 2]

    def take(self, step: Step) -> None:
        """Add one more event."""
        self.times += 1
        self.count += 1
        self.last_at = step.at
        evidence = self.evidence
        evidence.append(step.id)
        if len(evidence) > MOST_EVIDENCE:
            del evidence[MOST_EVIDENCE // 2]
        if step.who not in self.agents:
            self.agents.append(step.who)


Walks = dict[str, list[Walk]]
"""Kind of arc → the walks that are under way on one thread; an empty list keeps one from beginning."""
