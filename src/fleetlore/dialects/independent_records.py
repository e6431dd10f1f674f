"""The reader of recordings whose records know nothing of each other: it keeps nothing in mind and holds nothing back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event


class IndependentReader:
    """Tells each record by itself."""

    def __init__(self, tell: Callable[[Record], list[Event]]) -> None:
        self._parse_record = tell

    def read(self, raw: bytes) -> list[Event]:
        """The events of one record."""
        return self._parse_record(parse_record(raw))

    def flush_complete(self) -> list[Event]:
        """Nothing is held back."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """Nothing is held back."""
        return []

    def save(self) -> bytes:
        """Nothing is kept in mind."""
        return b""
