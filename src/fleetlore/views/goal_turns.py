"""The turns of a goal: started, ended, judged, settled, and what each used. Event handlers for `goals.py`."""

from __future__ import annotations

from fleetlore.events import driver, goals
from fleetlore.events.driver_types import CompactAndRetry, Escalate, FreshSessionRetry, NeedsRetry, NextTurn, Sleep, Verdict
from fleetlore.events.envelope import Event
from fleetlore.views.goal_state import (
    MAX_SUMMARY_CHARS,
    MAX_TURNS,
    MAX_WORDS_CHARS,
    AttemptEnd,
    GoalState,
    GoalUsage,
    OpenAttempt,
    SettledTurn,
    TurnProcess,
    convert_usage,
    count_or_zero,
    outcome_reason,
    parse_payload,
    struct_tag,
    text_or_empty,
    usd_or_zero,
)

MAX_CRITERIA = 100
EXTRA_PREFIX = "fleetlore."
"""Prefix of what our driver adds to an attempt's `harness_extras`."""
SIDE_PURPOSES = frozenset(("judge", "memory", "dream"))
"""What models are called for besides the agent's work."""
CRASHED = "crashed"
INTERRUPTED_FAILURES = frozenset(("interrupted", CRASHED))
"""The turn was stopped, or its driver died."""
UNCOUNTED_FAILURES = frozenset(("rate_limit", "usage_limit", "overloaded", "interrupted", CRASHED))
"""Failures that are not errors of the agent: they do not raise `consecutive_errors`.

`GoalState.crashes` limits crashes.
"""


def on_attempt_started(goal: GoalState, event: Event) -> None:
    """A turn starts."""
    payload = parse_payload(event, driver.AttemptStarted)
    goal.turn = payload.turn_index if payload else goal.turn + 1
    is_summary = goal.compacting.is_due
    messages = [] if is_summary else goal.messages
    goal.messages = goal.messages if is_summary else []
    goal.attempt = OpenAttempt(id=event.id or "", turn=goal.turn, at=event.at, is_summary=is_summary, messages=messages)
    goal.settled, goal.wake, goal.waiting_for, goal.roll_back_to = None, None, "", None


def on_attempt_ended(goal: GoalState, event: Event) -> None:
    """The agent's part of a turn has ended."""
    payload = parse_payload(event, goals.AttemptEnded)
    if goal.attempt is None or payload is None or goal.attempt.ending is not None or event.cause not in (None, goal.attempt.id):
        return
    goal.attempt.tokens = max(goal.attempt.tokens, payload.tokens)
    goal.attempt.usd = max(goal.attempt.usd, usd_or_zero(payload.usd))
    goal.attempt.ending = AttemptEnd(
        id=event.id or "",
        how=payload.how,
        complaint=payload.complaint,
        error=payload.error or "",
        words=(payload.words or "")[:MAX_SUMMARY_CHARS],
        until=payload.until,
    )
    goal.context = payload.context if payload.context is not None else goal.context
    goal.questions.clear()  # the process that asked is gone
    goal.session = payload.session or goal.session


def on_attempt_completed(goal: GoalState, event: Event) -> None:
    """A turn is settled."""
    payload = parse_payload(event, driver.AttemptCompleted)
    if payload is None or not _is_for_open_attempt(goal, event):
        return
    result, attempt = payload.result, goal.attempt or OpenAttempt(id="", turn=payload.result.turn_index)
    extras = result.harness_extras
    counts, complaint = extras.get(f"{EXTRA_PREFIX}counts", True) is True, text_or_empty(extras.get(f"{EXTRA_PREFIX}complaint")) or None
    goal.attempt = None
    goal.words = (result.final_text or goal.words)[:MAX_WORDS_CHARS]
    goal.settled, goal.settled_why = struct_tag(result.outcome), outcome_reason(result.outcome)
    if goal.settled == "budget_exhausted" and attempt.is_raised:
        goal.settled = "continue"
    goal.is_interrupted = complaint in INTERRUPTED_FAILURES
    if isinstance(result.outcome, NeedsRetry):
        goal.failures = list(result.outcome.failures[:MAX_CRITERIA])
    elif complaint == CRASHED and result.acceptance is not None:  # the prompt of the repeated turn says what the check found
        goal.failures = list(result.acceptance.failures[:MAX_CRITERIA])
    if complaint != CRASHED:
        goal.crashes = 0
    if goal.plan is None:
        goal.spent = convert_usage(result.usage_after)
    else:
        _add_attempt_usage(goal, attempt, counts=counts, complaint=complaint)
    if counts and not isinstance(result.outcome, Sleep):  # waiting does not count as an unchanged turn
        _count_unchanged_turns(goal, text_or_empty(extras.get(f"{EXTRA_PREFIX}mark")))
    if not counts:  # the messages may not have reached the agent
        goal.messages = [*attempt.messages, *goal.messages]
    if attempt.is_summary and not complaint:
        goal.summary = (result.final_text or "")[:MAX_SUMMARY_CHARS]
    _keep_turn(goal, event, attempt, payload, counts=counts, complaint=complaint)


def _is_for_open_attempt(goal: GoalState, event: Event) -> bool:
    """Whether the event settles the open turn. A driver that was replaced may report an earlier one."""
    if goal.plan is None or event.cause is None:
        return True
    ending = None if goal.attempt is None else goal.attempt.ending
    return ending is not None and event.cause == ending.id


