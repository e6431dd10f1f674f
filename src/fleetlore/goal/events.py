"""What the driver tells the log: each of its events, made from plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from fleetlore import clock
from fleetlore.documents import durations
from fleetlore.events import driver_types as types
from fleetlore.events.envelope import Event
from fleetlore.goal.truncate import replace_unencodable, truncate_text
from fleetlore.process.identity import Process
from fleetlore.programs.harness import Ended
from fleetlore.views.goal_state import GoalState, first_paragraph
from fleetlore.views.goals import EXTRA_PREFIX, goal_usage

ACTOR = "driver"
MAX_TEXT_CHARS = 300
MAX_WORDS_CHARS = 16_000


class GoalEvents:
    """Makes the events of one goal."""

    def __init__(self, goal: str, *, agent: str, scopes: dict[str, Any], now: clock.Clock, new_id: Callable[[], str]) -> None:
        self.goal, self.agent, self.scopes, self._now, self._new_id = goal, agent, scopes, now, new_id

    def make_event(self, kind: str, data: Any, *, text: str | None = None, cause: str | None = None, actor: str = ACTOR) -> Event:
        """An event of this goal; `data` is a dictionary or a struct."""
        return Event(
            id=self._new_id(),
            at=self._now(),
            kind=kind,
            actor=actor,
            agent=self.agent,
            goal=self.goal,
            cause=cause,
            text=None if not text else replace_unencodable(" ".join(text[: 4 * MAX_TEXT_CHARS].split())[:MAX_TEXT_CHARS]),
            data=replace_unencodable(msgspec.to_builtins(data)),
            **self.scopes,
        )

    def assign_to_goal(self, event: Event) -> Event:
        """An event that the agent's program tells of, on this goal."""
        known = {"agent": self.agent, **self.scopes}
        fields = {name: value for name, value in known.items() if getattr(event, name) is None}
        return msgspec.structs.replace(event, goal=self.goal, at=event.at or self._now(), id=event.id or self._new_id(), **fields)

    # --- begin and end

    def goal_started(self, goal: types.Goal) -> Event:
        """A goal is taken up."""
        return self.make_event("driver.goal_started", {"goal": goal}, text=first_paragraph(goal.description))

    def lease_taken(self, holder: str, epoch: int) -> Event:
        """Somebody drives it from now on."""
        return self.make_event("work.lease_taken", {"lease": f"goal:{self.goal}", "epoch": epoch}, text=holder)

    def goal_finished(self, goal: GoalState, outcome: types.AttemptOutcome, words: str | None) -> list[Event]:
        """The end, and why."""
        now = self._now()
        reason = outcome_reason(outcome)
        events = []
        match outcome:
            case types.Escalate():
                events.append(self.make_event("driver.escalate", {"goal_id": self.goal, "reason": outcome.reason}, text=outcome.reason))
            case types.BudgetSpent():
                data = {"goal_id": self.goal, "axis": outcome.axis, "usage": goal_usage(goal, now)}
                events.append(self.make_event("driver.budget_exhausted", data, text=f"the budget of {reason} is spent"))
        ended = types.GoalOutcome(
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
        return [*events, self.make_event("driver.goal_completed", {"outcome": ended} | cost, text=text)]

    # --- a turn

    def workspace_checkpointed(self, turn: int, sha: str, workspace: str, *, verifiers: str | None = None) -> Event:
        """The workspace was saved; before the first turn, what the criteria are checked with, too."""
        digest = {} if verifiers is None else {"verifiers": verifiers}
        return self.make_event("goal.checkpointed", {"turn": turn, "sha": sha, "workspace": workspace} | digest)

    def attempt_started(self, goal: GoalState, turn: int) -> Event:
        """A turn begins."""
        return self.make_event("driver.attempt_started", {"goal_id": self.goal, "turn_index": turn, "usage": goal_usage(goal, self._now())})

    def session_bound(self, session: str, *, harness: str, model: str | None, workspace: str) -> Event:
        """The session in which it works."""
        told = {"session": session, "harness": harness, "model": model, "workspace": workspace}
        return self.make_event("goal.session_bound", {name: value for name, value in told.items() if value is not None})

    def process_started(self, process: Process, mark: str) -> Event:
        """A process that may have to be ended by somebody else."""
        data = {"command": process.command, "pid": process.pid, "group": process.group, "born": process.born, "call_id": mark}
        return self.make_event("process.started", data, cause=mark)

    def attempt_ended(self, turn: int, ended: Ended, *, complaint: str | None, until: datetime | None, seconds: float, cause: str) -> Event:
        """The agent's part is over."""
        told = {
            "complaint": complaint,
            "error": truncate_text(ended.error[:MAX_WORDS_CHARS]) or None,
            "words": truncate_text(ended.words[:MAX_WORDS_CHARS]) or None,
            "session": ended.session,
            "usd": ended.usd,
            "context": ended.context,
            "until": None if until is None else format_timestamp(until),
        }
        data: dict[str, Any] = {"turn": turn, "how": ended.how, "tokens": ended.tokens, "seconds": round(seconds, 3)}
        data |= {name: value for name, value in told.items() if value is not None}
        return self.make_event("goal.attempt_ended", data, text=ended.error or None, cause=cause)

    def acceptance_checked(self, verdict: types.Verdict, *, cause: str | None) -> Event:
        """What checking the criteria came to."""
        first = verdict.failures[0].message if verdict.failures else "called off"
        text = "all criteria are met" if verdict.met else f"{len(verdict.failures)} not met: {first}"
        return self.make_event("driver.acceptance", {"goal_id": self.goal, "verdict": verdict}, text=text, cause=cause)

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
        """What the turn came to."""
        ours = {"counts": None if counts else False, "complaint": complaint, **(extras or {})}
        told = {
            name if "." in name else f"{EXTRA_PREFIX}{name}": value for name, value in ours.items() if value is not None and value != ""
        }
        usage = goal_usage(goal, self._now())
        result = types.AttemptResult(
            goal_id=self.goal,
            turn_index=goal.turn,
            outcome=outcome,
            usage_after=msgspec.structs.replace(usage, turns=usage.turns + counts),
            acceptance=verdict,
            final_text=words or None,
            harness_extras=told,
        )
        return self.make_event("driver.attempt_completed", {"result": result}, text=words or outcome_reason(outcome), cause=cause)

    def progress_made(self, goal: GoalState, words: str, *, turn: int) -> Event:
        """How far it has come."""
        usage = goal_usage(goal, self._now())
        data = {"goal_id": self.goal, "turn_index": turn, "usage": msgspec.structs.replace(usage, turns=turn), "last_text": words or None}
        return self.make_event("driver.progress", data, text=words)

    def replay_decided(self, goal: GoalState, decision: types.Replay, message: str) -> Event:
        """How to go on after something went wrong."""
        data = {"goal_id": self.goal, "turn_index": goal.turn, "decision": decision, "error_message": message}
        return self.make_event("driver.replay_decision", data, text=message)

    def wait_started(self, why: str, *, until: datetime | None, turn: int, attempt: int | None = None) -> Event:
        """It has to wait."""
        told = {"why": why, "until": None if until is None else format_timestamp(until), "turn": turn, "attempt": attempt}
        return self.make_event("goal.waiting", {name: value for name, value in told.items() if value is not None}, text=why)

    def spent_by_child(self, above: Sequence[str], *, turns: int, tokens: int, usd: float) -> list[Event]:
        """What goals above have to count, too."""
        data = {"below": self.goal, "turns": turns, "tokens": tokens, "usd": usd}
        return [msgspec.structs.replace(self.make_event("goal.spent", dict(data)), goal=each) for each in above]

    # --- context and memory

    def compact_requested(self, goal: GoalState, trigger: types.CompactTrigger, *, age_minutes: int, window: int) -> Event:
        """The context is to be made smaller."""
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
        """The summary has come, or has not."""
        data = {"goal_id": self.goal, "turn_index": goal.turn, "after_tokens": after}
        before = {"before_tokens": goal.compacting.before}
        events = [self.make_event("driver.compact_completed", data)]
        return [*events, self.make_event("driver.compact_summary_stored", data | before)] if stored else events

    def memories_extracted(self, turn: int, *, saved: int, duration_ms: int) -> Event:
        """What was worth keeping was written down."""
        data = {"goal_id": self.goal, "turn_index": turn, "memories_saved": saved, "duration_ms": duration_ms}
        return self.make_event("driver.extract_memories_completed", data)

    def extraction_skipped(self, reason: types.SkipReason, *, failed: bool = False, why: str | None = None) -> Event:
        """Nothing was written down; `failed`: though it was tried."""
        data: dict[str, Any] = {"goal_id": self.goal, "reason": reason}
        return self.make_event("driver.extract_memories_skipped", data | ({f"{EXTRA_PREFIX}failed": True} if failed else {}), text=why)

    def dream_ended(self, outcome: types.DreamOutcome, *, why: str = "") -> Event:
        """Memories were put in order, or it was seen why not."""
        return self.make_event("driver.auto_dream_outcome", {"goal_id": self.goal, "outcome_kind": outcome}, text=why)


def outcome_reason(outcome: types.AttemptOutcome) -> str:
    """Why it ended so, in a line."""
    match outcome:
        case types.Escalate() | types.Continue() | types.Sleep():
            return outcome.reason
        case types.BudgetSpent():
            return outcome.axis.replace("_", " ").replace("consecutive413", "context overflows in a row")
        case types.Cancelled():
            return "called off"
        case types.NeedsRetry():
            return outcome.failures[0].message if outcome.failures else ""
    return ""


def format_elapsed(goal: GoalState, now: datetime) -> str:
    """The time since the goal began, as the nexo format writes it."""
    seconds = 0.0 if goal.at is None else max(0.0, (now - goal.at).total_seconds())
    return durations.format_duration(int(seconds * 1000) * 1_000_000)


def format_timestamp(moment: datetime) -> str:
    """A time as RFC 3339 in UTC."""
    return moment.isoformat().replace("+00:00", "Z")
