"""Calls in a rollout of Codex: made and answered in responses, told once more and better in items, or in items alone."""

from __future__ import annotations

from typing import Any

from fleetlore.dialects.codex_items import Work, work_in
from fleetlore.dialects.codex_marks import Place, agent_of, called_id, derive, launched_id, outcome_id
from fleetlore.dialects.codex_mind import Mind, close_call, open_call
from fleetlore.dialects.codex_outputs import read_input, read_output
from fleetlore.dialects.codex_rollout import Row, tell_other
from fleetlore.dialects.codex_speech import answer
from fleetlore.dialects.codex_tools import CODE, Key, key_of, tell_call, tell_outcome, tell_work, what_of
from fleetlore.dialects.fields import as_name, as_text
from fleetlore.dialects.sessions import UNKNOWN, snake
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event

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
