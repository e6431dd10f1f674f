"""Reads conversations of OpenHands, written after recordings of its CLI 1.16.0 (SDK 1.21.0), and of its agent server.

`conversations/ID/events/event-NUMBER-ID.json` has one event each: a message, an action (a tool call with the thought before it), an
observation (its result), or what the program notes for itself. `base_state.json` beside them has the model, the folder, and the tokens
of every response of the model. Its times are those of the machine's own time zone, without saying so. A sub-agent has a folder of its own
in `subagents/`, and nothing says which call started it.
No recording has a refused call, an error of the model's API, a pause or a condensation: how they are read is an assumption.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from fleetlore.dialects.fields import as_exit_code, as_name, as_object, as_text, read_time
from fleetlore.dialects.recording import RecordFiles, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.programs.recording_files import read_small_json
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, join_text, list_parts, put_bounded

FINISH_TOOL = "finish"
_PATH_KIND = "fleetlore.path"
_SUB_AGENTS = "subagents"
_IGNORED = frozenset(("SystemPromptEvent", "ConversationStateUpdateEvent", "TokenEvent", "CondensationRequest", "LLMCompletionLogEvent"))
_MAX_CALLS = 200
_MAX_STATE_BYTES = 16 * 1024 * 1024
_ADDED_ARGUMENTS = ("kind", "security_risk", "summary")
"""What the program adds to the arguments of every tool."""


class OpenHandsReader(SessionReader, program="openhands"):
    """Reads one conversation, or one of a sub-agent."""

    shares_run = True

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of one of the program's events."""
        kind, key = as_text(record.get("kind")), as_name(record.get("id"))
        if kind == _PATH_KIND:
            self._read_path(record)
            return []
        if kind is None or key is None or kind in _IGNORED or self.is_repeated(key):
            return []
        at = _read_local_time(record.get("timestamp"))
        self.state.session = self.state.session or key
        start, read = self.make_start(at), _READERS.get(kind)
        if read is None:
            return [*start, self.make_other(kind.removesuffix("Event"), record, raw, at)]
        return [*start, *read(self, record, key, at)]

    def _read_path(self, record: Record) -> None:
        state = self.state
        state.session, state.parent = as_name(record.get("session")), as_name(record.get("parent"))
        state.cwd = as_text(record.get("cwd")) or state.cwd
        state.model = as_text(record.get("model")) or state.model
        usage = as_object(record.get("usage"))
        state.extra["usage"] = {response: each for response, each in usage.items() if f"reply:{response}" not in state.seen}

    def _read_message(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        message = as_object(record.get("llm_message"))
        words = join_text(message.get("content"))
        if record.get("source") == "agent":
            return self._read_answer(record, message, words, key, at)
        if record.get("source") != "user" or not words:
            return []
        return self.make_own_launch(at, words) if self.state.parent else self.make_prompt(key, words, at)

    def _read_action(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        call, tool = as_name(record.get("tool_call_id")), as_text(record.get("tool_name"))
        action = as_object(record.get("action")) or _parse_arguments(record.get("tool_call"))  # a call that was not understood has none
        given = {name: value for name, value in action.items() if name not in _ADDED_ARGUMENTS and value is not None}
        words = join_text(record.get("thought"))
        if tool == FINISH_TOOL:
            return self._read_answer(record, record, as_text(action.get("message")) or words, key, at)
        events = self._read_reply(record, record, words, key, at)
        if call is None or tool is None:
            return events
        put_bounded(self.state.extra.setdefault("calls", {}), call, key, _MAX_CALLS)  # some providers number the calls of each reply
        return [*events, self.make_call(key, tool, given, at)]

    def _make_outcome(self, record: Record, result: CallResult, at: datetime | None) -> list[Event]:
        call = as_name(record.get("tool_call_id"))
        if call is None or record.get("tool_name") == FINISH_TOOL:
            return []
        return [self.make_outcome(self.state.extra.get("calls", {}).pop(call, call), result, at)]

    def _read_answer(self, record: Record, message: Record, words: str, key: str, at: datetime | None) -> list[Event]:
        """The end of a turn, or of a sub-agent's work, which its parent's events do not name."""
        events = self._read_reply(record, message, words, key, at)
        return [*events, *([self.make_own_return(at, words)] if self.state.parent else self.end_turn(at))]

    def _read_reply(self, record: Record, message: Record, words: str, key: str, at: datetime | None) -> list[Event]:
        """Calls of the same response come one by one; only the first has its words and tokens."""
        response = as_text(record.get("llm_response_id")) or key
        if self.is_repeated(f"reply:{response}"):
            return []
        thought = as_text(message.get("reasoning_content"))
        usage = as_object(self.state.extra.get("usage", {}).pop(response, None))
        model = as_text(usage.get("model")) or self.state.model
        events = [self.make_thought(key, thought, at)] if thought else []
        return [*events, self.make_reply(response, _read_usage(usage), _THINK.sub("", words).strip(), at, model=model)]

    def _read_observation(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        observation = as_object(record.get("observation"))
        code = as_exit_code(observation.get("exit_code"))
        result = CallResult(join_text(observation.get("content")), observation.get("is_error") is True, None if code == -1 else code)
        return self._make_outcome(record, result, at)

    def _read_refusal(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        return self._make_outcome(record, CallResult(as_text(record.get("rejection_reason")) or "", denied=True), at)

    def _read_failed_call(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        return self._make_outcome(record, CallResult(as_text(record.get("error")) or "", failed=True), at)

    def _read_error(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        error = as_text(record.get("detail")) or as_text(record.get("code")) or "error"
        return [self.make_error(key, error, at), *self.end_turn(at, reason="failed")]

    def _read_pause(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        return self.end_turn(at, reason="interrupted")

    def _read_compaction(self, record: Record, key: str, at: datetime | None) -> list[Event]:
        data = {"summary": as_text(record.get("summary"))}
        return [self.make_context(at).make_event("session.compacted", self.derive_event_id("compacted", key), data=data)]


_THINK = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""Some models write their reasoning into the answer; `reasoning_content` has it, too."""
_READERS: Mapping[str, Callable[[OpenHandsReader, Record, str, datetime | None], list[Event]]] = {
    "MessageEvent": OpenHandsReader._read_message,
    "ActionEvent": OpenHandsReader._read_action,
    "ObservationEvent": OpenHandsReader._read_observation,
    "UserRejectObservation": OpenHandsReader._read_refusal,
    "AgentErrorEvent": OpenHandsReader._read_failed_call,
    "ConversationErrorEvent": OpenHandsReader._read_error,
    "PauseEvent": OpenHandsReader._read_pause,
    "InterruptEvent": OpenHandsReader._read_pause,
    "Condensation": OpenHandsReader._read_compaction,
}


def _read_usage(usage: Record) -> Usage:
    """The prompt includes what was cached, and the output includes reasoning."""
    names = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    given, output, read, written, reasoning = (count_tokens(usage, name) for name in names)
    return Usage(max(given - read - written, 0), output, read, written, min(reasoning, output))


def _parse_arguments(call: object) -> Record:
    with suppress(DialectError):
        return parse_record((as_text(as_object(call).get("arguments")) or "").encode(errors="replace"))
    return {}


def _read_local_time(value: object) -> datetime | None:
    if (at := read_time(value)) is not None or not isinstance(value, str):
        return at
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def read_path(path: str) -> bytes | None:
    """What the state of the conversation says."""
    folder = os.path.dirname(os.path.abspath(path))
    state = read_small_json(path, most=_MAX_STATE_BYTES)
    if state is None or "agent" not in state:
        return None
    above, name = os.path.split(os.path.dirname(folder))
    metrics = as_object(as_object(state.get("stats")).get("usage_to_metrics"))
    usage = [each for entry in metrics.values() for each in list_parts(as_object(entry).get("token_usages"))]
    return msgspec.json.encode(
        {
            "kind": _PATH_KIND,
            "session": os.path.basename(folder),
            "parent": os.path.basename(above) if name == _SUB_AGENTS else None,
            "cwd": as_text(as_object(state.get("workspace")).get("working_dir")),
            "model": as_text(as_object(as_object(state.get("agent")).get("llm")).get("model")),
            "usage": {response: each for each in usage if (response := as_text(each.get("response_id")))},
        }
    )


_FILES = RecordFiles("events", re.compile(r"event-(\d{5,9})-[0-9a-fA-F-]{8,}\.json"))
RECORDING = OpenHandsReader.make_recording(read_path, record_files=_FILES)
