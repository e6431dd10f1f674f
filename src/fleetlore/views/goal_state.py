"""The state of one goal, as the fold in `goals.py` computes it. The driver decides by it, and pages show it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.documents import durations
from fleetlore.errors import Invalid
from fleetlore.events import driver_types
from fleetlore.events.budget_axes import BudgetRow, BudgetUse, list_axes, list_uses
from fleetlore.events.driver_types import BudgetSpent, BudgetUsage, Cancelled, Continue, Escalate, Failure, Goal, Sleep, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan

_T = TypeVar("_T")

MAX_TURNS = 200
MAX_DECISIONS = 20
MAX_MESSAGES = 50
MAX_QUESTIONS = 50
MAX_WORDS_CHARS = 2000
"""Characters kept of what an agent said in a turn."""
MAX_SUMMARY_CHARS = 16_000

GoalStatus: TypeAlias = Literal["working", "checking", "waiting", "asking", "paused", "done", "spent", "needs you", "cancelled"]
"""`checking`: the agent is done and its work is being judged. `spent`: a budget is exhausted."""


class GoalLimits(Struct, kw_only=True):
    """The budget of a goal, by the fields of `events.budget_axes`. 0 errors or overflows: no limit."""

    turns: int = 40
    seconds: float = 4 * 3600.0
    tokens: int = 2_000_000
    usd: float | None = None
    denies: int = 3
    errors: int = 5
    overflows: int = 2
    others: dict[str, float] = field(default_factory=dict)
    """Axes that are counted from events, by name; an axis that is missing has no limit."""


class GoalUsage(Struct, kw_only=True):
    """What was used by the goal itself and its subgoals."""

    turns: int = 0
    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    denies: int = 0
    errors: int = 0
    overflows: int = 0
    others: dict[str, float] = field(default_factory=dict)
    """Axes that are counted from events, by name."""


class Reservation(Struct, frozen=True, kw_only=True):
    """What a child goal reserved of a budget."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    at: datetime | None = None


class OperatorMessage(Struct, frozen=True, kw_only=True):
    """A person's message to the agent, for its next turn."""

    id: str
    by: str
    text: str
    at: datetime | None = None


class PendingPermission(Struct, frozen=True, kw_only=True):
    """A tool call that waits for a person's decision."""

    id: str
    turn: int
    tool: str
    input: Any = None
    at: datetime | None = None
    expires: str | None = None


class PermissionDecision(Struct, frozen=True, kw_only=True):
    """A decision about a tool call."""

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
    """How the agent's part of a turn ended, from `goal.attempt_ended`."""

    id: str
    how: str
    complaint: str | None = None
    error: str = ""
    words: str = ""
    until: str | None = None


class OpenAttempt(Struct, kw_only=True):
    """A turn that was started and is not settled yet."""

    id: str
    """Id of its `driver.attempt_started`; its processes are marked with it."""
    turn: int
    at: datetime | None = None
    is_summary: bool = False
    messages: list[OperatorMessage] = field(default_factory=list)
    """Messages given to the agent in this turn."""
    processes: list[TurnProcess] = field(default_factory=list)
    tokens: int = 0
    usd: float = 0.0
    calls: int = 0
    last_tool: str = ""
    is_raised: bool = False
    """Whether its budget was raised after it began."""
    ending: AttemptEnd | None = None


class SettledTurn(Struct, frozen=True, kw_only=True):
    """A settled turn."""

    number: int
    id: str
    """Id of its `driver.attempt_completed`."""
    outcome: str
    counts: bool = True
    complaint: str | None = None
    words: str = ""
    at: datetime | None = None
    ended_at: datetime | None = None
    tokens: int = 0
    usd: float = 0.0
    failing: int | None = None
    """Number of criteria not met; `None` if none was checked."""
    diff: str = ""


class CriterionState(Struct, kw_only=True):
    """A criterion and the result of its last check."""

    label: str
    met: bool | None = None
    message: str = ""
    evidence: str = ""


