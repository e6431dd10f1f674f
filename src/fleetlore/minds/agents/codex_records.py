"""What `codex exec --json` prints in a turn: how the turn stands, and events where no rollout tells them better.

The usage at a turn's end is the whole thread's, also of turns before: what the rollout had counted by then is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetlore.dialects.codex import CodexReader
from fleetlore.dialects.codex_mind import Mind
from fleetlore.dialects.codex_outputs import text_in
from fleetlore.dialects.codex_usage import Usage, read_usage
from fleetlore.dialects.fields import as_name, as_object, as_uuid
from fleetlore.dialects.recording import parse
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.minds.agents.codex_rollouts import Rollouts
from fleetlore.minds.agents.listening import Report
from fleetlore.minds.harness import Order

MOST_HELD = 200
"""Events of the stream that wait for a rollout to appear; then there is none."""
_status = re.compile(r"\bstatus:? ([45]\d\d)\b")


class Records:
    """Hears one turn."""

    def __init__(self, order: Order, rollouts: Rollouts) -> None:
        self.report = Report(session=order.session, model=order.model)
        self._rollouts = rollouts
        self._mind = Mind(model=order.model)
        self._stream = CodexReader(self._mind)
        self._held: list[Event] = []
        self._gave_up = False
        main = rollouts.main
        self._before = _size(main.mind.meter.totals) if main else 0

    def hear(self, raw: bytes) -> Sequence[Event]:
        """The events of one more record."""
        record = parse(raw)
        told = self._stream.read(raw)
        self._note(record)
        return self._better(told)

    def end(self) -> Sequence[Event]:
        """What was held back."""
        if not self._has_rollout():
            return [*self._held, *self._stream.end()]
        events = self._rollouts.end()
        self._note_rollouts()
        return events

    def _better(self, told: list[Event]) -> list[Event]:
        """The rollout's events for the stream's, once there is one."""
        if self._has_rollout():
            self._held.clear()
            events = self._rollouts.read()
            self._note_rollouts()
            return events
        if self._gave_up:
            return told
        self._held += told
        if len(self._held) <= MOST_HELD:
            return []
        self._gave_up = True
        held, self._held = self._held, []
        return held

    def _has_rollout(self) -> bool:
        return not self._gave_up and (self._rollouts.main is not None or self._rollouts.follow(self.report.session))

    def _note_rollouts(self) -> None:
        report, main = self.report, self._rollouts.main
        report.tokens = max(report.tokens, self._rollouts.tokens)
        if main is not None:
            report.context = main.mind.context or report.context
            report.model = as_name(main.mind.model) or report.model

    def _note(self, record: Record) -> None:
        report = self.report
        match record.get("type"):
            case "thread.started":
                report.session = as_uuid(record.get("thread_id")) or report.session
            case "item.started" | "item.completed":
                self._note_item(as_object(record.get("item")))
            case "turn.started":
                report.how = None
            case "turn.completed":
                report.how, report.error = "finished", ""
                report.tokens = max(report.tokens, _size(read_usage(record.get("usage"))) - self._before)
            case "turn.failed":
                self._note_error(as_object(record.get("error")))
                report.how = "failed"
            case "error":
                self._note_error(record)

    def _note_item(self, item: Record) -> None:
        if item.get("type") in ("agent_message", "assistant_message"):
            self.report.words = text_in(item.get("text")) or self.report.words
        threads = item.get("receiver_thread_ids")
        for thread in threads if isinstance(threads, list) and self._has_rollout() else ():
            self._rollouts.follow(thread)

    def _note_error(self, told: Record) -> None:
        self.report.error = text_in(told.get("message")) or "failed"
        match = _status.search(self.report.error)
        self.report.status = int(match[1]) if match else None


def _size(usage: Usage | None) -> int:
    """Tokens read and written; those from the cache are among the first."""
    return 0 if usage is None else usage.input + usage.output
