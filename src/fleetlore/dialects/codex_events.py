"""`event_msg` and `response_item` of a rollout: which of them tell something, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from fleetlore.dialects.codex_calls import read_activity, read_call, read_launches, read_result, read_work, tell_waiting
from fleetlore.dialects.codex_marks import as_duration, derive, ended_id
from fleetlore.dialects.codex_mind import Mind
from fleetlore.dialects.codex_outputs import text_in
from fleetlore.dialects.codex_rollout import Row, tell_other
from fleetlore.dialects.codex_speech import (
    EVENT,
    ITEM,
    RESPONSE,
    flush,
    hear,
    hear_prompt,
    read_agents_message,
    read_message,
    read_reasoning,
    read_tokens,
    release_prompt,
    tell_reply,
    think,
)
from fleetlore.dialects.codex_usage import count_compaction, model_in
from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.sessions import snake
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

Read = Callable[[Mind, Row], list[Event]]

FOLDED_EVENTS = frozenset(
    (
        "item_started",
        "item_updated",
        "raw_response_item",
        "raw_response_completed",
        "session_configured",
        "mcp_startup_update",
        "mcp_startup_complete",
        "exec_command_begin",
        "patch_apply_begin",
        "patch_apply_updated",
        "mcp_tool_call_begin",
        "web_search_begin",
        "image_generation_begin",
        "dynamic_tool_call_request",
        "collab_agent_spawn_begin",
        "collab_agent_interaction_begin",
        "collab_agent_interaction_end",
        "collab_waiting_begin",
        "collab_waiting_end",
        "collab_close_begin",
        "collab_close_end",
        "collab_resume_begin",
        "collab_resume_end",
        "context_compacted",
        "plan_update",
        "turn_diff",
        "background_event",
        "agent_reasoning_section_break",
        "terminal_interaction",
        "hook_started",
        "hook_completed",
        "guardian_assessment",
        "skills_update_available",
        "shutdown_complete",
        "deprecation_notice",
        "safety_buffering",
        "undo_started",
        "model_verification",
        "image_generation_partial",
    )
)
"""Events that tell nothing that is not told elsewhere in the rollout."""
_FOLDED_ITEMS = frozenset(("context_compaction", "hook_prompt", "plan", "sleep", "extension"))
_FOLDED_RESPONSES = frozenset(
    ("additional_tools", "ghost_snapshot", "compaction", "compaction_summary", "compaction_trigger", "context_compaction")
)
_SUMMARY = "use the information in this summary to assist with your own analysis:\n"


def read_event(mind: Mind, row: Row) -> list[Event]:
    """An event that was made for the program's screens."""
    name = row.text("type")
    if name is None:
        return []
    read = _EVENTS.get(name)
    if read is not None:
        return read(mind, row)
    if name in FOLDED_EVENTS or name.endswith(("_delta", "_response")):
        return []
    return [tell_other(row, name, row.payload)]


def read_response(mind: Mind, row: Row) -> list[Event]:
    """An item that was sent to the model or came from it."""
    name = row.text("type")
    if name is None or name in _FOLDED_RESPONSES:
        return []
    read = _RESPONSES.get(name)
    if read is not None:
        return read(mind, row)
    if name.endswith("_output"):
        return read_result(mind, row)
    if name.endswith("_call"):
        return read_call(mind, row)
    return [tell_other(row, name, row.payload)]


def read_compaction(mind: Mind, row: Row) -> list[Event]:
    """The thread's history was replaced by a shorter one."""
    words, response = row.text("message"), row.text("compaction_response_id")
    counted = count_compaction(mind.meter, response)
    events = [] if counted is None else [tell_reply(mind, row, counted, source="compaction")]
    summary = (words or "").partition(_SUMMARY)[2] or words
    data = {"summary": summary, "before_tokens": mind.context}
    return [*events, row.scene.tell("session.compacted", derive("compacted", response or row.key), text=summary, data=data)]


def _read_start(mind: Mind, row: Row) -> list[Event]:
    mind.marks_turns = True
    mind.turn = row.text("turn_id") or mind.turn
    return []


def _read_settings(mind: Mind, row: Row) -> list[Event]:
    mind.model = model_in(as_object(row.payload.get("thread_settings"))) or mind.model
    return []


def _read_prompt(mind: Mind, row: Row) -> list[Event]:
    if row.text("kind") not in (None, "plain"):
        return []
    images = sum(len(found) for key in ("images", "local_images") if isinstance(found := row.payload.get(key), list))
    return hear_prompt(mind, row, EVENT, row.text("message") or "", images)


def _read_end(mind: Mind, row: Row) -> list[Event]:
    """The turn is over: done, or failed."""
    mind.marks_turns = True
    error = as_object(row.payload.get("error"))
    why = text_in(error.get("message")) or None
    failed = [] if why is None or not mind.echo.is_new(ITEM, why) else [_tell_failure(mind, row, why)]
    return [
        *release_prompt(mind, row),
        *flush(mind, row),
        *failed,
        *_tell_end(mind, row, "failed" if error else None, row.text("last_agent_message")),
    ]


