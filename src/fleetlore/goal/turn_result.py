"""What a turn came to: from how the agent's part ended and what was found in the workspace to the facts that settle it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fleetlore.events import driver_types as types
from fleetlore.events.envelope import Event
from fleetlore.goal.events import GoalEvents
from fleetlore.goal.next_step import backoff_delay, crashes_in_check, escalate_crashes, find_exhausted_axis, parse_budget_axis
from fleetlore.models.base import estimate_tokens
from fleetlore.programs.failures import REMEDIES, Remedy
from fleetlore.views.goal_state import AttemptEnd, GoalState, OpenAttempt, unreported_usage
from fleetlore.views.goal_turns import CRASHED as CRASHED
from fleetlore.views.goals import MAX_SLEEP

STOPPED = "interrupted"
"""The complaint of a turn that a person or a signal stopped; `CRASHED` is that of a turn whose driver died."""
MAX_NAMED_FILES = 20


class TurnFindings(NamedTuple):
    """What a turn left behind."""

    verdict: types.Verdict | None = None
    mark: str = ""
    """A digest of workspace, criteria and words."""
    diff: str = ""
    sha: str = ""
    put_back: tuple[str, ...] = ()
    """Files that check the agent, which it had changed."""


def needs_check(goal: GoalState, diff: str, now: datetime, *, above: Sequence[GoalState] = ()) -> bool:
    """Whether the criteria are checked for the turn whose agent's part is over. `diff` is what the turn changed in the workspace.

    A crashed turn is checked before it is repeated, unless nothing shows that it did anything: no file changed, and no check has failed
    before. Criteria that hold from the start would otherwise end the goal before the agent has worked. After a budget is spent, no model
    is asked to judge.
    """
    attempt, spec = goal.attempt, goal.goal
    if attempt is None or attempt.ending is None or attempt.is_summary or spec is None or crashes_in_check(goal):
        return False
    is_judged = any(isinstance(each, types.LlmJudge) for each in spec.acceptance)
    match attempt.ending.how:
        case "finished":
            return True
        case "over_budget":
            return not is_judged
        case "stopped" if attempt.ending.complaint == CRASHED and spec.acceptance and goal.cancel is None:
            has_worked = bool(diff) or goal.verdict is not None
            return has_worked and not (is_judged and find_exhausted_axis(goal, now, above=above))
    return False


def settle_turn(teller: GoalEvents, goal: GoalState, found: TurnFindings, now: datetime, *, above: Sequence[GoalState] = ()) -> list[Event]:
    """The facts that settle the turn whose agent's part is over."""
    attempt, ending = goal.attempt, goal.attempt.ending if goal.attempt else None
    assert attempt is not None
    assert ending is not None
    if crashes_in_check(goal):
        return _given_up(teller, goal, ending, found, above)
    if attempt.is_summary:
        return _settle_summary(teller, goal, ending, now, above)
    match ending.how:
        case "finished" | "over_budget":
            return _settle_checked(teller, goal, ending, found, now, above)
        case "asleep":
            return _settle_asleep(teller, goal, ending, found, now, above)
        case "stopped":
            return _settle_stopped(teller, goal, ending, found, above)
    return _settle_failed(teller, goal, ending, found, now, above)


# --- the ways in which a turn ends


def _settle_checked(
    teller: GoalEvents, goal: GoalState, ending: AttemptEnd, found: TurnFindings, now: datetime, above: Sequence[GoalState]
) -> list[Event]:
    verdict = found.verdict
    outcome: types.AttemptOutcome
    if verdict is not None and verdict.met:
        outcome = types.Done()
    elif ending.how == "over_budget":
        outcome = types.BudgetSpent(
            axis=parse_budget_axis(ending.complaint or "") or find_exhausted_axis(goal, now, above=above) or "tokens"
        )
    else:
        outcome = types.NeedsRetry(failures=verdict.failures if verdict else ())
    checked = [] if verdict is None else [teller.acceptance_checked(verdict, cause=ending.id)]
    return [*checked, *_completion_events(teller, goal, outcome, ending, found, above)]


