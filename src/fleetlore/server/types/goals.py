"""Response types of `/api/goals`: the list of goals, and the details of one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from fleetlore.events.budget_axes import BudgetUse
from fleetlore.server.types.common import Head
from fleetlore.views.goal_state import GoalStatus


class GoalFigures(Struct, kw_only=True):
    """Use or limits of a goal; `null` is no limit. Denies, errors and overflows count consecutive ones."""

    turns: int
    seconds: float
    tokens: int
    usd: float | None
    denies: int
    errors: int
    overflows: int


class GoalRow(Struct, kw_only=True):
    """One goal."""

    goal: str
    state: GoalStatus
    description: str
    agent: str
    shown: str
    harness: str | None
    """`null` if another program drives the goal."""
    turn: int
    at: datetime | None
    seen_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    why: str
    spent: GoalFigures
    limits: GoalFigures
    budgets: list[BudgetUse]
    """Every budget, with axes that `spent` and `limits` have no field for."""
    ticking: bool
    """Whether its clock is running."""
    adrift: bool
    """Whether it is running but its driver is gone."""
    met: int
    criteria: int
    asking: int
    """Open approval requests."""
    parent: str | None
    signed: bool | None
    """Whether it is signed with the log's key; `null` if the log is not sealed."""
    position: str | None


class GoalTurn(Struct, kw_only=True):
    """A finished turn."""

    number: int
    id: str
    outcome: str
    counts: bool
    """Whether it counts towards the budget of turns."""
    complaint: str | None
    words: str
    at: datetime | None
    ended_at: datetime | None
    seconds: float
    tokens: int
    usd: float
    failing: int | None
    """Criteria that were not met; `null` if none was checked."""
    diff: str


class GoalNow(Struct, kw_only=True):
    """The current turn."""

    turn: int
    id: str
    at: datetime | None
    tokens: int
    usd: float
    calls: int
    last_tool: str
    is_summary: bool
    """Whether the agent only writes a summary."""
    is_over: bool
    """Whether the agent is done and its work is being checked."""


class GoalBurn(Struct, kw_only=True):
    """Total use at the end of a turn; the last point is now."""

    turn: int
    at: datetime | None
    turns: int
    seconds: float
    tokens: int
    usd: float


class GoalCriterion(Struct, kw_only=True):
    """A criterion and the result of its last check."""

    kind: str
    text: str
    """The command, pattern or text that is checked."""
    met: bool | None
    message: str
    evidence: str


class GoalQuestion(Struct, kw_only=True):
    """An approval request for a tool call."""

    id: str
    turn: int
    tool: str
    input: Any
    hidden: int
    """How many texts of the input were shortened or redacted: the person does not see all of it."""
    at: datetime | None
    expires: datetime | None
    answered: Literal["allow", "deny"] | None
    """A person's answer that the driver has not read yet."""


class GoalDecision(Struct, kw_only=True):
    """A decision about a tool call."""

    id: str
    turn: int
    tool: str
    choice: str
    why: str
    at: datetime | None


class GoalMessage(Struct, kw_only=True):
    """A person's message to the agent."""

    id: str
    by: str
    text: str
    at: datetime | None
    is_told: bool
    """Whether the agent got it in the current turn; else it will be in the next one."""


class GoalRequest(Struct, kw_only=True):
    """A control request to the goal's driver."""

    id: str
    at: datetime | None
    by: str
    action: str
    text: str
    obeyed: bool | None
    """`false`: ignored, because it is not signed and the log is sealed; `null`: signatures are not checked."""


class GoalPage(GoalRow, kw_only=True):
    """Details of one goal."""

    under_way: GoalNow | None
    words: str
    """The agent's last message."""
    workspace: str | None
    branch: str | None
    """The branch with its work, if the workspace is a git repository; `null` if it works in the workspace itself."""
    is_paused: bool
    cancel: str | None
    """The reason, if somebody asked to cancel it."""
    wake: datetime | None
    waiting_for: str
    driver: str | None
    """The machine and process that drive it; `null` if there is none or it is not known."""
    next: str
    """What a person can do about it."""
    can: list[str]
    """Actions that are possible now."""
    turns: list[GoalTurn]
    """The newest 200, oldest first."""
    burn: list[GoalBurn]
    acceptance: list[GoalCriterion]
    checked: str | None
    """The event id of the newest check."""
    questions: list[GoalQuestion] = field(default_factory=list)
    decisions: list[GoalDecision]
    """The newest, newest first."""
    allowed: int
    denied: int
    messages: list[GoalMessage]
    requests: list[GoalRequest] = field(default_factory=list)
    """The newest, newest first."""
    unsigned: int
    """How many requests were ignored because they are not signed."""
    above: GoalRow | None
    """Its parent goal."""
    below: list[GoalRow]
    """Its child goals."""


class Goals(Head, kw_only=True):
    """All goals, those that need a person first, and the details of one."""

    now: datetime
    goals: list[GoalRow]
    total: int
    """The number of all goals, regardless of the filter."""
    let_go: int
    """Older goals that the view dropped; their events are still on the log."""
    signatures: Literal["none", "named", "checked"]
    """What events need to be trusted: nothing (the log is not sealed), the name of its key, or a valid signature."""
    goal: GoalPage | None
    """`null` if none was asked for or it is not found."""
