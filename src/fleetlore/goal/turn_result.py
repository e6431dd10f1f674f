"""Turns the end of an agent's turn and the check of its work into the events that settle the turn. Pure.

`driver.py` collects the findings and stores the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fleetlore.events import driver_types as types
from fleetlore.events.envelope import Event
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.events import GoalEvents
from fleetlore.goal.next_step import backoff_delay, crashes_in_check, escalate_crashes, find_exhausted_axis, parse_budget_axis
from fleetlore.models.base import estimate_tokens
from fleetlore.programs.failures import REMEDIES, Remedy
from fleetlore.views.goal_state import AttemptEnd, GoalState, OpenAttempt, unreported_usage
from fleetlore.views.goal_turns import CRASHED as CRASHED
from fleetlore.views.goals import MAX_SLEEP

STOPPED = "interrupted"
"""The complaint of a turn that a person or a signal stopped; `CRASHED` is that of a turn whose driver died."""


class TurnFindings(NamedTuple):
    """What the driver found in the workspace after a turn."""

    verdict: types.Verdict | None = None
    mark: str = ""
    """Digest of workspace, failures and words, to detect a stuck agent."""
    diff: str = ""
    sha: str = ""
    touched: tuple[TouchedFile, ...] = ()
    """Judging files that the agent changed."""
    walls: Sequence[str] | None = None
    """The walls of the sandbox that checks ran in."""


def needs_check(goal: GoalState, diff: str, now: datetime, *, parents: Sequence[GoalState] = ()) -> bool:
    """Whether to check the criteria after the agent's turn. `diff` summarises what the turn changed.

    A crashed turn is checked before it is repeated, unless nothing shows that it did anything: no file changed, and no
    check has failed before. Otherwise criteria that hold from the start would end the goal before the agent has worked.
    After a budget is spent, no model is asked to judge.
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
            return has_worked and not (is_judged and find_exhausted_axis(goal, now, parents=parents))
    return False


def settle_turn(
    factory: GoalEvents, goal: GoalState, findings: TurnFindings, now: datetime, *, parents: Sequence[GoalState] = ()
) -> list[Event]:
    """The events that settle the turn that the agent has ended."""
    attempt, ending = goal.attempt, goal.attempt.ending if goal.attempt else None
    assert attempt is not None
    assert ending is not None
    if crashes_in_check(goal):
        return _give_up(factory, goal, ending, findings, parents)
    if attempt.is_summary:
        return _settle_summary(factory, goal, ending, now, parents)
    match ending.how:
        case "finished" | "over_budget":
            return _settle_checked(factory, goal, ending, findings, now, parents)
        case "asleep":
            return _settle_asleep(factory, goal, ending, findings, now, parents)
        case "stopped":
            return _settle_stopped(factory, goal, ending, findings, parents)
    return _settle_failed(factory, goal, ending, findings, now, parents)


# --- one function for each way in which a turn ends


def _settle_checked(
    factory: GoalEvents, goal: GoalState, ending: AttemptEnd, findings: TurnFindings, now: datetime, parents: Sequence[GoalState]
) -> list[Event]:
    verdict = findings.verdict
    outcome: types.AttemptOutcome
    if verdict is not None and verdict.met:
        outcome = types.Done()
    elif ending.how == "over_budget":
        outcome = types.BudgetSpent(
            axis=parse_budget_axis(ending.complaint or "") or find_exhausted_axis(goal, now, parents=parents) or "tokens"
        )
    else:
        outcome = types.NeedsRetry(failures=verdict.failures if verdict else ())
    check_events = _check_events(factory, ending, findings)
    return [*check_events, *_completion_events(factory, goal, outcome, ending, findings, parents)]


def _settle_asleep(
    factory: GoalEvents, goal: GoalState, ending: AttemptEnd, findings: TurnFindings, now: datetime, parents: Sequence[GoalState]
) -> list[Event]:
    until = min(_parse_wake_time(ending, now) or now, now + MAX_SLEEP)
    duration = max(0, int((until - now).total_seconds() * 1000))
    outcome = types.Sleep(duration_ms=duration, reason=ending.words or "asked to be woken later")
    wait_event = factory.wait_started(f"asleep: {outcome.reason[:200]}", until=until, turn=goal.turn)
    return [*_completion_events(factory, goal, outcome, ending, findings, parents), wait_event]


