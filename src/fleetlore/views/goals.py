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
from fleetlore.views.goal_control import controlled
from fleetlore.views.goal_control import limits_in as limits_in
from fleetlore.views.goal_payloads import converted, dollars_in, earlier, kind_of, moment_in, read, reason_in, seconds_in, spent_in
from fleetlore.views.goal_payloads import label_of as label_of
from fleetlore.views.goal_payloads import usage_of as usage_of
from fleetlore.views.goal_state import (
    DECISIONS_KEPT,
    LONGEST_WORDS,
    QUESTIONS_KEPT,
    Checkpoint,
    Criterion,
    Decided,
    GoalState,
    Limits,
    Question,
    Spent,
    rests,
)
from fleetlore.views.goal_turns import CRITERIA_KEPT as CRITERIA_KEPT
from fleetlore.views.goal_turns import EXTRA as EXTRA
from fleetlore.views.goal_turns import FREE as FREE

VERSION = 3
GOALS_KEPT = 500
LONGEST_NAP = timedelta(days=7)
"""An agent that asks to sleep longer is woken after this."""


class Goals(Struct, kw_only=True):
    """All goals, the oldest first, up to so many. Encodes to JSON and back."""

    version: int = VERSION
    goals: dict[str, GoalState] = field(default_factory=dict)
    let_go: int = 0
    """How many are not kept any more."""


def initial() -> Goals:
    """The state before the first event."""
    return Goals()


def apply(state: Goals, event: Event) -> Goals:
    """The state after one more event; consumes the one that it is given."""
    if event.goal is None or event.kind not in HEARD:
        return state
    goal = state.goals.get(event.goal)
    if goal is None:
        goal = state.goals[event.goal] = GoalState(id=event.goal)
        _make_room(state)
    take(goal, event)
    return state


def take(goal: GoalState, event: Event) -> None:
    """Let one goal know one more event of its scope."""
    hear = HEARD.get(event.kind)
    if hear is None:
        return
    _count_time(goal, event)
    if event.kind not in _FROM_AFAR:
        goal.seen_at = event.at or goal.seen_at
    hear(goal, event)
    goal.position = event.position or goal.position


def _make_room(state: Goals) -> None:
    if len(state.goals) > GOALS_KEPT:
        oldest = next((id for id, goal in state.goals.items() if goal.outcome is not None), next(iter(state.goals)))
        del state.goals[oldest]
        state.let_go += 1


# --- time


_FROM_AFAR = frozenset(("control.requested", "goal.spent"))
"""Told by others, whose clocks are not the driver's."""
_TIMELESS = _FROM_AFAR | {"work.lease_taken"}
"""Told by others, or by a driver that has only just come: what lies before it is nobody's time."""


def _count_time(goal: GoalState, event: Event) -> None:
    """Time counts from one fact of the driver to the next, and not while the goal is paused, or nobody drives it."""
    if event.at is None or goal.clock_from is None or event.kind in _TIMELESS:
        return
    if not rests(goal):
        goal.spent.seconds += max(0.0, (event.at - goal.clock_from).total_seconds())
    was_set_back = event.at < goal.clock_from and event.kind.startswith(("driver.", "goal."))  # an agent's own clock is another one
    goal.clock_from = event.at if was_set_back else max(event.at, goal.clock_from)


def _lease_taken(goal: GoalState, event: Event) -> None:
    """Somebody drives it from now on: what lies between counts for nothing. A turn that is still open lost its driver."""
    goal.clock_from = event.at
    goal.crashes += goal.attempt is not None


# --- begin and end


def _started(goal: GoalState, event: Event) -> None:
    if goal.goal is not None:
        return
    told = read(event, driver.GoalStarted)
    goal.started, goal.at, goal.clock_from = event.id, event.at, event.at
    goal.agent, goal.description = event.agent or goal.agent, event.text or ""
    if told is None:
        return
    goal.goal, goal.description = told.goal, told.goal.description
    goal.plan = converted(told.goal.metadata.get(KEY), Plan)
    goal.agent = goal.plan.agent if goal.plan else goal.agent
    budget = told.goal.budget
    goal.limits = Limits(
        turns=budget.max_turns,
        seconds=seconds_in(budget.max_wall_time),
        tokens=budget.max_tokens,
        usd=None if goal.plan is None else goal.plan.max_usd,
        denies=budget.max_consecutive_denies,
        errors=budget.max_consecutive_errors,
        overflows=budget.max_consecutive_413,
    )
    goal.criteria = [Criterion(label=label_of(each)) for each in told.goal.acceptance[:CRITERIA_KEPT]]


def _completed(goal: GoalState, event: Event) -> None:
    told = read(event, driver.GoalCompleted)
    outcome = None if told is None else told.outcome
    goal.ended_at, goal.outcome = event.at, "unknown" if outcome is None else kind_of(outcome.outcome)
    goal.why = "" if outcome is None else reason_in(outcome.outcome)
    goal.settled, goal.wake, goal.clock_from = None, None, None
    goal.questions.clear()
    goal_turns.tell_above(goal)
    if outcome is not None and goal.plan is None:
        _take_usage(goal, outcome)


def _take_usage(goal: GoalState, outcome: GoalOutcome) -> None:
    goal.spent = spent_in(outcome.usage)
    goal.words = (outcome.final_text or goal.words)[:LONGEST_WORDS]


# --- our own facts


