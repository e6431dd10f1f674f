"""The goals view: every goal, turn by turn, with usage, verdicts and open questions.

The driver decides by this fold alone. Events are applied in log order. Goals of other programs' drivers report less;
what they report is shown. `goal_turns.py` handles turns, `goal_state.py` is the state and how payloads are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field

from fleetlore.events import budget_axes, driver, goals
from fleetlore.events.budget_axes import BudgetRow, count_event, find_axis, get_amount, is_counted, list_axes, set_amount
from fleetlore.events.driver_types import Deny, GoalOutcome, Observe
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.views import goal_turns
from fleetlore.views.goal_state import (
    MAX_DECISIONS,
    MAX_MESSAGES,
    MAX_QUESTIONS,
    MAX_WORDS_CHARS,
    CriterionState,
    GoalState,
    GoalUsage,
    OperatorMessage,
    PendingPermission,
    PermissionDecision,
    Reservation,
    TurnCheckpoint,
    add_others,
    convert_or_none,
    convert_usage,
    duration_seconds,
    is_goal_paused,
    limit_time,
    outcome_reason,
    parse_payload,
    parse_time,
    read_limits,
    struct_tag,
    usd_or_zero,
)
from fleetlore.views.goal_state import criterion_label as criterion_label
from fleetlore.views.goal_state import goal_usage as goal_usage
from fleetlore.views.goal_turns import EXTRA_PREFIX as EXTRA_PREFIX
from fleetlore.views.goal_turns import MAX_CRITERIA as MAX_CRITERIA
from fleetlore.views.goal_turns import UNCOUNTED_FAILURES as UNCOUNTED_FAILURES

VERSION = 5 + budget_axes.VERSION
GOALS_KEPT = 500
MAX_RESERVATIONS = 1000
MAX_SLEEP = timedelta(days=7)
"""An agent that asks to sleep longer is woken after this."""


class GoalsState(Struct, kw_only=True):
    """All goals, oldest first, up to `GOALS_KEPT`. Serialises to JSON."""

    version: int = VERSION
    goals: dict[str, GoalState] = field(default_factory=dict)
    let_go: int = 0
    """Number of goals that are not kept any more."""


def initial() -> GoalsState:
    """The state before the first event."""
    return GoalsState()


def apply(state: GoalsState, event: Event) -> GoalsState:
    """Return the state after one more event; modifies the given one. Never raises."""
    if event.goal is None or not is_goal_kind(event.kind):
        return state
    goal = state.goals.get(event.goal)
    if goal is None:
        goal = state.goals[event.goal] = GoalState(id=event.goal)
        _drop_oldest_goal(state)
    apply_to_goal(goal, event)
    return state


def apply_to_goal(goal: GoalState, event: Event) -> None:
    """Apply an event to one goal."""
    count_event(goal.spent.others, event, "goal")
    handler = EVENT_HANDLERS.get(event.kind)
    if handler is None:
        return
    _count_time(goal, event)
    if event.kind not in _REMOTE_KINDS:
        goal.seen_at = event.at or goal.seen_at
    handler(goal, event)
    goal.position = event.position or goal.position


def is_goal_kind(kind: str) -> bool:
    """Whether events of this kind affect a goal."""
    return kind in EVENT_HANDLERS or is_counted(kind)


def _drop_oldest_goal(state: GoalsState) -> None:
    if len(state.goals) > GOALS_KEPT:
        oldest = next((id for id, goal in state.goals.items() if goal.outcome is not None), next(iter(state.goals)))
        del state.goals[oldest]
        state.let_go += 1


# --- time


_REMOTE_KINDS = frozenset(("control.requested", "goal.reserved", "goal.spent"))
"""Reported by others, whose clocks may differ from the driver's."""
_UNTIMED_KINDS = _REMOTE_KINDS | {"work.lease_taken"}
"""Reported by others, or by a driver that has just started: the time before does not count."""


