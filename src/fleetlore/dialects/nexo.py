"""`nexo`: the sixteen events of a goal driver, tagged by `kind`, and the NATS subject of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_object, first_line, need_text, own_origin, read_time, validate_payload
from fleetlore.dialects.wire import COMPACT, Record
from fleetlore.errors import DialectError, Invalid
from fleetlore.events import catalog
from fleetlore.events.budget_axes import list_axes
from fleetlore.events.envelope import Event, Origin

NAME = "nexo"
KIND_PREFIX = "driver."

SUBJECT_PREFIX = "agent.driver"
SUBJECT_BY_KIND: Mapping[str, str] = {
    "goal_started": "agent.driver.goal.started",
    "goal_completed": "agent.driver.goal.completed",
    "attempt_started": "agent.driver.attempt.started",
    "attempt_completed": "agent.driver.attempt.completed",
    "decision": "agent.driver.decision",
    "acceptance": "agent.driver.acceptance",
    "budget_exhausted": "agent.driver.budget.exhausted",
    "escalate": "agent.driver.escalate",
    "replay_decision": "agent.driver.replay",
    "compact_requested": "agent.driver.compact",
    "compact_completed": "agent.driver.compact.completed",
    "compact_summary_stored": "agent.driver.compact.summary_stored",
    "extract_memories_completed": "agent.driver.extract_memories.completed",
    "extract_memories_skipped": "agent.driver.extract_memories.skipped",
    "auto_dream_outcome": "agent.driver.auto_dream",
    "progress": "agent.driver.progress",
}
"""The sixteen kinds as written in a record → the NATS subject of each."""

# Where a record may have text for people, best first.
_TEXT_PATHS = (
    ("goal", "description"),
    ("reason",),
    ("error_message",),
    ("last_text",),
    ("decision", "rationale"),
    ("result", "outcome", "reason"),
    ("outcome", "outcome", "reason"),
    ("result", "final_text"),
    ("outcome", "final_text"),
    ("focus",),
)
_GOAL_ID_PATHS = (("goal_id",), ("goal", "id"), ("outcome", "goal_id"), ("result", "goal_id"), ("decision", "goal_id"))
_TIME_PATHS = (("decision", "decided_at"), ("verdict", "evaluated_at"))

_EACH_ITEM = "*"
"""In a path: every item of an array."""
_ZERO_BASED_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "attempt_started": (("turn_index",),),
    "attempt_completed": (("result", "turn_index"), ("result", "decisions_recorded", _EACH_ITEM, "turn_index")),
    "decision": (("decision", "turn_index"),),
}
"""Where the format counts turns from zero; elsewhere it counts from one, as we do everywhere."""
_AXIS_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "attempt_completed": (("result", "outcome", "axis"),),
    "goal_completed": (("outcome", "outcome", "axis"),),
    "budget_exhausted": (("axis",),),
}
"""Where the exhausted budget is named."""
_MAX_TURN = 2**32 - 1


def nats_subject(event: Event) -> str:
    """Return the NATS subject of a `driver.*` event; raise `Invalid` for any other."""
    name = SUBJECT_BY_KIND.get(event.kind.removeprefix(KIND_PREFIX)) if event.kind.startswith(KIND_PREFIX) else None
    if name is None:
        raise Invalid(f"{event.kind} has no subject; only the {len(SUBJECT_BY_KIND)} kinds of `driver.*` have one")
    return name


def replace_prefix(subject: str, prefix: str) -> str:
    """Return a subject under another prefix than `agent.driver`."""
    return prefix + subject.removeprefix(SUBJECT_PREFIX)


def _read_record(record: Record) -> Event:
    kind = need_text(record, "kind")
    if kind not in SUBJECT_BY_KIND:
        raise DialectError("$.kind", f"not one of the {len(SUBJECT_BY_KIND)} kinds: {kind[:40]!r}")
    data = {key: value for key, value in record.items() if key != "kind"}
    data = _replace_at_paths(data, _ZERO_BASED_PATHS.get(kind, ()), _to_one_based)
    validate_payload(KIND_PREFIX + kind, data, under="$")
    return Event(
        at=_find_time(data),
        kind=KIND_PREFIX + kind,
        actor=NAME,
        goal=next((name for value in _values_at_paths(data, _GOAL_ID_PATHS) if (name := as_name(value))), None),
        text=next((line for value in _values_at_paths(data, _TEXT_PATHS) if (line := first_line(value))), None),
        data=data,
        origin=Origin(dialect=NAME),
    )


def _find_time(data: Record) -> datetime | None:
    return next((at for value in _values_at_paths(data, _TIME_PATHS) if (at := read_time(value))), None)


def _values_at_paths(data: Record, paths: tuple[tuple[str, ...], ...]) -> Iterator[Any]:
    for path in paths:
        value: Any = data
        for key in path:
            value = as_object(value).get(key)
        yield value


def _write_record(event: Event, town: str) -> Record | None:
    kind = event.kind.removeprefix(KIND_PREFIX)
    if kind not in SUBJECT_BY_KIND or kind == event.kind:
        return None
    data = event.data if own_origin(event, NAME) else _convert_to_payload(event)
    if data is None:
        return None
    data = _replace_at_paths(data, _ZERO_BASED_PATHS.get(kind, ()), _to_zero_based)
    if not own_origin(event, NAME):
        data = _replace_at_paths(data, _AXIS_PATHS.get(kind, ()), _replace_unknown_axis)
    return {"kind": kind, **data}


def _convert_to_payload(event: Event) -> Record | None:
    payload = catalog.find_payload(event.kind)
    if payload is None:
        return None
    try:
        raw = msgspec.json.encode(msgspec.convert(event.data, payload))
    except msgspec.ValidationError:
        return None
    record: Record = msgspec.json.decode(raw)
    return record


def _to_one_based(turn: Any) -> Any:
    """Add one, but not to the format's maximum; `origin.rest` keeps that."""
    return turn + 1 if _is_turn(turn) and turn < _MAX_TURN else turn


def _to_zero_based(turn: Any) -> Any:
    return max(turn - 1, 0) if _is_turn(turn) else turn


def _is_turn(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _replace_unknown_axis(axis: Any) -> Any:
    """Replace an axis that nexo does not have, such as `usd`, by the nearest one."""
    return next((row.foreign_name for row in list_axes("goal") if row.foreign_name and row.spent_as == axis), axis)


def _replace_at_paths(data: Record, paths: tuple[tuple[str, ...], ...], change: Callable[[Any], Any]) -> Record:
    """Return a copy with the values at these paths changed."""
    for path in paths:
        data = _replace_at_path(data, path, change)
    return data


def _replace_at_path(value: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    key, *rest = path
    if key == _EACH_ITEM and isinstance(value, list):
        return [_replace_at_path(inner, tuple(rest), change) for inner in value]
    if isinstance(value, dict) and key in value:
        return {**value, key: _replace_at_path(value[key], tuple(rest), change)}
    return value


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read_record, write=_write_record)
"""Reads and writes what a driver publishes."""
