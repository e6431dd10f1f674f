"""Reads the events of opencode, written after recordings of 1.18.33.

`opencode.db` has a table `event(id, aggregate_id, seq, type, data)` to which the program only adds rows: every version of a session, of a
message and of a part of a message (text, reasoning, tool call). It has the sessions of all projects. A part is reported when it is
complete, a reply when its message is. Other stores of opencode, such as JSON files, are not read.
No recording has reasoning, an API error, an aborted message or a denied call: how they are read is an assumption.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_exit_code, as_name, as_number, as_object, as_text, read_milliseconds
from fleetlore.dialects.recording import DatabaseQuery, Recording
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.many_sessions import open_sessions
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, put_bounded

_MAX_TEXTS = 50
_VERSION = re.compile(r"\.\d{1,4}$")
_DEFAULT_TITLES = ("New session - ", "Child session - ")
_UNFINISHED = frozenset(("tool-calls", "unknown", None))


class OpencodeSession(SessionReader, program="opencode"):
    """Reads the events of one session."""

    ids_begin_with_time = True

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of one row."""
        name, data = _VERSION.sub("", as_text(record.get("type")) or ""), as_object(record.get("data"))
        match name:
            case "session.created" | "session.updated":
                return self._read_session(as_object(data.get("info")))
            case "message.updated":
                return self._read_message(as_object(data.get("info")))
            case "message.part.updated":
                return self._read_part(as_object(data.get("part")), read_milliseconds(data.get("time")))
            case "" | "message.part.removed":
                return []
        return [self.make_other(name, data, raw, None)]

    def _read_session(self, info: Record) -> list[Event]:
        state, time = self.state, as_object(info.get("time"))
        state.parent = as_name(info.get("parentID")) or state.parent
        state.cwd, state.version = as_text(info.get("directory")) or state.cwd, as_text(info.get("version")) or state.version
        events = self.make_start(read_milliseconds(time.get("created")))
        title = as_text(info.get("title")) or ""
        return events if title.startswith(_DEFAULT_TITLES) else [*events, *self.make_title(title, read_milliseconds(time.get("updated")))]

    def _read_message(self, info: Record) -> list[Event]:
        key, time = as_name(info.get("id")), as_object(info.get("time"))
        if key is None:
            return []
        if info.get("role") == "user":
            self.state.extra.setdefault("users", [])
            if key not in self.state.extra["users"]:
                self.state.extra["users"] = [*self.state.extra["users"][-_MAX_TEXTS:], key]
            return []
        at, error = read_milliseconds(time.get("completed")), as_object(info.get("error"))
        self.state.model = as_text(info.get("modelID")) or self.state.model
        if at is None or self.is_repeated(key):
            return []
        finish, tokens = as_text(info.get("finish")), as_object(info.get("tokens"))
        said, cost = "\n".join(self.state.extra.get("texts", {}).pop(key, [])), as_number(info.get("cost"))
        provider = as_text(info.get("providerID"))
        events: list[Event] = []
        if any(count_tokens(tokens, name) for name in ("input", "output", "total")) or said:
            events.append(self.make_reply(key, _read_usage(tokens), said, at, provider=provider, usd=cost or None, stop_reason=finish))
        if error:
            name, words = as_text(error.get("name")) or "error", as_text(as_object(error.get("data")).get("message"))
            if name == "MessageAbortedError":
                return [*events, *self.end_turn(at, reason="interrupted")]
            return [*events, self.make_error(key, words or name, at), *self.end_turn(at, reason="failed")]
        if finish in _UNFINISHED:
            self.state.answer = None
            return events
        return [*events, *self.end_turn(at)]

    def _read_part(self, part: Record, at: datetime | None) -> list[Event]:
        key, message, kind = as_name(part.get("id")), as_name(part.get("messageID")), as_text(part.get("type"))
        if key is None or message is None:
            return []
        if kind == "tool":
            return self._read_tool(part, key)
        words, time = as_text(part.get("text")), as_object(part.get("time"))
        if words is None or kind not in ("text", "reasoning"):
            return []
        if message in self.state.extra.get("users", []):
            if part.get("synthetic") is True or self.is_repeated(key):
                return []
            return self.make_own_launch(at, words) if self.state.parent else self.make_prompt(message, words, at)
        if time.get("end") is None or self.is_repeated(key):
            return []
        if kind == "reasoning":
            return [self.make_thought(key, words, read_milliseconds(time.get("end")))]
        texts = self.state.extra.setdefault("texts", {})
        put_bounded(texts, message, [*texts.get(message, [])[-_MAX_TEXTS:], words], _MAX_TEXTS)
        return []

    def _read_tool(self, part: Record, key: str) -> list[Event]:
        """The id of the part is the key of the call: some providers number their calls from one."""
        tool, state = as_text(part.get("tool")) or "unknown", as_object(part.get("state"))
        status, time, given = as_text(state.get("status")), as_object(state.get("time")), as_object(state.get("input"))
        if status == "pending":  # its input may not be complete
            return []
        start, at = read_milliseconds(time.get("start")), read_milliseconds(time.get("end"))
        events = [] if self.is_repeated(f"call:{key}") else [self.make_call(key, tool, given, start)]
        metadata = as_object(state.get("metadata"))
        child = as_name(metadata.get("sessionId")) if tool == "task" else None
        if child is not None and not self.is_repeated(f"agent:{child}"):
            words = as_text(given.get("description")) or child
            role, prompt = as_text(given.get("subagent_type")), as_text(given.get("prompt"))
            events.append(self.make_launch(child, start, words=words, call=key, role=role, prompt=prompt))
        if status not in ("completed", "error") or self.is_repeated(f"outcome:{key}"):
            return events
        error = as_text(state.get("error"))
        text = error or as_text(metadata.get("output")) or as_text(state.get("output")) or ""
        began, ended = as_number(time.get("start")), as_number(time.get("end"))
        result = CallResult(
            text,
            failed=status == "error",
            exit_code=as_exit_code(metadata.get("exit")),
            denied=error is not None and "rejected permission" in error,
            duration_ms=ended - began if began is not None and ended is not None else None,
        )
        if child is not None:
            events.append(self.make_return(child, at, words=text, call=key, status=status))
        return [*events, self.make_outcome(key, result, at)]


