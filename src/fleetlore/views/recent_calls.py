"""What every agent did last: what `beats.py` folds. It stands apart, for that may be compiled, and a Struct cannot be."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from fleetlore.views.event_text import EventStamp

VERSION = 2

BeatReason: TypeAlias = Literal["loop", "undone", "stuck", "mended", "allowed"]
"""Why a beat is not its kind's: the same call over and over; an edit put back; an edit that missed and misses again; what had failed works;
what had been denied is let."""

PendingCall: TypeAlias = tuple[int, int, int]
"""A call whose outcome has not come: its digest, and for an edit that of what it does and of what would undo it, else zero."""


class RecentCalls(Struct, kw_only=True, gc=False):
    """What one agent did last in one session, as far as it bears on what comes."""

    last: EventStamp | None = None
    """The newest event's stamp: one that is older is late."""
    calls: dict[str, PendingCall] = field(default_factory=dict)
    troubles: dict[str, BeatReason] = field(default_factory=dict)
    """What failed or was denied → what it is when it works."""
    slips: dict[str, bool] = field(default_factory=dict)
    """Edits that missed once."""
    edits: dict[int, bool] = field(default_factory=dict)
    """Digests of the edits that were made."""
    same: int = 0
    times: int = 0
    """The digest of the newest call, and how often it was made in a row."""


class BeatState(Struct, kw_only=True):
    """All hands. Encodes to JSON and back."""

    version: int = VERSION
    hands: dict[str, RecentCalls] = field(default_factory=dict)
    note: BeatReason | None = None
    """Why the newest event has its beat, where that is not its kind's."""
