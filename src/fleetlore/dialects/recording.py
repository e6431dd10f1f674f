"""Recordings: transcripts and telemetry that a program writes for its own use. They are only read.

One record may give several events, and several records one. So a reader goes through one source from its start and keeps
what later records need: which call a result belongs to, which reply is still incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from fleetlore.dialects import wire
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

QUIET = timedelta(minutes=10)
"""A source without writes for this long counts as finished."""

_record_decoder = msgspec.json.Decoder()


class RecordReader(Protocol):
    """Reads the records of one source in order."""

    def read(self, raw: bytes) -> list[Event]:
        """Return the events of one more record, each with its id; empty if it adds nothing of its own.

        Raises `DialectError` for an invalid record; the reader continues with the next one.
        """

    def flush_complete(self) -> list[Event]:
        """Return held-back events that no later record can change."""

    def end(self, now: datetime | None = None) -> list[Event]:
        """Return everything held back for records that will not come.

        `now`: the source may have been cut off while something was still going on; `None`: it is complete.
        """

    def save(self) -> bytes:
        """Return the reader's state, for `Recording.open` to continue from."""


class DatabaseQuery(NamedTuple):
    """How records are read from a SQLite file to which a program only adds rows."""

    tables: frozenset[str]
    """Tables by which such a file is recognised. Of several programs, the one with the most is meant."""
    last: str
    """SQL for the number of the newest row; `NULL` or 0 if there is none."""
    rows: str
    """SQL for the rows after the number `?`, in order; the first column is the row's number, and the next two never change."""
    to_record: Callable[[tuple[Any, ...]], bytes]
    """Return a row as a record."""


class RecordFiles(NamedTuple):
    """How records are read from a folder in which a program writes each into a file of its own."""

    folder: str
    """Where they are, beside the file that stands for the session."""
    pattern: re.Pattern[str]
    """The names of the files. The group is the record's number, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One program's recording format."""

    name: str
    """As in `origin.dialect`."""
    open: Callable[[bytes | None], RecordReader]
    """Return a reader for a new source, or one that continues from a saved state."""
    read_path: Callable[[str], bytes | None] = lambda path: None
    """Return a record with what only the path of a file and the files beside it say. It is read first, each time that the file is read."""
    database: DatabaseQuery | None = None
    """For a program that keeps its records in a SQLite file."""
    record_files: RecordFiles | None = None
    """For a program that keeps each record in a file of its own."""
    whole_files: bool = False
    """Whether a file may be a single record over many lines."""


class IndependentReader:
    """Reader for formats whose records are independent of each other: it has no state and holds nothing back."""

    def __init__(self, convert_record: Callable[[Record], list[Event]]) -> None:
        self._convert_record = convert_record

    def read(self, raw: bytes) -> list[Event]:
        """Return the events of one record."""
        return self._convert_record(parse_record(raw))

    def flush_complete(self) -> list[Event]:
        """Return nothing: nothing is held back."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """Return nothing: nothing is held back."""
        return []

    def save(self) -> bytes:
        """Return an empty state."""
        return b""


def parse_record(raw: bytes) -> Record:
    """Parse one record; raise `DialectError` for anything but a JSON object."""
    try:
        value: Any = _record_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Slower, but accepts lone surrogates, huge numbers and NaN.
        return wire.parse_record_with_spellings(raw, wire.PYTHON)[0]
    if not isinstance(value, dict):
        raise DialectError("$", f"an object is needed, not {wire.json_type_name(value)}")
    return value
