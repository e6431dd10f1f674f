"""Base of all dialects: one foreign record to one event and back, without loss.

A dialect is two pure functions, record → event and event → record. After reading, the event is written again at once;
only what that gets wrong is stored in `origin.rest`:

    {"keys": [...], "values": {key: ...}, "inner": {key: the same again}, "spellings": {pointer: text}}

`keys` are the record's keys in order, if they differ; `values` the values that differ; `inner` the differences inside an
object; `spellings` are explained in `wire.py`. Encoding applies them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from fleetlore.dialects import wire
from fleetlore.dialects.fields import EPOCH, own_origin
from fleetlore.dialects.wire import JsonStyle, Record
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One foreign event format."""

    name: str
    style: JsonStyle
    read: Callable[[Record], Event]
    """Convert a record to an event, without id if the record has none; raises `DialectError` for a bad record."""
    write: Callable[[Event, str], Record | None]
    """Convert an event of a town to a record; `None` if the format cannot express it."""

    def decode(self, raw: bytes, *, nth: int = 0) -> Event:
        """Decode one record, without its newline; raise `DialectError` if it is not one.

        `nth` is the number of earlier identical records in the same input.
        """
        record, spellings = wire.parse_record_with_spellings(raw, self.style)
        event = self.read(record)
        if event.id is None:
            event = replace(event, id=derive_id(self.name, raw, nth))
        origin = own_origin(event, self.name)
        if origin is None:
            return event
        rest = self._compute_rest(event, record)
        if spellings:
            rest["spellings"] = spellings
        return replace(event, origin=replace(origin, rest=rest)) if rest else event

    def encode(self, event: Event, *, town: str = "default") -> bytes | None:
        """Encode the event as one record; `None` if the format cannot express it."""
        record = self.write(event, town)
        if record is None:
            return None
        origin = own_origin(event, self.name)
        rest = _as_mapping(origin.rest if origin else None)
        return wire.write_record(apply_difference(record, rest), self.style, _as_mapping(rest.get("spellings")))

    def _compute_rest(self, event: Event, record: Record) -> Record:
        written = self.write(event, "default") or {}
        rest = compute_difference(written, record) or {}
        if event.at is None:
            # An importer gives a record without a time that of its neighbour; it must not be written back.
            timed = self.write(replace(event, at=EPOCH), "default") or {}
            if list(timed) != list(written):
                rest["keys"] = list(record)
        return rest


def compute_difference(written: Record, record: Record) -> Record | None:
    """Return what is needed besides `written` to restore `record`, including key order; `None` if nothing."""
    if _is_same_json(written, record):
        return None
    values = {key: value for key, value in record.items() if not _is_derivable(key, value, written)}
    inner = {
        key: difference
        for key, value in record.items()
        if key not in values and isinstance(value, dict) and (difference := compute_difference(written[key], value)) is not None
    }
    keys = list(record) if list(record) != list(written) else None
    return {name: part for name, part in (("keys", keys), ("values", values), ("inner", inner)) if part or part == []}


def _is_derivable(key: str, value: Any, written: Record) -> bool:
    return key in written and ((isinstance(value, dict) and isinstance(written[key], dict)) or _is_same_json(written[key], value))


def _is_same_json(left: Any, right: Any) -> bool:
    return msgspec.json.encode(left) == msgspec.json.encode(right)


def apply_difference(written: Record, rest: Record) -> Record:
    """Apply a difference; damaged parts of it are ignored."""
    keys, values, inner = rest.get("keys"), _as_mapping(rest.get("values")), _as_mapping(rest.get("inner"))
    if not (isinstance(keys, list) or values or inner):
        return written
    order = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else list(written)
    return {
        key: values[key] if key in values else _apply_nested_difference(written[key], inner.get(key))
        for key in order
        if key in values or key in written
    }


def _apply_nested_difference(value: Any, rest: Any) -> Any:
    return apply_difference(value, rest) if isinstance(value, dict) and isinstance(rest, dict) else value


def _as_mapping(value: Any) -> Record:
    return value if isinstance(value, dict) else {}
