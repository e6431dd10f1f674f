"""Builds every event that the driver writes, from plain values, so that it fits the log: long and unencodable text is changed.

One `GoalEvents` per goal, owned by its journal; `driver.py`, `turn.py`, `turn_result.py` and `between_turns.py` call
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from fleetlore import clock
from fleetlore.documents import durations
from fleetlore.events import driver_types as types
from fleetlore.events.budget_axes import describe_axis
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.goal.acceptance.judging_copy import MAX_TOUCHED, TouchedFile
from fleetlore.process.tree import Process
from fleetlore.programs.harness import TurnResult
from fleetlore.views.goal_state import GoalState, first_paragraph
from fleetlore.views.goals import EXTRA_PREFIX, goal_usage

ACTOR = "driver"
MAX_TEXT_CHARS = 300
MAX_WORDS_CHARS = 16_000
MAX_VERDICT_BYTES = 64 * 1024
"""Size as JSON. A turn's end stores the verdict twice, and an event holds at most 256 KiB."""
MAX_TEXT_BYTES = 32 * 1024
MAX_SAMPLE_CHARS = 2048
MAX_TOUCHED_BYTES = 400
"""For each judging file that a verdict names."""


def describe_touched(touched: TouchedFile) -> str:
    """Such as `changed Makefile (configuration); the original was used`."""
    uses = {"original used": "the original was used", "left out": "it was left out", "used as the agent left it": "may_change allows it"}
    return f"{touched.change} {touched.path} ({touched.reason}); {uses[touched.use]}"


