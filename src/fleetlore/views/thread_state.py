"""One line of story, and all of a town: what `threads.py` folds. It stands apart, for that may be compiled, and a Struct cannot be."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from fleetlore.views.event_text import EventStamp

VERSION = 12
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

MAX_CLOSED_THREADS = 2000
"""So many threads on which nothing is left to do are kept; an older one that is opened again begins anew."""
MOST_MOVES = 100
"""So many of the newest tasks of one goal or run are known with their positions."""
PRUNED_EVERY = 250
"""So many more than that may come together before the oldest are let go."""


class StoryThread(Struct, kw_only=True, array_like=True, gc=False):
    """One line of story, as far as the log tells."""

    key: str
    mission: str | None = None
    state: Literal["open", "closed"] = "open"
    agents: dict[str, int] = field(default_factory=dict)
    """Who took part, in the order of appearance, and with how many events."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by beat; those of unknown kinds have none."""
    first_id: str = ""
    first_at: datetime | None = None
    last_id: str = ""
    last: EventStamp | None = None
    """The newest event's stamp: one that is older is late."""
    gaps: list[int] = field(default_factory=list)
    """Tenths of a second between its newest events."""
    times: list[datetime] = field(default_factory=list)
    """When the events before its newest one were, as far as `gaps` does not tell of them yet: `settle` works that out."""
    prologue: tuple[str, ...] = ()
    """Threads that were found to be its beginning, and have gone into it."""
    last_agent: str = ""
    """Who acted in its newest event: the event's agent, else its actor."""
    is_guessed: bool = False
    """Every event that names its task has guessed it from a branch or a prompt: no tracker will ever say that it is done."""

    @property
    def events(self) -> int:
        """How many."""
        return sum(self.agents.values())


class ThreadsState(Struct, kw_only=True):
    """All threads of a town. Encodes to JSON and back."""

    version: int = VERSION
    position: str | None = None
    threads: dict[str, StoryThread] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    """`goal:X` and `run:X` → the thread of the task that they are bound to."""
    moves: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """`goal:X` and `run:X` → from which position on they were bound to which task's thread, oldest first."""
    dropped: int = 0
    """Closed threads that are not kept any more."""
    room: int = MAX_CLOSED_THREADS + PRUNED_EVERY
    """With more threads than this, the oldest closed ones are let go."""
