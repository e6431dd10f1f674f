"""Reads sessions of Gemini CLI, written after recordings of 0.61.0.

`chats/session-….jsonl` has a header `{sessionId, projectHash, startTime, kind}`, messages, and updates `{"$set": …}`. A message with tool
calls is written twice: when the model has replied, and again when the calls have ended. A resumed session writes its header again and
repeats all messages within `$set`, with other times; these are ignored. Sub-agents have files of their own, in `chats/PARENT/AGENT.jsonl`.
No recording has thoughts, `$rewindTo`, a cancelled call or messages of type `error`: how they are read is an assumption.
"""

from __future__ import annotations

import os
import re
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_name, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.recording_files import plain_name
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, list_parts

SHELL_TOOL = "run_shell_command"
AGENT_TOOLS = frozenset(("invoke_agent", "codebase_investigator", "delegate_to_agent"))
_PATH_KEY = "fleetloreParentSession"
_CONTEXT_TAG = "<session_context>"
_WORKSPACE = re.compile(r"Workspace Directories:\*{0,2}\s{0,5}\n\s{0,5}- ([^\n]{1,1000})")
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,6})$", re.MULTILINE)
_SIGNAL = re.compile(r"^Signal: ", re.MULTILINE)


class GeminiReader(SessionReader, program="gemini-cli"):
    """Reads one session, or one sub-agent of it."""

    shares_run = True

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a line."""
        if parent := as_name(record.get(_PATH_KEY)):
            self.state.parent = parent
            return []
        if "$set" in record:
            self._read_update(as_object(record["$set"]))
            return []
        if "$rewindTo" in record:
            return [self.make_other("rewound", record, raw, None, text="the person went back to an earlier message")]
        if "sessionId" in record and "projectHash" in record:
            return self._read_header(record)
        at, key = read_time(record.get("timestamp")), as_name(record.get("id"))
        match record.get("type"):
            case "user" if key:
                return self._read_user(record, key, at)
            case "gemini" if key:
                return self._read_reply(record, key, at)
            case "error" if key:
                return [self.make_error(key, _join_text(record.get("content")) or "error", at)]
            case str() as name:
                return [self.make_other(name, record, raw, at, text=_join_text(record.get("content")))]
        return [self.make_other("record", record, raw, at)] if record else []

    def _read_header(self, record: Record) -> list[Event]:
        self.state.session = self.state.session or as_name(record.get("sessionId"))
        folders = record.get("directories")
        if isinstance(folders, list) and folders:
            self.state.cwd = self.state.cwd or as_text(folders[0])
        self.state.extra.setdefault("started", record.get("startTime"))
        return []

    def _read_update(self, changes: Record) -> None:
        """The folder of the session is only in the text that the program sends before the first prompt."""
        messages = changes.get("messages")
        for message in messages[:1] if isinstance(messages, list) else ():
            words = _join_text(as_object(message).get("content"))
            if words.startswith(_CONTEXT_TAG) and (found := _WORKSPACE.search(words[:20_000])):
                self.state.cwd = self.state.cwd or found[1].strip()

    def _read_user(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        start = self.make_start(read_time(self.state.extra.get("started")) or at)
        words = _join_text(record.get("content"))
        if not words or words.startswith(_CONTEXT_TAG) or self.is_repeated(key):  # results of tools are within the model's message
            return start
        if self.state.parent:
            return self.make_own_launch(at, words)
        return [*start, *self.make_prompt(key, words, at)]

    def _read_reply(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        events = self.make_start(read_time(self.state.extra.get("started")) or at)
        self.state.model = as_text(record.get("model")) or self.state.model
        tokens = as_object(record.get("tokens"))
        calls = record.get("toolCalls")
        if not self.is_repeated(key):
            events += self._make_thoughts(record, key, at)
            events.append(self.make_reply(key, _read_usage(tokens), _join_text(record.get("content")), at))
        for part in calls if isinstance(calls, list) else ():
            events += self._read_call(as_object(part), at)
        return events

    def _make_thoughts(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        parts = list_parts(record.get("thoughts"))
        words = [": ".join(filter(None, (as_text(part.get("subject")), as_text(part.get("description"))))) for part in parts]
        return [self.make_thought(f"{key}:{n}", text, at) for n, text in enumerate(words) if text]

    def _read_call(self, part: Record, asked_at: datetime | None) -> list[Event]:
        call, tool, status = as_name(part.get("id")), as_text(part.get("name")), as_text(part.get("status"))
        if call is None or tool is None:
            return []
        given, at = as_object(part.get("args")), read_time(part.get("timestamp")) or asked_at
        events = [] if self.is_repeated(f"call:{call}") else [self.make_call(call, tool, given, asked_at)]
        self.state.answer = None
        if status not in ("success", "error", "cancelled") or self.is_repeated(f"outcome:{call}"):
            return events
        result = _read_result(part, tool, status)
        child = as_name(part.get("agentId"))
        if child is not None:
            role = as_text(given.get("agent_name")) or tool
            words = as_text(given.get("prompt")) or as_text(given.get("objective")) or role
            events.append(self.make_launch(child, asked_at, words=words, call=call, role=role, prompt=words))
            events.append(self.make_return(child, at, words=result.text, call=call, status=status))
        return [*events, self.make_outcome(call, result, at)]


def _read_usage(tokens: Record) -> Usage:
    """`input` includes what was cached; `output` does not include thoughts, which cost the same."""
    cached, thoughts = count_tokens(tokens, "cached"), count_tokens(tokens, "thoughts")
    given = max(count_tokens(tokens, "input") + count_tokens(tokens, "tool") - cached, 0)
    return Usage(given, count_tokens(tokens, "output") + thoughts, cached, reasoning=thoughts)


def _read_result(part: Record, tool: str, status: str) -> CallResult:
    shown = part.get("resultDisplay")
    parts = part.get("result")
    response = as_object(
        as_object(as_object(parts[0] if isinstance(parts, list) and parts else None).get("functionResponse")).get("response")
    )
    text = as_text(response.get("output")) or as_text(response.get("error")) or (shown if isinstance(shown, str) else "")
    code = None
    if tool == SHELL_TOOL:
        codes = _EXIT_CODE.findall(text)  # the program's own line comes after the command's output
        code = int(codes[-1]) if codes else 0 if status == "success" and not _SIGNAL.search(text) else None
        text = shown if isinstance(shown, str) and shown else text
    cancelled = status == "cancelled"
    return CallResult(text, failed=status != "success", exit_code=code, interrupted=cancelled)


def _join_text(content: object) -> str:
    """The text of a message: a string, or parts."""
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else [content]
    texts = [as_text(as_object(part).get("text")) if isinstance(part, dict) else as_text(part) for part in parts]
    return "\n".join(text for text in texts if text).strip()


def read_path(path: str) -> bytes | None:
    """A sub-agent's file is in a folder that is named after its parent's session."""
    folders = plain_name(path).split(os.sep)
    if len(folders) < 3 or folders[-3] != "chats":
        return None
    return msgspec.json.encode({_PATH_KEY: folders[-2]})


RECORDING = GeminiReader.make_recording(read_path)