class TurnCheckpoint(Struct, frozen=True, kw_only=True):
    """The workspace as it was before a turn."""

    turn: int
    sha: str


class CompactionState(Struct, kw_only=True):
    """State of context compaction."""

    is_due: bool = False
    """A summary was requested and has not come yet."""
    before: int = 0
    last_turn: int = 0
    failures: int = 0
    opened_turn: int | None = None
    """The turn in which it last failed."""


class ExtractionState(Struct, kw_only=True):
    """State of memory extraction: which turns were processed."""

    seen_turn: int = 0
    saved: int = 0
    last_turn: int = 0
    failures: int = 0
    opened_turn: int | None = None
    dreamt_turn: int = 0


def first_paragraph(description: str) -> str:
    """The first paragraph of a goal's description."""
    return description.strip().partition("\n\n")[0]


class GoalState(Struct, kw_only=True):
    """Everything known about one goal."""

    id: str
    goal: Goal | None = None
    """As it was started; `None` if the start is not in the log or is invalid."""
    plan: Plan | None = None
    """`None` if another program's driver runs it."""
    agent: str = ""
    description: str = ""
    started: str | None = None
    at: datetime | None = None
    seen_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    """How it ended: `done`, `budget_exhausted`, `escalate`, `cancelled` and others."""
    why: str = ""
    """The budget axis or the reason, if it ended without success."""
    words: str = ""
    """What the agent said last."""
    limits: GoalLimits = field(default_factory=GoalLimits)
    spent: GoalUsage = field(default_factory=GoalUsage)
    below: GoalUsage = field(default_factory=GoalUsage)
    """The part of `spent` that subgoals used."""
    reserved: dict[str, Reservation] = field(default_factory=dict)
    """By child goal; its next call may spend it."""
    largest_call: Reservation = Reservation()
    """The largest use that a child goal reported at once."""
    reported: GoalUsage = field(default_factory=GoalUsage, name="told")
    """The part of its own tokens and dollars that was reported to parent goals."""
    clock_from: datetime | None = None
    """Start of the time not yet in `spent`; `None` while nobody drives it or it is paused."""
    attempt: OpenAttempt | None = None
    settled: str | None = None
    """How the newest turn was settled, until the driver acts on it: an outcome's kind."""
    settled_why: str = ""
    turn: int = 0
    """The newest turn."""
    turns: list[SettledTurn] = field(default_factory=list)
    criteria: list[CriterionState] = field(default_factory=list)
    verdict: Verdict | None = None
    """The newest verdict."""
    checked: str | None = None
    """Id of the event with the newest verdict."""
    failures: list[Failure] = field(default_factory=list)
    """Failures to report in the next prompt."""
    touched: list[str] = field(default_factory=list)
    """Judging files that the agent had changed at the newest check: `changed Makefile (configuration); the original was used`."""
    sandbox: list[str] | None = None
    """The walls of the sandbox of the newest check; `None` if it ran no command."""
    messages: list[OperatorMessage] = field(default_factory=list)
    questions: dict[str, PendingPermission] = field(default_factory=dict)
    decisions: list[PermissionDecision] = field(default_factory=list)
    denied: int = 0
    allowed: int = 0
    is_paused: bool = False
    cancel: str | None = None
    """The reason for cancelling, once that was requested."""
    wake: datetime | None = None
    waiting_for: str = ""
    waits: int = 0
    """How often in a row it had to wait for an endpoint or the network."""
    session: str | None = None
    session_at: datetime | None = None
    context: int | None = None
    crashes: int = 0
    """How many drivers in a row died during a turn or the check after it."""
    is_interrupted: bool = False
    """Whether the previous turn was interrupted; the prompt says so."""
    checkpoint: TurnCheckpoint | None = None
    first_checkpoint: str | None = None
    """The workspace before the first turn."""
    verifiers: str | None = None
    """Digest of the files that the criteria are checked with."""
    roll_back_to: str | None = None
    summary: str = ""
    compacting: CompactionState = field(default_factory=CompactionState)
    remembering: ExtractionState = field(default_factory=ExtractionState)
    mark: str | None = None
    """Digest of workspace, criteria and words after the newest turn; `same` counts turns in a row with it."""
    same: int = 0
    unsigned: int = 0
    """Control requests that were ignored because the log is sealed and they are not signed."""
    position: str | None = None
    """Position of the newest event."""

    @property
    def parent(self) -> str | None:
        """The parent goal."""
        return None if self.plan is None else self.plan.parent