def _checkpointed(goal: GoalState, event: Event) -> None:
    told = read(event, goals.Checkpointed)
    if told is not None and told.sha:
        goal.checkpoint = Checkpoint(turn=told.turn or 0, sha=told.sha)
        goal.first_checkpoint = goal.first_checkpoint or told.sha
        goal.verifiers = goal.verifiers or told.verifiers


def _session_bound(goal: GoalState, event: Event) -> None:
    told = read(event, goals.SessionBound)
    if told is not None and told.session != goal.session:
        goal.session, goal.session_at, goal.context = told.session, event.at, None


def _waiting(goal: GoalState, event: Event) -> None:
    told = read(event, goals.GoalWaiting)
    if told is None:
        return
    goal.waiting_for = told.why
    until = moment_in(told.until)
    goal.wake = None if until is None or event.at is None else earlier(until, event.at, LONGEST_NAP)
    goal.settled = None if goal.settled in ("sleep", "continue") else goal.settled


def _spent_below(goal: GoalState, event: Event) -> None:
    told = read(event, goals.GoalSpent)
    if told is None:
        return
    if told.below == goal.id:  # of itself, in the midst of a turn
        goal.told = Spent(tokens=goal.told.tokens + max(0, told.tokens), usd=goal.told.usd + dollars_in(told.usd))
        return
    for account in (goal.spent, goal.below):
        account.turns += max(0, told.turns)
        account.tokens += max(0, told.tokens)
        account.usd += dollars_in(told.usd)


# --- permissions


def _asked(goal: GoalState, event: Event) -> None:
    told = read(event, goals.PermissionAsked)
    if told is not None and len(goal.questions) < QUESTIONS_KEPT:
        id = event.id or ""
        goal.questions[id] = Question(
            id=id, turn=told.turn or goal.turn, tool=told.tool, input=told.input, at=event.at, expires=told.expires
        )


def _decided(goal: GoalState, event: Event) -> None:
    told = read(event, driver.DecisionMade)
    goal.questions.pop(event.cause or "", None)
    if told is None:
        return
    decision, is_denied = told.decision, isinstance(told.decision.choice, Deny)
    if not isinstance(decision.choice, Observe):
        goal.spent.denies = goal.spent.denies + 1 if is_denied else 0
    goal.denied, goal.allowed = goal.denied + is_denied, goal.allowed + (not is_denied)
    decided = Decided(
        id=event.id or "",
        turn=decision.turn_index,
        tool=decision.tool,
        choice=kind_of(decision.choice),
        why=decision.rationale[:LONGEST_WORDS],
        at=event.at,
    )
    goal.decisions = [*goal.decisions[-DECISIONS_KEPT + 1 :], decided]


# --- compaction and memory


def _compact_requested(goal: GoalState, event: Event) -> None:
    told = read(event, driver.CompactRequested)
    goal.compacting.is_due = True
    goal.compacting.before = told.before_tokens if told else 0


def _compact_completed(goal: GoalState, event: Event) -> None:
    """Taken for a failure until a summary is stored, which follows at once where there is one."""
    compacting = goal.compacting
    compacting.is_due = False
    compacting.last_turn = goal.turn
    compacting.failures += 1
    compacting.opened_turn = goal.turn


def _summary_stored(goal: GoalState, event: Event) -> None:
    goal.compacting.failures, goal.compacting.opened_turn = 0, None
    goal.session, goal.context = None, None


def _extracted(goal: GoalState, event: Event) -> None:
    told = read(event, driver.ExtractMemoriesCompleted)
    goal.remembering.seen_turn = goal.remembering.last_turn = goal.turn
    goal.remembering.saved += told.memories_saved if told else 0
    goal.remembering.failures, goal.remembering.opened_turn = 0, None


def _extract_skipped(goal: GoalState, event: Event) -> None:
    kept = goal.remembering
    kept.seen_turn = goal.turn
    if event.data.get(f"{EXTRA}failed") is True:
        kept.failures, kept.last_turn, kept.opened_turn = kept.failures + 1, goal.turn, goal.turn


def _dreamt(goal: GoalState, event: Event) -> None:
    goal.remembering.dreamt_turn = goal.turn


def _nothing_more(goal: GoalState, event: Event) -> None:
    """Told for others; the goal knows it already."""


HEARD: Mapping[str, Callable[[GoalState, Event], None]] = {
    "driver.goal_started": _started,
    "driver.goal_completed": _completed,
    "driver.attempt_started": goal_turns.attempt_started,
    "driver.attempt_completed": goal_turns.attempt_completed,
    "driver.decision": _decided,
    "driver.acceptance": goal_turns.accepted,
    "driver.budget_exhausted": _nothing_more,
    "driver.escalate": _nothing_more,
    "driver.replay_decision": goal_turns.replayed,
    "driver.compact_requested": _compact_requested,
    "driver.compact_completed": _compact_completed,
    "driver.compact_summary_stored": _summary_stored,
    "driver.extract_memories_completed": _extracted,
    "driver.extract_memories_skipped": _extract_skipped,
    "driver.auto_dream_outcome": _dreamt,
    "driver.progress": _nothing_more,
    "control.requested": controlled,
    "goal.attempt_ended": goal_turns.attempt_ended,
    "goal.checkpointed": _checkpointed,
    "goal.permission_asked": _asked,
    "goal.session_bound": _session_bound,
    "goal.spent": _spent_below,
    "goal.waiting": _waiting,
    "model.replied": goal_turns.model_replied,
    "process.started": goal_turns.process_started,
    "tool.called": goal_turns.tool_called,
    "work.lease_taken": _lease_taken,
}
"""The kinds that say something of a goal."""
