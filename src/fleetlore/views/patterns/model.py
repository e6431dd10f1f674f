"""What a pattern is, and a finding of one. A package builds `Pattern` and `Part` for patterns of its own (docs/extending.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

Who = Literal["any", "same", "other", "another"]
FindingState = Literal["open", "closed"]

REJECTION, EXHAUSTED, ENDED = "rejection", "exhausted", "ended"
"""Signs of an event beside its beat: a review that says no, a spent budget, the end of a goal or run."""
FRESH = "fresh"
"""Sign of the first step on a thread, and of the first one after a delivery."""
MOST_EVIDENCE = 100


class Finding(Struct, kw_only=True):
    """One pattern that was found, with the events that prove it."""

    kind: str
    thread: str
    agents: list[str]
    state: FindingState
    first: str
    """Id of its first event."""
    last: str
    evidence: list[str]
    count: int
    """Number of events in total. If there are more than `MOST_EVIDENCE`, `evidence` lists only the first and the last ones."""
    first_at: datetime
    last_at: datetime
    note: str = ""
    """What the kind leaves open, such as who took up an abandoned task again."""


class Part(Struct, frozen=True):
    """One leg of a pattern: steps with one of these signs, by this agent, at least so many times.

    `who` is seen from the agent that began it: the `same`, an `other`, `any`, or `another` than at least one who took part.
    """

    signs: frozenset[str]
    who: Who = "any"
    times: int = 1
    once_each: bool = False
    """Whether only the first such step of each agent belongs to the evidence."""


class Pattern(Struct, frozen=True, kw_only=True):
    """An ordered sequence of parts on one thread. A step that matches `broken_by` discards the match. Times are in seconds."""

    kind: str
    parts: tuple[Part, ...]
    broken_by: tuple[Part, ...] = ()
    open_after: int | None = None
    """After so many parts it is found as open; `None`: only once it is complete."""
    until: frozenset[str] = frozenset()
    """It stays open after its last part until one of these signs comes; none: it is closed by its last part."""
    anew: frozenset[str] = frozenset()
    """What breaks it also keeps it from beginning, until one of these signs comes; none: it may begin at once."""
    again: tuple[Part, ...] = field(default_factory=tuple)
    """What belongs to it, too, as long as it is open after its last part."""
    from_the_start: bool = False
    """Whether it can only begin with the first step on a thread, or with the first one after a delivery."""
    per_agent: bool = False
    """Whether several may run on one thread at once, one for each agent that began it; else one at a time."""
    within: float | None = None
    """The longest time from its first step to its last."""
    pause: float | None = None
    """The longest time between two of its steps. One that is complete is closed by a longer pause."""
    at_least: float = 0
    """The shortest time from its first step to its last."""
    least_gap: float = 0
    """A next part by the agent that began it must come at least so much later."""
    preceded_by: frozenset[str] = frozenset()
    """The newest earlier step with one of these signs belongs to it, too, and its agent is the one that began it."""
    linked: bool = False
    """Whether a step that names its cause must be caused by one of the steps before it, or share its cause."""