def _count_time(goal: GoalState, event: Event) -> None:
    """Time counts from one event of the driver to the next, except while the goal is paused or not driven."""
    if event.at is None or goal.clock_from is None or event.kind in _UNTIMED_KINDS:
        return
    if not is_goal_paused(goal):
        goal.spent.seconds += max(0.0, (event.at - goal.clock_from).total_seconds())
    was_set_back = event.at < goal.clock_from and event.kind.startswith(("driver.", "goal."))  # an agent's clock may differ
    goal.clock_from = event.at if was_set_back else max(event.at, goal.clock_from)


def _on_lease_taken(goal: GoalState, event: Event) -> None:
    """A driver takes over: the time until now does not count. An open turn means that its driver died."""
    goal.clock_from = event.at
    goal.crashes += goal.attempt is not None


# --- start and end


def _on_goal_started(goal: GoalState, event: Event) -> None:
    if goal.goal is not None:
        return
    payload = parse_payload(event, driver.GoalStarted)
    goal.started, goal.at, goal.clock_from = event.id, event.at, event.at
    goal.agent, goal.description = event.agent or goal.agent, event.text or ""
    if payload is None:
        return
    goal.goal, goal.description = payload.goal, payload.goal.description
    goal.plan = convert_or_none(payload.goal.metadata.get(KEY), Plan)
    goal.agent = goal.plan.agent if goal.plan else goal.agent
    goal.limits = read_limits(payload.goal, goal.plan)
    goal.criteria = [CriterionState(label=criterion_label(each)) for each in payload.goal.acceptance[:MAX_CRITERIA]]


def _on_goal_completed(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, driver.GoalCompleted)
    outcome = None if payload is None else payload.outcome
    goal.ended_at, goal.outcome = event.at, "unknown" if outcome is None else struct_tag(outcome.outcome)
    goal.why = "" if outcome is None else outcome_reason(outcome.outcome)
    goal.settled, goal.wake, goal.clock_from = None, None, None
    goal.questions.clear()
    goal_turns.mark_usage_reported(goal)
    if outcome is not None and goal.plan is None:
        _set_final_usage(goal, outcome)


def _set_final_usage(goal: GoalState, outcome: GoalOutcome) -> None:
    goal.spent = convert_usage(outcome.usage)
    goal.words = (outcome.final_text or goal.words)[:MAX_WORDS_CHARS]


# --- our own events


def _on_checkpointed(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.Checkpointed)
    if payload is not None and payload.sha:
        goal.checkpoint = TurnCheckpoint(turn=payload.turn or 0, sha=payload.sha)
        goal.first_checkpoint = goal.first_checkpoint or payload.sha
        goal.verifiers = goal.verifiers or payload.verifiers


def _on_session_bound(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.SessionBound)
    if payload is not None and payload.session != goal.session:
        goal.session, goal.session_at, goal.context = payload.session, event.at, None


def _on_waiting(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.GoalWaiting)
    if payload is None:
        return
    goal.waiting_for = payload.why
    until = parse_time(payload.until)
    goal.wake = None if until is None or event.at is None else limit_time(until, event.at, MAX_SLEEP)
    goal.settled = None if goal.settled in ("sleep", "continue") else goal.settled


def _on_child_spent(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.GoalSpent)
    if payload is None:
        return
    if payload.below == goal.id:  # its own usage, reported during a turn
        goal.reported = GoalUsage(
            tokens=goal.reported.tokens + max(0, payload.tokens),
            usd=goal.reported.usd + usd_or_zero(payload.usd),
            others=add_others(goal.reported.others, payload.others),
        )
        return
    known = goal.largest_call
    goal.largest_call = Reservation(tokens=max(known.tokens, payload.tokens), usd=max(known.usd, usd_or_zero(payload.usd)))
    for usage in (goal.spent, goal.below):
        usage.turns += max(0, payload.turns)
        usage.tokens += max(0, payload.tokens)
        usage.usd += usd_or_zero(payload.usd)
        usage.others = add_others(usage.others, payload.others)


