"""Reads `event_msg` and `response_item` records of a rollout: which types become events, and the function for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fleetlore.dialects.fields import as_name, as_object, as_text, to_snake_case
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import (
    CallLocation,
    as_duration_ms,
    derive_codex_id,
    subagent_launched_id,
    thread_agent,
    tool_called_id,
    tool_outcome_id,
    turn_ended_id,
)
from fleetlore.programs.codex.items import CompletedCall, parse_item_call
from fleetlore.programs.codex.messages import (
    EVENT_CHANNEL,
    ITEM_CHANNEL,
    RESPONSE_CHANNEL,
    add_prompt,
    add_reply_text,
    begin_reply,
    flush_reply_text,
    flush_waiting_prompt,
    make_reply_event,
    make_thought_events,
    read_agent_message,
    read_message,
    read_reasoning,
    read_token_count,
)
from fleetlore.programs.codex.outputs import extract_text, parse_call_input, parse_call_output
from fleetlore.programs.codex.reader_state import CodexReaderState, close_call, open_call
from fleetlore.programs.codex.rollout import RolloutRow, make_other_event
from fleetlore.programs.codex.tools import (
    CODE_TOOL,
    CallKey,
    make_call_event,
    make_call_key,
    make_completed_call_events,
    make_outcome_event,
    summarize_call,
)
from fleetlore.programs.codex.usage import count_compaction, find_model
from fleetlore.programs.sessions import UNKNOWN_NAME

# --- Tool calls: made and answered in responses, repeated with more detail in items, or in items only.

_MCP_PREFIX = "mcp__"
_SPAWN_TOOL = "spawn_agent"
MAX_RUNNING_CALLS = 32
_ENDED_STATUSES = frozenset(("completed", "failed", "errored", "interrupted", "shutdown", "cancelled"))


def read_call(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The model called a tool."""
    call, tool, given = row.get_text("call_id") or row.get_text("id"), _find_tool_name(row.payload), _find_call_input(row.payload)
    events = begin_reply(reader_state, row)
    reader_state.answer = None
    reader_state.calls_first = reader_state.calls_first or not reader_state.replied
    if call is None:
        return [*events, make_call_event(row.event_context, _derive_call_key(row, tool), tool, given, cause=reader_state.prompt)]
    place = row.find_call_location(reader_state)
    open_call(reader_state, call, tool, given, turn=place.turn)
    return [*events, make_call_event(row.event_context, make_call_key(place, call), tool, given, cause=reader_state.prompt)]


def _find_tool_name(payload: Record) -> str:
    name, space = as_text(payload.get("name")), as_text(payload.get("namespace"))
    if name is None:
        return (as_text(payload.get("type")) or UNKNOWN_NAME).removesuffix("_call")
    return f"{space.rstrip('_')}__{name}" if space is not None and space.startswith(_MCP_PREFIX) else name


def _find_call_input(payload: Record) -> Any:
    if payload.get("name") == CODE_TOOL and isinstance(payload.get("input"), str):
        return {"code": payload["input"]}
    return parse_call_input(next((payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None), None))


