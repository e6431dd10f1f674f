"""What `claude -p --output-format stream-json` prints in a turn: events by the dialect, and how the turn stands.

The usage of messages is what is known while a turn lasts, and grows by what sub-agents use; the result's counts more in the end. It has
two accounts: `usage` forgets sub-agents, and everything where a limit ended the turn, so `modelUsage` is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleetlore.dialects.claude_code import RECORDING
from fleetlore.dialects.claude_code_replies import SYNTHETIC
from fleetlore.dialects.claude_code_tools import text_of
from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text, as_uuid
from fleetlore.dialects.recording import parse
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.minds.agents.listening import Report
from fleetlore.minds.harness import How, Order

_IN_MESSAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_IN_TOTAL = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OVER_BUDGET = "error_max_budget_usd"


class Rows:
    """Hears one turn."""

    def __init__(self, order: Order) -> None:
        self.report = Report(session=order.session, model=order.model)
        self._reader = RECORDING.open(None)
        self._used: dict[str, int] = {}
        self._resets_at: int | None = None

    def hear(self, raw: bytes) -> Sequence[Event]:
        """The events of one more row."""
        row = parse(raw)
        events = self._reader.read(raw)
        self.report.session = as_uuid(row.get("session_id")) or self.report.session
        match row.get("type"):
            case "system" if row.get("subtype") == "init":
                self.report.model = as_name(row.get("model")) or self.report.model
            case "assistant":
                self._note_message(row, as_object(row.get("message")))
            case "rate_limit_event":
                self._resets_at = _reset_in(as_object(row.get("rate_limit_info")))
            case "result":
                self._note_result(row)
        return events

    def end(self) -> Sequence[Event]:
        """What the reader held back."""
        return self._reader.end()

    def _note_message(self, row: Record, message: Record) -> None:
        usage, report = _sum(as_object(message.get("usage")), _IN_MESSAGE), self.report
        key = as_text(message.get("id")) or as_text(row.get("uuid")) or ""
        before = self._used.get(key, 0)
        self._used[key] = max(usage, before)
        report.tokens += self._used[key] - before
        if row.get("parent_tool_use_id") or message.get("model") == SYNTHETIC:
            return
        report.how = None  # something in the background has woken it: the turn goes on
        report.context = usage or report.context
        report.model = as_name(message.get("model")) or report.model
        report.words = text_of([part for part in _parts(message) if part.get("type") == "text"]) or report.words

    def _note_result(self, row: Record) -> None:
        report = self.report
        totals = [as_object(each) for each in as_object(row.get("modelUsage")).values()]
        told = sum(_sum(each, _IN_TOTAL) for each in totals) or _sum(as_object(row.get("usage")), _IN_MESSAGE)
        report.tokens = max(told, report.tokens)
        report.usd = _more(as_number(row.get("total_cost_usd")), report.usd)
        denials = row.get("permission_denials")
        report.denials = len(denials) if isinstance(denials, list) else 0
        report.status = as_count(row.get("api_error_status"))
        report.how = _how(row)
        words = text_of(row.get("result"))
        if report.how == "finished":
            report.words, report.error = words or report.words, ""
        else:
            report.error = self._complaint(row, words)
        report.extras |= {key: value for key in ("subtype", "num_turns", "terminal_reason") if (value := row.get(key)) is not None}

    def _complaint(self, row: Record, words: str) -> str:
        errors = row.get("errors")
        told = text_of(errors) if isinstance(errors, list) else ""
        told = told or words or text_of(row.get("error")) or text_of(row.get("message")) or str(row.get("subtype"))
        return f"{told}\nresets_at={self._resets_at}" if self._resets_at else told


def _more(told: float | None, before: float | None) -> float | None:
    """What was spent only grows, whatever a row says: whoever may write to the program's output could say anything."""
    return max((usd for usd in (told, before) if usd is not None and usd >= 0), default=None)


def _how(row: Record) -> How:
    if row.get("subtype") == _OVER_BUDGET:
        return "over_budget"
    return "finished" if row.get("subtype") == "success" and row.get("is_error") is not True else "failed"


def _parts(message: Record) -> list[Record]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _sum(usage: dict[str, Any], keys: Sequence[str]) -> int:
    return sum(as_count(usage.get(key)) or 0 for key in keys)


def _reset_in(info: Record) -> int | None:
    """When a limit that was reached is lifted; one that only comes nearer stops nothing."""
    return as_count(info.get("resetsAt")) if info.get("status") == "rejected" else None
