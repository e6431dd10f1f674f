"""`beads`: the audit trail of an issue tracker, one JSON object per line.

Written as Go writes a map: keys sorted, `<`, `>` and `&` escaped. `old_value` and `new_value` are strings that contain
JSON, plain text, or nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_text, as_uuid, first_line, need_text, need_time, own_origin, without_none, write_time
from fleetlore.dialects.wire import COMPACT, JsonStyle, Record, json_type_name
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id

NAME = "beads"

CREATED, DISPATCHED, CLOSED, REOPENED, UPDATED = (
    "work.task_created",
    "fleet.dispatch",
    "town.task_completed",
    "work.reopened",
    "work.updated",
)
TYPE_BY_KIND = {CREATED: "created", DISPATCHED: "status_changed", CLOSED: "closed", REOPENED: "reopened", UPDATED: "updated"}
"""Kind → event type when we write a record; other types are read as `work.updated`."""

_KIND_BY_TYPE = {"created": CREATED, "closed": CLOSED, "reopened": REOPENED}
_WORKING_STATUSES = frozenset(("hooked", "in_progress"))
# `origin` has the full value; the one in `data` is only for display.
_MAX_VALUE_CHARS = 500
_MAX_EXACT_INTEGER = 2**53
_DEFAULT_CLOSE_REASON = "Closed"  # the tracker's default
_GO_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def _dump_like_go(value: Any) -> str:
    # These characters occur only inside strings, so the whole text can be escaped at once.
    return COMPACT.dump(value).translate(_GO_ESCAPES)


GO_STYLE = JsonStyle(dump=_dump_like_go, comma=",", colon=":", constants=False)
"""Go's `json.Marshal`."""


def _read_record(record: Record) -> Event:
    own_type, issue, actor = need_text(record, "event_type"), need_text(record, "issue_id"), as_name(need_text(record, "actor"))
    at, own_id = need_time(record, "created_at"), _read_id(record)
    old, new = _read_nested_object(record, "old_value"), _read_nested_object(record, "new_value")
    kind = _find_kind(own_type, old, new)
    event_id = None if own_id is None else as_uuid(own_id) or derive_id(NAME, f"{issue}\0{own_id}".encode())
    data = _read_data(kind, own_type, record, old, new)
    return Event(
        id=event_id,
        at=at,
        kind=kind,
        actor=actor or NAME,
        agent=_find_agent(kind, actor, old, new),
        task=as_name(issue),
        old_state=as_text(old.get("status")) if "status" in new else None,
        new_state=as_text(new.get("status")),
        text=_describe_data(data),
        data=data,
        origin=Origin(
            dialect=NAME,
            id=None if own_id == event_id else own_id,
            at=None if _write_time(at) == record["created_at"] else record["created_at"],
        ),
    )


def _read_id(record: Record) -> str | None:
    own = record.get("id")
    if isinstance(own, bool) or not isinstance(own, int | str | None):
        raise DialectError("$.id", f"a whole number or a string is needed, not {json_type_name(own)}")
    return None if own in (None, "") else str(own)


def _read_nested_object(record: Record, key: str) -> Record:
    """Decode the object inside a string; empty if there is none."""
    text = record.get(key)
    if not isinstance(text, str):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _find_kind(own_type: str, old: Record, new: Record) -> str:
    if own_type in _KIND_BY_TYPE:
        return _KIND_BY_TYPE[own_type]
    status = new.get("status", old.get("status"))
    is_dispatch = as_name(new.get("assignee")) is not None and isinstance(status, str) and status in _WORKING_STATUSES
    return DISPATCHED if is_dispatch else UPDATED


def _find_agent(kind: str, actor: str | None, old: Record, new: Record) -> str | None:
    """Find whose work it is. An actor who only manages the work of others is not its agent."""
    if kind == DISPATCHED:
        return as_name(new.get("assignee"))
    assignee = as_name(old.get("assignee"))
    if kind == CLOSED:
        return assignee or actor
    return assignee if kind == REOPENED or assignee == actor else None


def _read_data(kind: str, own_type: str, record: Record, old: Record, new: Record) -> Record:
    known = without_none(title=as_text(new.get("title")) or as_text(old.get("title")), comment=as_text(record.get("comment")))
    plain = None if new else as_text(record.get("new_value"))
    if kind == CREATED:
        details = {key: _truncate_value(new.get(key)) for key in ("description", "priority")}
        return known | {key: value for key, value in details.items() if isinstance(value, int | str) and not isinstance(value, bool)}
    if kind == CLOSED:
        result = plain or as_text(new.get("close_reason"))
        return known | without_none(result=None if result == _DEFAULT_CLOSE_REASON else result)
    if kind == REOPENED:
        return known | without_none(reason=plain or known.get("comment"))
    if kind == DISPATCHED:
        return known | without_none(status=as_text(new.get("status")))
    return known | {"type": own_type} | without_none(released=_find_released(old, new)) | _describe_change(record, old, new)


