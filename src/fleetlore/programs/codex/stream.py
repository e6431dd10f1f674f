"""Reads streams of `codex exec --json`: threads, turns and items, without times, and with ids that are unique only in the stream.

An event's id is derived from the whole stream up to its record, so that reading the stream again stores nothing twice, while a second
stream of the same thread gives new events. The rollout of the same thread has more detail; prefer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from fleetlore.dialects.fields import as_name, as_object, as_text, read_time, to_snake_case
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import (
    NAME,
    PROGRAM,
    CodexEventContext,
    derive_codex_id,
    session_started_id,
    subagent_launched_id,
    thread_agent,
)
from fleetlore.programs.codex.items import parse_item_call
from fleetlore.programs.codex.outputs import CodexCallOutput, extract_text
from fleetlore.programs.codex.reader_state import CodexReaderState, open_call
from fleetlore.programs.codex.tools import CallKey, make_call_event, make_completed_call_events, make_outcome_event
from fleetlore.programs.codex.usage import CodexUsage, find_model, read_usage
from fleetlore.programs.sessions import bound_record

STREAM_SOURCE = "exec"
"""`source` of `model.replied` events from streams, so that their usage is not added to the rollout's."""


class StreamRecord(NamedTuple):
    """One record of a stream."""

    record: Record
    event_context: CodexEventContext
    size: int
    own: str
    """The id derived from its place."""


def is_stream_record(record: Record) -> bool:
    """Whether this is a record of a stream."""
    name = record.get("type")
    return isinstance(name, str) and "payload" not in record and ("." in name or (name == "error" and "message" in record))


def read_stream_record(reader_state: CodexReaderState, record: Record, raw: bytes) -> list[Event]:
    """The events of a record."""
    reader_state.chain = sha256(reader_state.chain.encode() + raw).hexdigest()[:32]
    event_context = CodexEventContext(read_time(record.get("timestamp")), reader_state.agent, reader_state.thread)
    line = StreamRecord(record, event_context, len(raw), derive_codex_id("stream", reader_state.chain))
    name = str(record.get("type"))
    read = _READERS.get(name)
    return _make_other_events(line, name, record) if read is None else read(reader_state, line)