def _on_child_reserved(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.GoalReserved)
    if payload is None:
        return
    goal.reserved.pop(payload.below, None)
    amount = Reservation(turns=max(0, payload.turns), tokens=max(0, payload.tokens), usd=usd_or_zero(payload.usd), at=event.at)
    if (amount.turns or amount.tokens or amount.usd) and len(goal.reserved) < MAX_RESERVATIONS:
        goal.reserved[payload.below] = amount


# --- permissions


def _on_permission_asked(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, goals.PermissionAsked)
    if payload is not None and len(goal.questions) < MAX_QUESTIONS:
        id = event.id or ""
        goal.questions[id] = PendingPermission(
            id=id, turn=payload.turn or goal.turn, tool=payload.tool, input=payload.input, at=event.at, expires=payload.expires
        )


def _on_decision(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, driver.DecisionMade)
    goal.questions.pop(event.cause or "", None)
    if payload is None:
        return
    decision, is_denied = payload.decision, isinstance(payload.decision.choice, Deny)
    if not isinstance(decision.choice, Observe):
        goal.spent.denies = goal.spent.denies + 1 if is_denied else 0
    goal.denied, goal.allowed = goal.denied + is_denied, goal.allowed + (not is_denied)
    record = PermissionDecision(
        id=event.id or "",
        turn=decision.turn_index,
        tool=decision.tool,
        choice=struct_tag(decision.choice),
        why=decision.rationale[:MAX_WORDS_CHARS],
        at=event.at,
    )
    goal.decisions = [*goal.decisions[-MAX_DECISIONS + 1 :], record]


# --- compaction and memory


def _on_compact_requested(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, driver.CompactRequested)
    goal.compacting.is_due = True
    goal.compacting.before = payload.before_tokens if payload else 0


def _on_compact_completed(goal: GoalState, event: Event) -> None:
    """Counts as a failure until a summary is stored, which follows at once if there is one."""
    compacting = goal.compacting
    compacting.is_due = False
    compacting.last_turn = goal.turn
    compacting.failures += 1
    compacting.opened_turn = goal.turn


def _on_summary_stored(goal: GoalState, event: Event) -> None:
    goal.compacting.failures, goal.compacting.opened_turn = 0, None
    goal.session, goal.context = None, None


def _on_memories_extracted(goal: GoalState, event: Event) -> None:
    payload = parse_payload(event, driver.ExtractMemoriesCompleted)
    goal.remembering.seen_turn = goal.remembering.last_turn = goal.turn
    goal.remembering.saved += payload.memories_saved if payload else 0
    goal.remembering.failures, goal.remembering.opened_turn = 0, None


def _on_extraction_skipped(goal: GoalState, event: Event) -> None:
    extraction = goal.remembering
    extraction.seen_turn = goal.turn
    if event.data.get(f"{EXTRA_PREFIX}failed") is True:
        extraction.failures, extraction.last_turn, extraction.opened_turn = extraction.failures + 1, goal.turn, goal.turn


def _on_dream(goal: GoalState, event: Event) -> None:
    goal.remembering.dreamt_turn = goal.turn


def _ignore_event(goal: GoalState, event: Event) -> None:
    """Reported for others; the goal's state does not need it."""


# --- requests of people: pause, resume, cancel, message, raise a budget


def apply_control(goal: GoalState, event: Event) -> None:
    """Apply a control request; an unknown action is ignored."""
    request = parse_payload(event, goals.ControlRequested)
    handler = _CONTROL_HANDLERS.get(request.action) if request else None
    if request is not None and handler is not None:
        handler(goal, event, request)


