"""A process, named so that it can be found again."""

from __future__ import annotations

from msgspec import Struct


class Process(Struct, frozen=True, kw_only=True):
    """A process, so that it can be found again: its id may be another's by then, and its start tells."""

    pid: int
    group: int
    born: str
    """Its start time as the system tells it."""
    command: str
    """As people write it, without secrets."""