def _read_usage(tokens: Record) -> Usage:
    """The input does not include what was cached, and the output does not include reasoning, which costs the same."""
    cache, reasoning = as_object(tokens.get("cache")), count_tokens(tokens, "reasoning")
    output = count_tokens(tokens, "output") + reasoning
    return Usage(count_tokens(tokens, "input"), output, count_tokens(cache, "read"), count_tokens(cache, "write"), reasoning)


def _make_record(row: tuple[Any, ...]) -> bytes:
    _, id, aggregate, name, data = row
    head = msgspec.json.encode({"id": str(id), "aggregate_id": str(aggregate), "type": str(name)})
    return head[:-1] + b',"data":' + (data if isinstance(data, bytes) else str(data).encode(errors="replace")) + b"}"


def _find_session(record: Record) -> str | None:
    return as_name(as_object(record.get("data")).get("sessionID")) or as_name(record.get("aggregate_id"))


def make_recording(session_type: type[OpencodeSession], *, tables: frozenset[str]) -> Recording:
    """The table of events of opencode, or of a program that began as a copy of it."""

    return Recording(
        name=session_type.find_dialect(),
        open=open_sessions(session_type, _find_session),
        database=DatabaseQuery(
            tables=tables,
            last="SELECT max(rowid) FROM event",
            rows="SELECT rowid, id, aggregate_id, type, data FROM event WHERE rowid > ? ORDER BY rowid",
            to_record=_make_record,
        ),
    )


RECORDING = make_recording(OpencodeSession, tables=frozenset(("event",)))
