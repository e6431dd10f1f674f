"""Structs inside `driver.*` events: goals, budgets, criteria, verdicts, attempts. Field order is wire order.

If the wire format omits absent values, the struct omits its defaults; if it writes `null` or the default, the struct does
not. A struct that needs both marks what is always written with `always_written`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct, field

from fleetlore.documents import durations
from fleetlore.events import budget_axes

T = TypeVar("T")


def always_written(value: T) -> T:
    """Return a default that is written even by a struct that omits its defaults."""
    # msgspec omits a field only if it can compare the value with a plain default.
    return field(default_factory=lambda: value)


U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Meta(ge=0)]
Turn = Annotated[int, Meta(ge=1, le=2**32 - 1)]
"""The number of a turn, from 1. nexo counts some from 0: `dialects/nexo.py` and `compat/nexo.py` convert these."""
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")]
Duration = Annotated[str, Meta(pattern=durations.DURATION_PATTERN)]
"""Text such as `1h 30m`; see `documents.durations`."""
Timestamp = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]"
        r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
    ),
]
"""RFC 3339, kept as text because it may have nanoseconds."""

if TYPE_CHECKING:
    BudgetAxis: TypeAlias = str
else:
    BudgetAxis = Literal[tuple(row.spent_as for row in budget_axes.list_axes("goal"))]
"""Which budget was used up. `consecutive413` lacks its field's underscore; `usd` is ours, and nexo reads `tokens`."""

DreamOutcome = Literal[
    "completed",
    "skipped_disabled",
    "skipped_kairos_active",
    "skipped_remote_mode",
    "skipped_auto_memory_disabled",
    "skipped_time_gate",
    "skipped_scan_throttle",
    "skipped_session_gate",
    "lock_blocked",
    "errored",
    "timed_out",
    "escape_audit",
]
SkipReason = Literal["disabled", "throttled", "in_progress", "circuit_breaker_open", "main_agent_wrote"]


class BudgetGuards(Struct, frozen=True, kw_only=True):
    """Limits of a goal; zero for errors or overflows means no limit."""

    max_turns: U32
    max_wall_time: Duration
    max_tokens: U64
    max_consecutive_denies: U32
    max_consecutive_errors: U32 = 5
    max_consecutive_413: U32 = 2


class BudgetUsage(Struct, frozen=True, kw_only=True):
    """How much a goal has used."""

    turns: U32
    wall_time: Duration
    tokens: U64
    consecutive_denies: U32
    consecutive_errors: U32 = 0
    consecutive_413: U32 = 0


class ShellCommand(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="shell_command"):
    """Met when a command exits as expected."""

    command: str
    expected_exit: int | None = None
    stdout_must_match: str | None = None
    timeout_secs: U64 = always_written(300)
    report: bool = True
    """Whether a known test runner must print its report at the end; ours, omitted unless it is false."""


class FileMatches(Struct, frozen=True, kw_only=True, tag_field="kind", tag="file_matches"):
    """Met when a workspace file matches a pattern."""

    path: str
    regex: str
    required: bool = True


class Custom(Struct, frozen=True, kw_only=True, tag_field="kind", tag="custom"):
    """Met when a named verifier accepts."""

    name: str
    args: Any


class LlmJudge(Struct, frozen=True, kw_only=True, tag_field="kind", tag="llm_judge"):
    """Met when a model judges that it is."""

    criterion_text: str


Criterion: TypeAlias = ShellCommand | FileMatches | Custom | LlmJudge


class Goal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to achieve, how it is checked, and what it may cost."""

    id: Uuid
    description: str
    acceptance: tuple[Criterion, ...]
    budget: BudgetGuards
    workspace: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One criterion that was not met, with evidence."""

    criterion_index: U64
    criterion_label: str
    message: str
    evidence: str | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """Result of checking all criteria of a goal."""

    met: bool
    failures: tuple[Failure, ...] = ()
    evaluated_at: Timestamp
    elapsed_ms: U64


class Allow(Struct, frozen=True, kw_only=True, tag_field="kind", tag="allow"):
    """The tool may be used."""


class Deny(Struct, frozen=True, kw_only=True, tag_field="kind", tag="deny"):
    """The tool may not be used; the agent is given the reason."""

    message: str


class Observe(Struct, frozen=True, kw_only=True, tag_field="kind", tag="observe"):
    """Allowed, with a note."""

    note: str


Choice: TypeAlias = Allow | Deny | Observe


class Decision(Struct, frozen=True, kw_only=True):
    """Whether an agent may use a tool on this input, and why."""

    id: Uuid
    goal_id: Uuid
    turn_index: U32
    tool: str
    input: Any
    choice: Choice
    rationale: str
    decided_at: Timestamp


class Done(Struct, frozen=True, kw_only=True, tag_field="kind", tag="done"):
    """The agent reported that it was done, and all criteria are met."""


class NeedsRetry(Struct, frozen=True, kw_only=True, tag_field="kind", tag="needs_retry"):
    """The agent reported that it was done, but these criteria are not met."""

    failures: tuple[Failure, ...]


class Continue(Struct, frozen=True, kw_only=True, tag_field="kind", tag="continue"):
    """The turn ended before the work did."""

    reason: str


class Sleep(Struct, frozen=True, kw_only=True, tag_field="kind", tag="sleep"):
    """The agent asked to be woken later."""

    duration_ms: U64
    reason: str


class BudgetSpent(Struct, frozen=True, kw_only=True, tag_field="kind", tag="budget_exhausted"):
    """A budget was used up."""

    axis: BudgetAxis


class Cancelled(Struct, frozen=True, kw_only=True, tag_field="kind", tag="cancelled"):
    """The goal was cancelled."""


class Escalate(Struct, frozen=True, kw_only=True, tag_field="kind", tag="escalate"):
    """A person is needed."""

    reason: str


AttemptOutcome: TypeAlias = Done | NeedsRetry | Continue | Sleep | BudgetSpent | Cancelled | Escalate


class AttemptResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one turn."""

    goal_id: Uuid
    turn_index: Turn
    outcome: AttemptOutcome
    decisions_recorded: tuple[Decision, ...] = always_written(())
    usage_after: BudgetUsage
    acceptance: Verdict | None = None
    final_text: str | None = None
    harness_extras: dict[str, Any] = field(default_factory=dict)


class GoalOutcome(Struct, frozen=True, kw_only=True):
    """How a goal ended."""

    goal_id: Uuid
    outcome: AttemptOutcome
    total_turns: U32
    usage: BudgetUsage
    final_text: str | None = None
    acceptance: Verdict | None = None
    elapsed: Duration


class FreshSessionRetry(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="fresh_session_retry"):
    """Retry the turn in a new session."""

    rollback_to: str | None = None


class NextTurn(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="next_turn"):
    """Continue with the next turn."""

    rollback_to: str | None = None


class CompactAndRetry(Struct, frozen=True, kw_only=True, tag_field="kind", tag="compact_and_retry"):
    """Compact the context and retry the turn."""


Replay: TypeAlias = FreshSessionRetry | NextTurn | CompactAndRetry | Escalate


class TokenPressure(Struct, frozen=True, kw_only=True, tag_field="kind", tag="token_pressure"):
    """The context was too full."""

    pct: float
    tokens_used: U64
    context_window: U64


class Age(Struct, frozen=True, kw_only=True, tag_field="kind", tag="age"):
    """The context was too old."""

    age_minutes: U64
    max_age_minutes: U64


CompactTrigger: TypeAlias = TokenPressure | Age
