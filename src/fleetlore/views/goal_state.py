"""One goal as it stands: what the fold of `goals.py` comes to, what the driver goes by, and what people are shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from fleetlore.events.driver_types import BudgetAxis, Failure, Goal, Verdict
from fleetlore.events.goal_plan import Plan

MAX_TURNS = 200
MAX_DECISIONS = 20
MAX_MESSAGES = 50
MAX_QUESTIONS = 50
MAX_WORDS_CHARS = 2000
"""Of what an agent said in a turn, so much is kept."""
MAX_SUMMARY_CHARS = 16_000

GoalStatus: TypeAlias = Literal["working", "checking", "waiting", "asking", "paused", "done", "spent", "needs you", "cancelled"]
"""`checking`: the agent's part is over, its work is judged. `spent`: a budget ran out."""


class GoalLimits(Struct, kw_only=True):
    """What a goal may use. Of errors, denies and overflows so many in a row; nought errors or overflows: no limit."""

    turns: int = 40
    seconds: float = 4 * 3600.0
    tokens: int = 2_000_000
    usd: float | None = None
    denies: int = 3
    errors: int = 5
    overflows: int = 2


class GoalUsage(Struct, kw_only=True):
    """What was used: by the goal itself, and by the goals below it."""

    turns: int = 0
    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    denies: int = 0
    errors: int = 0
    overflows: int = 0


class OperatorMessage(Struct, frozen=True, kw_only=True):
    """What a person says to the agent, for its next turn."""

    id: str
    by: str
    text: str
    at: datetime | None = None


class PendingPermission(Struct, frozen=True, kw_only=True):
    """A tool that a person is asked about."""

    id: str
    turn: int
    tool: str
    input: Any = None
    at: datetime | None = None
    expires: str | None = None


class PermissionDecision(Struct, frozen=True, kw_only=True):
    """What was decided about a tool."""

    id: str
    turn: int
    tool: str
    choice: str
    why: str
    at: datetime | None = None


class TurnProcess(Struct, frozen=True, kw_only=True):
    """A process that was started for a turn."""

    pid: int
    group: int
    born: str
    command: str = ""


class AttemptEnd(Struct, frozen=True, kw_only=True):
    """How the agent's part of a turn ended, as `goal.attempt_ended` tells it."""

    id: str
    how: str
    complaint: str | None = None
    error: str = ""
    words: str = ""
    until: str | None = None


class OpenAttempt(Struct, kw_only=True):
    """A turn that was begun and is not settled yet."""

    id: str
    """Of its `driver.attempt_started`; the mark that its processes carry."""
    turn: int
    at: datetime | None = None
    is_summary: bool = False
    messages: list[OperatorMessage] = field(default_factory=list)
    """What is said to the agent in it."""
    processes: list[TurnProcess] = field(default_factory=list)
    tokens: int = 0
    usd: float = 0.0
    calls: int = 0
    last_tool: str = ""
    is_raised: bool = False
    """Whether it may spend more by now than it was told when it began."""
    ending: AttemptEnd | None = None


class SettledTurn(Struct, frozen=True, kw_only=True):
    """A turn that is settled."""

    number: int
    id: str
    """Of its `driver.attempt_completed`."""
    outcome: str
    counts: bool = True
    complaint: str | None = None
    words: str = ""
    at: datetime | None = None
    ended_at: datetime | None = None
    tokens: int = 0
    usd: float = 0.0
    failing: int | None = None
    """Criteria that were not met; `None` where none was checked."""
    diff: str = ""


class CriterionState(Struct, kw_only=True):
    """A criterion, and what its last check came to."""

    label: str
    met: bool | None = None
    message: str = ""
    evidence: str = ""


class TurnCheckpoint(Struct, frozen=True, kw_only=True):
    """The workspace as it was before a turn."""

    turn: int
    sha: str


class CompactionState(Struct, kw_only=True):
    """How the agent's context is kept small."""

    is_due: bool = False
    """A summary was asked for, and has not come yet."""
    before: int = 0
    last_turn: int = 0
    failures: int = 0
    opened_turn: int | None = None
    """When it failed last."""


class ExtractionState(Struct, kw_only=True):
    """What was written down, up to which turn it was seen to."""

    seen_turn: int = 0
    saved: int = 0
    last_turn: int = 0
    failures: int = 0
    opened_turn: int | None = None
    dreamt_turn: int = 0


def first_paragraph(description: str) -> str:
    """What a goal is, in short: the first paragraph of its description."""
    return description.strip().partition("\n\n")[0]


