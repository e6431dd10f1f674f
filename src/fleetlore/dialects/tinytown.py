"""`tinytown`: the JSON of tinytown's event streams. Field order is wire order; absent fields are omitted."""

from __future__ import annotations

from functools import lru_cache, partial
from uuid import NAMESPACE_URL, uuid5

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_text, as_uuid, need_text, need_time, own_origin, without_none, write_time
from fleetlore.dialects.wire import COMPACT, Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin

NAME = "tinytown"
KIND_PREFIX = "town."

TYPES = frozenset(
    (
        "agent_state_changed",
        "agent_spawned",
        "agent_stopped",
        "task_assigned",
        "task_completed",
        "task_failed",
        "mission_state_changed",
        "mission_work_promoted",
        "mission_work_assigned",
        "mission_work_completed",
        "mission_work_blocked",
        "mission_help_needed",
        "mission_watch_triggered",
        "mission_event",
        "task_delegated",
        "agent_interrupted",
        "agent_resumed",
        "agent_completed",
        "agent_failed",
        "reviewer_handoff",
        "reviewer_approval",
        "conductor_escalation",
    )
)
"""The twenty-two event types, as written in a record."""

SPAWN_MODES = frozenset(("fresh", "forkedcontext", "resumed"))


@lru_cache(maxsize=16384)
def derive_town_uuid(town: str, value: str) -> str:
    """Return tinytown's UUID for an agent, task or mission: the value itself, or one derived from town and name."""
    return as_uuid(value) or str(uuid5(uuid5(NAMESPACE_URL, f"fleetlore:{town}"), value))


def _read_record(record: Record) -> Event:
    kind = need_text(record, "event_type")
    if kind not in TYPES:
        raise DialectError("$.event_type", f"not one of the {len(TYPES)} types: {kind[:40]!r}")
    text, at = need_text(record, "message"), need_time(record, "timestamp")
    agent = as_name(record.get("agent_id"))
    return Event(
        at=at,
        kind=KIND_PREFIX + kind,
        actor=agent or NAME,
        agent=agent,
        parent=as_name(record.get("parent_agent_id")),
        child=as_name(record.get("child_agent_id")),
        task=as_name(record.get("task_id")),
        mission=as_name(record.get("mission_id")),
        old_state=as_text(record.get("old_state")),
        new_state=as_text(record.get("new_state")),
        text=text or None,
        data=without_none(scope=record.get("scope"), spawn_mode=record.get("spawn_mode")),
        origin=Origin(dialect=NAME, at=None if write_time(at) == record["timestamp"] else record["timestamp"]),
    )


def _write_record(event: Event, town: str) -> Record | None:
    if (kind := type_from_kind(event.kind)) == event.kind or event.at is None:
        return None
    origin = own_origin(event, NAME)
    # Records from tinytown are written back unchanged; only our own names become UUIDs.
    to_uuid = partial(_derive_uuid_if_set, None if origin else town)
    return without_none(
        event_type=kind,
        agent_id=to_uuid(event.agent),
        task_id=to_uuid(event.task),
        mission_id=to_uuid(event.mission),
        old_state=event.old_state,
        new_state=event.new_state,
        message=event.text or "",
        timestamp=(origin.at if origin else None) or write_time(event.at),
        parent_agent_id=to_uuid(event.parent),
        child_agent_id=to_uuid(event.child),
        scope=event.data.get("scope") if origin else as_text(event.data.get("scope")),
        spawn_mode=_convert_spawn_mode(event.data.get("spawn_mode"), is_foreign=origin is not None),
    )


def type_from_kind(kind: str) -> str:
    """Return tinytown's event type for a kind; the kind itself if it has none."""
    name = kind.removeprefix(KIND_PREFIX)
    return name if name in TYPES and name != kind else kind


def _derive_uuid_if_set(town: str | None, value: str | None) -> str | None:
    return value if town is None or value is None else derive_town_uuid(town, value)


def _convert_spawn_mode(value: object, *, is_foreign: bool) -> object:
    # tinytown (Rust) drops the whole entry if it does not know the mode.
    return value if is_foreign or (isinstance(value, str) and value in SPAWN_MODES) else None


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read_record, write=_write_record)
"""Reads and writes the `data` field of a stream entry."""
