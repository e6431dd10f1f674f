"""Reads the sessions of Goose, written after recordings of 1.34.0 and 1.52.0 (`sessions.db`: messages as rows, totals per session).

A message has no tokens; the program adds them up in its row of `sessions`. What that total has beyond what was read before is one more
`model.replied`. A sub-agent is a session of its own, named by the answer to the call that started it. Errors of the model are not stored.
No recording has thoughts, images, a denied call or a compaction: how they are read is an assumption.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from fleetlore.dialects.fields import EPOCH, as_count, as_name, as_object, as_text
from fleetlore.dialects.recording import DatabaseQuery, Recording
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin
from fleetlore.programs.many_sessions import open_sessions
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens
from fleetlore.programs.sessions import EventContext

NAME = PROGRAM = "goose"
_DEFAULT_TITLES = frozenset(("CLI Session", "New Chat", "New session", "Delegated task"))
_MAX_SECONDS = 253_402_300_799


class GooseEventContext(EventContext):
    """The acting agent, its session and the time."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


class GooseSession(SessionReader):
    """Reads the messages of one session."""

    context_type = GooseEventContext

    def name_agent(self, session: str | None) -> str | None:
        """The whole id: it is a day and a number."""
        return as_name(f"{PROGRAM}/{session}") if session else None

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a message."""
        key, at = as_text(record.get("id")), _read_stamp(record.get("at"))
        if key is None or self.is_repeated(key):
            return []
        self.state.model = as_text(as_object(record.get("model")).get("model_name")) or self.state.model
        self.state.cwd = as_text(record.get("cwd")) or self.state.cwd
        self.state.parent = self.state.parent or as_name(record.get("parent"))
        is_helper = record.get("kind") == "sub_agent"
        events = [] if is_helper else [*self.make_start(at), *self._read_title(record, at)]
        content = record.get("content")
        parts = [as_object(part) for part in content] if isinstance(content, list) else []
        words = "\n".join(text for part in parts if part.get("type") == "text" and (text := as_text(part.get("text"))))
        if record.get("role") == "assistant":
            events += self._read_reply(parts, words, key, at)
        else:
            for part in parts:
                events += self._read_result(part, at)
            if words and as_object(record.get("metadata")).get("userVisible") is not False:
                events += self.make_own_launch(at, words) if is_helper else self.make_prompt(key, words, at)
        return [*events, *self._read_total(record, at)]

    def _read_title(self, record: Record, at: datetime | None) -> list[Event]:
        title = as_text(record.get("title"))
        return [] if not title or title in _DEFAULT_TITLES or self.is_repeated(f"title:{title}") else [self.make_title(title, at)]

    def _read_reply(self, parts: list[Record], words: str, key: str, at: datetime | None) -> list[Event]:
        thoughts = [text for part in parts if part.get("type") == "thinking" and (text := as_text(part.get("thinking")))]
        events = [self.make_thought(f"{key}:{n}", text, at) for n, text in enumerate(thoughts)]
        if words:
            events.append(self.make_reply(key, Usage(), words, at))
        for part in parts:
            call, given = as_name(part.get("id")), as_object(as_object(part.get("toolCall")).get("value"))
            if part.get("type") == "toolRequest" and call is not None:
                events.append(self.make_call(call, as_text(given.get("name")) or "unknown", given.get("arguments"), at))
        return events

    def _read_result(self, part: Record, at: datetime | None) -> list[Event]:
        call, result = as_name(part.get("id")), as_object(part.get("toolResult"))
        if call is None or part.get("type") != "toolResponse":
            return []
        value = as_object(result.get("value"))
        content = value.get("content")
        texts = [as_text(as_object(each).get("text")) for each in content] if isinstance(content, list) else []
        text = "\n".join(each for each in texts if each) or as_text(result.get("error")) or ""
        code = as_object(value.get("structuredContent")).get("exit_code")
        outcome = CallResult(
            text,
            failed=value.get("isError") is True or result.get("status") == "error",
            exit_code=code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31 else None,
        )
        child, events = as_name(as_object(value.get("_meta")).get("subagent_session_id")), []
        if child is not None:
            known = self.state.calls.get(call)
            words = as_text(as_object(known.input if known else None).get("instructions")) or child
            events = [
                self.make_launch(child, at, words=words, call=call, prompt=words),
                self.make_return(child, at, words=text, call=call, status="failed" if outcome.failed else "completed"),
            ]
        return [*events, self.make_outcome(call, outcome, at)]

    def _read_total(self, record: Record, at: datetime | None) -> list[Event]:
        """The session's newest message has its total. The id is what was counted before: no total counts twice."""
        now, known = [count_tokens(record, "input"), count_tokens(record, "output")], self.state.extra.get("total", [0, 0])
        usage = Usage(*(max(after - before, 0) for after, before in zip(now, known, strict=True)))
        if not any(usage):
            return []
        self.state.extra["total"] = now
        return [self.make_total(f"total:{known[0]}:{known[1]}", usage, at)]


def _read_stamp(value: object) -> datetime | None:
    seconds = as_count(value)
    return EPOCH + timedelta(seconds=seconds) if seconds is not None and seconds < _MAX_SECONDS else None


def _make_record(row: tuple[Any, ...]) -> bytes:
    record = dict(zip(_COLUMNS, row[1:], strict=True))
    return msgspec.json.encode(record | {name: _parse(record[name]) for name in ("content", "metadata", "model")})


def _parse(value: object) -> Any:
    try:
        return msgspec.json.decode(str(value).encode(errors="replace")) if value is not None else None
    except msgspec.DecodeError:
        return None


_COLUMNS = {
    "session": "m.session_id",
    "id": "m.message_id",
    "role": "m.role",
    "at": "m.created_timestamp",
    "content": "m.content_json",
    "metadata": "m.metadata_json",
    "cwd": "s.working_dir",
    "title": "s.name",
    "kind": "s.session_type",
    "model": "s.model_config_json",
    "input": "CASE WHEN m.id = (SELECT max(id) FROM messages WHERE session_id = s.id) THEN s.accumulated_input_tokens END",
    "output": "CASE WHEN m.id = (SELECT max(id) FROM messages WHERE session_id = s.id) THEN s.accumulated_output_tokens END",
    "parent": """CASE WHEN s.session_type = 'sub_agent' AND m.id = (SELECT min(id) FROM messages WHERE session_id = s.id) THEN
        (SELECT p.session_id FROM messages p WHERE p.id > m.id AND instr(p.content_json, '"subagent_session_id":"' || s.id || '"') LIMIT 1)
        END""",
}
"""The answer to the call that started a sub-agent names its session; it comes after the sub-agent's messages."""
RECORDING = Recording(
    name=NAME,
    open=open_sessions(GooseSession, lambda record: as_name(record.get("session"))),
    database=DatabaseQuery(
        tables=frozenset(("sessions", "messages", "schema_version")),
        last="SELECT max(id) FROM messages",
        rows=f"""SELECT m.id, {", ".join(_COLUMNS.values())} FROM messages m JOIN sessions s ON s.id = m.session_id
        WHERE m.id > ? ORDER BY m.id""",
        to_record=_make_record,
    ),
)