BUDGET_QUESTION = "a spent budget:"
"""How `waiting_for` begins while a goal waits for a person to raise a budget."""


def goal_status(goal: GoalState, now: datetime) -> GoalStatus:
    """The status of a goal at a time."""
    status_by_outcome: dict[str, GoalStatus] = {"done": "done", "budget_exhausted": "spent", "cancelled": "cancelled"}
    if goal.outcome is not None:
        return status_by_outcome.get(goal.outcome, "needs you")
    if goal.questions or (goal.attempt is None and goal.waiting_for.startswith(BUDGET_QUESTION)):
        return "asking"
    if goal.attempt is not None:
        return "working" if goal.attempt.ending is None else "checking"
    if goal.is_paused:
        return "paused"
    return "waiting" if goal.wake is not None and now < goal.wake else "working"


def is_goal_paused(goal: GoalState) -> bool:
    """Whether it is paused and its last turn is over."""
    return goal.is_paused and goal.attempt is None


def is_goal_stopped(goal: GoalState, now: datetime, *, is_driven: bool) -> bool:
    """Whether an open goal of ours has no driver and should have one. Whether other programs drive their goals is not known."""
    return goal.outcome is None and goal.plan is not None and not is_driven and goal_status(goal, now) != "paused"


def elapsed_seconds(goal: GoalState, now: datetime) -> float:
    """The time spent on a goal, up to now if it is being driven."""
    since = 0.0 if goal.clock_from is None or is_goal_paused(goal) else max(0.0, (now - goal.clock_from).total_seconds())
    return goal.spent.seconds + since


def used_tokens(goal: GoalState) -> int:
    """Tokens used, including the open turn."""
    return goal.spent.tokens + (0 if goal.attempt is None else goal.attempt.tokens)


def used_usd(goal: GoalState) -> float:
    """US dollars used, including the open turn."""
    return goal.spent.usd + (0.0 if goal.attempt is None else goal.attempt.usd)


def unreported_usage(goal: GoalState, *, tokens: int, usd: float) -> GoalUsage:
    """Usage not yet reported to parent goals, with the given amounts for the open turn."""
    spent, below, reported = goal.spent, goal.below, goal.reported
    return GoalUsage(
        tokens=spent.tokens - below.tokens - reported.tokens + tokens,
        usd=spent.usd - below.usd - reported.usd + usd,
        others={name: used - below.others.get(name, 0) - reported.others.get(name, 0) for name, used in spent.others.items()},
    )


def current_usage(goal: GoalState, now: datetime) -> GoalUsage:
    """What a goal has used by now, including the open turn."""
    return replace(goal.spent, seconds=elapsed_seconds(goal, now), tokens=used_tokens(goal), usd=used_usd(goal))


def add_usage(usage: GoalUsage, more: GoalUsage) -> GoalUsage:
    """Add tokens, dollars and what is counted from events."""
    others = {name: usage.others.get(name, 0) + more.others.get(name, 0) for name in (*usage.others, *more.others)}
    return replace(usage, tokens=usage.tokens + more.tokens, usd=usage.usd + more.usd, others=others)


def list_budgets(goal: GoalState, now: datetime) -> list[BudgetUse]:
    """The use of each budget, in the order of the table."""
    return list_uses(list_axes("goal"), current_usage(goal, now), goal.limits)


