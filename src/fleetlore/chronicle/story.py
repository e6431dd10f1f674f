"""What a telling is made of, whatever its format: an opening, chapters of sentences with their evidence, a closing."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from fleetlore.chronicle.arcs import Arc

Detail = Literal["headline", "story", "full"]


class Sentence(Struct, frozen=True, kw_only=True):
    """One thing that is told, and the events that prove it: one event, or one run of like events of one thread."""

    text: str
    thread: str
    evidence: tuple[str, ...]
    at: datetime
    """When it happened, or began."""
    beat: str = ""
    agent: str = ""


class Chapter(Struct, frozen=True, kw_only=True):
    """What belongs together: one day, and of that day one mission. Sentences of one thread stand together, in order."""

    title: str
    sentences: tuple[Sentence, ...]
    arcs: tuple[Arc, ...] = ()
    """Those that were closed in it, for the margin."""
    first_at: datetime | None = None
    last_at: datetime | None = None


class Opening(Struct, frozen=True, kw_only=True):
    """Who, when and how much."""

    text: str
    events: int
    agents: tuple[str, ...]
    first_at: datetime | None = None
    last_at: datetime | None = None


class Summary(Struct, kw_only=True):
    """The numbers behind the story."""

    events: int = 0
    threads: int = 0
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → `{events, kinds: {kind: count}, first, last}`."""
    kinds: dict[str, int] = field(default_factory=dict)
    beats: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """From the first event to the last."""
    usd: float | None = None
    """What models cost, where it is known."""
    tokens: int | None = None


class Closing(Struct, frozen=True, kw_only=True):
    """The arcs, and what is still open."""

    text: str
    open_threads: tuple[str, ...]