def _settle_asleep(
    teller: GoalEvents, goal: GoalState, ending: AttemptEnd, found: TurnFindings, now: datetime, above: Sequence[GoalState]
) -> list[Event]:
    until = min(_parse_wake_time(ending, now) or now, now + MAX_SLEEP)
    duration = max(0, int((until - now).total_seconds() * 1000))
    outcome = types.Sleep(duration_ms=duration, reason=ending.words or "asked to be woken later")
    nap = teller.wait_started(f"asleep: {outcome.reason[:200]}", until=until, turn=goal.turn)
    return [*_completion_events(teller, goal, outcome, ending, found, above), nap]


def _settle_stopped(
    teller: GoalEvents, goal: GoalState, ending: AttemptEnd, found: TurnFindings, above: Sequence[GoalState]
) -> list[Event]:
    checked = [] if found.verdict is None else [teller.acceptance_checked(found.verdict, cause=ending.id)]
    if found.verdict is not None and found.verdict.met:  # the driver died, but the work was done: this is a turn like any other
        return [*checked, *_completion_events(teller, goal, types.Done(), ending, found, above)]
    if goal.cancel is not None:
        return [*checked, *_completion_events(teller, goal, types.Cancelled(), ending, found, above)]
    outcome = types.Continue(reason=ending.error or "stopped before the agent was done; its changes are kept")
    events = _completion_events(teller, goal, outcome, ending, found, above, counts=False, complaint=ending.complaint or STOPPED)
    return [*checked, *events, teller.replay_decided(goal, types.NextTurn(), outcome.reason)]


def _given_up(teller: GoalEvents, goal: GoalState, ending: AttemptEnd, found: TurnFindings, above: Sequence[GoalState]) -> list[Event]:
    """The check itself crashes the driver: stop repeating it."""
    decision = escalate_crashes(goal)
    events = _completion_events(teller, goal, decision, ending, found, above, counts=False, complaint=CRASHED)
    return [*events, teller.replay_decided(goal, decision, decision.reason)]


def _settle_failed(
    teller: GoalEvents, goal: GoalState, ending: AttemptEnd, found: TurnFindings, now: datetime, above: Sequence[GoalState]
) -> list[Event]:
    complaint = ending.complaint or "unknown"
    remedy = next((each for name, each in REMEDIES.items() if name == complaint), REMEDIES["unknown"])
    message = ending.error or ending.how.replace("_", " ")
    decision = _choose_replay(goal, remedy, message)
    outcome = decision if isinstance(decision, types.Escalate) else types.Continue(reason=message)
    events = _completion_events(teller, goal, outcome, ending, found, above, counts=remedy.counts, complaint=complaint)
    return [
        *events,
        teller.replay_decided(goal, decision, message),
        *_backoff_events(teller, goal, remedy, complaint, message, ending, now),
    ]


def _backoff_events(
    teller: GoalEvents, goal: GoalState, remedy: Remedy, complaint: str, message: str, ending: AttemptEnd, now: datetime
) -> list[Event]:
    if not remedy.first_pause or remedy.action == "escalate":
        return []
    until = _parse_wake_time(ending, now) or now + backoff_delay(goal.waits, first=remedy.first_pause, longest=remedy.longest_pause)
    why = f"{complaint.replace('_', ' ')}: {message[:200]}"
    return [teller.wait_started(why, until=until, turn=goal.turn, attempt=goal.waits + 1)]


def _choose_replay(goal: GoalState, remedy: Remedy, message: str, *, changed: bool = True) -> types.Replay:
    """How to go on. `changed`: whether the agent may have changed something in the turn."""
    match remedy.action:
        case "compact":
            return types.CompactAndRetry()
        case "fresh":
            return types.FreshSessionRetry(rollback_to=goal.checkpoint.sha if goal.checkpoint and changed else None)
        case "escalate":
            return types.Escalate(reason=f"{message} ({remedy.advice})" if remedy.advice else message)
    return types.NextTurn()


def _settle_summary(teller: GoalEvents, goal: GoalState, ending: AttemptEnd, now: datetime, above: Sequence[GoalState]) -> list[Event]:
    """A turn in which the agent only wrote down where things stand."""
    if ending.how != "finished" or not ending.words.strip():
        return _settle_missing_summary(teller, goal, ending, now, above)
    outcome = types.Continue(reason="wrote down where things stand")
    completed = teller.attempt_completed(goal, outcome, words=ending.words, counts=False, cause=ending.id)
    compacted = teller.compact_completed(goal, after=estimate_tokens(ending.words), stored=True)
    return [completed, *_report_turn_to_parents(teller, goal, above, counts=False), *compacted]


