"""`event_msg` and `response_item` of a rollout: which of them tell something, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fleetlore.dialects.fields import as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import Place, agent_of, as_duration, called_id, derive, ended_id, launched_id, outcome_id
from fleetlore.programs.codex.items import Work, work_in
from fleetlore.programs.codex.messages import (
    EVENT,
    ITEM,
    RESPONSE,
    answer,
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
from fleetlore.programs.codex.outputs import read_input, read_output, text_in
from fleetlore.programs.codex.reader_state import Mind, close_call, open_call
from fleetlore.programs.codex.rollout import Row, tell_other
from fleetlore.programs.codex.tools import CODE, Key, key_of, tell_call, tell_outcome, tell_work, what_of
from fleetlore.programs.codex.usage import count_compaction, model_in
from fleetlore.programs.sessions import UNKNOWN, snake

# --- Calls in a rollout of Codex: made and answered in responses, told once more and better in items, or in items alone.

_MCP = "mcp__"
_SPAWN = "spawn_agent"
MOST_RUNNING = 32
_ENDED = frozenset(("completed", "failed", "errored", "interrupted", "shutdown", "cancelled"))


def read_call(mind: Mind, row: Row) -> list[Event]:
    """The model called a tool."""
    call, tool, given = row.text("call_id") or row.text("id"), _tool_of(row.payload), _given_in(row.payload)
    events = answer(mind, row)
    mind.answer = None
    mind.calls_first = mind.calls_first or not mind.replied
    if call is None:
        return [*events, tell_call(row.scene, _key_by_place(row, tool), tool, given, cause=mind.prompt)]
    place = row.place(mind)
    open_call(mind, call, tool, given, turn=place.turn)
    return [*events, tell_call(row.scene, key_of(place, call), tool, given, cause=mind.prompt)]


def _tool_of(payload: Record) -> str:
    name, space = as_text(payload.get("name")), as_text(payload.get("namespace"))
    if name is None:
        return (as_text(payload.get("type")) or UNKNOWN).removesuffix("_call")
    return f"{space.rstrip('_')}__{name}" if space is not None and space.startswith(_MCP) else name


def _given_in(payload: Record) -> Any:
    if payload.get("name") == CODE and isinstance(payload.get("input"), str):
        return {"code": payload["input"]}
    return read_input(next((payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None), None))


def read_result(mind: Mind, row: Row) -> list[Event]:
    """What came of a call."""
    call = row.text("call_id")
    if call is None or (call in mind.closed and call not in mind.calls):
        return []
    made = close_call(mind, call)
    output, key = read_output(row.payload.get("output")), key_of(Place(mind.thread, made.turn) if made else row.place(mind), call)
    if output.running:
        mind.running = [*mind.running[-MOST_RUNNING:], call]
    told = tell_outcome(row.scene, key, made.tool if made else UNKNOWN, made.input if made else None, output, made.work if made else None)
    mind.cause, mind.answering, mind.answer = key.outcome, False, None
    return [told]


def read_work(mind: Mind, row: Row, item_type: str, item: Record, channel: str) -> list[Event]:
    """A call that was made, as an item tells it: for its result, of its end in the background, or all by itself."""
    work, call = work_in(item_type, item), as_text(item.get("call_id")) or as_text(item.get("id"))
    if work is None or (call is not None and call in mind.closed and call not in mind.running):
        return []
    if call is not None and call in mind.calls:
        mind.calls[call].work = work._replace(words="", given=None)
        return []
    if call is not None and call in mind.running:
        return [_tell_finished(mind, row, call, work)]
    if not mind.echo.is_new(channel, what_of(work.tool, work.given)):
        return []
    key = _key_by_place(row, work.tool) if call is None else key_of(row.place(mind), call)
    if call is not None:
        close_call(mind, call)
    mind.answer = None
    return [*answer(mind, row), *tell_work(row.scene, key, work, cause=mind.prompt)]


def _tell_finished(mind: Mind, row: Row, call: str, work: Work) -> Event:
    mind.running.remove(call)
    key = key_of(row.place(mind), call)
    data = {"exit_code": work.exit_code, "call_id": call, "duration_ms": work.duration_ms, "output": work.words or None}
    return row.scene.tell(
        "process.finished", derive("process", key.called), text=what_of(work.tool, work.given), data=data, cause=key.outcome
    )


def _key_by_place(row: Row, tool: str) -> Key:
    return Key(derive("tool", row.key, tool, "called"), derive("tool", row.key, tool, "outcome"))


def read_launches(mind: Mind, row: Row, item: Record) -> list[Event]:
    """Sub-agents that a call of the model set to work."""
    if item.get("tool") not in (_SPAWN, None):
        return []
    new = item.get("new_thread_id")
    threads = item.get("receiver_thread_ids") if new is None else [new]
    call = as_text(item.get("call_id")) or as_text(item.get("id"))
    data = {"call_id": call, "prompt": as_text(item.get("prompt")), "model": as_text(item.get("model"))}
    return [_tell_launch(mind, row, thread, data) for thread in (threads if isinstance(threads, list) else []) if as_name(thread)]


def read_activity(mind: Mind, row: Row, item: Record) -> list[Event]:
    """A sub-agent was set to work, or came back."""
    thread, kind, own = as_name(item.get("agent_thread_id")), as_text(item.get("kind")), as_text(item.get("id"))
    if thread is None:
        return []
    path = as_text(item.get("agent_path"))
    if kind == "started":
        return [_tell_launch(mind, row, thread, {"call_id": own, "model": as_text(item.get("model")), "path": path})]
    if kind not in _ENDED:
        return [tell_other(row, "sub_agent_activity", item)]
    returned = derive("agent", thread, "returned", own or row.key)
    return [row.scene.tell("agent.returned", returned, text=path or kind, data={"status": kind, "path": path}, child=agent_of(thread))]


def _tell_launch(mind: Mind, row: Row, thread: str, data: dict[str, Any]) -> Event:
    cause = called_id(row.place(mind), data["call_id"]) if data.get("call_id") else mind.prompt
    words = data.get("prompt") or data.get("path")
    return row.scene.tell("agent.launched", launched_id(thread), text=words, data=data, child=agent_of(thread), cause=cause)


def tell_waiting(mind: Mind, row: Row, why: str) -> list[Event]:
    """A person is asked, and the thread stands still."""
    call = row.text("call_id") or row.text("item_id")
    made = mind.calls.get(call) if call else None
    data = {"why": why, "tool": made.tool if made else None, "call_id": call}
    words = row.text("reason") or row.text("message") or (what_of(made.tool, made.input) if made else None)
    own = derive("waiting", outcome_id(row.place(mind), call) if call else row.key, row.payload.get("type"))
    return [row.scene.tell("session.waiting", own, text=words or snake(why), data=data)]


# ---

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
