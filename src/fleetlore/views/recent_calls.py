"""State of `beats.py`: what each agent did last.

Separate because `beats.py` may be compiled, and a Struct cannot be.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from fleetlore.views.event_text import EventStamp

VERSION = 2

BeatReason: TypeAlias = Literal["loop", "undone", "stuck", "mended", "allowed"]
"""Why a beat differs from its kind's.

`loop`: a repeated call; `undone`: an edit reversed; `stuck`: an edit that missed twice; `mended`: something that had
failed works; `allowed`: something that had been denied is allowed.
"""

PendingCall: TypeAlias = tuple[int, int, int]
"""A call without a result yet: its digest and, for an edit, digests of the edit and its reversal, else zeros."""


class RecentCalls(Struct, kw_only=True, gc=False):
    """What one agent did last in one session, as far as later beats depend on it."""

    last: EventStamp | None = None
    """Stamp of the newest event; an older one is late."""
    calls: dict[str, PendingCall] = field(default_factory=dict)
    troubles: dict[str, BeatReason] = field(default_factory=dict)
    """What failed or was denied → the reason when it works again."""
    slips: dict[str, bool] = field(default_factory=dict)
    """Edits that missed once."""
    edits: dict[int, bool] = field(default_factory=dict)
    """Digests of the edits made."""
    same: int = 0
    times: int = 0
    """Digest of the newest call, and how often it was made in a row."""


class BeatState(Struct, kw_only=True):
    """The recent calls of all agents. Serialises to JSON."""

    version: int = VERSION
    hands: dict[str, RecentCalls] = field(default_factory=dict)
    note: BeatReason | None = None
    """Why the newest event's beat differs from its kind's."""
