"""Goals, turn by turn: what was spent, what was judged, what waits for a person, and where to go on. The driver decides by this fold alone.

A goal's facts are taken in the order of the log. Of goals that others drive, the sixteen steps tell less, and what they tell is shown.
`goal_turns.py` knows what a turn is, `goal_steering.py` what people may want, `goal_reading.py` how facts are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct, field

from fleetlore.events import driver, goals
from fleetlore.events.driver_types import Deny, GoalOutcome, Observe
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.views import goal_turns
from fleetlore.views.goal_control import apply_control
from fleetlore.views.goal_control import parse_limits as parse_limits
from fleetlore.views.goal_payloads import (
    convert_or_none,
    convert_usage,
    duration_seconds,
    limit_time,
    outcome_reason,
    parse_payload,
    parse_time,
    struct_tag,
    usd_or_zero,
)
from fleetlore.views.goal_payloads import criterion_label as criterion_label
from fleetlore.views.goal_payloads import goal_usage as goal_usage
from fleetlore.views.goal_state import (
    MAX_DECISIONS,
    MAX_QUESTIONS,
    MAX_WORDS_CHARS,
    CriterionState,
    GoalLimits,
    GoalState,
    GoalUsage,
    PendingPermission,
    PermissionDecision,
    TurnCheckpoint,
    is_goal_paused,
)
from fleetlore.views.goal_turns import EXTRA_PREFIX as EXTRA_PREFIX
from fleetlore.views.goal_turns import MAX_CRITERIA as MAX_CRITERIA
from fleetlore.views.goal_turns import UNCOUNTED_FAILURES as UNCOUNTED_FAILURES

VERSION = 3
GOALS_KEPT = 500
MAX_SLEEP = timedelta(days=7)
"""An agent that asks to sleep longer is woken after this."""


class GoalsState(Struct, kw_only=True):
    """All goals, the oldest first, up to so many. Encodes to JSON and back."""

    version: int = VERSION
    goals: dict[str, GoalState] = field(default_factory=dict)
    let_go: int = 0
    """How many are not kept any more."""


def initial() -> GoalsState:
    """The state before the first event."""
    return GoalsState()


def apply(state: GoalsState, event: Event) -> GoalsState:
    """The state after one more event; consumes the one that it is given."""
    if event.goal is None or event.kind not in EVENT_HANDLERS:
        return state
    goal = state.goals.get(event.goal)
    if goal is None:
        goal = state.goals[event.goal] = GoalState(id=event.goal)
        _drop_oldest_goal(state)
    apply_to_goal(goal, event)
    return state


def apply_to_goal(goal: GoalState, event: Event) -> None:
    """Let one goal know one more event of its scope."""
    hear = EVENT_HANDLERS.get(event.kind)
    if hear is None:
        return
    _count_time(goal, event)
    if event.kind not in _REMOTE_KINDS:
        goal.seen_at = event.at or goal.seen_at
    hear(goal, event)
    goal.position = event.position or goal.position


def _drop_oldest_goal(state: GoalsState) -> None:
    if len(state.goals) > GOALS_KEPT:
        oldest = next((id for id, goal in state.goals.items() if goal.outcome is not None), next(iter(state.goals)))
        del state.goals[oldest]
        state.let_go += 1


# --- time


_REMOTE_KINDS = frozenset(("control.requested", "goal.spent"))
"""Told by others, whose clocks are not the driver's."""
_UNTIMED_KINDS = _REMOTE_KINDS | {"work.lease_taken"}
"""Told by others, or by a driver that has only just come: what lies before it is nobody's time."""


def _count_time(goal: GoalState, event: Event) -> None:
    """Time counts from one fact of the driver to the next, and not while the goal is paused, or nobody drives it."""
    if event.at is None or goal.clock_from is None or event.kind in _UNTIMED_KINDS:
        return
    if not is_goal_paused(goal):
        goal.spent.seconds += max(0.0, (event.at - goal.clock_from).total_seconds())
    was_set_back = event.at < goal.clock_from and event.kind.startswith(("driver.", "goal."))  # an agent's own clock is another one
    goal.clock_from = event.at if was_set_back else max(event.at, goal.clock_from)


def _on_lease_taken(goal: GoalState, event: Event) -> None:
    """Somebody drives it from now on: what lies between counts for nothing. A turn that is still open lost its driver."""
    goal.clock_from = event.at
    goal.crashes += goal.attempt is not None


# --- begin and end


def _on_goal_started(goal: GoalState, event: Event) -> None:
    if goal.goal is not None:
        return
    told = parse_payload(event, driver.GoalStarted)
    goal.started, goal.at, goal.clock_from = event.id, event.at, event.at
    goal.agent, goal.description = event.agent or goal.agent, event.text or ""
    if told is None:
        return
    goal.goal, goal.description = told.goal, told.goal.description
    goal.plan = convert_or_none(told.goal.metadata.get(KEY), Plan)
    goal.agent = goal.plan.agent if goal.plan else goal.agent
    budget = told.goal.budget
    goal.limits = GoalLimits(
        turns=budget.max_turns,
        seconds=duration_seconds(budget.max_wall_time),
        tokens=budget.max_tokens,
        usd=None if goal.plan is None else goal.plan.max_usd,
        denies=budget.max_consecutive_denies,
        errors=budget.max_consecutive_errors,
        overflows=budget.max_consecutive_413,
    )
    goal.criteria = [CriterionState(label=criterion_label(each)) for each in told.goal.acceptance[:MAX_CRITERIA]]


