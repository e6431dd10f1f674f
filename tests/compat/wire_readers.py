"""Readers as strict as those of the two Rust programs (serde): written from their documented formats, not from our code."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

TOWN_KEYS = (
    "event_type", "agent_id", "task_id", "mission_id", "old_state", "new_state", "message", "timestamp",
    "parent_agent_id", "child_agent_id", "scope", "spawn_mode",
)  # fmt: skip
TOWN_TYPES = [
    "agent_state_changed", "agent_spawned", "agent_stopped", "task_assigned", "task_completed", "task_failed",
    "mission_state_changed", "mission_work_promoted", "mission_work_assigned", "mission_work_completed", "mission_work_blocked",
    "mission_help_needed", "mission_watch_triggered", "mission_event", "task_delegated", "agent_interrupted", "agent_resumed",
    "agent_completed", "agent_failed", "reviewer_handoff", "reviewer_approval", "conductor_escalation",
]  # fmt: skip
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6}|\.\d{9})?Z")
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_town_entry(fields: dict[bytes, bytes], *, own_key: bool = False) -> dict[str, Any]:
    """A stream entry of tinytown: two fields in order, compact JSON in the fixed order of keys, nothing null.

    `own_key`: Fleetlore's log adds one key and the field `checksum`. Tinytown ignores both: it asks for its fields by name.
    """
    assert list(fields) == [b"event_type", b"data", *([b"checksum"] if own_key and b"checksum" in fields else [])]
    record: dict[str, Any] = json.loads(fields[b"data"])
    if own_key:
        record.pop("fleetlore", None)
    else:
        assert json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() == fields[b"data"]
    assert list(record) == [key for key in TOWN_KEYS if key in record]
    assert all(isinstance(value, str) for value in record.values())
    assert record["event_type"] == fields[b"event_type"].decode()
    assert record["event_type"] in TOWN_TYPES
    assert RFC3339.fullmatch(record["timestamp"])
    assert isinstance(record["message"], str)
    for key in TOWN_KEYS:
        if key.endswith("_id") and key in record:
            assert UUID_TEXT.fullmatch(record[key])
            assert str(UUID(record[key])) == record[key]
    assert record.get("spawn_mode", "fresh") in ("fresh", "forkedcontext", "resumed")
    return record


# --- nexo

USAGE = (
    ("turns", int), ("wall_time", str), ("tokens", int), ("consecutive_denies", int), ("consecutive_errors", int), ("consecutive_413", int),
)  # fmt: skip
UNITS = r"(\d+years?)?|(\d+months?)?|(\d+days?)?|(\d+h)?|(\d+m)?|(\d+s)?|(\d+ms)?|(\d+us)?|(\d+ns)?"
DRIVER_FIELDS: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "goal_started": ("goal.started", (("goal", dict),)),
    "goal_completed": ("goal.completed", (("outcome", dict),)),
    "attempt_started": ("attempt.started", (("goal_id", "uuid"), ("turn_index", int), ("usage", USAGE))),
    "attempt_completed": ("attempt.completed", (("result", dict),)),
    "decision": ("decision", (("decision", dict),)),
    "acceptance": ("acceptance", (("goal_id", "uuid"), ("verdict", dict))),
    "budget_exhausted": ("budget.exhausted", (("goal_id", "uuid"), ("axis", str), ("usage", USAGE))),
    "escalate": ("escalate", (("goal_id", "uuid"), ("reason", str))),
    "replay_decision": ("replay", (("goal_id", "uuid"), ("turn_index", int), ("decision", dict), ("error_message", str))),
    "compact_requested": (
        "compact",
        (
            ("goal_id", "uuid"), ("turn_index", int), ("focus", str), ("token_pressure", float),
            ("before_tokens", int), ("age_minutes", int), ("trigger", dict),
        ),
    ),
    "compact_completed": ("compact.completed", (("goal_id", "uuid"), ("turn_index", int), ("after_tokens", int))),
    "compact_summary_stored": (
        "compact.summary_stored", (("goal_id", "uuid"), ("turn_index", int), ("before_tokens", int), ("after_tokens", int)),
    ),
    "extract_memories_completed": (
        "extract_memories.completed", (("goal_id", "uuid"), ("turn_index", int), ("memories_saved", int), ("duration_ms", int)),
    ),
    "extract_memories_skipped": ("extract_memories.skipped", (("goal_id", "uuid"), ("reason", str))),
    "auto_dream_outcome": ("auto_dream", (("goal_id", "uuid"), ("outcome_kind", str))),
    "progress": ("progress", (("goal_id", "uuid"), ("turn_index", int), ("usage", USAGE), ("last_text", (str, type(None))))),
}  # fmt: skip
"""Kind → the end of its subject, and its fields in wire order."""
AXES = ("turns", "wall_time", "tokens", "consecutive_denies", "consecutive_errors", "consecutive413")
OUTCOMES = {
    "done": [], "needs_retry": ["failures"], "continue": ["reason"], "sleep": ["duration_ms", "reason"],
    "budget_exhausted": ["axis"], "cancelled": [], "escalate": ["reason"],
}  # fmt: skip
WHOLE = {
    "goal": ["id", "description", "acceptance", "budget", "workspace", "metadata"],
    "outcome": ["goal_id", "outcome", "total_turns", "usage", "final_text", "acceptance", "elapsed"],
    "result": ["goal_id", "turn_index", "outcome", "decisions_recorded", "usage_after", "acceptance", "final_text", "harness_extras"],
    "verdict": ["met", "failures", "evaluated_at", "elapsed_ms"],
}
NEEDED = {"goal": 4, "outcome": 7, "result": 5, "verdict": 4}
"""How many of the fields are always written."""


def read_driver_event(raw: bytes, subject: str | None = None) -> dict[str, Any]:
    """A driver event of nexo: compact JSON, `kind` first, every field of its type and in order."""
    record: dict[str, Any] = json.loads(raw)
    assert json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() == raw
    kind, *keys = record
    assert kind == "kind"
    ending, fields = DRIVER_FIELDS[record["kind"]]
    assert keys == [name for name, _ in fields]
    assert subject in (None, f"agent.driver.{ending}")
    for name, form in fields:
        _check_value(name, record[name], form)
    _check_outcome(record.get("outcome", {}).get("outcome"))
    _check_outcome(record.get("result", {}).get("outcome"))
    assert record.get("axis", "turns") in AXES
    return record


def _check_value(name: str, value: Any, form: Any) -> None:
    if form == "uuid":
        assert UUID_TEXT.fullmatch(value)
    elif form is USAGE:
        assert list(value) == [key for key, _ in USAGE]
        assert all(type(value[key]) is kind for key, kind in USAGE)
        assert all(re.fullmatch(UNITS, part) for part in value["wall_time"].split(" "))
    elif form is dict:
        assert isinstance(value, dict)
        if name in WHOLE:
            assert list(value) == [key for key in WHOLE[name] if key in value]
            assert set(WHOLE[name][: NEEDED[name]]) <= value.keys() | {"decisions_recorded"}
            for key in ("usage", "usage_after"):
                if key in value:
                    _check_value(key, value[key], USAGE)
        elif name != "decision":
            assert isinstance(value["kind"], str)
    elif form is int:
        assert type(value) is int
        assert value >= 0
    else:
        assert isinstance(value, form)


def _check_outcome(outcome: dict[str, Any] | None) -> None:
    if outcome is not None:
        assert [key for key in outcome if key != "kind"] == OUTCOMES[outcome["kind"]]
        assert outcome.get("axis", "turns") in AXES