def _read_abort(mind: Mind, row: Row) -> list[Event]:
    mind.interrupted = True
    return [*release_prompt(mind, row), *flush(mind, row), *_tell_end(mind, row, row.text("reason") or "interrupted", None)]


def _tell_end(mind: Mind, row: Row, reason: str | None, words: str | None) -> list[Event]:
    turn = row.text("turn_id") or mind.turn
    data = {"reason": reason, "duration_ms": as_duration(row.payload.get("duration_ms"))}
    own = ended_id(turn) if turn else derive("turn", row.key, "ended")
    mind.turn = mind.answer = None
    return [row.scene.tell("session.turn_ended", own, text=words or reason, data=data, cause=mind.prompt)]


def _read_error(mind: Mind, row: Row) -> list[Event]:
    why = row.text("message")
    return [_tell_failure(mind, row, why)] if why is not None and mind.echo.is_new(EVENT, why) else []


def _tell_failure(mind: Mind, row: Row, why: str) -> Event:
    data = {"error": why, "model": mind.model, "provider": mind.provider}
    return row.scene.tell("model.failed", derive("failed", row.key, why), text=why, data=data, cause=mind.asked or mind.prompt)


def _read_title(mind: Mind, row: Row) -> list[Event]:
    title = row.text("thread_name") or row.text("name")
    data = {"title": title}
    return [] if title is None else [row.scene.tell("agent.named", derive("named", mind.thread, title, row.key), text=title, data=data)]


def _read_finished(mind: Mind, row: Row) -> list[Event]:
    """`item_completed`: a piece of the turn, whole."""
    item = as_object(row.payload.get("item"))
    name = as_text(item.get("type"))
    return [] if name is None else read_item(mind, row, snake(name), item)


def read_item(mind: Mind, row: Row, name: str, item: Record) -> list[Event]:
    """An item, whatever it holds."""
    if name in _SPOKEN:
        return _SPOKEN[name](mind, row, item)
    work = read_work(mind, row, name, item, ITEM)
    if work or name in _WORKING:
        return work
    return [] if name in _FOLDED_ITEMS else [tell_other(row, name, item)]


def _read_reasoning_item(mind: Mind, row: Row, item: Record) -> list[Event]:
    parts = [part for key in ("summary_text", "raw_content") if isinstance(part := item.get(key), list)]
    return think(mind, row, ITEM, [text_in(piece) for part in parts for piece in part])


def _work(mind: Mind, row: Row) -> list[Event]:
    return read_work(mind, row, row.text("type") or "", row.payload, EVENT)


_SPOKEN: Mapping[str, Callable[[Mind, Row, Record], list[Event]]] = {
    "user_message": lambda mind, row, item: hear_prompt(mind, row, ITEM, text_in(item.get("content"))),
    "agent_message": lambda mind, row, item: hear(mind, row, ITEM, text_in(item.get("content"))),
    "reasoning": _read_reasoning_item,
    "collab_agent_tool_call": read_launches,
    "sub_agent_activity": read_activity,
}
_WORKING = frozenset(
    ("command_execution", "file_change", "mcp_tool_call", "web_search", "image_view", "image_generation", "dynamic_tool_call", "todo_list")
)
_EVENTS: Mapping[str, Read] = {
    "user_message": _read_prompt,
    "agent_message": lambda mind, row: hear(mind, row, EVENT, row.text("message") or ""),
    "agent_reasoning": lambda mind, row: think(mind, row, EVENT, [row.text("text") or ""]),
    "agent_reasoning_raw_content": lambda mind, row: think(mind, row, EVENT, [row.text("text") or ""]),
    "token_count": read_tokens,
    "task_started": _read_start,
    "turn_started": _read_start,
    "task_complete": _read_end,
    "turn_complete": _read_end,
    "turn_aborted": _read_abort,
    "thread_settings_applied": _read_settings,
    "item_completed": _read_finished,
    "exec_command_end": _work,
    "patch_apply_end": _work,
    "mcp_tool_call_end": _work,
    "web_search_end": _work,
    "view_image_tool_call": _work,
    "image_generation_end": _work,
    "dynamic_tool_call_response": _work,
    "collab_agent_spawn_end": lambda mind, row: read_launches(mind, row, row.payload),
    "sub_agent_activity": lambda mind, row: read_activity(mind, row, row.payload),
    "error": _read_error,
    "stream_error": _read_error,
    "thread_name_updated": _read_title,
    "exec_approval_request": partial(tell_waiting, why="permission"),
    "apply_patch_approval_request": partial(tell_waiting, why="permission"),
    "request_permissions": partial(tell_waiting, why="permission"),
    "elicitation_request": partial(tell_waiting, why="question"),
    "request_user_input": partial(tell_waiting, why="question"),
}
_RESPONSES: Mapping[str, Read] = {
    "message": read_message,
    "agent_message": read_agents_message,
    "reasoning": read_reasoning,
    "web_search_call": lambda mind, row: read_work(mind, row, "web_search_call", row.payload, RESPONSE),
    "image_generation_call": lambda mind, row: read_work(mind, row, "image_generation_call", row.payload, RESPONSE),
}
