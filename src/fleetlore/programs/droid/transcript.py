"""Reads sessions of Droid, written after a recording of `droid exec` 0.225.2 (session format 2).

`sessions/FOLDER/SESSION.jsonl` has a header and messages in the form of Anthropic's API, without tokens: `SESSION.settings.json` beside it
has the total of the session. What that total has beyond what was read before is one more `model.replied`, at the end of a turn.
No recording has a sub-agent (Droid starts them in a daemon that needs its account), thoughts, an error of the model's API, a denied call
or a resumed session. Sub-agents are read as calls of the tool `Task`.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_name, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.recording_files import plain_name, read_small_json
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, join_text, list_parts, split_exit_code

_PATH_TYPE = "fleetlore.path"
_EXIT_CODE = re.compile(r"(?<!\n)\n*\[Process exited with code (-?\d{1,6})\]\s*\Z")
_FAILED = re.compile(r"\AError: (?:Command failed \(exit code: -?\d{1,6}\)\n)?")
_COUNTED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens", "thinkingTokens")


class DroidReader(SessionReader, program="droid"):
    """Reads one session."""

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a line."""
        match record.get("type"):
            case str(name) if name == _PATH_TYPE:
                self.state.extra["tokens"] = as_object(record.get("total"))
            case "session_start":
                self.state.session = self.state.session or as_name(record.get("id"))
                self.state.cwd = as_text(record.get("cwd")) or self.state.cwd
                self.state.extra["title"] = as_text(record.get("title"))
            case "message":
                return self._read_message(record, as_text(record.get("id")), read_time(record.get("timestamp")))
            case "agent_turn_outcome":
                at, reason = self.state.answer.at if self.state.answer else None, as_text(record.get("reason"))
                total = [count_tokens(self.state.extra.get("tokens", {}), name) for name in _COUNTED]
                return [*self.count_total(total, at), *self.end_turn(at, reason=None if reason == "completed" else reason)]
        return []

    def _read_message(self, record: Record, key: str | None, at: datetime | None) -> list[Event]:
        message = as_object(record.get("message"))
        parts, words = list_parts(message.get("content")), join_text(message.get("content"))
        if key is None or key.startswith("context-") or self.is_repeated(key):
            return []
        if message.get("role") == "assistant":
            return self._read_reply(message, parts, words, key, at)
        events = [*self.make_start(at), *self.make_title(self.state.extra.pop("title", None), at)]
        for part in parts:
            call = as_name(part.get("tool_use_id"))
            if part.get("type") == "tool_result" and call is not None:
                events.append(self._read_result(call, part, at))
        return [*events, *(self.make_prompt(key, words, at) if words and not words.startswith("<system-reminder>") else [])]

    def _read_reply(self, message: Record, parts: list[Record], words: str, key: str, at: datetime | None) -> list[Event]:
        self.state.model = as_text(message.get("modelId")) or self.state.model
        events = self.make_thoughts(parts, key, at)
        if words:
            events.append(self.make_reply(key, Usage(), words, at))
        for part in parts:
            call, tool = as_name(part.get("id")), as_text(part.get("name"))
            if part.get("type") == "tool_use" and call is not None and tool is not None:
                events.append(self.make_call(call, tool, part.get("input"), at))
        return events

    def _read_result(self, call: str, part: Record, at: datetime | None) -> Event:
        text, failed, code = join_text(part.get("content")), part.get("is_error") is True, None
        if self.find_call(call).tool == "Execute":
            text, code = split_exit_code(text, _EXIT_CODE)
        return self.make_outcome(call, CallResult(_FAILED.sub("", text) if failed else text, failed, code), at)


def read_path(path: str) -> bytes | None:
    """The tokens of the session so far."""
    settings = read_small_json(f"{plain_name(path)}.settings.json")
    return None if settings is None else msgspec.json.encode({"type": _PATH_TYPE, "total": as_object(settings.get("tokenUsage"))})


RECORDING = DroidReader.make_recording(read_path)
