"""Positions of the embedded backends: a sequence number, zero-padded so that text order is log order."""

from __future__ import annotations

from collections.abc import Iterable

from fleetlore.errors import Invalid
from fleetlore.log.base import Position, StoredRecord

_POSITION_DIGITS = 16  # more events than the largest SQLite file can hold


def to_position(sequence: int) -> Position:
    """The position of a sequence number."""
    return str(sequence).zfill(_POSITION_DIGITS)  # a third of the time that a format takes; every event that is read has one


def to_stored_records(rows: Iterable[tuple[int, bytes]]) -> list[StoredRecord]:
    """The records of sequence numbers; without a call for each, which reading a log notices."""
    return [StoredRecord(str(sequence).zfill(_POSITION_DIGITS), raw) for sequence, raw in rows]


def to_sequence(position: Position) -> int:
    """The sequence number of a position."""
    if position.isascii() and position.isdigit() and len(position) <= _POSITION_DIGITS:
        return int(position)
    raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")