def _read_thread(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    reader_state.thread = as_name(line.record.get("thread_id"))
    reader_state.agent, reader_state.streamed = thread_agent(reader_state.thread), None
    reader_state.model = find_model(line.record) or reader_state.model
    if reader_state.thread is None:
        return []
    event_context = line.event_context._replace(agent=reader_state.agent, run=reader_state.thread)
    data = {"source": "startup", "program": PROGRAM, "originator": "codex_exec", "model": reader_state.model}
    return [event_context.make_event("session.started", session_started_id(reader_state.thread), text=PROGRAM, data=data)]


def _read_item_started(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    item, name = _find_item(line)
    work, own = None if name is None else parse_item_call(name, item), as_text(item.get("id"))
    tool, given = (work.tool, work.given) if work else (as_text(item.get("tool")), item.get("prompt"))
    if own is None or tool is None or name == "todo_list":
        return []
    given = {"prompt": given} if isinstance(given, str) else given
    if work is not None and work.paths:
        given = {"changes": dict.fromkeys(work.paths, "")}
    open_call(reader_state, own, tool, given, id=line.own)
    return [*_flush_reply_text(reader_state, line), make_call_event(line.event_context, CallKey(line.own, ""), tool, given)]


def _read_item_completed(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    item, name = _find_item(line)
    if name in _MESSAGE_HANDLERS:
        return _MESSAGE_HANDLERS[name](reader_state, line, item)
    work = None if name is None else parse_item_call(name, item)
    made = reader_state.calls.pop(as_text(item.get("id")) or "", None)
    key = CallKey(made.id if made and made.id else derive_codex_id(line.own, "called"), line.own)
    reader_state.cause = line.own
    if made is not None:
        output = CodexCallOutput(
            work.words if work else extract_text(item.get("result")), success=False if item.get("status") == "failed" else None
        )
        return [make_outcome_event(line.event_context, key, made.tool, made.input, output, work), *_make_launch_events(line, item, key)]
    if work is not None:
        return [*_flush_reply_text(reader_state, line), *make_completed_call_events(line.event_context, key, work, cause=None)]
    return _make_other_events(line, name or "item", item)


def _find_item(line: StreamRecord) -> tuple[Record, str | None]:
    item = as_object(line.record.get("item"))
    name = as_text(item.get("type")) or as_text(item.get("item_type"))
    return item, None if name is None else to_snake_case(name)


def _make_launch_events(line: StreamRecord, item: Record, key: CallKey) -> list[Event]:
    threads = item.get("receiver_thread_ids") if item.get("tool") == "spawn_agent" else None
    data = {"prompt": as_text(item.get("prompt"))}
    return [
        line.event_context.make_event(
            "agent.launched", subagent_launched_id(thread), text=data["prompt"], data=data, child=thread_agent(thread), cause=key.called
        )
        for thread in (threads if isinstance(threads, list) else [])
        if as_name(thread)
    ]


def _add_reply_text(reader_state: CodexReaderState, line: StreamRecord, item: Record) -> list[Event]:
    if words := extract_text(item.get("text")):
        reader_state.said.append(words)
    return []


def _make_thought_events(reader_state: CodexReaderState, line: StreamRecord, item: Record) -> list[Event]:
    words = extract_text(item.get("text"))
    data = {"thought": words} if "\n" in words.strip() else {}
    return [line.event_context.make_event("agent.thought", line.own, text=words, data=data, visibility="private")] if words.strip() else []


def _read_turn_end(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    """The usage is the thread's total; the difference is this turn's."""
    totals = read_usage(line.record.get("usage"))
    usage = CodexUsage() if totals is None else totals.subtract_usage(reader_state.streamed).clamp_cached()
    reader_state.streamed = totals or reader_state.streamed
    text = "\n\n".join(reader_state.said)
    ended = line.event_context.make_event("session.turn_ended", derive_codex_id(line.own, "ended"), text=text)
    if not usage.is_nonzero:
        return [*_flush_reply_text(reader_state, line), ended]
    reader_state.said.clear()
    data = {"model": reader_state.model, **usage.to_event_data(), "said": text or None, "source": STREAM_SOURCE}
    return [line.event_context.make_event("model.replied", line.own, text=text, data=data, cause=reader_state.cause), ended]


def _flush_reply_text(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    """The event of reply text that comes before another item."""
    text = "\n\n".join(reader_state.said)
    reader_state.said.clear()
    data = {"model": reader_state.model, "said": text, "source": STREAM_SOURCE}
    return (
        [line.event_context.make_event("model.replied", derive_codex_id(line.own, "said"), text=text, data=data, cause=reader_state.cause)]
        if text
        else []
    )


def _read_failure(reader_state: CodexReaderState, line: StreamRecord) -> list[Event]:
    error = line.record if line.record.get("type") == "error" else as_object(line.record.get("error"))
    why = extract_text(error.get("message")) or "failed"
    failed = line.event_context.make_event(
        "model.failed", line.own, text=why, data={"error": why, "model": reader_state.model}, cause=reader_state.cause
    )
    if line.record.get("type") == "error":
        return [failed] if reader_state.echo.is_new("error", why) else []
    ended = line.event_context.make_event("session.turn_ended", derive_codex_id(line.own, "ended"), text=why, data={"reason": "failed"})
    return [*_flush_reply_text(reader_state, line), *([failed] if reader_state.echo.is_new("turn", why) else []), ended]


def _make_other_events(line: StreamRecord, name: str, record: Record) -> list[Event]:
    words = as_text(record.get("message")) or as_text(record.get("text"))
    data = {key: value for key, value in bound_record(record, line.size).items() if key != "type"}
    return [line.event_context.make_event(f"{NAME}.{to_snake_case(name)}", line.own, text=words or name, data=data, visibility="system")]


def flush_stream(reader_state: CodexReaderState) -> list[Event]:
    """The last reply text, if the stream ended without the end of the turn."""
    event_context = CodexEventContext(None, reader_state.agent, reader_state.thread)
    return (
        _flush_reply_text(reader_state, StreamRecord({}, event_context, 0, derive_codex_id("stream", reader_state.chain, "end")))
        if reader_state.chain
        else []
    )


_MESSAGE_HANDLERS: Mapping[str | None, Callable[[CodexReaderState, StreamRecord, Record], list[Event]]] = {
    "agent_message": _add_reply_text,
    "assistant_message": _add_reply_text,
    "reasoning": _make_thought_events,
}
_READERS: Mapping[str, Callable[[CodexReaderState, StreamRecord], list[Event]]] = {
    "thread.started": _read_thread,
    "session.created": _read_thread,
    "turn.started": lambda reader_state, line: [],
    "item.started": _read_item_started,
    "item.updated": lambda reader_state, line: [],
    "item.completed": _read_item_completed,
    "turn.completed": _read_turn_end,
    "turn.failed": _read_failure,
    "error": _read_failure,
}
