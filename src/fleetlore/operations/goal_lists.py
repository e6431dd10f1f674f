"""Goals as lists for terminals and programs, and the whole state of one goal. `goal_page.py` is for the page."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from fleetlore.errors import Invalid
from fleetlore.operations.context import OperationContext
from fleetlore.operations.goals import find_goal_id, list_goal_ids, read_goal
from fleetlore.operations.request import Name, Request
from fleetlore.operations.table import Argument
from fleetlore.projections.signed_views import SignedGoals
from fleetlore.views.goal_state import (
    GoalLimits,
    GoalState,
    GoalStatus,
    elapsed_seconds,
    goal_status,
    is_goal_stopped,
    used_tokens,
    used_usd,
)

LATELY = timedelta(days=2)
"""Goals that ended within this time are listed without `all`."""
ENDED = ("done", "spent", "cancelled")
NO_GOALS = "there are no goals on this log yet; start one with `lore goal run FILE`"
MIN_ID_CHARS = 8
"""Characters of an id that are shown, unless more are needed."""
_START = datetime(1970, 1, 1, tzinfo=UTC)


# --- all goals


class ListGoals(Request, kw_only=True):
    """Which goals."""

    all: Annotated[bool, Meta(description="also goals that ended more than two days ago")] = False


class GoalSpending(Struct, kw_only=True):
    """What a goal has used."""

    turns: int
    seconds: float
    tokens: int
    usd: float


class CriteriaCount(Struct, kw_only=True):
    """How many criteria are met."""

    met: int
    all: int


class GoalSummary(Struct, kw_only=True):
    """One goal in a list."""

    id: str
    agent: str
    description: str
    state: GoalStatus
    why: str
    turn: int
    at: datetime | None
    ended_at: datetime | None
    driver: str | None
    """The machine and process that run it."""
    parent: str | None
    spent: GoalSpending
    limits: GoalLimits
    criteria: CriteriaCount
    questions: int
    is_stopped: bool
    """Whether it is open, and no process runs it."""


class GoalSummaries(Struct, kw_only=True):
    """Goals, newest first."""

    goals: list[GoalSummary]
    ids: dict[str, str]
    """Id → its shortest unique prefix."""
    hidden: int
    """How many more ended more than two days ago."""


def list_goals(context: OperationContext, request: ListGoals) -> GoalSummaries:
    """Goals, newest first; long ended ones only with `all`. On a sealed log only signed ones."""
    now = context.now()
    with context.source.open_view("goals") as (state, _):
        assert isinstance(state, SignedGoals)
        trusted = state.goals.values() if not context.is_sealed() else [each for id, each in state.goals.items() if id in state.signed]
        goals = deepcopy(sorted(trusted, key=lambda goal: goal.at or _START, reverse=True))
    shown = [goal for goal in goals if request.all or goal_status(goal, now) not in ENDED or now - (goal.ended_at or now) < LATELY]
    ids = shorten_ids([goal.id for goal in goals])
    return GoalSummaries(
        goals=[_summarise_goal(context, goal, now) for goal in shown],
        ids={goal.id: ids[goal.id] for goal in shown},
        hidden=len(goals) - len(shown),
    )


def _summarise_goal(context: OperationContext, goal: GoalState, now: datetime) -> GoalSummary:
    driver = context.find_holder(f"goal:{goal.id}") if goal.outcome is None else None
    return GoalSummary(
        id=goal.id,
        agent=goal.agent,
        description=goal.description,
        state=goal_status(goal, now),
        why=goal.why or goal.waiting_for,
        turn=goal.turn,
        at=goal.at,
        ended_at=goal.ended_at,
        driver=driver,
        parent=goal.parent,
        spent=GoalSpending(turns=goal.spent.turns, seconds=elapsed_seconds(goal, now), tokens=used_tokens(goal), usd=used_usd(goal)),
        limits=goal.limits,
        criteria=CriteriaCount(met=sum(each.met is True for each in goal.criteria), all=len(goal.criteria)),
        questions=len(goal.questions),
        is_stopped=is_goal_stopped(goal, now, is_driven=driver is not None),
    )


def shorten_ids(known: list[str], min_chars: int = MIN_ID_CHARS) -> dict[str, str]:
    """Id → its shortest unique prefix, which does not end with a dash."""
    return {id: _shorten_id(id, known, min_chars) for id in known}


def _shorten_id(id: str, known: list[str], min_chars: int) -> str:
    for size in range(min_chars, len(id)):
        prefix = id[:size]
        if not prefix.endswith("-") and sum(other.startswith(prefix) for other in known) == 1:
            return prefix
    return id


# --- one goal


class ShowGoal(Request, kw_only=True):
    """Which goal."""

    id: (
        Annotated[Name, Meta(description="goal id, or a unique prefix (default: the newest)"), Argument(metavar="ID", positional=True)]
        | None
    ) = None


class ShownGoal(Struct, kw_only=True):
    """One goal, as its fold has it."""

    goal: GoalState
    state: GoalStatus
    seconds: float
    """Time spent on it."""
    driver: str | None
    """The machine and process that run it."""
    short: str
    """The shortest unique prefix of its id."""
    is_sealed: bool


def show_goal(context: OperationContext, request: ShowGoal) -> ShownGoal:
    """One goal in detail; without an id the newest."""
    known = list_goal_ids(context.log)
    if not known:
        raise Invalid(NO_GOALS)
    goal, now = read_goal(context, find_goal_id(context.log, request.id) if request.id else known[-1]), context.now()
    return ShownGoal(
        goal=goal,
        state=goal_status(goal, now),
        seconds=elapsed_seconds(goal, now),
        driver=context.find_holder(f"goal:{goal.id}"),
        short=shorten_ids(known)[goal.id],
        is_sealed=context.is_sealed(),
    )