# --- payloads of goal events: invalid data never raises


def parse_payload(event: Event, payload: type[_T]) -> _T | None:
    """Convert an event's payload; `None` if it is invalid."""
    return convert_or_none(event.data, payload)


def convert_or_none(value: Any, type: type[_T]) -> _T | None:
    """Convert a value; `None` if it is invalid."""
    try:
        return msgspec.convert(value, type)
    except (msgspec.ValidationError, RecursionError):
        return None


def struct_tag(struct: Struct) -> str:
    """The struct's tag on the wire."""
    return str(struct.__struct_config__.tag)


def outcome_reason(outcome: Struct) -> str:
    """The reason of an outcome; empty if it has none."""
    match outcome:
        case Escalate(reason=reason) | Continue(reason=reason) | Sleep(reason=reason):
            return reason
        case BudgetSpent(axis=axis):
            return axis
        case Cancelled():
            return "called off"
    return ""


def convert_usage(usage: BudgetUsage) -> GoalUsage:
    """Convert the usage that another program's driver reports."""
    return GoalUsage(**{row.key: _parse_amount(row, getattr(usage, row.guard)) for row in list_axes("goal") if row.guard})


def goal_usage(goal: GoalState, now: datetime) -> BudgetUsage:
    """The usage of a goal in the nexo format."""
    usage = current_usage(goal, now)
    return BudgetUsage(**{row.guard: format_amount(row, getattr(usage, row.key)) for row in list_axes("goal") if row.guard})


def read_limits(goal: Goal, plan: Plan | None) -> GoalLimits:
    """The limits of a goal: those of its budget, and those of our axes in its plan."""
    limits = GoalLimits(**{row.key: _parse_amount(row, getattr(goal.budget, f"max_{row.guard}")) for row in list_axes("goal") if row.guard})
    if plan is not None:
        limits.usd = plan.max_usd
        limits.others = dict(plan.max_others)
    return limits


def add_others(others: Mapping[str, float], more: Mapping[str, float] | None) -> dict[str, float]:
    """Add the use of axes that are counted from events; implausible amounts in `more` count as zero."""
    return {name: others.get(name, 0) + amount_or_zero((more or {}).get(name, 0)) for name in (*others, *(more or {}))}


def format_amount(row: BudgetRow, amount: Any) -> Any:
    """An amount in the nexo format."""
    return durations.format_duration(round(amount * 1000) * 1_000_000) if row.unit == "seconds" else amount


def _parse_amount(row: BudgetRow, amount: Any) -> Any:
    return duration_seconds(amount) if row.unit == "seconds" else amount


def duration_seconds(text: str) -> float:
    """Parse a duration to seconds; 0 if it is invalid."""
    try:
        return durations.parse_duration(text) / 1e9
    except Invalid:
        return 0.0


def parse_time(text: str | None) -> datetime | None:
    """Parse a time, in UTC if it names no zone; `None` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def count_or_zero(value: Any) -> int:
    """Return a plausible count, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1e12 else 0


def usd_or_zero(value: Any) -> float:
    """Return a plausible amount of dollars, else 0."""
    amount = amount_or_zero(value)
    return amount if amount < 1e9 else 0.0


def amount_or_zero(value: Any) -> float:
    """Return a plausible amount in any unit, else 0."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0.0


def limit_time(moment: datetime, start: datetime, span: timedelta) -> datetime:
    """Limit a time to at most `span` after `start`."""
    return moment if moment - start <= span else start + span


def text_or_empty(value: Any) -> str:
    """Return a string, else the empty one."""
    return value if isinstance(value, str) else ""


def criterion_label(criterion: Any) -> str:
    """The name of a criterion in verdicts."""
    match criterion:
        case driver_types.ShellCommand():
            return f"shell:{criterion.command}"
        case driver_types.FileMatches():
            return f"file:{criterion.path}"
        case driver_types.Custom():
            return f"custom:{criterion.name}"
    return "llm_judge"
