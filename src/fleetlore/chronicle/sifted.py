"""What is under way on threads and across them: what `sift.py` folds. It stands apart, for that may be compiled, and a Struct cannot be."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from msgspec import Struct, field

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.walks import Walk, Walks
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import EPOCH
from fleetlore.views.recent_calls import BeatState
from fleetlore.views.thread_state import ThreadsState


class Repeat(Struct):
    """The last step of a thread, and which walks take one more like it."""

    signs: frozenset[str]
    who: str
    takers: list[Walk] = field(default_factory=list)
    known: int = 0
    """For so many more it is known that they do nothing else."""
    more: list[str] = field(default_factory=list)
    """Those that were not taken yet."""
    last_at: datetime = EPOCH


class Trouble(Struct, gc=False):
    """Setbacks that are linked: by cause, or because one's agent is the parent of the other's."""

    thread: str
    evidence: list[str]
    agents: list[str]
    first_at: datetime
    last_at: datetime


class Spread(Struct):
    """What is known of unresolved setbacks and of files with uncommitted edits."""

    of_event: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """Id of a setback → the number of its trouble."""
    of_agent: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """Agent → the trouble that it is in."""
    troubles: OrderedDict[int, Trouble] = field(default_factory=OrderedDict)
    next: int = 0
    editors: OrderedDict[str, tuple[str, str, str, datetime]] = field(default_factory=OrderedDict)
    """File → the agent that edited it last without a commit, the event, its thread, its time."""
    edited: dict[str, OrderedDict[str, list[str]]] = field(default_factory=dict)
    """Agent → the files that it has edited without a commit, by their last name, oldest first."""


class Sifted(Struct):
    """The threads, what is under way on each, and the arcs that are closed."""

    threads: ThreadsState = field(default_factory=ThreadsState)
    walks: dict[str, Walks] = field(default_factory=dict)
    spread: Spread = field(default_factory=Spread)
    closed: list[Arc] = field(default_factory=list)
    late: int = 0
    beats: BeatState = field(default_factory=BeatState)
    """What gives a deed another beat than its kind's."""
    repeats: dict[str, Repeat] = field(default_factory=dict)
    """Thread → its last step. Agents do the same thing many times over; only the first two of them are worth a thought."""
    waiting: list[tuple[Event, frozenset[str], str, datetime, str]] = field(default_factory=list)
    """Steps that `settle` has yet to look at."""
