"""Reads sessions of Qwen Code, written after recordings of 0.15.10.

`projects/PROJECT/chats/SESSION.jsonl` has one row per message: `user`, `assistant` (with `usageMetadata`), `tool_result`, and `system`.
Replies and tool calls of sub-agents are only in `system/ui_telemetry` rows, known by their `prompt_id` (`SESSION#AGENT#TURN`); those
rows of the session's own agent repeat what the other rows say.
No recording has thoughts, `api_error` or a cancelled call: how they are read is an assumption.
"""

from __future__ import annotations

import re
from datetime import datetime

from fleetlore.dialects.fields import as_name, as_number, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, join_text, list_parts, put_bounded
from fleetlore.programs.sessions import DETACHED_HEAD

SHELL_TOOL, AGENT_TOOLS = "run_shell_command", ("agent", "task")
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,6})$", re.MULTILINE)
_IGNORED_SUBTYPES = frozenset(("attribution_snapshot", "file_history_snapshot", "at_command"))
_MAX_HELPERS = 100


class QwenReader(SessionReader, program="qwen-code"):
    """Reads one session and its sub-agents."""

    def name_agent(self, session: str | None) -> str | None:
        """Sub-agents have a name with a random end: `general-purpose-6lm5pi`."""
        if session is None or session == self.state.session:
            return super().name_agent(session)
        return as_name(f"{self.program}/{session}")

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a row."""
        state, at = self.state, read_time(record.get("timestamp"))
        key = as_name(record.get("uuid"))
        if key is None or as_name(record.get("sessionId")) is None:
            return [self.make_other(as_text(record.get("type")) or "row", record, raw, at)] if record else []
        state.session = state.session or as_name(record.get("sessionId"))
        state.cwd, state.version = as_text(record.get("cwd")) or state.cwd, as_text(record.get("version")) or state.version
        branch = as_text(record.get("gitBranch"))
        state.branch = branch if branch and branch != DETACHED_HEAD else state.branch
        start = self.make_start(at)
        if record.get("type") == "system":
            return start + self._read_system(record, raw, at)
        if self.is_repeated(key):
            return start
        parts = list_parts(as_object(record.get("message")).get("parts"))
        match record.get("type"):
            case "user":
                words = join_text(parts).strip()
                return start + (self.make_prompt(key, words, at) if words else [])
            case "assistant":
                return start + self._read_reply(record, parts, key, at)
            case "tool_result":
                return start + self._read_results(record, parts, at)
        return [*start, self.make_other(as_text(record.get("type")) or "row", record, raw, at)]

    def _read_reply(self, record: Record, parts: list[Record], key: str, at: datetime | None) -> list[Event]:
        self.state.model = as_text(record.get("model")) or self.state.model
        thoughts = "\n".join(text for part in parts if part.get("thought") is True and (text := as_text(part.get("text"))))
        events = [self.make_thought(key, thoughts, at)] if thoughts else []
        usage = as_object(record.get("usageMetadata"))
        numbers = (count_tokens(usage, f"{name}TokenCount") for name in ("prompt", "candidates", "cachedContent", "thoughts"))
        events.append(self.make_reply(key, _make_usage(*numbers), join_text(parts).strip(), at))
        calls = [as_object(part.get("functionCall")) for part in parts if "functionCall" in part]
        for call in calls:
            if (id := as_name(call.get("id"))) and (tool := as_text(call.get("name"))):
                events.append(self.make_call(id, tool, as_object(call.get("args")), at))
        return events

    def _read_results(self, record: Record, parts: list[Record], at: datetime | None) -> list[Event]:
        events: list[Event] = []
        result = as_object(record.get("toolCallResult"))
        for part in parts:
            answer = as_object(part.get("functionResponse"))
            call, tool = as_name(answer.get("id")), as_text(answer.get("name")) or ""
            if call is None:
                continue
            outcome = _read_result(result, as_object(answer.get("response")), tool)
            for child in self._list_helpers(call):
                events.append(
                    self.make_return(child, at, words=outcome.text, call=call, status="failed" if outcome.failed else "completed")
                )
            self.state.extra.get("helpers", {}).pop(call, None)
            events.append(self.make_outcome(call, outcome, at))
        return events

    def _read_system(self, record: Record, raw: bytes, at: datetime | None) -> list[Event]:
        subtype, payload = as_text(record.get("subtype")) or "note", as_object(record.get("systemPayload"))
        if subtype in _IGNORED_SUBTYPES:
            return []
        if subtype != "ui_telemetry":
            return [self.make_other(subtype, payload or record, raw, at)]
        said = as_object(payload.get("uiEvent"))
        name = (as_text(said.get("event.name")) or "").rpartition(".")[2]
        session, mark, rest = (as_text(said.get("prompt_id")) or "").partition("#")
        helper = as_name(rest.partition("#")[0]) if mark and session == self.state.session else None
        if name == "api_error":
            return [
                self.make_error(str(record["uuid"]), as_text(said.get("error_message")) or as_text(said.get("error")) or name, at, helper)
            ]
        if helper is None:
            return []
        launch = self._note_helper(helper, as_text(said.get("subagent_name")), at)
        if name == "api_response":
            numbers = (count_tokens(said, f"{each}_token_count") for each in ("input", "output", "cached_content", "thoughts"))
            words, model = as_text(said.get("response_text")) or "", as_text(said.get("model"))
            return [*launch, self.make_reply(str(record["uuid"]), _make_usage(*numbers), words, at, helper=helper, model=model)]
        if name == "tool_call" and (tool := as_text(said.get("function_name"))):
            call, answer = str(record["uuid"]), self.state.answer
            events = [*launch, self.make_call(call, tool, as_object(said.get("function_args")), at, helper)]
            failed, error = said.get("success") is False, as_text(said.get("error")) or ""
            result = CallResult(error, failed=failed, duration_ms=as_number(said.get("duration_ms")))
            events.append(self.make_outcome(call, result, at, helper))
            self.state.answer = answer  # what a sub-agent does in the background does not continue the session's turn
            return events
        return launch

    def _note_helper(self, helper: str, role: str | None, at: datetime | None) -> list[Event]:
        """The launch of a sub-agent, at the first row about it, by the newest call that waits for one."""
        if self.is_repeated(f"agent:{helper}"):
            return []
        call = next((id for id, known in reversed(self.state.calls.items()) if known.tool in AGENT_TOOLS), None)
        if call is not None:
            waiting = self.state.extra.setdefault("helpers", {})
            put_bounded(waiting, call, [*waiting.get(call, [])[-_MAX_HELPERS:], helper], _MAX_HELPERS)
        given = as_object(self.find_call(call).input)
        words = as_text(given.get("description")) or role or helper
        return [self.make_launch(helper, at, words=words, call=call, role=role, prompt=as_text(given.get("prompt")))]

    def _list_helpers(self, call: str) -> list[str]:
        return list(self.state.extra.get("helpers", {}).get(call, []))


def _make_usage(given: int, output: int, cached: int, thoughts: int) -> Usage:
    """The prompt includes what was cached, and the output includes thoughts."""
    return Usage(max(given - cached, 0), output, cached, reasoning=thoughts)


def _read_result(result: Record, response: Record, tool: str) -> CallResult:
    status, shown = as_text(result.get("status")), result.get("resultDisplay")
    text = as_text(response.get("output")) or as_text(response.get("error")) or (shown if isinstance(shown, str) else "")
    code = None
    if tool == SHELL_TOOL:
        found = _EXIT_CODE.search(text)
        code = int(found[1]) if found else None
        text = shown if isinstance(shown, str) and shown else text
    failed = status == "error" or (status is None and "error" in response)
    return CallResult(text, failed=failed, exit_code=code, interrupted=status == "cancelled")


RECORDING = QwenReader.make_recording()
