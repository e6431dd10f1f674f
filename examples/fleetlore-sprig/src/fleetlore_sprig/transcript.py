"""Sprig's transcripts: `~/.sprig/sessions/SESSION.jsonl`, one record a line. `sprig run` prints the same records.

{"id": "5c1e-3", "type": "tool", "timestamp": "2026-03-02T09:00:04Z", "session": "5c1e…", "call": "c1", "tool": "sh", "input": {…}}
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from fleetlore.dialects.commands.classify import classify_tool_call
from fleetlore.dialects.fields import as_count, as_object, as_text, need_text, read_time
from fleetlore.dialects.recording import Recording, RecordReader, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id
from fleetlore.programs.normalised import CallInput, ToolCallReader
from fleetlore.programs.sessions import USER_ACTOR, EventContext, project_name

NAME = "sprig"


class SprigContext(EventContext):
    """Who does it, in which session, and when."""

    __slots__ = ()
    PROGRAM = NAME
    ORIGIN = Origin(dialect=NAME)


class SprigState(msgspec.Struct):
    """What later records need. It is saved between two reads of a growing file."""

    model: str | None = None
    calls: dict[str, tuple[str, str, Record]] = {}
    """Call → the id of its event, the tool and the input."""


class SprigReader:
    """Reads one transcript, record by record."""

    def __init__(self, state: SprigState) -> None:
        self.state = state

    def read(self, raw: bytes) -> list[Event]:
        """The events of one record. An id follows from the record's own, so that nothing is stored twice."""
        record = parse_record(raw)
        kind, id = need_text(record, "type"), derive_id(NAME, need_text(record, "id").encode(errors="replace"))
        session = need_text(record, "session")
        event_context = SprigContext(read_time(record.get("timestamp")), f"{NAME}/{session[:8]}", session)
        if kind not in _READERS:
            raise DialectError("$.type", f"{kind[:40]!r} is none of {', '.join(_READERS)}")
        return _READERS[kind](self.state, record, event_context, id)

    def flush_complete(self) -> list[Event]:
        """Nothing is held back."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """Nothing is held back."""
        return []

    def save(self) -> bytes:
        """The state, for a reader that continues here."""
        return msgspec.json.encode(self.state)


def _read_start(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    state.model = as_text(record.get("model"))
    folder = as_text(record.get("folder"))
    data = {"program": NAME, "cwd": folder, "project": project_name(folder), "model": state.model}
    return [event_context.make_event("session.started", id, text=project_name(folder), data=data)]


def _read_prompt(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    words = need_text(record, "text")
    return [event_context.make_event("prompt.submitted", id, text=words, data={"prompt": words}, actor=USER_ACTOR)]


def _read_call(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    tool, call, given = need_text(record, "tool"), need_text(record, "call"), as_object(record.get("input"))
    state.calls[call] = id, tool, dict(given)
    words = as_text(given.get("line")) or as_text(given.get("path"))
    data = {"tool": tool, "call_id": call, "input": given, "deed": _classify(tool, given)}
    return [event_context.make_event("tool.called", id, text=f"{tool}: {words}", data=data)]


def _read_result(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    call, code = need_text(record, "call"), as_count(record.get("exit"))
    cause, tool, given = state.calls.pop(call, (None, "unknown", {}))
    data = {"tool": tool, "call_id": call, "exit_code": code, "output": as_text(record.get("output")), "deed": _classify(tool, given)}
    return [event_context.make_event("tool.failed" if code else "tool.returned", id, text=tool, data=data, cause=cause)]


def _read_reply(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    words = need_text(record, "text")
    data = {"model": state.model, "said": words, "input": as_count(record.get("in")), "output": as_count(record.get("out"))}
    return [event_context.make_event("model.replied", id, text=words, data=data)]


def _read_end(state: SprigState, record: Record, event_context: SprigContext, id: str) -> list[Event]:
    return [event_context.make_event("session.turn_ended", id)]


def _classify(tool: str, given: Mapping[str, object]) -> str | None:
    """What the story calls it: a test run, an edit. Fleetlore knows what shell commands do."""
    call = _read_input(tool, given)
    return "edit" if call.kind == "edit" else classify_tool_call("bash", {"command": call.command}).name


def _read_input(tool: str, given: object) -> CallInput:
    fields = as_object(given)
    path, text = as_text(fields.get("path")) or "", as_text(fields.get("text")) or ""
    if tool == "save":
        return CallInput("edit", paths=(path,), edits=((path, None, text),))
    return CallInput("command", command=as_text(fields.get("line")) or "")


_READERS: Mapping[str, Callable[[SprigState, Record, SprigContext, str], list[Event]]] = {
    "start": _read_start,
    "user": _read_prompt,
    "tool": _read_call,
    "result": _read_result,
    "reply": _read_reply,
    "done": _read_end,
}


def _open_reader(saved: bytes | None) -> RecordReader:
    return SprigReader(msgspec.json.decode(saved, type=SprigState) if saved else SprigState())


RECORDING = Recording(name=NAME, open=_open_reader)
TOOL_CALLS = ToolCallReader(read_input=lambda tool, given: _read_input(tool, given) if tool in ("sh", "save") else None)