def _settle_stopped(
    factory: GoalEvents, goal: GoalState, ending: AttemptEnd, findings: TurnFindings, parents: Sequence[GoalState]
) -> list[Event]:
    check_events = _check_events(factory, ending, findings)
    if findings.verdict is not None and findings.verdict.met:  # the driver crashed, but the work is done: a normal turn
        return [*check_events, *_completion_events(factory, goal, types.Done(), ending, findings, parents)]
    if goal.cancel is not None:
        return [*check_events, *_completion_events(factory, goal, types.Cancelled(), ending, findings, parents)]
    outcome = types.Continue(reason=ending.error or "stopped before the agent was done; its changes are kept")
    events = _completion_events(factory, goal, outcome, ending, findings, parents, counts=False, complaint=ending.complaint or STOPPED)
    return [*check_events, *events, factory.replay_decided(goal, types.NextTurn(), outcome.reason)]


def _give_up(factory: GoalEvents, goal: GoalState, ending: AttemptEnd, findings: TurnFindings, parents: Sequence[GoalState]) -> list[Event]:
    """Checking crashes the driver each time, so do not repeat it."""
    decision = escalate_crashes(goal)
    events = _completion_events(factory, goal, decision, ending, findings, parents, counts=False, complaint=CRASHED)
    return [*events, factory.replay_decided(goal, decision, decision.reason)]


def _settle_failed(
    factory: GoalEvents, goal: GoalState, ending: AttemptEnd, findings: TurnFindings, now: datetime, parents: Sequence[GoalState]
) -> list[Event]:
    complaint = ending.complaint or "unknown"
    remedy = next((each for name, each in REMEDIES.items() if name == complaint), REMEDIES["unknown"])
    message = ending.error or ending.how.replace("_", " ")
    decision = _choose_replay(goal, remedy, message)
    outcome = decision if isinstance(decision, types.Escalate) else types.Continue(reason=message)
    events = _completion_events(factory, goal, outcome, ending, findings, parents, counts=remedy.counts, complaint=complaint)
    return [
        *events,
        factory.replay_decided(goal, decision, message),
        *_backoff_events(factory, goal, remedy, complaint, message, ending, now),
    ]


def _backoff_events(
    factory: GoalEvents, goal: GoalState, remedy: Remedy, complaint: str, message: str, ending: AttemptEnd, now: datetime
) -> list[Event]:
    if not remedy.first_pause or remedy.action == "escalate":
        return []
    until = _parse_wake_time(ending, now) or now + backoff_delay(
        goal.waits, first_seconds=remedy.first_pause, max_seconds=remedy.longest_pause
    )
    why = f"{complaint.replace('_', ' ')}: {message[:200]}"
    return [factory.wait_started(why, until=until, turn=goal.turn, attempt=goal.waits + 1)]


def _choose_replay(goal: GoalState, remedy: Remedy, message: str, *, has_changes: bool = True) -> types.Replay:
    """How to continue. `has_changes`: the agent may have changed files in the turn."""
    match remedy.action:
        case "compact":
            return types.CompactAndRetry()
        case "fresh":
            return types.FreshSessionRetry(rollback_to=goal.checkpoint.sha if goal.checkpoint and has_changes else None)
        case "escalate":
            return types.Escalate(reason=f"{message} ({remedy.advice})" if remedy.advice else message)
    return types.NextTurn()


def _settle_summary(factory: GoalEvents, goal: GoalState, ending: AttemptEnd, now: datetime, parents: Sequence[GoalState]) -> list[Event]:
    """A turn in which the agent only wrote a summary, for compaction."""
    if ending.how != "finished" or not ending.words.strip():
        return _settle_failed_summary(factory, goal, ending, now, parents)
    outcome = types.Continue(reason="wrote a summary")
    completed = factory.attempt_completed(goal, outcome, words=ending.words, counts=False, cause=ending.id)
    compacted = factory.compact_completed(goal, after=estimate_tokens(ending.words), stored=True)
    return [completed, *_report_turn_to_parents(factory, goal, parents, counts=False), *compacted]


