"""Reads sessions of pi, written after recordings of 0.73.1 (format 3) and two older ones of its authors (format 1).

`sessions/FOLDER/TIME_ID.jsonl` has a header `{type: "session", id, cwd}` and entries. A message of the model has its text, its calls, its
tokens and their price. A forked session names its parent and begins with copies of the parent's entries, which are older than its header:
they are read as the parent's, with the ids that they have there, so they are stored once. pi has no sub-agents of its own.
No recording has titles (`session_info`) and summaries of branches: how they are read is taken from the documentation.
"""

from __future__ import annotations

import re
from datetime import datetime

from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.session_reader import (
    CallResult,
    SessionReader,
    Usage,
    count_tokens,
    join_text,
    list_parts,
    put_bounded,
    split_exit_code,
)

_EXIT_CODE = re.compile(r"(?<!\n)\n*Command exited with code (\d{1,6})\s*\Z")
_ABORTED = "Command aborted"
_MAX_RENAMED = 200


class PiReader(SessionReader, program="pi"):
    """Reads one session."""

    ids_begin_with_time = True

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a line."""
        name, stamp = as_text(record.get("type")), as_text(record.get("timestamp"))
        at, key = read_time(stamp), as_text(f"{stamp} {record.get('id', '')}")
        if name == "session":
            return self._read_header(record, at)
        if name == "model_change":
            self.state.model = as_text(record.get("modelId")) or self.state.model
            return []
        if name is None or key is None or name == "thinking_level_change":
            return []
        return [*self._choose_session(at), *self._read_entry(name, record, key, at, raw)]

    def derive_event_id(self, *parts: object) -> str:
        """An id without the session: the copies in a fork have the same."""
        return super().derive_event_id(*(part for part in parts if part != self.state.session or parts[0] == "session"))

    def _read_entry(self, name: str, record: Record, key: str, at: datetime | None, raw: bytes) -> list[Event]:
        match name:
            case "message":
                return self._read_message(as_object(record.get("message")), key, at, raw)
            case "compaction":
                data = {"before_tokens": as_count(record.get("tokensBefore")), "summary": as_text(record.get("summary"))}
                return [self.make_context(at).make_event("session.compacted", self.derive_event_id("compacted", key), data=data)]
            case "session_info":
                return self.make_title(as_text(record.get("name")), at)
        return [self.make_other(name, record, raw, at, text=as_text(record.get("summary")) or as_text(record.get("label")))]

    def _read_header(self, record: Record, at: datetime | None) -> list[Event]:
        state = self.state
        state.session, state.cwd = state.session or as_name(record.get("id")), as_text(record.get("cwd")) or state.cwd
        state.model = as_text(record.get("modelId")) or state.model
        parent = as_text(record.get("parentSession")) or as_text(record.get("branchedFrom")) or ""
        forked_from = as_name(parent.rpartition("_")[2].removesuffix(".jsonl"))
        if forked_from is not None:
            state.extra["fork"] = {"own": state.session, "from": forked_from, "at": as_text(record.get("timestamp"))}
        return self.make_start(at, forked_from=forked_from)

    def _choose_session(self, at: datetime | None) -> list[Event]:
        """Whose entry comes next: the parent's if it is older than the fork."""
        fork = self.state.extra.get("fork")
        if not isinstance(fork, dict):
            return []
        forked_at = read_time(fork.get("at"))
        session = fork["from"] if at is not None and forked_at is not None and at < forked_at else fork["own"]
        if session == self.state.session:
            return []
        self.state.session, self.state.prompt_key, self.state.answer = session, None, None
        self.state.is_started = session == fork["own"]
        return self.make_start(at)

    def _read_message(self, message: Record, key: str, at: datetime | None, raw: bytes) -> list[Event]:
        match message.get("role"):
            case "user":
                words = join_text(message.get("content"))
                return self.make_prompt(key, words, at) if words and not self.is_repeated(key) else []
            case "assistant":
                return [] if self.is_repeated(key) else self._read_reply(message, key, at)
            case "toolResult":
                return self._read_result(message, key, at)
            case "bashExecution":
                return [self.make_other("shell_command", message, raw, at, text=as_text(message.get("command")))]
            case str() as role:
                return [self.make_other(role, message, raw, at)]
        return []

    def _read_reply(self, message: Record, key: str, at: datetime | None) -> list[Event]:
        usage, error, stop = as_object(message.get("usage")), as_text(message.get("errorMessage")), as_text(message.get("stopReason"))
        blocks, said = list_parts(message.get("content")), join_text(message.get("content"))
        self.state.model = model = as_text(message.get("model")) or self.state.model
        events = self.make_thoughts(blocks, key, at)
        counted = Usage(*(count_tokens(usage, name) for name in ("input", "output", "cacheRead", "cacheWrite")))
        if any(counted) or said:
            cost, provider = as_number(as_object(usage.get("cost")).get("total")), as_text(message.get("provider"))
            events.append(self.make_reply(key, counted, said, at, model=model, provider=provider, usd=cost or None, stop_reason=stop))
        for block in blocks:
            call, tool = as_name(block.get("id")), as_text(block.get("name"))
            if block.get("type") == "toolCall" and call is not None and tool is not None:
                events.append(self.make_call(self._rename_call(call, key), tool, block.get("arguments"), at))
        if stop == "aborted":
            return [*events, *self.end_turn(at, reason="interrupted")]
        if stop == "error":
            return [*events, self.make_error(key, error or "error", at), *self.end_turn(at, reason="failed")]
        return [*events, *self.end_turn(at)] if stop == "stop" else events

    def _rename_call(self, call: str, reply: str) -> str:
        """A key of its own for a call: some providers number the calls of each reply from zero."""
        put_bounded(self.state.extra.setdefault("calls", {}), call, f"{reply} {call}", _MAX_RENAMED)
        return f"{reply} {call}"

    def _read_result(self, message: Record, key: str, at: datetime | None) -> list[Event]:
        call = as_name(message.get("toolCallId"))
        if call is None or self.is_repeated(f"outcome:{key}"):
            return []
        text, failed, code = join_text(message.get("content")), message.get("isError") is True, None
        if message.get("toolName") == "bash":
            text, code = split_exit_code(text, _EXIT_CODE) if failed else (text, 0)
        result = CallResult(text, failed, code, interrupted=failed and text.endswith(_ABORTED))
        return [self.make_outcome(self.state.extra.get("calls", {}).get(call, call), result, at)]


RECORDING = PiReader.make_recording()