def read_result(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The outcome of a call."""
    call = row.get_text("call_id")
    if call is None or (call in reader_state.closed and call not in reader_state.calls):
        return []
    made = close_call(reader_state, call)
    output, key = (
        parse_call_output(row.payload.get("output")),
        make_call_key(CallLocation(reader_state.thread, made.turn) if made else row.find_call_location(reader_state), call),
    )
    if output.running:
        reader_state.running = [*reader_state.running[-MAX_RUNNING_CALLS:], call]
    outcome = make_outcome_event(
        row.event_context, key, made.tool if made else UNKNOWN_NAME, made.input if made else None, output, made.work if made else None
    )
    reader_state.cause, reader_state.answering, reader_state.answer = key.outcome, False, None
    return [outcome]


def read_completed_call(reader_state: CodexReaderState, row: RolloutRow, item_type: str, item: Record, channel: str) -> list[Event]:
    """A call reported by an item: details for its result, its end in the background, or the only record of it."""
    work, call = parse_item_call(item_type, item), as_text(item.get("call_id")) or as_text(item.get("id"))
    if work is None or (call is not None and call in reader_state.closed and call not in reader_state.running):
        return []
    if call is not None and call in reader_state.calls:
        reader_state.calls[call].work = work._replace(words="", given=None)
        return []
    if call is not None and call in reader_state.running:
        return [_make_background_end_event(reader_state, row, call, work)]
    if not reader_state.echo.is_new(channel, summarize_call(work.tool, work.given)):
        return []
    key = _derive_call_key(row, work.tool) if call is None else make_call_key(row.find_call_location(reader_state), call)
    if call is not None:
        close_call(reader_state, call)
    reader_state.answer = None
    return [*begin_reply(reader_state, row), *make_completed_call_events(row.event_context, key, work, cause=reader_state.prompt)]


def _make_background_end_event(reader_state: CodexReaderState, row: RolloutRow, call: str, work: CompletedCall) -> Event:
    reader_state.running.remove(call)
    key = make_call_key(row.find_call_location(reader_state), call)
    data = {"exit_code": work.exit_code, "call_id": call, "duration_ms": work.duration_ms, "output": work.words or None}
    return row.event_context.make_event(
        "process.finished", derive_codex_id("process", key.called), text=summarize_call(work.tool, work.given), data=data, cause=key.outcome
    )


def _derive_call_key(row: RolloutRow, tool: str) -> CallKey:
    return CallKey(derive_codex_id("tool", row.key, tool, "called"), derive_codex_id("tool", row.key, tool, "outcome"))


def read_subagent_launches(reader_state: CodexReaderState, row: RolloutRow, item: Record) -> list[Event]:
    """Sub-agents that a call launched."""
    if item.get("tool") not in (_SPAWN_TOOL, None):
        return []
    new = item.get("new_thread_id")
    threads = item.get("receiver_thread_ids") if new is None else [new]
    call = as_text(item.get("call_id")) or as_text(item.get("id"))
    data = {"call_id": call, "prompt": as_text(item.get("prompt")), "model": as_text(item.get("model"))}
    return [
        _make_launch_event(reader_state, row, thread, data) for thread in (threads if isinstance(threads, list) else []) if as_name(thread)
    ]


def read_subagent_activity(reader_state: CodexReaderState, row: RolloutRow, item: Record) -> list[Event]:
    """A sub-agent was launched, or has returned."""
    thread, kind, own = as_name(item.get("agent_thread_id")), as_text(item.get("kind")), as_text(item.get("id"))
    if thread is None:
        return []
    path = as_text(item.get("agent_path"))
    if kind == "started":
        return [_make_launch_event(reader_state, row, thread, {"call_id": own, "model": as_text(item.get("model")), "path": path})]
    if kind not in _ENDED_STATUSES:
        return [make_other_event(row, "sub_agent_activity", item)]
    returned = derive_codex_id("agent", thread, "returned", own or row.key)
    return [
        row.event_context.make_event(
            "agent.returned", returned, text=path or kind, data={"status": kind, "path": path}, child=thread_agent(thread)
        )
    ]


def _make_launch_event(reader_state: CodexReaderState, row: RolloutRow, thread: str, data: dict[str, Any]) -> Event:
    cause = tool_called_id(row.find_call_location(reader_state), data["call_id"]) if data.get("call_id") else reader_state.prompt
    words = data.get("prompt") or data.get("path")
    return row.event_context.make_event(
        "agent.launched", subagent_launched_id(thread), text=words, data=data, child=thread_agent(thread), cause=cause
    )


def make_waiting_events(reader_state: CodexReaderState, row: RolloutRow, why: str) -> list[Event]:
    """A person is asked for approval, and the thread waits."""
    call = row.get_text("call_id") or row.get_text("item_id")
    made = reader_state.calls.get(call) if call else None
    data = {"why": why, "tool": made.tool if made else None, "call_id": call}
    words = row.get_text("reason") or row.get_text("message") or (summarize_call(made.tool, made.input) if made else None)
    own = derive_codex_id(
        "waiting", tool_outcome_id(row.find_call_location(reader_state), call) if call else row.key, row.payload.get("type")
    )
    return [row.event_context.make_event("session.waiting", own, text=words or to_snake_case(why), data=data)]


# ---

EventRowHandler = Callable[[CodexReaderState, RolloutRow], list[Event]]

IGNORED_EVENT_TYPES = frozenset(
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
"""Events that only repeat other records of the rollout."""
_IGNORED_ITEM_TYPES = frozenset(("context_compaction", "hook_prompt", "plan", "sleep", "extension"))
_IGNORED_RESPONSE_TYPES = frozenset(
    ("additional_tools", "ghost_snapshot", "compaction", "compaction_summary", "compaction_trigger", "context_compaction")
)
_SUMMARY_MARK = "use the information in this summary to assist with your own analysis:\n"


def read_event_row(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """An event for the program's screens."""
    name = row.get_text("type")
    if name is None:
        return []
    read = _EVENT_HANDLERS.get(name)
    if read is not None:
        return read(reader_state, row)
    if name in IGNORED_EVENT_TYPES or name.endswith(("_delta", "_response")):
        return []
    return [make_other_event(row, name, row.payload)]


def read_response_row(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """An item that was sent to the model or came from it."""
    name = row.get_text("type")
    if name is None or name in _IGNORED_RESPONSE_TYPES:
        return []
    read = _RESPONSE_HANDLERS.get(name)
    if read is not None:
        return read(reader_state, row)
    if name.endswith("_output"):
        return read_result(reader_state, row)
    if name.endswith("_call"):
        return read_call(reader_state, row)
    return [make_other_event(row, name, row.payload)]


def read_compaction(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The thread's history was replaced by a shorter one."""
    words, response = row.get_text("message"), row.get_text("compaction_response_id")
    counted = count_compaction(reader_state.meter, response)
    events = [] if counted is None else [make_reply_event(reader_state, row, counted, source="compaction")]
    summary = (words or "").partition(_SUMMARY_MARK)[2] or words
    data = {"summary": summary, "before_tokens": reader_state.context}
    return [
        *events,
        row.event_context.make_event("session.compacted", derive_codex_id("compacted", response or row.key), text=summary, data=data),
    ]


def _read_start(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    reader_state.marks_turns = True
    reader_state.turn = row.get_text("turn_id") or reader_state.turn
    return []


def _read_settings(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    reader_state.model = find_model(as_object(row.payload.get("thread_settings"))) or reader_state.model
    return []


def _read_prompt(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    if row.get_text("kind") not in (None, "plain"):
        return []
    images = sum(len(found) for key in ("images", "local_images") if isinstance(found := row.payload.get(key), list))
    return add_prompt(reader_state, row, EVENT_CHANNEL, row.get_text("message") or "", images)


def _read_end(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The turn is over: done, or failed."""
    reader_state.marks_turns = True
    error = as_object(row.payload.get("error"))
    why = extract_text(error.get("message")) or None
    failed = [] if why is None or not reader_state.echo.is_new(ITEM_CHANNEL, why) else [_make_failure_event(reader_state, row, why)]
    return [
        *flush_waiting_prompt(reader_state, row),
        *flush_reply_text(reader_state, row),
        *failed,
        *_make_turn_end_events(reader_state, row, "failed" if error else None, row.get_text("last_agent_message")),
    ]


def _read_abort(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    reader_state.interrupted = True
    return [
        *flush_waiting_prompt(reader_state, row),
        *flush_reply_text(reader_state, row),
        *_make_turn_end_events(reader_state, row, row.get_text("reason") or "interrupted", None),
    ]


def _make_turn_end_events(reader_state: CodexReaderState, row: RolloutRow, reason: str | None, words: str | None) -> list[Event]:
    turn = row.get_text("turn_id") or reader_state.turn
    data = {"reason": reason, "duration_ms": as_duration_ms(row.payload.get("duration_ms"))}
    own = turn_ended_id(turn) if turn else derive_codex_id("turn", row.key, "ended")
    reader_state.turn = reader_state.answer = None
    return [row.event_context.make_event("session.turn_ended", own, text=words or reason, data=data, cause=reader_state.prompt)]


def _read_error(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    why = row.get_text("message")
    return [_make_failure_event(reader_state, row, why)] if why is not None and reader_state.echo.is_new(EVENT_CHANNEL, why) else []


def _make_failure_event(reader_state: CodexReaderState, row: RolloutRow, why: str) -> Event:
    data = {"error": why, "model": reader_state.model, "provider": reader_state.provider}
    return row.event_context.make_event(
        "model.failed", derive_codex_id("failed", row.key, why), text=why, data=data, cause=reader_state.asked or reader_state.prompt
    )


def _read_title(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    title = row.get_text("thread_name") or row.get_text("name")
    data = {"title": title}
    return (
        []
        if title is None
        else [
            row.event_context.make_event(
                "agent.named", derive_codex_id("named", reader_state.thread, title, row.key), text=title, data=data
            )
        ]
    )


def _read_item_completed(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """`item_completed`: a finished part of the turn."""
    item = as_object(row.payload.get("item"))
    name = as_text(item.get("type"))
    return [] if name is None else read_item(reader_state, row, to_snake_case(name), item)


def read_item(reader_state: CodexReaderState, row: RolloutRow, name: str, item: Record) -> list[Event]:
    """An item of any type."""
    if name in _MESSAGE_ITEM_HANDLERS:
        return _MESSAGE_ITEM_HANDLERS[name](reader_state, row, item)
    work = read_completed_call(reader_state, row, name, item, ITEM_CHANNEL)
    if work or name in _CALL_ITEM_TYPES:
        return work
    return [] if name in _IGNORED_ITEM_TYPES else [make_other_event(row, name, item)]


def _read_reasoning_item(reader_state: CodexReaderState, row: RolloutRow, item: Record) -> list[Event]:
    parts = [part for key in ("summary_text", "raw_content") if isinstance(part := item.get(key), list)]
    return make_thought_events(reader_state, row, ITEM_CHANNEL, [extract_text(piece) for part in parts for piece in part])


def _read_call_event(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    return read_completed_call(reader_state, row, row.get_text("type") or "", row.payload, EVENT_CHANNEL)


_MESSAGE_ITEM_HANDLERS: Mapping[str, Callable[[CodexReaderState, RolloutRow, Record], list[Event]]] = {
    "user_message": lambda reader_state, row, item: add_prompt(reader_state, row, ITEM_CHANNEL, extract_text(item.get("content"))),
    "agent_message": lambda reader_state, row, item: add_reply_text(reader_state, row, ITEM_CHANNEL, extract_text(item.get("content"))),
    "reasoning": _read_reasoning_item,
    "collab_agent_tool_call": read_subagent_launches,
    "sub_agent_activity": read_subagent_activity,
}
_CALL_ITEM_TYPES = frozenset(
    ("command_execution", "file_change", "mcp_tool_call", "web_search", "image_view", "image_generation", "dynamic_tool_call", "todo_list")
)
_EVENT_HANDLERS: Mapping[str, EventRowHandler] = {
    "user_message": _read_prompt,
    "agent_message": lambda reader_state, row: add_reply_text(reader_state, row, EVENT_CHANNEL, row.get_text("message") or ""),
    "agent_reasoning": lambda reader_state, row: make_thought_events(reader_state, row, EVENT_CHANNEL, [row.get_text("text") or ""]),
    "agent_reasoning_raw_content": lambda reader_state, row: make_thought_events(
        reader_state, row, EVENT_CHANNEL, [row.get_text("text") or ""]
    ),
    "token_count": read_token_count,
    "task_started": _read_start,
    "turn_started": _read_start,
    "task_complete": _read_end,
    "turn_complete": _read_end,
    "turn_aborted": _read_abort,
    "thread_settings_applied": _read_settings,
    "item_completed": _read_item_completed,
    "exec_command_end": _read_call_event,
    "patch_apply_end": _read_call_event,
    "mcp_tool_call_end": _read_call_event,
    "web_search_end": _read_call_event,
    "view_image_tool_call": _read_call_event,
    "image_generation_end": _read_call_event,
    "dynamic_tool_call_response": _read_call_event,
    "collab_agent_spawn_end": lambda reader_state, row: read_subagent_launches(reader_state, row, row.payload),
    "sub_agent_activity": lambda reader_state, row: read_subagent_activity(reader_state, row, row.payload),
    "error": _read_error,
    "stream_error": _read_error,
    "thread_name_updated": _read_title,
    "exec_approval_request": partial(make_waiting_events, why="permission"),
    "apply_patch_approval_request": partial(make_waiting_events, why="permission"),
    "request_permissions": partial(make_waiting_events, why="permission"),
    "elicitation_request": partial(make_waiting_events, why="question"),
    "request_user_input": partial(make_waiting_events, why="question"),
}
_RESPONSE_HANDLERS: Mapping[str, EventRowHandler] = {
    "message": read_message,
    "agent_message": read_agent_message,
    "reasoning": read_reasoning,
    "web_search_call": lambda reader_state, row: read_completed_call(reader_state, row, "web_search_call", row.payload, RESPONSE_CHANNEL),
    "image_generation_call": lambda reader_state, row: read_completed_call(
        reader_state, row, "image_generation_call", row.payload, RESPONSE_CHANNEL
    ),
}