def _settle_failed_summary(
    factory: GoalEvents, goal: GoalState, ending: AttemptEnd, now: datetime, parents: Sequence[GoalState]
) -> list[Event]:
    """No summary: repeat the request if the context was not the cause, else give up compaction for now."""
    complaint, message = ending.complaint or "no_result", ending.error or "no summary came"
    remedy = next((each for name, each in REMEDIES.items() if name == complaint), REMEDIES["unknown"])
    decision = _choose_replay(goal, remedy, message, has_changes=False)
    outcome = decision if isinstance(decision, types.Escalate) else types.Continue(reason=message)
    completed = factory.attempt_completed(goal, outcome, counts=False, complaint=complaint, cause=ending.id)
    events = [completed, *_report_turn_to_parents(factory, goal, parents, counts=False)]
    if remedy.action not in ("wait", "retry", "escalate") and ending.how != "stopped":
        events += factory.compact_completed(goal, after=goal.compacting.before, stored=False)
    if remedy.action == "next" or ending.how == "stopped":
        return events
    return [
        *events,
        factory.replay_decided(goal, decision, message),
        *_backoff_events(factory, goal, remedy, complaint, message, ending, now),
    ]


# --- shared parts


def _check_events(factory: GoalEvents, ending: AttemptEnd, findings: TurnFindings) -> list[Event]:
    if findings.verdict is None:
        return []
    return [factory.acceptance_checked(findings.verdict, findings.touched, findings.walls, cause=ending.id)]


def _completion_events(
    factory: GoalEvents,
    goal: GoalState,
    outcome: types.AttemptOutcome,
    ending: AttemptEnd,
    findings: TurnFindings,
    parents: Sequence[GoalState],
    *,
    counts: bool = True,
    complaint: str | None = None,
) -> list[Event]:
    extras: dict[str, Any] = {"mark": findings.mark, "worktree.diff_stat": findings.diff, "worktree.checkpoint_sha": findings.sha}
    extras |= {"usd": round(goal.attempt.usd, 6) if goal.attempt and goal.attempt.usd else None, "context": goal.context}
    if goal.session is not None and goal.plan is not None:
        extras[f"{goal.plan.harness.replace('-', '_')}.session_id"] = goal.session
    completed_event = factory.attempt_completed(
        goal,
        outcome,
        verdict=findings.verdict,
        words=ending.words,
        counts=counts,
        complaint=complaint,
        extras=extras,
        cause=ending.id,
    )
    return [
        completed_event,
        *_report_turn_to_parents(factory, goal, parents, counts=counts),
        *_progress_events(factory, goal, ending, counts=counts),
    ]


def _progress_events(factory: GoalEvents, goal: GoalState, ending: AttemptEnd, *, counts: bool) -> list[Event]:
    interval = goal.plan.progress_every if goal.plan else 0
    is_due = counts and interval > 0 and goal.turn % interval == 0
    return [factory.progress_made(goal, ending.words, turn=goal.turn)] if is_due else []


def _report_turn_to_parents(factory: GoalEvents, goal: GoalState, parents: Sequence[GoalState], *, counts: bool) -> list[Event]:
    attempt = goal.attempt or OpenAttempt(id="", turn=goal.turn)
    return report_to_parents(factory, goal, parents, turns=int(counts), tokens=attempt.tokens, usd=attempt.usd)


def report_to_parents(
    factory: GoalEvents, goal: GoalState, parents: Sequence[GoalState], *, turns: int = 0, tokens: int = 0, usd: float = 0.0
) -> list[Event]:
    """Usage that parent goals have to count, too: that of the open turn, and that of judges and memory. Releases what was reserved."""
    unreported = unreported_usage(goal, tokens=tokens, usd=usd)
    released = [factory.reserved_by_child(parent.id) for parent in parents if goal.id in parent.reserved]
    if turns == 0 and unreported.tokens <= 0 and unreported.usd <= 0 and not any(unreported.others.values()):
        return released
    spent = factory.spent_by_child(
        [parent.id for parent in parents],
        turns=turns,
        tokens=max(0, unreported.tokens),
        usd=max(0.0, round(unreported.usd, 9)),
        others=unreported.others,
    )
    return [*spent, *released]


def _parse_wake_time(ending: AttemptEnd, now: datetime) -> datetime | None:
    try:
        until = datetime.fromisoformat(ending.until or "")
    except ValueError:
        return None
    return until if until > now else now + timedelta(seconds=1)
