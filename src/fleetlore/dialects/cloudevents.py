"""`cloudevents`: CloudEvents 1.0 in structured JSON, one per line.

Every event can be written: its canonical JSON is the `data` of a CloudEvent of type `fleetlore.<kind>`, and reading that
restores the event. A foreign CloudEvent becomes an event with a kind derived from its type, and can be written as a CloudEvent again.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_object, as_uuid, need_text, own_origin, read_time, without_none, write_time
from fleetlore.dialects.wire import COMPACT, Record
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id

NAME = "cloudevents"
SPEC_VERSION = "1.0"
OWN_NAMESPACE = "fleetlore"
"""Prefix of our own types and sources."""

_SUBJECT_FIELDS = ("task", "goal", "run", "mission", "agent")
_TRACEPARENT_PATTERN = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def _read_record(record: Record) -> Event:
    if (version := need_text(record, "specversion")) != SPEC_VERSION:
        raise DialectError("$.specversion", f"only {SPEC_VERSION} is read here, not {version[:40]!r}")
    own_id, source, own_type = (_require_text(record, key) for key in ("id", "source", "type"))
    return _unwrap_own_event(record, own_id, source, own_type) or _read_foreign(record, own_id, source, own_type)


def _require_text(record: Record, key: str) -> str:
    value = need_text(record, key)
    if not value:
        raise DialectError(f"$.{key}", "empty")
    return value


def _unwrap_own_event(record: Record, own_id: str, source: str, own_type: str) -> Event | None:
    """Return the event inside a CloudEvent that we wrote; `None` for a foreign one."""
    inner = record.get("data")
    if not source.startswith(f"{OWN_NAMESPACE}:") or not isinstance(inner, dict) or own_type != f"{OWN_NAMESPACE}.{inner.get('kind')}":
        return None
    try:
        event = codec.from_builtins(codec.upgrade_record(dict(inner)))
    except InvalidEvent:
        return None
    return event if event.id in (None, own_id) and event.position is None and own_origin(event, NAME) is None else None


def _read_foreign(record: Record, own_id: str, source: str, own_type: str) -> Event:
    data = as_object(record.get("data"))
    event_id = as_uuid(own_id) or derive_id(NAME, f"{source}\0{own_id}".encode())
    at = _read_time(record)
    return Event(
        id=event_id,
        at=at,
        kind=_find_kind(own_type, data),
        actor=as_name(source) or NAME,
        trace=_read_trace(record.get("traceparent")),
        data=data,
        origin=Origin(
            dialect=NAME,
            id=None if own_id == event_id else own_id,
            at=None if at is None or write_time(at) == record["time"] else record["time"],
        ),
    )


def _read_time(record: Record) -> datetime | None:
    text = record.get("time")
    at = read_time(text)
    if at is None and text is not None:
        raise DialectError("$.time", f"not an RFC 3339 time: {str(text)[:40]!r}")
    return at


def _read_trace(value: object) -> str | None:
    return value if isinstance(value, str) and _TRACEPARENT_PATTERN.fullmatch(value) else None


def _find_kind(own_type: str, data: Record) -> str:
    kind = make_kind_from_type(own_type)
    try:
        catalog.check_payload(kind, data)
    except InvalidEvent:
        # A foreign type that equals one of our kinds, with data that does not fit our schema for it.
        return _truncate_kind(f"{NAME}.{kind}")
    return kind


def make_kind_from_type(own_type: str) -> str:
    """Convert a CloudEvent's type to a valid kind."""
    words = re.sub(r"[^a-z0-9_.]", "_", own_type.lower()).split(".")
    kind = _truncate_kind(".".join(word if "a" <= word[0] <= "z" else f"x{word}" for word in words if word))
    return kind if "." in kind else _truncate_kind(f"{NAME}.{kind or 'event'}")


def _truncate_kind(kind: str) -> str:
    return kind[: catalog.LONGEST_KIND].rstrip(".")


def _write_record(event: Event, town: str) -> Record | None:
    origin = own_origin(event, NAME)
    return _wrap_own_event(event, town) if origin is None else _write_foreign(event, origin)


def _write_foreign(event: Event, origin: Origin) -> Record:
    return without_none(
        specversion=SPEC_VERSION,
        type=event.kind,
        source=event.actor,
        id=origin.id or event.id,
        time=origin.at or (None if event.at is None else write_time(event.at)),
        traceparent=event.trace,
        data=event.data or None,
    )


def _wrap_own_event(event: Event, town: str) -> Record:
    canonical = codec.to_builtins(event)
    return without_none(
        specversion=SPEC_VERSION,
        id=event.id or derive_id(OWN_NAMESPACE, codec.encode_event(event)),
        source=f"{OWN_NAMESPACE}:{town}",
        type=f"{OWN_NAMESPACE}.{event.kind}",
        time=canonical.get("at"),
        datacontenttype="application/json",
        subject=_make_subject(event),
        traceparent=event.trace,
        data=canonical,
    )


def _make_subject(event: Event) -> str | None:
    scopes: dict[str, Any] = {name: value for name in _SUBJECT_FIELDS if (value := getattr(event, name)) is not None}
    return next((f"{name}:{value}" for name, value in scopes.items()), None)


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read_record, write=_write_record)
"""Reads and writes one CloudEvent per line."""
