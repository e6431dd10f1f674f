"""Reads sessions of Droid, written after a recording of `droid exec` 0.225.2 (session format 2).

`sessions/FOLDER/SESSION.jsonl` has a header and messages in the form of Anthropic's API, without tokens: `SESSION.settings.json` beside it
has the total of the session. What that total has beyond what was read before is one more `model.replied`, at the end of a turn.
No recording has a sub-agent (Droid starts them in a daemon that needs its account), thoughts, an error of the model's API, a denied call
or a resumed session. Sub-agents are read as calls of the tool `Task`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_name, as_object, as_text, read_time
from fleetlore.dialects.recording import Recording
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin
from fleetlore.programs.recording_files import plain_name
from fleetlore.programs.session_reader import CallResult, SessionReader, TranscriptState, Usage, count_tokens
from fleetlore.programs.sessions import EventContext

NAME = PROGRAM = "droid"
_PATH_TYPE = "fleetlore.path"
_EXIT_CODE = re.compile(r"(?<!\n)\n*\[Process exited with code (-?\d{1,6})\]\s*\Z")
_FAILED = re.compile(r"\AError: (?:Command failed \(exit code: -?\d{1,6}\)\n)?")
_COUNTED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens", "thinkingTokens")
_MAX_SETTINGS_BYTES = 1024 * 1024


class DroidEventContext(EventContext):
    """The acting agent, its session and the time."""

    __slots__ = ()
    PROGRAM = PROGRAM
    ORIGIN = Origin(dialect=NAME)


class DroidReader(SessionReader):
    """Reads one session."""

    context_type = DroidEventContext

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a line."""
        match record.get("type"):
            case str(name) if name == _PATH_TYPE:
                self.state.extra["total"] = as_object(record.get("total"))
            case "session_start":
                self.state.session = self.state.session or as_name(record.get("id"))
                self.state.cwd = as_text(record.get("cwd")) or self.state.cwd
                self.state.extra["title"] = as_text(record.get("title"))
            case "message":
                return self._read_message(record, as_text(record.get("id")), read_time(record.get("timestamp")))
            case "agent_turn_outcome":
                at, reason = self.state.answer.at if self.state.answer else None, as_text(record.get("reason"))
                return [*self._read_total(at), *self.end_turn(at, reason=None if reason == "completed" else reason)]
        return []

    def _read_message(self, record: Record, key: str | None, at: datetime | None) -> list[Event]:
        message = as_object(record.get("message"))
        content = message.get("content")
        parts = [as_object(part) for part in content] if isinstance(content, list) else [{"type": "text", "text": content}]
        if key is None or key.startswith("context-") or self.is_repeated(key):
            return []
        words = "\n".join(text for part in parts if part.get("type") == "text" and (text := as_text(part.get("text"))))
        if message.get("role") == "assistant":
            return self._read_reply(message, parts, words, key, at)
        events = self.make_start(at)
        if title := self.state.extra.pop("title", None):
            events.append(self.make_title(title, at))
        for part in parts:
            call = as_name(part.get("tool_use_id"))
            if part.get("type") == "tool_result" and call is not None:
                events.append(self._read_result(call, part, at))
        return [*events, *(self.make_prompt(key, words, at) if words and not words.startswith("<system-reminder>") else [])]

    def _read_reply(self, message: Record, parts: list[Record], words: str, key: str, at: datetime | None) -> list[Event]:
        self.state.model = as_text(message.get("modelId")) or self.state.model
        thoughts = [text for part in parts if part.get("type") == "thinking" and (text := as_text(part.get("thinking")))]
        events = [self.make_thought(f"{key}:{n}", text, at) for n, text in enumerate(thoughts)]
        if words:
            events.append(self.make_reply(key, Usage(), words, at))
        for part in parts:
            call, tool = as_name(part.get("id")), as_text(part.get("name"))
            if part.get("type") == "tool_use" and call is not None and tool is not None:
                events.append(self.make_call(call, tool, part.get("input"), at))
        return events

    def _read_result(self, call: str, part: Record, at: datetime | None) -> Event:
        content, failed = part.get("content"), part.get("is_error") is True
        texts = [as_text(as_object(each).get("text")) for each in content] if isinstance(content, list) else [as_text(content)]
        text = "\n".join(each for each in texts if each)
        known = self.state.calls.get(call)
        found = _EXIT_CODE.search(text[-200:]) if known is not None and known.tool == "Execute" else None
        text = text[: len(text) - len(found[0])] if found else text
        text = _FAILED.sub("", text) if failed else text
        return self.make_outcome(call, CallResult(text, failed, int(found[1]) if found else None), at)

    def _read_total(self, at: datetime | None) -> list[Event]:
        """The id is what was counted before: no total counts twice."""
        now = [count_tokens(self.state.extra.get("total", {}), name) for name in _COUNTED]
        known = self.state.extra.get("counted", [0] * len(_COUNTED))
        usage = Usage(*(max(after - before, 0) for after, before in zip(now, known, strict=True)))
        if not any(usage):
            return []
        self.state.extra["counted"] = now
        return [self.make_total(f"total:{known[0]}:{known[1]}", usage, at)]


def read_path(path: str) -> bytes | None:
    """The tokens of the session so far."""
    with suppress(OSError, msgspec.DecodeError), open(f"{plain_name(path)}.settings.json", "rb") as file:
        settings = as_object(msgspec.json.decode(file.read(_MAX_SETTINGS_BYTES)))
        return msgspec.json.encode({"type": _PATH_TYPE, "total": as_object(settings.get("tokenUsage"))})
    return None


def _open_reader(saved: bytes | None) -> DroidReader:
    return DroidReader(msgspec.json.decode(saved, type=TranscriptState) if saved else TranscriptState())


RECORDING = Recording(name=NAME, open=_open_reader, read_path=read_path)