def _settle_missing_summary(
    teller: GoalEvents, goal: GoalState, ending: AttemptEnd, now: datetime, above: Sequence[GoalState]
) -> list[Event]:
    """It did not come: it is asked for again where that was no fault of the context, and else given up for now."""
    complaint, message = ending.complaint or "no_result", ending.error or "no summary came"
    remedy = next((each for name, each in REMEDIES.items() if name == complaint), REMEDIES["unknown"])
    decision = _choose_replay(goal, remedy, message, changed=False)
    outcome = decision if isinstance(decision, types.Escalate) else types.Continue(reason=message)
    completed = teller.attempt_completed(goal, outcome, counts=False, complaint=complaint, cause=ending.id)
    events = [completed, *_report_turn_to_parents(teller, goal, above, counts=False)]
    if remedy.action not in ("wait", "retry", "escalate") and ending.how != "stopped":
        events += teller.compact_completed(goal, after=goal.compacting.before, stored=False)
    if remedy.action == "next" or ending.how == "stopped":
        return events
    return [
        *events,
        teller.replay_decided(goal, decision, message),
        *_backoff_events(teller, goal, remedy, complaint, message, ending, now),
    ]


# --- what they share


def _completion_events(
    teller: GoalEvents,
    goal: GoalState,
    outcome: types.AttemptOutcome,
    ending: AttemptEnd,
    found: TurnFindings,
    above: Sequence[GoalState],
    *,
    counts: bool = True,
    complaint: str | None = None,
) -> list[Event]:
    extras: dict[str, Any] = {"mark": found.mark, "worktree.diff_stat": found.diff, "worktree.checkpoint_sha": found.sha}
    extras["put_back"] = list(found.put_back[:MAX_NAMED_FILES]) or None
    extras |= {"usd": round(goal.attempt.usd, 6) if goal.attempt and goal.attempt.usd else None, "context": goal.context}
    if goal.session is not None and goal.plan is not None:
        extras[f"{goal.plan.harness.replace('-', '_')}.session_id"] = goal.session
    completed = teller.attempt_completed(
        goal,
        outcome,
        verdict=found.verdict,
        words=ending.words,
        counts=counts,
        complaint=complaint,
        extras=extras,
        cause=ending.id,
    )
    return [completed, *_report_turn_to_parents(teller, goal, above, counts=counts), *_progress_events(teller, goal, ending, counts=counts)]


def _progress_events(teller: GoalEvents, goal: GoalState, ending: AttemptEnd, *, counts: bool) -> list[Event]:
    every = goal.plan.progress_every if goal.plan else 0
    is_due = counts and every > 0 and goal.turn % every == 0
    return [teller.progress_made(goal, ending.words, turn=goal.turn)] if is_due else []


def _report_turn_to_parents(teller: GoalEvents, goal: GoalState, above: Sequence[GoalState], *, counts: bool) -> list[Event]:
    attempt = goal.attempt or OpenAttempt(id="", turn=goal.turn)
    return report_to_parents(teller, goal, above, turns=int(counts), tokens=attempt.tokens, usd=attempt.usd)


def report_to_parents(
    teller: GoalEvents, goal: GoalState, above: Sequence[GoalState], *, turns: int = 0, tokens: int = 0, usd: float = 0.0
) -> list[Event]:
    """What goals above have to count, too: of the open turn so much, and what judges and memories took besides."""
    rest = unreported_usage(goal, tokens=tokens, usd=usd)
    if turns == 0 and rest.tokens <= 0 and rest.usd <= 0:
        return []
    return teller.spent_by_child([each.id for each in above], turns=turns, tokens=max(0, rest.tokens), usd=max(0.0, round(rest.usd, 9)))


def _parse_wake_time(ending: AttemptEnd, now: datetime) -> datetime | None:
    try:
        until = datetime.fromisoformat(ending.until or "")
    except ValueError:
        return None
    return until if until > now else now + timedelta(seconds=1)