def _find_released(old: Record, new: Record) -> str | None:
    """From whom a task was taken away, if it was given to nobody else."""
    return as_name(old.get("assignee")) if "assignee" in new and as_name(new.get("assignee")) is None else None


def _describe_change(record: Record, old: Record, new: Record) -> Record:
    if not new:
        return without_none(old=_truncate_value(as_text(record.get("old_value"))), new=_truncate_value(as_text(record.get("new_value"))))
    if len(new) > 1:
        return {"field": _truncate_value(", ".join(new))}
    [(field, value)] = new.items()
    return without_none(field=_truncate_value(field), old=_truncate_value(old.get(field)), new=_truncate_value(value))


def _truncate_value(value: object) -> str | int | None:
    """Return a simple value, truncated for display; `None` for anything else."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE_CHARS else f"{value[:_MAX_VALUE_CHARS]}…"
    return value if isinstance(value, int) and abs(value) < _MAX_EXACT_INTEGER else None


def _describe_data(data: Record) -> str | None:
    parts = (first_line(data.get("title")), first_line(data.get("result") or data.get("reason") or data.get("comment")))
    return ": ".join(part for part in parts if part) or None


def _write_record(event: Event, town: str) -> Record | None:
    origin = own_origin(event, NAME)
    if event.kind not in TYPE_BY_KIND or event.at is None:
        return None
    if origin is None and (event.task is None or (event.kind == DISPATCHED and event.agent is None)):
        return None
    own_type = as_text(event.data.get("type")) if event.kind == UPDATED and origin else None
    return {
        "actor": event.actor or event.agent or NAME,
        "comment": as_text(event.data.get("comment")) if origin else _native_comment(event),
        "created_at": (origin.at if origin else None) or _write_time(event.at),
        "event_type": own_type or TYPE_BY_KIND[event.kind],
        "id": _write_id((origin.id if origin else None) or event.id),
        "issue_id": event.task or "",
        **(_default_values(event) if origin else _native_values(event)),
    }


def _write_id(own_id: str | None) -> str | int | None:
    is_number = own_id is not None and own_id.isascii() and own_id.isdecimal() and len(own_id) < 20 and str(int(own_id)) == own_id
    return int(own_id) if own_id is not None and is_number else own_id


def _write_time(at: datetime) -> str:
    return write_time(at).replace(".000000Z", "Z")


def _default_values(event: Event) -> Record:
    """Return what most records of a kind have under both keys; `origin.rest` has the exceptions."""
    empty = "" if event.kind in (CREATED, CLOSED) else None
    result = as_text(event.data.get("result")) if event.kind == CLOSED else None
    return {"new_value": result or empty, "old_value": empty}


def _native_comment(event: Event) -> str | None:
    reason = as_text(event.data.get("reason")) if event.kind == REOPENED else None
    return reason or (event.text if event.kind in (DISPATCHED, REOPENED, UPDATED) else None)


def _native_values(event: Event) -> Record:
    assignee = without_none(assignee=event.agent)
    if event.kind == CREATED:
        new = without_none(**{key: event.data.get(key) for key in ("title", "description", "priority")})
        return {"new_value": _encode_object(new or without_none(title=event.text)), "old_value": ""}
    if event.kind == CLOSED:
        return {"new_value": as_text(event.data.get("result")) or event.text or "", "old_value": _encode_object(assignee)}
    if event.kind == DISPATCHED:
        return {"new_value": _encode_object({**assignee, "status": "hooked"}), "old_value": ""}
    if event.kind == REOPENED:
        return {
            "new_value": _encode_object({"status": event.new_state or "open"}),
            "old_value": _encode_object({**assignee, "status": "closed"}),
        }
    field = as_text(event.data.get("field"))
    new, old = ({field: event.data.get(key)} if field else {} for key in ("new", "old"))
    return {"new_value": _encode_object(new), "old_value": _encode_object(assignee | old)}


def _encode_object(value: Record) -> str:
    return _dump_like_go(value) if value else ""


DIALECT = Dialect(name=NAME, style=GO_STYLE, read=_read_record, write=_write_record)
"""The lines of `events.jsonl`."""
