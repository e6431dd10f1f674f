"""Find where a turn ends in a Claude Code transcript.

Several rows can mark the end of one turn: the `progress` rows of Stop hooks, `system/stop_hook_summary` and `system/turn_duration`
(written for long turns only). Sessions without Stop hooks often have none of them. Their turn ends with an answer: a text that no
tool call follows before the next prompt or the end of the file. Each turn gets exactly one end, whichever marks exist.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.recording import QUIET
from fleetlore.dialects.wire import Record
from fleetlore.programs.claude_code.prompts import list_content_parts

MAX_CALLS = 500
_FINAL_STOPS = frozenset(("end_turn", "stop_sequence", "refusal"))
_UNFINISHED_STOPS = frozenset(("tool_use", "pause_turn"))
_STOP = "Stop"
_BLOCKING = "hook_blocking_error"
_FEEDBACK = "Stop hook feedback:"


class ClaudeAnswer(Struct, kw_only=True):
    """The newest text of the agent, as long as nothing follows it."""

    row: str
    at: datetime | None = None
    is_final: bool = False
    """The stop reason says that the message is complete and calls no tool."""
    error: str | None = None
    """The API error in place of an answer."""


class StopMark(Struct, kw_only=True):
    """The newest mark of the Stop hooks, as long as nothing follows it."""

    row: str
    at: datetime | None = None
    is_final: bool = False
    """All hooks ran and none reported a problem. A hook that reports a problem may send the agent back to work."""


class Turn(Struct, kw_only=True):
    """The current turn of one agent, as far as its rows have been read."""

    is_over: bool = False
    """Its end was reported and nothing has happened since."""
    calls: list[str] = field(default_factory=list)
    """Tool calls without a result."""
    answer: ClaudeAnswer | None = None
    mark: StopMark | None = None
    is_blocked: bool = False
    """A Stop hook refused the end and sent the agent back to work."""

    def begin_turn(self) -> None:
        """A prompt starts a new turn."""
        self.is_over = self.is_blocked = False
        self.answer = self.mark = None
        self.calls.clear()

    def close(self) -> None:
        """The end of the turn was reported."""
        self.begin_turn()
        self.is_over = True

    def note_answer(self, row: Record, *, at: datetime | None) -> None:
        """Record one row of a message by the agent: it ends in a text, or the agent continues."""
        message = as_object(row.get("message"))
        parts = list_content_parts(message.get("content"))
        if parts:
            self._continue_turn()
        for part in parts:
            kind = as_text(part.get("type")) or ""
            call = as_text(part.get("id"))
            if kind.endswith("tool_use") and call is not None:
                self.calls = [*self.calls[-MAX_CALLS:], call]
                self.answer = None
            elif kind.endswith("tool_result"):
                self.note_result(as_text(part.get("tool_use_id")))
            elif kind == "text":
                self._note_text(as_text(part.get("text")), row, at)
            else:
                self.answer = None
        stop = message.get("stop_reason")
        if stop in _UNFINISHED_STOPS:
            self.answer = None
        elif self.answer is not None and stop in _FINAL_STOPS:
            self.answer.is_final = True

    def _note_text(self, text: str | None, row: Record, at: datetime | None) -> None:
        if text and text.strip():
            self.answer = ClaudeAnswer(row=str(row.get("uuid")), at=at)

    def note_error(self, row: str, error: str, *, at: datetime | None) -> None:
        """The API refused or failed; Claude Code has given up retrying."""
        self._continue_turn()
        self.answer = ClaudeAnswer(row=row, at=at, is_final=True, error=error)

    def note_result(self, call: str | None) -> None:
        """A tool returned, so the agent continues."""
        self._continue_turn()
        self.calls = [other for other in self.calls if other != call]

    def note_last_call(self, row: str, *, at: datetime | None) -> None:
        """The result of a call that ends the turn: its input is the answer, such as structured output."""
        self.answer = ClaudeAnswer(row=row, at=at, is_final=True)

    def note_mark(self, row: Record, *, at: datetime | None) -> None:
        """Record a row that a Stop hook left behind."""
        if _is_block(row):
            self.is_blocked, self.answer, self.mark = True, None, None
        elif not self.is_over and not self.is_blocked:
            self.mark = StopMark(row=str(row.get("uuid")), at=at, is_final=_is_clean_summary(row))

    def _continue_turn(self) -> None:
        """Something happened after what looked like the end."""
        self.is_over = self.is_blocked = False
        self.answer = self.mark = None

    def has_answer(self) -> bool:
        """Whether the agent has finished its answer."""
        return not self.is_over and self.answer is not None and not self.calls

    def is_at_end(self, now: datetime | None) -> bool:
        """Whether the turn is over if the file ends here. `now` is `None` if the file is complete for certain."""
        if self.is_over:
            return False
        if self.mark is not None:
            return True
        answer = self.answer
        if answer is None or self.calls:
            return False
        # Claude Code writes a row per content block, often without a stop reason. The tool call of the same message may follow soon.
        return answer.is_final or now is None or answer.at is None or now - answer.at >= QUIET


def is_stop_mark(row: Record) -> bool:
    """Whether a row was written because the agent stopped and its Stop hooks ran, or were about to."""
    match row.get("type"):
        case "system":
            return row.get("subtype") == "stop_hook_summary"
        case "progress":
            return as_object(row.get("data")).get("hookEvent") == _STOP
        case "attachment":
            return as_object(row.get("attachment")).get("hookEvent") == _STOP
        case "user":
            return _is_feedback(row)
        case _:
            return False


def _is_feedback(row: Record) -> bool:
    if row.get("isMeta") is not True:
        return False
    parts = list_content_parts(as_object(row.get("message")).get("content"))
    return any(isinstance(text := part.get("text"), str) and text.startswith(_FEEDBACK) for part in parts)


def _is_block(row: Record) -> bool:
    return row.get("type") == "user" or as_object(row.get("attachment")).get("type") == _BLOCKING


def _is_clean_summary(row: Record) -> bool:
    return row.get("type") == "system" and not row.get("hookErrors") and row.get("preventedContinuation") is not True