class GoalState(Struct, kw_only=True):
    """All that is known of one goal."""

    id: str
    goal: Goal | None = None
    """As it was begun; `None` where its beginning is not on the log, or is no goal."""
    plan: Plan | None = None
    """`None` where somebody else's driver pursues it."""
    agent: str = ""
    description: str = ""
    started: str | None = None
    at: datetime | None = None
    seen_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    """How it ended: `done`, `budget_exhausted`, `escalate`, `cancelled` and the like."""
    why: str = ""
    """The axis or the reason, where it ended otherwise than well."""
    words: str = ""
    """What the agent said last."""
    limits: GoalLimits = field(default_factory=GoalLimits)
    spent: GoalUsage = field(default_factory=GoalUsage)
    below: GoalUsage = field(default_factory=GoalUsage)
    """Of that, what goals below this one used."""
    told: GoalUsage = field(default_factory=GoalUsage)
    """Of the tokens and dollars of its own, what goals above it were told of."""
    clock_from: datetime | None = None
    """Since when time is counted that is not in `spent` yet; `None` while nobody drives it, or it is paused."""
    attempt: OpenAttempt | None = None
    settled: str | None = None
    """How the newest turn was settled, as long as that has not been followed: an outcome's kind."""
    settled_why: str = ""
    turn: int = 0
    """The newest turn."""
    turns: list[SettledTurn] = field(default_factory=list)
    criteria: list[CriterionState] = field(default_factory=list)
    verdict: Verdict | None = None
    """The newest."""
    checked: str | None = None
    """The event of the newest verdict."""
    failures: list[Failure] = field(default_factory=list)
    """What the next prompt has to tell."""
    put_back: list[str] = field(default_factory=list)
    """Files that check the agent, and that it changed in its last turn for nothing."""
    messages: list[OperatorMessage] = field(default_factory=list)
    questions: dict[str, PendingPermission] = field(default_factory=dict)
    decisions: list[PermissionDecision] = field(default_factory=list)
    denied: int = 0
    allowed: int = 0
    is_paused: bool = False
    cancel: str | None = None
    """Why it is to be called off, once somebody asked for that."""
    wake: datetime | None = None
    waiting_for: str = ""
    waits: int = 0
    """How often in a row it had to wait for an endpoint or the network."""
    session: str | None = None
    session_at: datetime | None = None
    context: int | None = None
    crashes: int = 0
    """How many drivers in a row ended in the middle of a turn, or of the check after it."""
    is_interrupted: bool = False
    """Whether the turn before was cut short, and the agent is to be told."""
    checkpoint: TurnCheckpoint | None = None
    first_checkpoint: str | None = None
    """The workspace as it was before the first turn."""
    verifiers: str | None = None
    """A digest of what the criteria are checked with."""
    roll_back_to: str | None = None
    summary: str = ""
    compacting: CompactionState = field(default_factory=CompactionState)
    remembering: ExtractionState = field(default_factory=ExtractionState)
    mark: str | None = None
    """A digest of workspace, criteria and words after the newest turn, and how many turns in a row had it."""
    same: int = 0
    unsigned: int = 0
    """Control facts that were not obeyed, because this log is sealed and they are not signed."""
    position: str | None = None
    """Of the newest event that is in it."""

    @property
    def parent(self) -> str | None:
        """The goal above it."""
        return None if self.plan is None else self.plan.parent


def goal_status(goal: GoalState, now: datetime) -> GoalStatus:
    """Where a goal stands, in a word."""
    ended: dict[str, GoalStatus] = {"done": "done", "budget_exhausted": "spent", "cancelled": "cancelled"}
    if goal.outcome is not None:
        return ended.get(goal.outcome, "needs you")
    if goal.questions:
        return "asking"
    if goal.attempt is not None:
        return "working" if goal.attempt.ending is None else "checking"
    if goal.is_paused:
        return "paused"
    return "waiting" if goal.wake is not None and now < goal.wake else "working"


def is_goal_paused(goal: GoalState) -> bool:
    """Whether it is paused, and the turn in which that was asked for is over."""
    return goal.is_paused and goal.attempt is None


def elapsed_seconds(goal: GoalState, now: datetime) -> float:
    """The time that was spent on a goal, up to now if it is being driven."""
    since = 0.0 if goal.clock_from is None or is_goal_paused(goal) else max(0.0, (now - goal.clock_from).total_seconds())
    return goal.spent.seconds + since


def used_tokens(goal: GoalState) -> int:
    """Tokens, those of the open turn included."""
    return goal.spent.tokens + (0 if goal.attempt is None else goal.attempt.tokens)


def used_usd(goal: GoalState) -> float:
    """US dollars, those of the open turn included."""
    return goal.spent.usd + (0.0 if goal.attempt is None else goal.attempt.usd)


def unreported_usage(goal: GoalState, *, tokens: int, usd: float) -> GoalUsage:
    """What goals above have not been told of yet, with so much in the open turn."""
    spent, below, told = goal.spent, goal.below, goal.told
    return GoalUsage(tokens=spent.tokens - below.tokens - told.tokens + tokens, usd=spent.usd - below.usd - told.usd + usd)


def exhausted_budget(goal: GoalState, now: datetime) -> BudgetAxis | None:
    """The first budget that is used up, in the order in which they are told."""
    spent, limits = goal.spent, goal.limits
    axes: tuple[tuple[BudgetAxis, bool], ...] = (
        ("turns", spent.turns >= limits.turns),
        ("wall_time", elapsed_seconds(goal, now) >= limits.seconds),
        ("tokens", used_tokens(goal) >= limits.tokens),
        ("usd", limits.usd is not None and used_usd(goal) >= limits.usd),
        ("consecutive_denies", spent.denies >= limits.denies),
        ("consecutive_errors", 0 < limits.errors <= spent.errors),
        ("consecutive413", 0 < limits.overflows <= spent.overflows),
    )
    return next((axis for axis, is_used_up in axes if is_used_up), None)