def _add_attempt_usage(goal: GoalState, attempt: OpenAttempt, *, counts: bool, complaint: str | None) -> None:
    spent = goal.spent
    spent.turns += counts
    spent.tokens += attempt.tokens
    spent.usd += attempt.usd
    if complaint is None:
        spent.errors = spent.overflows = goal.waits = 0
    elif complaint == "overflow":
        spent.overflows += 1
    elif complaint not in UNCOUNTED_FAILURES:
        spent.errors += 1
    goal.waits += complaint is not None
    mark_usage_reported(goal)


def mark_usage_reported(goal: GoalState) -> None:
    """Mark all usage as reported: settling a turn or ending a goal reports it to the parents."""
    spent, below = goal.spent, goal.below
    goal.reported = GoalUsage(
        tokens=spent.tokens - below.tokens,
        usd=spent.usd - below.usd,
        others={name: used - below.others.get(name, 0) for name, used in spent.others.items()},
    )


def _count_unchanged_turns(goal: GoalState, mark: str) -> None:
    goal.same = goal.same + 1 if mark and mark == goal.mark else 1
    goal.mark = mark or None


def _keep_turn(
    goal: GoalState, event: Event, attempt: OpenAttempt, payload: driver.AttemptCompleted, *, counts: bool, complaint: str | None
) -> None:
    result = payload.result
    verdict = result.acceptance
    turn = SettledTurn(
        number=attempt.turn,
        id=event.id or "",
        outcome="summary" if attempt.is_summary else struct_tag(result.outcome),
        counts=counts,
        complaint=complaint,
        words=(result.final_text or outcome_reason(result.outcome))[:MAX_WORDS_CHARS],
        at=attempt.at,
        ended_at=event.at,
        tokens=attempt.tokens,
        usd=attempt.usd,
        failing=None if verdict is None else len(verdict.failures),
        diff=text_or_empty(result.harness_extras.get("worktree.diff_stat"))[:MAX_WORDS_CHARS],
    )
    goal.turns = [*goal.turns[-MAX_TURNS + 1 :], turn]


def on_acceptance(goal: GoalState, event: Event) -> None:
    """The criteria were checked."""
    payload = parse_payload(event, driver.AcceptanceChecked)
    if payload is None:
        return
    goal.verdict, goal.checked = payload.verdict, event.id
    touched, sandbox = event.data.get(f"{EXTRA_PREFIX}touched"), event.data.get(f"{EXTRA_PREFIX}sandbox")
    goal.touched = [line for line in touched if isinstance(line, str)][:MAX_CRITERIA] if isinstance(touched, list) else []
    goal.sandbox = [wall for wall in sandbox if isinstance(wall, str)] if isinstance(sandbox, list) else None
    _update_criteria(goal, payload.verdict)


def _update_criteria(goal: GoalState, verdict: Verdict) -> None:
    failed = {failure.criterion_index: failure for failure in verdict.failures}
    for index, criterion in enumerate(goal.criteria):
        failure = failed.get(index)
        criterion.met = failure is None
        criterion.message = "" if failure is None else failure.message
        criterion.evidence = "" if failure is None else failure.evidence or ""
    if verdict.met:
        goal.failures = []


def on_replay_decision(goal: GoalState, event: Event) -> None:
    """How to continue after a failure."""
    payload = parse_payload(event, driver.ReplayDecided)
    match payload.decision if payload else None:
        case FreshSessionRetry(rollback_to=sha):
            goal.session, goal.roll_back_to = None, sha
        case NextTurn(rollback_to=sha):
            goal.roll_back_to = sha
        case CompactAndRetry():
            goal.session = None
        case Escalate(reason=reason):
            goal.settled, goal.settled_why = "escalate", reason


# --- while the agent works


def on_process_started(goal: GoalState, event: Event) -> None:
    """A process was started for the turn; another driver may have to end it."""
    pid, group, born = (event.data.get(name) for name in ("pid", "group", "born"))
    if goal.attempt is not None and isinstance(pid, int) and isinstance(group, int) and isinstance(born, str):
        command = event.data.get("command")
        goal.attempt.processes.append(TurnProcess(pid=pid, group=group, born=born, command=command if isinstance(command, str) else ""))


def on_model_replied(goal: GoalState, event: Event) -> None:
    """Count the usage of a model call: for the open turn while the agent works, else for the goal (judge, memory)."""
    tokens = sum(count_or_zero(event.data.get(name)) for name in ("input", "output", "cache_read", "cache_write"))
    usd = usd_or_zero(event.data.get("usd"))
    is_side_call = event.data.get("purpose") in SIDE_PURPOSES
    if goal.attempt is not None and goal.attempt.ending is None and not is_side_call:
        goal.attempt.tokens += tokens
        goal.attempt.usd += usd
        goal.attempt.calls += 1
    elif goal.plan is not None:
        goal.spent.tokens += tokens
        goal.spent.usd += usd


def on_tool_called(goal: GoalState, event: Event) -> None:
    """Remember what the agent is doing."""
    if goal.attempt is not None:
        goal.attempt.last_tool = (event.text or text_or_empty(event.data.get("tool")))[:MAX_WORDS_CHARS]
