"""What `claude -p --output-format stream-json` prints: the rows of the transcript, under other names and without their final usage."""

from __future__ import annotations

from fleetlore.dialects.claude_code_marks import PROGRAM
from fleetlore.dialects.fields import as_name, as_text
from fleetlore.dialects.wire import Record

FOLDED = frozenset(("task_progress", "task_updated"))
"""Subtypes that tell nothing beside what the rows of the helper tell."""
MOST_HELPERS = 1000
_NAMES = {"request_id": "requestId", "session_id": "sessionId", "tool_use_result": "toolUseResult"}


def is_printed(row: Record) -> bool:
    """Whether a row was printed and not written down."""
    return "session_id" in row and "sessionId" not in row


def as_written(row: Record, helpers: dict[str, str]) -> Record:
    """The row under the names of a transcript. `helpers`: the calls that launched one, which rows of helpers name in its stead."""
    call = as_text(row.get("parent_tool_use_id"))
    own: Record = {"agentId": helpers.get(call) or as_name(f"{PROGRAM}/{call}")} if call else {}
    if row.get("type") == "assistant" and as_text(row.get("error")):
        own["isApiErrorMessage"] = True
    return row | {new: row[name] for name, new in _NAMES.items() if name in row} | own


def note_helper(row: Record, helpers: dict[str, str]) -> bool:
    """Remember whom a call has launched; answers whether the row says so."""
    call, helper = as_text(row.get("tool_use_id")), as_name(row.get("task_id"))
    if row.get("subtype") != "task_started" or row.get("task_type") != "local_agent" or call is None or helper is None:
        return False
    if len(helpers) >= MOST_HELPERS:
        del helpers[next(iter(helpers))]
    helpers[call] = helper
    return True