class GoalEvents:
    """Builds the events of one goal."""

    def __init__(self, goal: str, *, agent: str, scopes: dict[str, Any], now: clock.Clock, new_id: Callable[[], str]) -> None:
        self.goal, self.agent, self.scopes, self._now, self._new_id = goal, agent, scopes, now, new_id

    def make_event(self, kind: str, data: Any, *, text: str | None = None, cause: str | None = None, actor: str = ACTOR) -> Event:
        """An event of this goal. `data` is a dictionary or a struct."""
        return Event(
            id=self._new_id(),
            at=self._now(),
            kind=kind,
            actor=actor,
            agent=self.agent,
            goal=self.goal,
            cause=cause,
            text=None if not text else replace_unencodable(" ".join(text[: 4 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS]),
            data=_to_plain_json(data),
            **self.scopes,
        )

    def assign_to_goal(self, event: Event) -> Event:
        """An event reported by the agent's program, with the goal, agent, id and time filled in."""
        known = {"agent": self.agent, **self.scopes}
        fields = {name: value for name, value in known.items() if getattr(event, name) is None}
        return msgspec.structs.replace(event, goal=self.goal, at=event.at or self._now(), id=event.id or self._new_id(), **fields)

    # --- start and end of a goal

    def goal_started(self, goal: types.Goal) -> Event:
        """The goal was started."""
        return self.make_event("driver.goal_started", {"goal": goal}, text=first_paragraph(goal.description))

    def lease_taken(self, holder: str, epoch: int) -> Event:
        """A driver acquired the goal's lease."""
        return self.make_event("work.lease_taken", {"lease": f"goal:{self.goal}", "epoch": epoch}, text=holder)

    def goal_finished(self, goal: GoalState, outcome: types.AttemptOutcome, words: str | None) -> list[Event]:
        """The goal ended, preceded by an event with the reason if a person or a bigger budget is needed."""
        now = self._now()
        reason = outcome_reason(outcome)
        events = []
        match outcome:
            case types.Escalate():
                events.append(self.make_event("driver.escalate", {"goal_id": self.goal, "reason": outcome.reason}, text=outcome.reason))
            case types.BudgetSpent():
                data = {"goal_id": self.goal, "axis": outcome.axis, "usage": goal_usage(goal, now)}
                events.append(self.make_event("driver.budget_exhausted", data, text=f"the budget of {reason} is spent"))
        result = types.GoalOutcome(
            goal_id=self.goal,
            outcome=outcome,
            total_turns=goal.spent.turns,
            usage=goal_usage(goal, now),
            final_text=words or None,
            acceptance=goal.verdict,
            elapsed=format_elapsed(goal, now),
        )
        cost = {f"{EXTRA_PREFIX}usd": round(goal.spent.usd, 6)} if goal.spent.usd else {}
        text = events[0].text if events else reason or words
        return [*events, self.make_event("driver.goal_completed", {"outcome": result} | cost, text=text)]

    # --- a turn

    def workspace_checkpointed(self, turn: int, sha: str, workspace: str, *, verifiers: str | None = None) -> Event:
        """The workspace was saved. Before the first turn, also the digest of the protected files (`verifiers`)."""
        digest = {} if verifiers is None else {"verifiers": verifiers}
        return self.make_event("goal.checkpointed", {"turn": turn, "sha": sha, "workspace": workspace} | digest)

    def attempt_started(self, goal: GoalState, turn: int) -> Event:
        """A turn started."""
        return self.make_event("driver.attempt_started", {"goal_id": self.goal, "turn_index": turn, "usage": goal_usage(goal, self._now())})

    def session_bound(self, session: str, *, harness: str, model: str | None, workspace: str) -> Event:
        """The session in which the agent works."""
        data = {"session": session, "harness": harness, "model": model, "workspace": workspace}
        return self.make_event("goal.session_bound", {name: value for name, value in data.items() if value is not None})

    def process_started(self, process: Process, mark: str) -> Event:
        """A process was started; another driver kills it if this one crashes."""
        data = {"command": process.command, "pid": process.pid, "group": process.group, "born": process.born, "call_id": mark}
        return self.make_event("process.started", data, cause=mark)

    def attempt_ended(
        self, turn: int, ended: TurnResult, *, complaint: str | None, until: datetime | None, seconds: float, cause: str
    ) -> Event:
        """The agent ended its turn, or was stopped; the criteria are not checked yet."""
        optional = {
            "complaint": complaint,
            "error": truncate_text(ended.error[:MAX_WORDS_CHARS]) or None,
            "words": truncate_text(ended.words[:MAX_WORDS_CHARS]) or None,
            "session": ended.session,
            "usd": ended.usd,
            "context": ended.context,
            "until": None if until is None else format_timestamp(until),
        }
        data: dict[str, Any] = {"turn": turn, "how": ended.how, "tokens": ended.tokens, "seconds": round(seconds, 3)}
        data |= {name: value for name, value in optional.items() if value is not None}
        return self.make_event("goal.attempt_ended", data, text=ended.error or None, cause=cause)

    def acceptance_checked(
        self, verdict: types.Verdict, touched: Sequence[TouchedFile] = (), walls: Sequence[str] | None = None, *, cause: str | None
    ) -> Event:
        """The criteria were checked. Names the judging files that the agent changed, and the walls of the sandbox."""
        first = verdict.failures[0].message if verdict.failures else "called off"
        text = "all criteria are met" if verdict.met else f"{len(verdict.failures)} not met: {first}"
        touched = touched[:MAX_TOUCHED]
        named = "; ".join(f"the agent {describe_touched(each)}" for each in touched)
        data: dict[str, Any] = {"goal_id": self.goal, "verdict": verdict}
        if touched:
            data[f"{EXTRA_PREFIX}touched"] = [truncate_text(describe_touched(each), MAX_TOUCHED_BYTES) for each in touched]
        if walls is not None:
            data[f"{EXTRA_PREFIX}sandbox"] = list(walls)
        return self.make_event("driver.acceptance", data, text=f"{text}; {named}" if named else text, cause=cause)

    def attempt_completed(
        self,
        goal: GoalState,
        outcome: types.AttemptOutcome,
        *,
        verdict: types.Verdict | None = None,
        words: str = "",
        counts: bool = True,
        complaint: str | None = None,
        extras: dict[str, Any] | None = None,
        cause: str | None = None,
    ) -> Event:
        """The turn's result, after the check."""
        fields = {"counts": None if counts else False, "complaint": complaint, **(extras or {})}
        extras_by_key = {
            name if "." in name else f"{EXTRA_PREFIX}{name}": value for name, value in fields.items() if value is not None and value != ""
        }
        usage = goal_usage(goal, self._now())
        result = types.AttemptResult(
            goal_id=self.goal,
            turn_index=goal.turn,
            outcome=outcome,
            usage_after=msgspec.structs.replace(usage, turns=usage.turns + counts),
            acceptance=verdict,
            final_text=words or None,
            harness_extras=extras_by_key,
        )
        return self.make_event("driver.attempt_completed", {"result": result}, text=words or outcome_reason(outcome), cause=cause)

    def progress_made(self, goal: GoalState, words: str, *, turn: int) -> Event:
        """Progress report, written every `progress_every` turns."""
        usage = goal_usage(goal, self._now())
        data = {"goal_id": self.goal, "turn_index": turn, "usage": msgspec.structs.replace(usage, turns=turn), "last_text": words or None}
        return self.make_event("driver.progress", data, text=words)

    def replay_decided(self, goal: GoalState, decision: types.Replay, message: str) -> Event:
        """How the goal continues after a failed turn."""
        data = {"goal_id": self.goal, "turn_index": goal.turn, "decision": decision, "error_message": message}
        return self.make_event("driver.replay_decision", data, text=message)

    def wait_started(self, why: str, *, until: datetime | None, turn: int, attempt: int | None = None) -> Event:
        """The goal waits until a time, or for a control request."""
        data = {"why": why, "until": None if until is None else format_timestamp(until), "turn": turn, "attempt": attempt}
        return self.make_event("goal.waiting", {name: value for name, value in data.items() if value is not None}, text=why)

    def spent_by_child(
        self, parents: Sequence[str], *, turns: int, tokens: int, usd: float, others: dict[str, float] | None = None
    ) -> list[Event]:
        """Usage that counts against the budgets of `parents`, too: one event for each."""
        data = {"below": self.goal, "turns": turns, "tokens": tokens, "usd": usd}
        data |= {"others": used} if (used := {name: amount for name, amount in (others or {}).items() if amount > 0}) else {}
        return [msgspec.structs.replace(self.make_event("goal.spent", dict(data)), goal=parent) for parent in parents]

    def reserved_by_child(self, parent: str, *, below: str = "", turns: int = 0, tokens: int = 0, usd: float = 0.0) -> Event:
        """What a goal, by default this one, reserves of the budget of a parent; zero releases it."""
        data = {"below": below or self.goal, "turns": turns, "tokens": tokens, "usd": usd}
        return msgspec.structs.replace(self.make_event("goal.reserved", data), goal=parent)

    # --- context and memory

    def compact_requested(self, goal: GoalState, trigger: types.CompactTrigger, *, age_minutes: int, window: int) -> Event:
        """The agent's context is to be compacted."""
        before = goal.context or 0
        focus = f"go on with: {' '.join(goal.description.split())[:140]}"
        data = {
            "goal_id": self.goal,
            "turn_index": goal.turn,
            "focus": focus,
            "token_pressure": round(before / window, 4) if window else 0.0,
            "before_tokens": before,
            "age_minutes": age_minutes,
            "trigger": trigger,
        }
        return self.make_event("driver.compact_requested", data, text=focus)

    def compact_completed(self, goal: GoalState, *, after: int, stored: bool) -> list[Event]:
        """The compaction ended; `stored`: with a summary."""
        data = {"goal_id": self.goal, "turn_index": goal.turn, "after_tokens": after}
        before = {"before_tokens": goal.compacting.before}
        events = [self.make_event("driver.compact_completed", data)]
        return [*events, self.make_event("driver.compact_summary_stored", data | before)] if stored else events

    def memories_extracted(self, turn: int, *, saved: int, duration_ms: int) -> Event:
        """Memories were extracted and saved."""
        data = {"goal_id": self.goal, "turn_index": turn, "memories_saved": saved, "duration_ms": duration_ms}
        return self.make_event("driver.extract_memories_completed", data)

    def extraction_skipped(self, reason: types.SkipReason, *, failed: bool = False, why: str | None = None) -> Event:
        """No memories were saved; `failed`: the attempt failed."""
        data: dict[str, Any] = {"goal_id": self.goal, "reason": reason}
        return self.make_event("driver.extract_memories_skipped", data | ({f"{EXTRA_PREFIX}failed": True} if failed else {}), text=why)

    def dream_ended(self, outcome: types.DreamOutcome, *, why: str = "") -> Event:
        """Memories were consolidated, or the reason why not."""
        return self.make_event("driver.auto_dream_outcome", {"goal_id": self.goal, "outcome_kind": outcome}, text=why)


def outcome_reason(outcome: types.AttemptOutcome) -> str:
    """The reason of an outcome in one line, or an empty string."""
    match outcome:
        case types.Escalate() | types.Continue() | types.Sleep():
            return outcome.reason
        case types.BudgetSpent():
            return describe_axis(outcome.axis)
        case types.Cancelled():
            return "called off"
        case types.NeedsRetry():
            return outcome.failures[0].message if outcome.failures else ""
    return ""


def format_elapsed(goal: GoalState, now: datetime) -> str:
    """Time since the goal started, in the nexo format."""
    seconds = 0.0 if goal.at is None else max(0.0, (now - goal.at).total_seconds())
    return durations.format_duration(int(seconds * 1000) * 1_000_000)


def format_timestamp(time: datetime) -> str:
    """A time as RFC 3339 in UTC."""
    return time.isoformat().replace("+00:00", "Z")


# --- Fitting the log


def _to_plain_json(data: Any) -> Any:
    """The data as a reader will get it: with lists instead of tuples, which admission would check slowly, and encodable text."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data))
    except UnicodeEncodeError:
        return _replace_in_value(msgspec.to_builtins(data))


def replace_unencodable(value: Any) -> Any:
    """The same value with lone surrogates (as from undecodable file names) replaced by question marks."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _replace_in_value(value)
    return value


def _replace_in_value(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_replace_in_value(name): _replace_in_value(each) for name, each in value.items()}
        case list() | tuple():
            return [_replace_in_value(each) for each in value]
    return value


def truncate_text(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The beginning of the text that takes at most `max_bytes` as JSON, where a control character takes six bytes."""
    text = text[:max_bytes].encode("utf-8", "replace").decode()
    while (size := len(msgspec.json.encode(text))) > max_bytes:
        text = text[: max(1, len(text) * max_bytes // size - 1)] if len(text) > 1 else ""
    return text


def truncate_verdict(verdict: types.Verdict, max_bytes: int = MAX_VERDICT_BYTES) -> types.Verdict:
    """Shorten the failures of a verdict so that all fit, each with the same share of `max_bytes`."""
    bytes_per_failure = max_bytes // max(1, len(verdict.failures))
    failures = tuple(_truncate_failure(each, bytes_per_failure) for each in verdict.failures)
    return verdict if failures == verdict.failures else msgspec.structs.replace(verdict, failures=failures)


def _truncate_failure(failure: types.Failure, max_bytes: int) -> types.Failure:
    label, message = truncate_text(failure.criterion_label, max(8, max_bytes // 4)), truncate_text(failure.message, max(8, max_bytes // 4))
    evidence = None if failure.evidence is None else _truncate_start(failure.evidence, max_bytes // 2)
    return msgspec.structs.replace(failure, criterion_label=label, message=message, evidence=evidence)


def _truncate_start(text: str, max_bytes: int) -> str:
    """Keep the end: in a program's output it says more than the beginning."""
    return truncate_text(text[-max_bytes:][::-1], max_bytes)[::-1]


def make_rejected_event(event: Event, reason: str) -> Event:
    """The `log.rejected` event that is stored in place of an event that the log does not accept."""
    sample = repr(event.data)[:MAX_SAMPLE_CHARS]
    return Event(
        id=derive_id("log.rejected", f"{event.id}".encode()),
        at=event.at,
        kind="log.rejected",
        actor="driver",
        goal=event.goal,
        text=f"{event.kind}: {reason}"[:300],
        visibility="system",
        data={"reason": replace_unencodable(reason[:MAX_SAMPLE_CHARS]), "source": "agent", "sample": replace_unencodable(sample)},
    )
