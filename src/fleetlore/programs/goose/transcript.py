"""Reads the sessions of Goose, written after recordings of 1.34.0 and 1.52.0 (`sessions.db`: messages as rows, totals per session).

A message has no tokens; the program adds them up in its row of `sessions`. What that total has beyond what was read before is one more
`model.replied`. A sub-agent is a session of its own, named by the answer to the call that started it. Errors of the model are not stored.
No recording has thoughts, images, a denied call or a compaction: how they are read is an assumption.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_count, as_exit_code, as_name, as_object, as_text, read_seconds
from fleetlore.dialects.recording import DatabaseQuery, Recording
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.many_sessions import open_sessions
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, join_text, list_parts

_DEFAULT_TITLES = frozenset(("CLI Session", "New Chat", "New session", "Delegated task"))


class GooseSession(SessionReader, program="goose"):
    """Reads the messages of one session."""

    def name_agent(self, session: str | None) -> str | None:
        """The whole id: it is a day and a number."""
        return as_name(f"{self.program}/{session}") if session else None

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a message."""
        key, seconds = as_text(record.get("id")), as_count(record.get("at"))
        at = None if seconds is None else read_seconds(seconds)
        if key is None or self.is_repeated(key):
            return []
        self.state.model = as_text(as_object(record.get("model")).get("model_name")) or self.state.model
        self.state.cwd = as_text(record.get("cwd")) or self.state.cwd
        self.state.parent = self.state.parent or as_name(record.get("parent"))
        is_helper = record.get("kind") == "sub_agent"
        title = as_text(record.get("title"))
        events = [] if is_helper else [*self.make_start(at), *self.make_title(None if title in _DEFAULT_TITLES else title, at)]
        parts, words = list_parts(record.get("content")), join_text(record.get("content"))
        if record.get("role") == "assistant":
            events += self._read_reply(parts, words, key, at)
        else:
            for part in parts:
                events += self._read_result(part, at)
            if words and as_object(record.get("metadata")).get("userVisible") is not False:
                events += self.make_own_launch(at, words) if is_helper else self.make_prompt(key, words, at)
        total = [count_tokens(record, "input"), count_tokens(record, "output")]  # only the newest message has them
        return [*events, *self.count_total(total, at)]

    def _read_reply(self, parts: list[Record], words: str, key: str, at: datetime | None) -> list[Event]:
        events = self.make_thoughts(parts, key, at)
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
        text = join_text(value.get("content")) or as_text(result.get("error")) or ""
        failed = value.get("isError") is True or result.get("status") == "error"
        outcome = CallResult(text, failed, as_exit_code(as_object(value.get("structuredContent")).get("exit_code")))
        child, events = as_name(as_object(value.get("_meta")).get("subagent_session_id")), []
        if child is not None:
            words = as_text(as_object(self.find_call(call).input).get("instructions")) or child
            events = [
                self.make_launch(child, at, words=words, call=call, prompt=words),
                self.make_return(child, at, words=text, call=call, status="failed" if outcome.failed else "completed"),
            ]
        return [*events, self.make_outcome(call, outcome, at)]


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
    name=GooseSession.find_dialect(),
    open=open_sessions(GooseSession, lambda record: as_name(record.get("session"))),
    database=DatabaseQuery(
        tables=frozenset(("sessions", "messages", "schema_version")),
        last="SELECT max(id) FROM messages",
        rows=f"""SELECT m.id, {", ".join(_COLUMNS.values())} FROM messages m JOIN sessions s ON s.id = m.session_id
        WHERE m.id > ? ORDER BY m.id""",
        to_record=_make_record,
    ),
)
