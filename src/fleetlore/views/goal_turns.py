"""The turns of a goal: begun, worked, ended, judged, settled; and what each of them took."""

from __future__ import annotations

from fleetlore.events import driver, goals
from fleetlore.events.driver_types import CompactAndRetry, Escalate, FreshSessionRetry, NeedsRetry, NextTurn, Sleep, Verdict
from fleetlore.events.envelope import Event
from fleetlore.views.goal_payloads import (
    convert_usage,
    count_or_zero,
    outcome_reason,
    parse_payload,
    struct_tag,
    text_or_empty,
    usd_or_zero,
)
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
)

MAX_CRITERIA = 100
EXTRA_PREFIX = "fleetlore."
"""Begins what our driver adds to an attempt's `harness_extras`."""
SIDE_PURPOSES = frozenset(("judge", "memory", "dream"))
"""What minds are asked for beside the agent's work."""
CRASHED = "crashed"
INTERRUPTED_FAILURES = frozenset(("interrupted", CRASHED))
"""A turn that somebody stopped, or whose driver died in it."""
UNCOUNTED_FAILURES = frozenset(("rate_limit", "usage_limit", "overloaded", "interrupted", CRASHED))
"""Complaints that are not errors of the agent: they do not raise `consecutive_errors`. Crashes are bounded by `GoalState.crashes`."""


def on_attempt_started(goal: GoalState, event: Event) -> None:
    """A turn begins."""
    told = parse_payload(event, driver.AttemptStarted)
    goal.turn = told.turn_index if told else goal.turn + 1
    is_summary = goal.compacting.is_due
    said = [] if is_summary else goal.messages
    goal.messages = goal.messages if is_summary else []
    goal.attempt = OpenAttempt(id=event.id or "", turn=goal.turn, at=event.at, is_summary=is_summary, messages=said)
    goal.settled, goal.wake, goal.waiting_for, goal.roll_back_to = None, None, "", None


def on_attempt_ended(goal: GoalState, event: Event) -> None:
    """The agent's part of it is over."""
    told = parse_payload(event, goals.AttemptEnded)
    if goal.attempt is None or told is None or goal.attempt.ending is not None or event.cause not in (None, goal.attempt.id):
        return
    goal.attempt.tokens = max(goal.attempt.tokens, told.tokens)
    goal.attempt.usd = max(goal.attempt.usd, usd_or_zero(told.usd))
    goal.attempt.ending = AttemptEnd(
        id=event.id or "",
        how=told.how,
        complaint=told.complaint,
        error=told.error or "",
        words=(told.words or "")[:MAX_SUMMARY_CHARS],
        until=told.until,
    )
    goal.context = told.context if told.context is not None else goal.context
    goal.questions.clear()  # whoever asked is gone
    goal.session = told.session or goal.session


def on_attempt_completed(goal: GoalState, event: Event) -> None:
    """It is settled."""
    told = parse_payload(event, driver.AttemptCompleted)
    if told is None or not _is_for_open_attempt(goal, event):
        return
    result, attempt = told.result, goal.attempt or OpenAttempt(id="", turn=told.result.turn_index)
    extras = result.harness_extras
    counts, complaint = extras.get(f"{EXTRA_PREFIX}counts", True) is True, text_or_empty(extras.get(f"{EXTRA_PREFIX}complaint")) or None
    goal.attempt = None
    goal.words = (result.final_text or goal.words)[:MAX_WORDS_CHARS]
    goal.settled, goal.settled_why = struct_tag(result.outcome), outcome_reason(result.outcome)
    if goal.settled == "budget_exhausted" and attempt.is_raised:
        goal.settled = "continue"
    goal.is_interrupted = complaint in INTERRUPTED_FAILURES
    put_back = extras.get(f"{EXTRA_PREFIX}put_back")
    goal.put_back = [name for name in put_back if isinstance(name, str)][:MAX_CRITERIA] if isinstance(put_back, list) else []
    if isinstance(result.outcome, NeedsRetry):
        goal.failures = list(result.outcome.failures[:MAX_CRITERIA])
    elif complaint == CRASHED and result.acceptance is not None:  # the repeated turn is told what the check found
        goal.failures = list(result.acceptance.failures[:MAX_CRITERIA])
    if complaint != CRASHED:
        goal.crashes = 0
    if goal.plan is None:
        goal.spent = convert_usage(result.usage_after)
    else:
        _add_attempt_usage(goal, attempt, counts=counts, complaint=complaint)
    if counts and not isinstance(result.outcome, Sleep):  # who waits for something changes nothing
        _count_unchanged_turns(goal, text_or_empty(extras.get(f"{EXTRA_PREFIX}mark")))
    if not counts:  # what was said to the agent did not reach it for certain
        goal.messages = [*attempt.messages, *goal.messages]
    if attempt.is_summary and not complaint:
        goal.summary = (result.final_text or "")[:MAX_SUMMARY_CHARS]
    _keep_turn(goal, event, attempt, told, counts=counts, complaint=complaint)


def _is_for_open_attempt(goal: GoalState, event: Event) -> bool:
    """Whether it settles the open turn; a driver that did not know yet that another one had followed it may have told it of an earlier."""
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
    """From here on goals above know of all that it has spent: whatever settles a turn or ends a goal tells them."""
    goal.told = GoalUsage(tokens=goal.spent.tokens - goal.below.tokens, usd=goal.spent.usd - goal.below.usd)


def _count_unchanged_turns(goal: GoalState, mark: str) -> None:
    """Whether the turn has changed anything."""
    goal.same = goal.same + 1 if mark and mark == goal.mark else 1
    goal.mark = mark or None


def _keep_turn(
    goal: GoalState, event: Event, attempt: OpenAttempt, told: driver.AttemptCompleted, *, counts: bool, complaint: str | None
) -> None:
    result = told.result
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
    """Its criteria were checked."""
    told = parse_payload(event, driver.AcceptanceChecked)
    if told is None:
        return
    goal.verdict, goal.checked = told.verdict, event.id
    _update_criteria(goal, told.verdict)


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
    """How to go on after something went wrong."""
    told = parse_payload(event, driver.ReplayDecided)
    match told.decision if told else None:
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
    """A process runs for it, which may have to be ended by somebody else."""
    pid, group, born = (event.data.get(name) for name in ("pid", "group", "born"))
    if goal.attempt is not None and isinstance(pid, int) and isinstance(group, int) and isinstance(born, str):
        command = event.data.get("command")
        goal.attempt.processes.append(TurnProcess(pid=pid, group=group, born=born, command=command if isinstance(command, str) else ""))


def on_model_replied(goal: GoalState, event: Event) -> None:
    """What a model took: the open turn's as long as the agent works, else the goal's own (a judge, a memory)."""
    tokens = sum(count_or_zero(event.data.get(name)) for name in ("input", "output", "cache_read", "cache_write"))
    usd = usd_or_zero(event.data.get("usd"))
    is_aside = event.data.get("purpose") in SIDE_PURPOSES
    if goal.attempt is not None and goal.attempt.ending is None and not is_aside:
        goal.attempt.tokens += tokens
        goal.attempt.usd += usd
        goal.attempt.calls += 1
    elif goal.plan is not None:
        goal.spent.tokens += tokens
        goal.spent.usd += usd


def on_tool_called(goal: GoalState, event: Event) -> None:
    """What the agent does just now."""
    if goal.attempt is not None:
        goal.attempt.last_tool = (event.text or text_or_empty(event.data.get("tool")))[:MAX_WORDS_CHARS]
