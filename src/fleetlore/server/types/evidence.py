"""Response types of `/api/evidence`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from fleetlore.views.outcomes.facts import CallState


class FileDiff(Struct, kw_only=True):
    """One edit of one file."""

    path: str
    diff: str
    """The lines of a unified diff, without its header. Untrusted text."""
    is_new: bool
    """Whether the file was written whole."""
    is_cut: bool


class EvidenceItem(Struct, kw_only=True):
    """What one source event shows. All texts are untrusted."""

    id: str
    kind: str
    at: datetime | None
    agent: str | None
    session: str | None
    task: str | None
    what: Literal["command", "edit", "read", "search", "other", "text"]
    text: str
    """What was said, or what the event's own text says."""
    tool: str = ""
    command: str = ""
    description: str = ""
    folder: str = ""
    paths: list[str] = field(default_factory=list)
    edits: list[FileDiff] = field(default_factory=list)
    state: CallState = "unknown"
    exit_code: int | None = None
    output: str = ""
    is_cut: bool = False
    """Whether the text or the output is longer than what is shown."""


class Evidence(Struct, kw_only=True):
    """What source events show, in the order of the request."""

    items: list[EvidenceItem]
    missing: list[str]
    """Ids that the log does not have: they were trimmed or erased."""
    hidden: int
    """How many of the events are private and not shown."""
