"""Recordings: what a program wrote down for its own use. One record may tell several events, and several records one.

A recording is read by a reader that goes through one source from its beginning and keeps in mind what later records need:
which call an answer belongs to, which reply is still growing. It is only read, never written: its programs are not fed by us.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from fleetlore.dialects import wire
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

QUIET = timedelta(minutes=10)
"""A source that nothing was written to for this long is taken as finished."""

_RECORD_DECODER = msgspec.json.Decoder()


class RecordReader(Protocol):
    """Reads the records of one source in their order."""

    def read(self, raw: bytes) -> list[Event]:
        """The events of one more record, each with its id. None: it is folded, for others tell it or it tells nothing.

        `DialectError` for what is no record; the reader goes on with the next as if it had not been there.
        """

    def flush_complete(self) -> list[Event]:
        """What was held back, as far as no later record can change it."""

    def end(self, now: datetime | None = None) -> list[Event]:
        """What was held back for records that will not come.

        `now`: the source may have been cut in the middle of something that is still going on; `None`: it is complete.
        """

    def save(self) -> bytes:
        """All that it keeps in mind, for `Recording.open` to go on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One program's way of writing down what it does."""

    name: str
    """As `origin.dialect` has it."""
    open: Callable[[bytes | None], RecordReader]
    """A reader for a new source, or one that goes on from what another has saved."""
    whole_files: bool = False
    """Whether a file may be a single record, written over many lines."""


def parse_record(raw: bytes) -> Record:
    """One record; `DialectError` for anything that is no JSON object."""
    try:
        value: Any = _RECORD_DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Slower, and more forgiving: half a surrogate pair, a number that no machine holds, NaN.
        return wire.parse_record_with_spellings(raw, wire.PYTHON)[0]
    if not isinstance(value, dict):
        raise DialectError("$", f"an object is needed, not {wire.json_type_name(value)}")
    return value
