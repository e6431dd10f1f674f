"""Identifies a process, so that it can be found again."""

from __future__ import annotations

from msgspec import Struct


class Process(Struct, frozen=True, kw_only=True):
    """A process that is stored in the log. Its id may be reused later; the start time distinguishes it."""

    pid: int
    group: int
    born: str
    """Start time, as in `table.ProcessEntry.born`."""
    command: str
    """As people write it, without secrets."""