def _on_pause(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    goal.is_paused = goal.outcome is None


def _on_resume(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    """Resume. A goal that ended without success starts again, with its counts of errors and crashes reset."""
    if is_goal_paused(goal) and goal.clock_from is not None and event.at is not None:
        goal.clock_from = max(goal.clock_from, event.at)
    goal.is_paused, goal.crashes = False, 0
    if goal.outcome is None or goal.outcome == "done":
        return
    goal.outcome, goal.ended_at, goal.why, goal.cancel, goal.settled = None, None, "", None, None
    goal.same = goal.waits = 0
    for row in list_axes("goal"):
        if row.is_in_a_row:
            set_amount(goal.spent, row, 0)
    if goal.roll_back_to is not None:  # a person may have changed the workspace since: keep it
        goal.roll_back_to, goal.is_interrupted = None, True


def _on_cancel(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    if goal.outcome is None:
        goal.cancel = request.reason or event.text or "called off"


def _on_message(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    text = request.value if isinstance(request.value, str) else event.text
    if text:
        message = OperatorMessage(id=event.id or "", by=event.actor or "somebody", text=text, at=event.at)
        goal.messages = [*goal.messages, message][-MAX_MESSAGES:]


def _on_budget_raise(goal: GoalState, event: Event, request: goals.ControlRequested) -> None:
    """Limits only grow, and none is added. 0 errors or overflows mean no limit.

    A turn that ends by a limit that was raised meanwhile does not end the goal.
    """
    for row, value in parse_limits(request.value):
        current = get_amount(goal.limits, row)
        if current is not None and value > current and not (current == 0 and row.is_unlimited_at_zero):
            set_amount(goal.limits, row, value)
            goal.settled = None if goal.settled == "budget_exhausted" else goal.settled
            if goal.attempt is not None:
                goal.attempt.is_raised = True


def parse_limits(value: Any) -> list[tuple[BudgetRow, float]]:
    """Parse the limits that a raise names, each axis once; invalid ones are left out."""
    limits: dict[str, tuple[BudgetRow, float]] = {}
    for name, limit in value.items() if isinstance(value, Mapping) else ():
        row = find_axis(name) if isinstance(name, str) else None
        if row is not None and row.unit == "seconds":
            limit = duration_seconds(limit) if isinstance(limit, str) else limit
        if row is None or isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < 1e15:
            continue
        limits[row.name] = (row, float(limit) if row.unit in ("seconds", "usd") else int(limit))
    return list(limits.values())


_CONTROL_HANDLERS: Mapping[str, Callable[[GoalState, Event, goals.ControlRequested], None]] = {
    "pause": _on_pause,
    "resume": _on_resume,
    "cancel": _on_cancel,
    "say": _on_message,
    "raise": _on_budget_raise,
}


EVENT_HANDLERS: Mapping[str, Callable[[GoalState, Event], None]] = {
    "driver.goal_started": _on_goal_started,
    "driver.goal_completed": _on_goal_completed,
    "driver.attempt_started": goal_turns.on_attempt_started,
    "driver.attempt_completed": goal_turns.on_attempt_completed,
    "driver.decision": _on_decision,
    "driver.acceptance": goal_turns.on_acceptance,
    "driver.budget_exhausted": _ignore_event,
    "driver.escalate": _ignore_event,
    "driver.replay_decision": goal_turns.on_replay_decision,
    "driver.compact_requested": _on_compact_requested,
    "driver.compact_completed": _on_compact_completed,
    "driver.compact_summary_stored": _on_summary_stored,
    "driver.extract_memories_completed": _on_memories_extracted,
    "driver.extract_memories_skipped": _on_extraction_skipped,
    "driver.auto_dream_outcome": _on_dream,
    "driver.progress": _ignore_event,
    "control.requested": apply_control,
    "goal.attempt_ended": goal_turns.on_attempt_ended,
    "goal.checkpointed": _on_checkpointed,
    "approval.requested": _on_permission_asked,
    "goal.permission_asked": _on_permission_asked,
    "goal.reserved": _on_child_reserved,
    "goal.session_bound": _on_session_bound,
    "goal.spent": _on_child_spent,
    "goal.waiting": _on_waiting,
    "model.replied": goal_turns.on_model_replied,
    "process.started": goal_turns.on_process_started,
    "tool.called": goal_turns.on_tool_called,
    "work.lease_taken": _on_lease_taken,
}
"""The kinds that affect a goal."""