def _on_goal_completed(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, driver.GoalCompleted)
    outcome = None if told is None else told.outcome
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


# --- our own facts


def _on_checkpointed(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, goals.Checkpointed)
    if told is not None and told.sha:
        goal.checkpoint = TurnCheckpoint(turn=told.turn or 0, sha=told.sha)
        goal.first_checkpoint = goal.first_checkpoint or told.sha
        goal.verifiers = goal.verifiers or told.verifiers


def _on_session_bound(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, goals.SessionBound)
    if told is not None and told.session != goal.session:
        goal.session, goal.session_at, goal.context = told.session, event.at, None


def _on_waiting(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, goals.GoalWaiting)
    if told is None:
        return
    goal.waiting_for = told.why
    until = parse_time(told.until)
    goal.wake = None if until is None or event.at is None else limit_time(until, event.at, MAX_SLEEP)
    goal.settled = None if goal.settled in ("sleep", "continue") else goal.settled


def _on_child_spent(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, goals.GoalSpent)
    if told is None:
        return
    if told.below == goal.id:  # of itself, in the midst of a turn
        goal.told = GoalUsage(tokens=goal.told.tokens + max(0, told.tokens), usd=goal.told.usd + usd_or_zero(told.usd))
        return
    for account in (goal.spent, goal.below):
        account.turns += max(0, told.turns)
        account.tokens += max(0, told.tokens)
        account.usd += usd_or_zero(told.usd)


# --- permissions


def _on_permission_asked(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, goals.PermissionAsked)
    if told is not None and len(goal.questions) < MAX_QUESTIONS:
        id = event.id or ""
        goal.questions[id] = PendingPermission(
            id=id, turn=told.turn or goal.turn, tool=told.tool, input=told.input, at=event.at, expires=told.expires
        )


def _on_decision(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, driver.DecisionMade)
    goal.questions.pop(event.cause or "", None)
    if told is None:
        return
    decision, is_denied = told.decision, isinstance(told.decision.choice, Deny)
    if not isinstance(decision.choice, Observe):
        goal.spent.denies = goal.spent.denies + 1 if is_denied else 0
    goal.denied, goal.allowed = goal.denied + is_denied, goal.allowed + (not is_denied)
    decided = PermissionDecision(
        id=event.id or "",
        turn=decision.turn_index,
        tool=decision.tool,
        choice=struct_tag(decision.choice),
        why=decision.rationale[:MAX_WORDS_CHARS],
        at=event.at,
    )
    goal.decisions = [*goal.decisions[-MAX_DECISIONS + 1 :], decided]


# --- compaction and memory


def _on_compact_requested(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, driver.CompactRequested)
    goal.compacting.is_due = True
    goal.compacting.before = told.before_tokens if told else 0


def _on_compact_completed(goal: GoalState, event: Event) -> None:
    """Taken for a failure until a summary is stored, which follows at once where there is one."""
    compacting = goal.compacting
    compacting.is_due = False
    compacting.last_turn = goal.turn
    compacting.failures += 1
    compacting.opened_turn = goal.turn


def _on_summary_stored(goal: GoalState, event: Event) -> None:
    goal.compacting.failures, goal.compacting.opened_turn = 0, None
    goal.session, goal.context = None, None


def _on_memories_extracted(goal: GoalState, event: Event) -> None:
    told = parse_payload(event, driver.ExtractMemoriesCompleted)
    goal.remembering.seen_turn = goal.remembering.last_turn = goal.turn
    goal.remembering.saved += told.memories_saved if told else 0
    goal.remembering.failures, goal.remembering.opened_turn = 0, None


def _on_extraction_skipped(goal: GoalState, event: Event) -> None:
    kept = goal.remembering
    kept.seen_turn = goal.turn
    if event.data.get(f"{EXTRA_PREFIX}failed") is True:
        kept.failures, kept.last_turn, kept.opened_turn = kept.failures + 1, goal.turn, goal.turn


def _on_dream(goal: GoalState, event: Event) -> None:
    goal.remembering.dreamt_turn = goal.turn


def _ignore_event(goal: GoalState, event: Event) -> None:
    """Told for others; the goal knows it already."""


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
    "goal.permission_asked": _on_permission_asked,
    "goal.session_bound": _on_session_bound,
    "goal.spent": _on_child_spent,
    "goal.waiting": _on_waiting,
    "model.replied": goal_turns.on_model_replied,
    "process.started": goal_turns.on_process_started,
    "tool.called": goal_turns.on_tool_called,
    "work.lease_taken": _on_lease_taken,
}
"""The kinds that say something of a goal."""
