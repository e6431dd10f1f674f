"""Reads sessions of GitHub Copilot CLI, written after recordings of 1.0.102, and of 1.0.64 and 1.0.68 in public repositories.

`session-state/SESSION/events.jsonl` has events `{type, data, id, timestamp, parentId, agentId?}`; `agentId` names a sub-agent. Tokens are
in `session.usage_record` of 1.0.102. In 1.0.68 and 1.0.64 a reply has its output only, and `session.shutdown` the totals of the session
so far: what they have beyond the replies is then one more `model.replied`, so that totals are those of the program.
No recording has `session.error`, `session.title_changed`, `subagent.failed` or a denied call: how they are read is an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from fleetlore.dialects.fields import as_exit_code, as_name, as_number, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.session_reader import CallResult, SessionReader, Usage, count_tokens, put_bounded

_IGNORED = frozenset(
    (
        "system.message",
        "assistant.turn_start",
        "hook.start",
        "hook.end",
        "subagent.selected",
        "subagent.configured",
        "session.info",
        "session.workspace_file_changed",
        "permission.completed",
        "assistant.message_delta",
        "assistant.reasoning_delta",
        "session.usage_info",
        "session.context_changed",
    )
)
"""Events that repeat others, or are about the program itself."""
_COUNTED = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_MAX_HELD = 50


class CopilotReader(SessionReader, program="copilot-cli"):
    """Reads one session and its sub-agents."""

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of a line."""
        name, data, at = as_text(record.get("type")), as_object(record.get("data")), read_time(record.get("timestamp"))
        if name is None or name in _IGNORED or (key := as_name(record.get("id"))) is None or self.is_repeated(key):
            return []
        read = _READERS.get(name)
        if read is None:
            return [self.make_other(name.replace(".", "_"), data, raw, at, text=as_text(data.get("message")))]
        return read(self, data, key, at, as_name(record.get("agentId")))

    def _read_start(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        state, context = self.state, as_object(data.get("context"))
        state.session = state.session or as_name(data.get("sessionId"))
        state.cwd, state.branch = as_text(context.get("cwd")) or state.cwd, as_text(context.get("branch")) or state.branch
        state.model = as_text(data.get("selectedModel")) or state.model
        state.version = as_text(data.get("copilotVersion")) or state.version
        return self.make_start(read_time(data.get("startTime")) or at)

    def _read_model(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        if helper is None:
            self.state.model = as_text(data.get("newModel")) or self.state.model
        return []

    def _read_prompt(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        words, source = as_text(data.get("content")), as_text(data.get("source"))
        if words is None or helper is not None or (source is not None and source != "user"):
            return []
        return self.make_prompt(key, words, at)

    def _read_usage(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        """The tokens of a reply, whose message comes next."""
        usage = as_object(data.get("usage"))
        counted = {name: count_tokens(usage, name) for name in _COUNTED}
        put_bounded(self.state.extra.setdefault("usage", {}), as_text(usage.get("apiCallId")) or key, counted, _MAX_HELD)
        return []

    def _read_reply(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        model, request = as_text(data.get("model")) or self.state.model, as_text(data.get("apiCallId")) or ""
        counted = self.state.extra.get("usage", {}).pop(request, None) or {"outputTokens": count_tokens(data, "outputTokens")}
        self._add_total(model, counted)
        thought = as_text(data.get("reasoningText"))
        events = [self.make_thought(key, thought, at, helper)] if thought else []
        said, calls = as_text(data.get("content")) or "", data.get("toolRequests")
        if helper is not None and said:
            put_bounded(self.state.extra.setdefault("said", {}), helper, said, _MAX_HELD)
        events.append(self.make_reply(key, _make_usage(counted), said, at, helper=helper, model=model, request_id=request or None))
        for each in calls if isinstance(calls, list) else ():
            part = as_object(each)
            if (call := as_name(part.get("toolCallId"))) and (tool := as_text(part.get("name"))):
                events.append(self.make_call(call, tool, part.get("arguments"), at, helper))
        return events

    def _read_call(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        call, tool = as_name(data.get("toolCallId")), as_text(data.get("toolName"))
        if call is None or tool is None or call in self.state.calls:  # the reply has reported it
            return []
        return [self.make_call(call, tool, data.get("arguments"), at, helper)]

    def _read_result(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        call = as_name(data.get("toolCallId"))
        if call is None:
            return []
        result, error = as_object(data.get("result")), as_object(data.get("error"))
        code = as_object(data.get("shellExecution")).get("exitCode")
        text = as_text(result.get("content")) or as_text(error.get("message")) or ""
        if self.find_call(call).tool in ("bash", "powershell"):
            text, code = _split_shell_output(text, code)
        outcome = CallResult(
            text,
            failed=data.get("success") is False,
            exit_code=as_exit_code(code),
            denied=error.get("code") in ("denied", "rejected"),
            duration_ms=as_number(data.get("durationMs")),
        )
        return [self.make_outcome(call, outcome, at, helper)]

    def _read_launch(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        if helper is None:
            return []
        call, role = as_name(data.get("toolCallId")), as_text(data.get("agentName"))
        prompt = as_text(as_object(self.find_call(call).input).get("prompt"))
        words = as_text(data.get("agentDescription")) or as_text(data.get("agentDisplayName")) or role or helper
        return [self.make_launch(helper, at, words=words, call=call, role=role, prompt=prompt, model=as_text(data.get("model")))]

    def _read_return(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        if helper is None:
            return []
        error, status = as_text(data.get("error")), "failed" if "error" in data else "completed"
        words = error or self.state.extra.get("said", {}).pop(helper, "")
        return [self.make_return(helper, at, words=words, call=as_name(data.get("toolCallId")), status=status)]

    def _read_turn_end(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        """Every reply ends a turn of the model; the agent's turn is over if it called no tool."""
        return self.end_turn(at) if helper is None and self.state.answer is not None and not self.state.calls else []

    def _read_abort(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        self.state.calls.clear()
        return self.end_turn(at, reason="interrupted")

    def _read_waiting(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        asked = as_object(data.get("permissionRequest"))
        call = as_name(asked.get("toolCallId"))
        words = as_text(asked.get("intention")) or as_text(asked.get("fullCommandText")) or "permission"
        tool = self.find_call(call).tool if call in self.state.calls else None
        return [self.make_waiting(key, words, at, tool=tool, call=call, helper=helper)]

    def _read_error(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        return [self.make_error(key, as_text(data.get("message")) or "error", at, helper)]

    def _read_title(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        return self.make_title(as_text(data.get("title")), at)

    def _read_end(self, data: Record, key: str, at: datetime | None, helper: str | None) -> list[Event]:
        metrics = as_object(data.get("modelMetrics")) or as_object(as_object(data.get("accountingSnapshot")).get("modelMetrics"))
        events = self._count_missing(metrics, key, at)
        events += self.end_turn(at)
        ended = self.make_context(at).make_event(
            "session.ended", self.derive_event_id("ended", key), data={"reason": as_text(data.get("shutdownType"))}
        )
        return [*events, ended]

    def _count_missing(self, metrics: Record, key: str, at: datetime | None) -> list[Event]:
        """Tokens that the session's totals have and its replies do not."""
        events: list[Event] = []
        for model, entry in metrics.items():
            usage = as_object(as_object(entry).get("usage"))
            known = self.state.extra.get("totals", {}).get(model, {})
            missing = {name: max(count_tokens(usage, name) - known.get(name, 0), 0) for name in _COUNTED}
            if not any(missing.values()):
                continue
            self._add_total(model, missing)
            events.append(self.make_total(f"{key}:{model}", _make_usage(missing), at, model=model))
        return events

    def _add_total(self, model: str | None, counted: Mapping[str, int]) -> None:
        totals = self.state.extra.setdefault("totals", {})
        known = totals.get(model or "", {})
        put_bounded(totals, model or "", known | {name: known.get(name, 0) + number for name, number in counted.items()}, _MAX_HELD)


def _make_usage(counted: Mapping[str, int]) -> Usage:
    """The input includes what was read from the cache and written to it, and the output includes reasoning."""
    given, output, read, written, reasoning = (counted.get(name, 0) for name in _COUNTED)
    return Usage(max(given - read - written, 0), output, read, written, min(reasoning, output))


def _split_shell_output(text: str, code: object) -> tuple[str, object]:
    """A command's output and exit code, without the last line, which the program adds: `<shellId: 0 completed with exit code 1>`."""
    output, line, rest = text.rpartition("\n<")
    if not line or not rest.endswith(">") or "exit code " not in rest:
        return text, code
    number = rest[:-1].rpartition("exit code ")[2]
    is_number = number.isascii() and number.isdigit() and len(number) < 7
    return output, code if code is not None else int(number) if is_number else None


_Reader = Callable[[CopilotReader, Record, str, datetime | None, str | None], list[Event]]
_READERS: Mapping[str, _Reader] = {
    "session.start": CopilotReader._read_start,
    "session.resume": CopilotReader._read_start,
    "session.model_change": CopilotReader._read_model,
    "session.usage_record": CopilotReader._read_usage,
    "session.title_changed": CopilotReader._read_title,
    "session.error": CopilotReader._read_error,
    "session.shutdown": CopilotReader._read_end,
    "user.message": CopilotReader._read_prompt,
    "assistant.message": CopilotReader._read_reply,
    "assistant.turn_end": CopilotReader._read_turn_end,
    "tool.execution_start": CopilotReader._read_call,
    "tool.execution_complete": CopilotReader._read_result,
    "subagent.started": CopilotReader._read_launch,
    "subagent.completed": CopilotReader._read_return,
    "subagent.failed": CopilotReader._read_return,
    "permission.requested": CopilotReader._read_waiting,
    "abort": CopilotReader._read_abort,
}


RECORDING = CopilotReader.make_recording()
