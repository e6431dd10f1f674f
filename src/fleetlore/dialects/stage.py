"""`stage`: the event log of a multi-agent simulation. Absent fields are written as `null`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import (
    as_name,
    as_text,
    as_uuid,
    is_valid_kind,
    need_text,
    need_time,
    own_origin,
    validate_payload,
    without_none,
    write_time,
)
from fleetlore.dialects.wire import COMPACT, Record, json_type_name
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id

NAME = "stage"
SCHEMA_VERSION = 1

KINDS = frozenset(
    (
        "run.started",
        "run.finished",
        "world.observed",
        "agent.spoke",
        "agent.thought",
        "agent.reflected",
        "oracle.spoke",
        "judge.verdict",
        "user.injected",
        "commentary.posted",
    )
)
"""The kinds of the format; a log may contain others."""

_AGENT_KINDS = frozenset(("agent.spoke", "agent.thought", "agent.reflected"))

_FIELD_BY_DATA_KEY: Mapping[str, str] = {
    "turn": "turn",
    "session": "session_id",
    "model_profile": "model_profile",
    "model_id": "model_id",
}
"""Key in our `data` → field of the record itself, outside its payload."""


def _read_record(record: Record) -> Event:
    kind, payload, at = _read_kind(record), _read_payload(record), need_time(record, "created_at")
    own_id, run_id, actor = need_text(record, "id"), need_text(record, "run_id"), as_name(need_text(record, "actor"))
    text = payload.get("text") if isinstance(payload.get("text"), str) else None
    rest = {key: value for key, value in payload.items() if key != "text" or text is None}
    data = {key: value for key, value in rest.items() if key not in _FIELD_BY_DATA_KEY} | _read_record_fields(record)
    validate_payload(kind, data, under="$.payload")
    event_id = as_uuid(own_id) or derive_id(NAME, f"{run_id}\0{own_id}".encode())
    return Event(
        id=event_id,
        at=at,
        kind=kind,
        actor=actor or NAME,
        agent=actor if kind in _AGENT_KINDS else None,
        run=as_name(run_id),
        text=text,
        visibility="private" if kind == "agent.thought" else "public",
        data=data,
        origin=Origin(
            dialect=NAME,
            id=None if own_id == event_id else own_id,
            at=None if _write_time(at) == record["created_at"] else record["created_at"],
        ),
    )


def _read_kind(record: Record) -> str:
    kind = need_text(record, "kind")
    if not is_valid_kind(kind):
        raise DialectError("$.kind", f"not a dotted lower-case kind: {kind[:40]!r}")
    return kind


def _read_payload(record: Record) -> Record:
    if "payload" not in record:
        raise DialectError("$.payload", "missing")
    payload = record["payload"]
    if not isinstance(payload, dict):
        raise DialectError("$.payload", f"an object is needed, not {json_type_name(payload)}")
    return payload


def _read_record_fields(record: Record) -> Record:
    turn = record.get("turn")
    names = {ours: as_text(record.get(theirs)) for ours, theirs in _FIELD_BY_DATA_KEY.items() if ours != "turn"}
    return without_none(turn=turn if isinstance(turn, int) and not isinstance(turn, bool) else None, **names)


def _write_record(event: Event, town: str) -> Record | None:
    origin = own_origin(event, NAME)
    if (event.kind not in KINDS and origin is None) or event.id is None or event.at is None:
        return None
    record_fields = {theirs: event.data.get(ours) for ours, theirs in _FIELD_BY_DATA_KEY.items()}
    return {
        "id": (origin.id if origin else None) or event.id,
        "run_id": event.run or "",
        "turn": _convert_turn(record_fields.pop("turn"), is_native=origin is None),
        "kind": event.kind,
        "actor": event.actor or event.agent or NAME,
        "payload": _write_payload(event),
        "created_at": (origin.at if origin else None) or _write_time(event.at),
        "schema_version": SCHEMA_VERSION,
        **record_fields,
    }


def _convert_turn(turn: Any, *, is_native: bool) -> Any:
    """An event that was not read from this format and has no turn is written with turn 0."""
    return 0 if is_native and turn is None else turn


def _write_payload(event: Event) -> Record:
    payload = {key: value for key, value in event.data.items() if key not in _FIELD_BY_DATA_KEY}
    return payload if event.text is None else {"text": event.text, **payload}


def _write_time(at: datetime) -> str:
    return write_time(at).replace(".000000Z", "Z")


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read_record, write=_write_record)
"""Reads and writes the JSON of one event."""
