"""State of `threads.py`: story threads. Separate because `threads.py` may be compiled, and a Struct cannot be."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from fleetlore.views.event_text import EventStamp

VERSION = 12
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""

MAX_CLOSED_THREADS = 2000
"""Finished threads kept; an older one that is reopened starts anew."""
MOST_MOVES = 100
"""Newest task bindings kept per goal or run."""
PRUNED_EVERY = 250
"""This many more may accumulate before the oldest are dropped."""


class StoryThread(Struct, kw_only=True, array_like=True, gc=False):
    """One story thread, as far as the log says."""

    key: str
    mission: str | None = None
    state: Literal["open", "closed"] = "open"
    agents: dict[str, int] = field(default_factory=dict)
    """Who took part, in order of appearance, with the number of events."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by beat; unknown kinds have none."""
    first_id: str = ""
    first_at: datetime | None = None
    last_id: str = ""
    last: EventStamp | None = None
    """Stamp of the newest event; an older one is late."""
    gaps: list[int] = field(default_factory=list)
    """Tenths of a second between its newest events."""
    times: list[datetime] = field(default_factory=list)
    """Times of earlier events that are not in `gaps` yet; `update_gaps` adds them."""
    prologue: tuple[str, ...] = ()
    """Threads that turned out to be its beginning and were merged into it."""
    last_agent: str = ""
    """Who acted in its newest event: its agent, else its actor."""
    is_guessed: bool = False
    """Whether every event guessed the task from a branch or a prompt, so no tracker will report that it is done."""

    @property
    def events(self) -> int:
        """Number of events."""
        return sum(self.agents.values())


class ThreadsState(Struct, kw_only=True):
    """All threads of a town. Serialises to JSON."""

    version: int = VERSION
    position: str | None = None
    threads: dict[str, StoryThread] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    """`goal:X` and `run:X` → the thread of the task they are bound to."""
    moves: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """`goal:X` and `run:X` → positions from which they were bound to a task's thread, oldest first."""
    dropped: int = 0
    """Closed threads that are not kept any more."""
    room: int = MAX_CLOSED_THREADS + PRUNED_EVERY
    """With more threads than this, the oldest closed ones are dropped."""
