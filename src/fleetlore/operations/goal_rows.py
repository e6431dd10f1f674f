"""One goal, as lists and its page show it: its turns, budget use over time, criteria, and possible actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from fleetlore.errors import Invalid
from fleetlore.events import driver_types as types
from fleetlore.events.budget_axes import BudgetUse
from fleetlore.goal import commands
from fleetlore.goal.workspace.repository import BRANCH_PREFIX
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.projections.signed_views import SignedGoals
from fleetlore.views import goal_state
from fleetlore.views.goal_state import (
    BUDGET_QUESTION,
    MAX_TURNS,
    GoalLimits,
    GoalState,
    GoalStatus,
    GoalUsage,
    SettledTurn,
    used_tokens,
    used_usd,
)

MAX_CHILDREN = 50


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
    task: str | None
    """The task that it does: a worker starts a goal for each task of a town."""
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


MakeRow = Callable[[GoalState], GoalRow]


# --- the row


def build_goal_row(goal: GoalState, now: datetime, *, shown: str, signed: bool | None) -> GoalRow:
    """The list row of a goal."""
    return GoalRow(
        goal=goal.id,
        state=goal_state.goal_status(goal, now),
        description=goal.description,
        agent=goal.agent,
        shown=shown,
        harness=None if goal.plan is None else goal.plan.harness,
        turn=goal.turn,
        at=goal.at,
        seen_at=goal.seen_at,
        ended_at=goal.ended_at,
        outcome=goal.outcome,
        why=goal.why,
        spent=_copy_figures(goal_state.current_usage(goal, now)),
        limits=_copy_figures(goal.limits),
        budgets=goal_state.list_budgets(goal, now),
        ticking=goal.clock_from is not None and not goal.is_paused,
        adrift=False,
        met=sum(each.met is True for each in goal.criteria),
        criteria=len(goal.criteria),
        asking=len(goal.questions),
        parent=goal.parent,
        task=None if goal.plan is None else goal.plan.task,
        signed=signed,
        position=goal.position,
    )


def _copy_figures(amounts: GoalLimits | GoalUsage) -> GoalFigures:
    return GoalFigures(**{name: getattr(amounts, name) for name in GoalFigures.__struct_fields__})


# --- the page


def build_goal_page(goal: GoalState, goals: SignedGoals, now: datetime, make_row: MakeRow) -> GoalPage:
    """All that the view knows about a goal."""
    parent = goals.goals.get(goal.parent or "")
    children = [each for each in goals.goals.values() if each.parent == goal.id]
    row = make_row(goal)
    return GoalPage(
        **msgspec.structs.asdict(row),
        under_way=_current_turn(goal),
        words=goal.words,
        workspace=None if goal.goal is None else goal.goal.workspace,
        branch=f"{BRANCH_PREFIX}{goal.id[:8]}" if goal.plan is not None and goal.plan.isolation == "worktree" else None,
        is_paused=goal.is_paused,
        cancel=goal.cancel,
        wake=goal.wake,
        waiting_for=goal.waiting_for,
        driver=None,
        next="",
        can=_possible_actions(goal) if row.signed is not False else [],
        turns=[_turn_row(each) for each in goal.turns],
        burn=list(_burn_points(goal, row.spent.seconds, now)),
        acceptance=list(_criterion_rows(goal)),
        checked=goal.checked,
        questions=[_question_row(each) for each in goal.questions.values()],
        decisions=[GoalDecision(**msgspec.structs.asdict(each)) for each in reversed(goal.decisions)],
        allowed=goal.allowed,
        denied=goal.denied,
        messages=list(_message_rows(goal)),
        unsigned=goal.unsigned,
        above=None if parent is None else make_row(parent),
        below=[make_row(each) for each in children[-MAX_CHILDREN:]],
    )


def _current_turn(goal: GoalState) -> GoalNow | None:
    attempt = goal.attempt
    if attempt is None:
        return None
    return GoalNow(
        turn=attempt.turn,
        id=attempt.id,
        at=attempt.at,
        tokens=attempt.tokens,
        usd=attempt.usd,
        calls=attempt.calls,
        last_tool=attempt.last_tool,
        is_summary=attempt.is_summary,
        is_over=attempt.ending is not None,
    )


def _turn_row(turn: SettledTurn) -> GoalTurn:
    return GoalTurn(**msgspec.structs.asdict(turn), seconds=_turn_seconds(turn))


def _turn_seconds(turn: SettledTurn) -> float:
    return 0.0 if turn.at is None or turn.ended_at is None else max(0.0, (turn.ended_at - turn.at).total_seconds())


def _burn_points(goal: GoalState, seconds: float, now: datetime) -> Iterator[GoalBurn]:
    """Total use after each turn. Use outside of turns (judge's tokens, child goals) is only in the last point, which is now."""
    total = _burn_start(goal, seconds)
    for turn in goal.turns:
        total.turn, total.at = turn.number, turn.ended_at
        total.turns += turn.counts
        total.seconds += _turn_seconds(turn)
        total.tokens += turn.tokens
        total.usd += turn.usd
        yield msgspec.structs.replace(total)
    if goal.turns or goal.attempt is not None:
        at = goal.ended_at or now
        yield GoalBurn(turn=goal.turn, at=at, turns=goal.spent.turns, seconds=seconds, tokens=used_tokens(goal), usd=used_usd(goal))


def _burn_start(goal: GoalState, seconds: float) -> GoalBurn:
    """Total use before the first kept turn: zero, unless older turns were dropped."""
    start = GoalBurn(turn=0, at=goal.at, turns=0, seconds=0.0, tokens=0, usd=0.0)
    if len(goal.turns) < MAX_TURNS:
        return start
    kept = goal.turns
    start.turns = max(0, goal.spent.turns - sum(each.counts for each in kept))
    start.seconds = max(0.0, seconds - sum(map(_turn_seconds, kept)))
    start.tokens = max(0, goal.spent.tokens - sum(each.tokens for each in kept))
    start.usd = max(0.0, goal.spent.usd - sum(each.usd for each in kept))
    return start


def _criterion_rows(goal: GoalState) -> Iterator[GoalCriterion]:
    definitions = () if goal.goal is None else goal.goal.acceptance
    for criterion, definition in zip(goal.criteria, definitions, strict=False):
        yield GoalCriterion(
            kind=str(definition.__struct_config__.tag),
            text=_criterion_text(definition),
            met=criterion.met,
            message=criterion.message,
            evidence=criterion.evidence,
        )


def _criterion_text(criterion: types.Criterion) -> str:
    match criterion:
        case types.ShellCommand():
            return criterion.command
        case types.FileMatches():
            return f"{criterion.path} {'matches' if criterion.required else 'does not match'} {criterion.regex}"
        case types.Custom():
            return criterion.name
        case types.LlmJudge():
            return criterion.criterion_text


def _question_row(question: Any) -> GoalQuestion:
    fields = msgspec.structs.asdict(question)
    return GoalQuestion(**fields | {"expires": _parse_time(question.expires)}, hidden=0, answered=None)


def _message_rows(goal: GoalState) -> Iterator[GoalMessage]:
    for each in goal.attempt.messages if goal.attempt else ():
        yield GoalMessage(**msgspec.structs.asdict(each), is_told=True)
    for each in goal.messages:
        yield GoalMessage(**msgspec.structs.asdict(each), is_told=False)


def _parse_time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


# --- possible actions


def _possible_actions(goal: GoalState) -> list[str]:
    values = {"say": "words", "raise": {"turns": goal.limits.turns + 1}}
    return [action for action in ("pause", "resume", "cancel", "say", "raise") if _is_possible(goal, action, values.get(action))]


def _is_possible(goal: GoalState, action: str, value: Any) -> bool:
    try:
        commands.check_action(goal, action, value)
    except Invalid:
        return False
    return True


def describe_next_step(goal: GoalPage, snapshot: ViewSnapshot) -> str:
    """What a person can do about a goal, in a sentence or two."""
    if goal.harness is None:
        return "Another program drives it; it is only watched here."
    if goal.signed is False:
        return "It is not signed, and this log is sealed: nobody here obeys it. Begin it anew with `lore goal run`."
    resume = f"`lore goal resume {goal.goal[:8]}`"
    if goal.outcome is None and snapshot.is_live and goal.driver is None:
        return f"Nobody drives it at the moment; {resume} goes on where the log ends."
    if goal.state == "asking" and goal.waiting_for.startswith(BUDGET_QUESTION):
        return f"A budget is spent. Raise it with `lore goal raise {goal.goal[:8]} …` and it goes on, or cancel it."
    advice = _ADVICE.get(goal.state, "").format(resume=resume, branch=goal.branch)
    return advice.partition(" Where ")[0] if goal.branch is None else advice


_ADVICE = {
    "needs you": "See to the reason, then go on with {resume}.",
    "spent": "Raise the budget that ran out, then go on with {resume}.",
    "paused": "Resume it when you like.",
    "cancelled": "If it should go on after all: {resume}.",
    "done": "All criteria are met. Where the workspace is a git repository, the work is on the branch `{branch}`.",
}
