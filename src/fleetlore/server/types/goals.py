"""What `/api/goals` answers, as types: goals to choose from, and all of one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from fleetlore.server.types.common import Head
from fleetlore.views.goal_state import GoalStatus


class GoalFigures(Struct, kw_only=True):
    """What was spent, or may be; `null` is without limit. Denies, errors and overflows are those in a row."""

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
    """`null` where somebody else's driver pursues it."""
    turn: int
    at: datetime | None
    seen_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    why: str
    spent: GoalFigures
    limits: GoalFigures
    ticking: bool
    """Whether its time goes on."""
    adrift: bool
    """Whether it is under way, and nobody drives it any more."""
    met: int
    criteria: int
    asking: int
    """Questions that wait for a person."""
    parent: str | None
    signed: bool | None
    """Whether the log's key has signed it; `null` on a log that is not sealed."""
    position: str | None


class GoalTurn(Struct, kw_only=True):
    """A turn that is settled."""

    number: int
    id: str
    outcome: str
    counts: bool
    """Whether it is one of the turns that the budget allows."""
    complaint: str | None
    words: str
    at: datetime | None
    ended_at: datetime | None
    seconds: float
    tokens: int
    usd: float
    failing: int | None
    """Criteria that were not met; `null` where none was checked."""
    diff: str


class GoalNow(Struct, kw_only=True):
    """The turn that is under way."""

    turn: int
    id: str
    at: datetime | None
    tokens: int
    usd: float
    calls: int
    last_tool: str
    is_summary: bool
    """Whether the agent only writes down where things stand."""
    is_over: bool
    """Whether the agent's part is over, and its work is being judged."""


class GoalBurn(Struct, kw_only=True):
    """What was spent when a turn had ended, and at the end what is spent by now."""

    turn: int
    at: datetime | None
    turns: int
    seconds: float
    tokens: int
    usd: float


class GoalCriterion(Struct, kw_only=True):
    """A criterion, and what its last check came to."""

    kind: str
    text: str
    """What is run, looked for or judged."""
    met: bool | None
    message: str
    evidence: str


class GoalQuestion(Struct, kw_only=True):
    """A tool that a person is asked about."""

    id: str
    turn: int
    tool: str
    input: Any
    hidden: int
    """How many texts of the input were cut, or had secrets taken out: the person does not see all of it."""
    at: datetime | None
    expires: datetime | None
    answered: Literal["allow", "deny"] | None
    """What a person has said, until whoever drives the goal has heard it."""


class GoalDecision(Struct, kw_only=True):
    """What was decided about a tool."""

    id: str
    turn: int
    tool: str
    choice: str
    why: str
    at: datetime | None


class GoalMessage(Struct, kw_only=True):
    """What a person says to the agent."""

    id: str
    by: str
    text: str
    at: datetime | None
    is_told: bool
    """Whether the agent has it in the turn that is under way; else it is for the next one."""


class GoalRequest(Struct, kw_only=True):
    """Something that was asked of the goal's driver."""

    id: str
    at: datetime | None
    by: str
    action: str
    text: str
    obeyed: bool | None
    """`false`: it is not signed, and the log is sealed; `null`: signatures are not checked here."""


class GoalPage(GoalRow, kw_only=True):
    """All of one goal."""

    under_way: GoalNow | None
    words: str
    """What the agent said last."""
    workspace: str | None
    branch: str | None
    """Where its work is, if the workspace is a git repository; `null` if it works on the workspace itself."""
    is_paused: bool
    cancel: str | None
    """Why it is to be called off, once somebody asked for that."""
    wake: datetime | None
    waiting_for: str
    driver: str | None
    """Who drives it now: a machine and a process; `null` if nobody does, or it is not known."""
    next: str
    """What a person can do about it."""
    can: list[str]
    """What can be asked of it as it stands."""
    turns: list[GoalTurn]
    """The newest 200, oldest first."""
    burn: list[GoalBurn]
    acceptance: list[GoalCriterion]
    checked: str | None
    """The event of the newest verdict."""
    questions: list[GoalQuestion] = field(default_factory=list)
    decisions: list[GoalDecision]
    """The newest, newest first."""
    allowed: int
    denied: int
    messages: list[GoalMessage]
    requests: list[GoalRequest] = field(default_factory=list)
    """The newest, newest first."""
    unsigned: int
    """How many requests were not obeyed, because they are not signed."""
    above: GoalRow | None
    """The goal that it is part of."""
    below: list[GoalRow]
    """The goals that are part of it."""


class Goals(Head, kw_only=True):
    """All goals, those that need a person first; and one of them, if it was asked for."""

    now: datetime
    goals: list[GoalRow]
    total: int
    """How many there are, whatever was asked for."""
    let_go: int
    """How many older ones are not kept in here; their events still are on the log."""
    signatures: Literal["none", "named", "checked"]
    """What is asked of facts to be believed: nothing, as the log is not sealed; that they name its key; that this key has signed them."""
    goal: GoalPage | None
    """`null` if none was asked for, it is not there, or not yet."""
