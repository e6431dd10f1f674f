"""Reads sessions of Kimi Code, written after a recording of 2.1.0 (wire protocol 1.5).

`sessions/FOLDER/SESSION/agents/AGENT/wire.jsonl` has the records of one agent: `main`, or a sub-agent. `state.json` of the session names
its folder and its title. A step of the agent is one reply: its texts and calls, then its end with the tokens.
No recording has thoughts, a failed or cancelled turn or a failed sub-agent: how they are read is an assumption.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_name, as_number, as_object, as_text, read_milliseconds
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.recording_files import read_small_json
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, join_text, split_exit_code

_PATH_TYPE = "fleetlore.path"
_MAIN = "main"
_EXIT_CODE = re.compile(r"\n?Command failed with exit code: (\d{1,6})\.\s*\Z")
_REASONS = {"completed": None, "cancelled": "interrupted", "aborted": "interrupted"}
_MAX_TEXTS = 100


class KimiReader(SessionReader, program="kimi-code"):
    """Reads the records of one agent of a session. A sub-agent has the session `SESSION.AGENT`."""

    shares_run = True

    def name_agent(self, session: str | None) -> str | None:
        """The session's id without its prefix and, for a sub-agent, the sub-agent's."""
        main, dot, helper = (session or "").removeprefix("session_").partition(".")
        return as_name(f"{self.program}/{main[:8]}{dot}{helper}") if main else None

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a record."""
        read = _READERS.get(as_text(record.get("type")) or "")
        return [] if read is None else read(self, record, read_milliseconds(record.get("time")))

    def _read_path(self, record: Record, at: datetime | None) -> list[Event]:
        session, agent = as_name(record.get("session")), as_name(record.get("agent"))
        if session is None or agent is None:
            return []
        self.state.session = session if agent == _MAIN else f"{session}.{agent}"
        self.state.parent = None if agent == _MAIN else session
        self.state.cwd = as_text(record.get("cwd"))
        self.state.extra["title"] = as_text(record.get("title"))
        return []

    def _read_model(self, record: Record, at: datetime | None) -> list[Event]:
        self.state.model = as_text(record.get("model")) or self.state.model
        return []

    def _read_prompt(self, record: Record, at: datetime | None) -> list[Event]:
        key, words = as_text(record.get("promptId")), join_text(record.get("input"))
        if key is None or not words or self.is_repeated(key):
            return []
        if self.state.parent is not None:
            return self.make_own_launch(at, words)
        events = [*self.make_start(at), *self.make_title(self.state.extra.pop("title", None), at)]
        return [*events, *(self.make_prompt(key, words, at) if as_object(record.get("origin")).get("kind") == "user" else [])]

    def _read_step(self, record: Record, at: datetime | None) -> list[Event]:
        event = as_object(record.get("event"))
        call = as_name(event.get("toolCallId"))
        match event.get("type"):
            case "content.part":
                part = as_object(event.get("part"))
                if words := as_text(part.get("think")):
                    return [self.make_thought(as_text(event.get("uuid")) or words, words, at)]
                if words := as_text(part.get("text")):
                    self.state.extra["texts"] = [*self.state.extra.get("texts", [])[-_MAX_TEXTS:], words]
            case "tool.call" if call is not None:
                self.state.cwd = self.state.cwd or as_text(as_object(event.get("display")).get("cwd"))
                return [self.make_call(call, as_text(event.get("name")) or "unknown", event.get("args"), at)]
            case "tool.result" if call is not None:
                return [self._read_result(call, as_object(event.get("result")), at)]
            case "step.end":
                return self._read_reply(event, at)
        return []

    def _read_reply(self, event: Record, at: datetime | None) -> list[Event]:
        key, usage = as_text(event.get("uuid")), as_object(event.get("usage"))
        said = "\n".join(self.state.extra.pop("texts", []))
        if key is None or self.is_repeated(key):
            return []
        counted = Usage(*(count_tokens(usage, name) for name in ("inputOther", "output", "inputCacheRead", "inputCacheCreation")))
        return [self.make_reply(key, counted, said, at, stop_reason=as_text(event.get("finishReason")))]

    def _read_result(self, call: str, result: Record, at: datetime | None) -> Event:
        text, failed, code = join_text(result.get("output")), result.get("isError") is True, None
        if self.find_call(call).tool == "Bash":
            text, code = split_exit_code(text, _EXIT_CODE) if failed else (text, 0)
        return self.make_outcome(call, CallResult(text, failed, code, duration_ms=as_number(result.get("durationMs"))), at)

    def _read_launch(self, record: Record, at: datetime | None) -> list[Event]:
        agent, call = as_name(record.get("subagentId")), as_name(record.get("parentToolCallId"))
        if agent is None:
            return []
        prompt = as_text(as_object(self.find_call(call).input).get("prompt"))
        words, role = as_text(record.get("description")) or agent, as_text(record.get("subagentName"))
        return [self.make_launch(self._name_helper(agent), at, words=words, call=call, role=role, prompt=prompt)]

    def _read_return(self, record: Record, at: datetime | None) -> list[Event]:
        agent, error = as_name(record.get("subagentId")), as_text(record.get("error"))
        if agent is None:
            return []
        status = "completed" if record.get("type") == "subagent.completed" else "failed"
        return [self.make_return(self._name_helper(agent), at, words=error or as_text(record.get("resultSummary")) or "", status=status)]

    def _name_helper(self, agent: str) -> str:
        return f"{self.state.parent or self.state.session}.{agent}"

    def _read_end(self, record: Record, at: datetime | None) -> list[Event]:
        reason = as_text(record.get("reason"))
        error = as_text(as_object(record.get("error")).get("message"))
        failed = [self.make_error(f"{self.state.prompt_key}", error, at)] if error else []
        return [*failed, *self.end_turn(at, reason=_REASONS.get(reason or "", reason))]


_READERS: Mapping[str, Callable[[KimiReader, Record, datetime | None], list[Event]]] = {
    _PATH_TYPE: KimiReader._read_path,
    "llm.request": KimiReader._read_model,
    "turn.prompt": KimiReader._read_prompt,
    "context.append_loop_event": KimiReader._read_step,
    "subagent.spawned": KimiReader._read_launch,
    "subagent.completed": KimiReader._read_return,
    "subagent.failed": KimiReader._read_return,
    "turn.ended": KimiReader._read_end,
}


def read_path(path: str) -> bytes | None:
    """The session and the agent are in the path, and the folder and the title in the session's `state.json`."""
    agent = os.path.dirname(os.path.abspath(path))
    agents = os.path.dirname(agent)
    session = os.path.dirname(agents)
    if os.path.basename(agents) != "agents":
        return None
    record: dict[str, object] = {"type": _PATH_TYPE, "session": os.path.basename(session), "agent": os.path.basename(agent)}
    if (state := read_small_json(os.path.join(session, "state.json"))) is not None:
        record |= {"cwd": as_text(state.get("cwd")), "title": as_text(state.get("title"))}
    return msgspec.json.encode(record)


RECORDING = KimiReader.make_recording(read_path)
