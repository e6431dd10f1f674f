"""One goal, as a page needs it: its turns, how its budgets burn down, its criteria, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from fleetlore.errors import Invalid
from fleetlore.events import driver_types as types
from fleetlore.runtime.driver import steering
from fleetlore.runtime.driver.workspace.repository import BRANCH
from fleetlore.server.desk import Look
from fleetlore.server.shapes_goals import (
    GoalBurn,
    GoalCriterion,
    GoalDecision,
    GoalMessage,
    GoalNow,
    GoalPage,
    GoalQuestion,
    GoalRow,
    GoalTurn,
)
from fleetlore.state.believed import Believed
from fleetlore.views.goal_state import TURNS_KEPT, GoalState, Turn, tokens_of, usd_of

MOST_BELOW = 50
Row = Callable[[GoalState], GoalRow]


def page(goal: GoalState, all: Believed, now: datetime, row: Row) -> GoalPage:
    """All that the view knows of a goal."""
    above = all.goals.get(goal.parent or "")
    below = [each for each in all.goals.values() if each.parent == goal.id]
    short = row(goal)
    return GoalPage(
        **msgspec.structs.asdict(short),
        under_way=_under_way(goal),
        words=goal.words,
        workspace=None if goal.goal is None else goal.goal.workspace,
        branch=f"{BRANCH}{goal.id[:8]}" if goal.plan is not None and goal.plan.isolation == "worktree" else None,
        is_paused=goal.is_paused,
        cancel=goal.cancel,
        wake=goal.wake,
        waiting_for=goal.waiting_for,
        driver=None,
        next="",
        can=_can(goal) if short.signed is not False else [],
        turns=[_turn(each) for each in goal.turns],
        burn=list(_burn(goal, short.spent.seconds, now)),
        acceptance=list(_acceptance(goal)),
        checked=goal.checked,
        questions=[_question(each) for each in goal.questions.values()],
        decisions=[GoalDecision(**msgspec.structs.asdict(each)) for each in reversed(goal.decisions)],
        allowed=goal.allowed,
        denied=goal.denied,
        messages=list(_messages(goal)),
        unsigned=goal.unsigned,
        above=None if above is None else row(above),
        below=[row(each) for each in below[-MOST_BELOW:]],
    )


def _under_way(goal: GoalState) -> GoalNow | None:
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


def _turn(turn: Turn) -> GoalTurn:
    return GoalTurn(**msgspec.structs.asdict(turn), seconds=_seconds(turn))


def _seconds(turn: Turn) -> float:
    return 0.0 if turn.at is None or turn.ended_at is None else max(0.0, (turn.ended_at - turn.at).total_seconds())


def _burn(goal: GoalState, seconds: float, now: datetime) -> Iterator[GoalBurn]:
    """What was spent after each turn. What nobody can lay to a turn (a judge's tokens, goals below) is in the last point, which is now."""
    so_far = _before(goal, seconds)
    for turn in goal.turns:
        so_far.turn, so_far.at = turn.number, turn.ended_at
        so_far.turns += turn.counts
        so_far.seconds += _seconds(turn)
        so_far.tokens += turn.tokens
        so_far.usd += turn.usd
        yield msgspec.structs.replace(so_far)
    if goal.turns or goal.attempt is not None:
        at = goal.ended_at or now
        yield GoalBurn(turn=goal.turn, at=at, turns=goal.spent.turns, seconds=seconds, tokens=tokens_of(goal), usd=usd_of(goal))


def _before(goal: GoalState, seconds: float) -> GoalBurn:
    """What was spent before the first turn that is kept: nothing, unless turns were let go."""
    start = GoalBurn(turn=0, at=goal.at, turns=0, seconds=0.0, tokens=0, usd=0.0)
    if len(goal.turns) < TURNS_KEPT:
        return start
    kept = goal.turns
    start.turns = max(0, goal.spent.turns - sum(each.counts for each in kept))
    start.seconds = max(0.0, seconds - sum(map(_seconds, kept)))
    start.tokens = max(0, goal.spent.tokens - sum(each.tokens for each in kept))
    start.usd = max(0.0, goal.spent.usd - sum(each.usd for each in kept))
    return start


def _acceptance(goal: GoalState) -> Iterator[GoalCriterion]:
    wanted = () if goal.goal is None else goal.goal.acceptance
    for criterion, told in zip(goal.criteria, wanted, strict=False):
        yield GoalCriterion(
            kind=str(told.__struct_config__.tag),
            text=_text(told),
            met=criterion.met,
            message=criterion.message,
            evidence=criterion.evidence,
        )


def _text(criterion: types.Criterion) -> str:
    match criterion:
        case types.ShellCommand():
            return criterion.command
        case types.FileMatches():
            return f"{criterion.path} {'matches' if criterion.required else 'does not match'} {criterion.regex}"
        case types.Custom():
            return criterion.name
        case types.LlmJudge():
            return criterion.criterion_text


def _question(question: Any) -> GoalQuestion:
    told = msgspec.structs.asdict(question)
    return GoalQuestion(**told | {"expires": _moment(question.expires)}, hidden=0, answered=None)


def _messages(goal: GoalState) -> Iterator[GoalMessage]:
    for each in goal.attempt.messages if goal.attempt else ():
        yield GoalMessage(**msgspec.structs.asdict(each), is_told=True)
    for each in goal.messages:
        yield GoalMessage(**msgspec.structs.asdict(each), is_told=False)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# --- what can be done


def _can(goal: GoalState) -> list[str]:
    more = {"say": "words", "raise": {"turns": goal.limits.turns + 1}}
    return [action for action in ("pause", "resume", "cancel", "say", "raise") if _makes_sense(goal, action, more.get(action))]


def _makes_sense(goal: GoalState, action: str, value: Any) -> bool:
    try:
        steering.check(goal, action, value)
    except Invalid:
        return False
    return True


def advice(page: GoalPage, look: Look) -> str:
    """What a person can do about a goal, in a sentence or two."""
    if page.harness is None:
        return "Another program drives it; it is only watched here."
    if page.signed is False:
        return "It is not signed, and this log is sealed: nobody here obeys it. Begin it anew with `lore goal run`."
    resume = f"`lore goal resume {page.goal[:8]}`"
    if page.outcome is None and look.is_live and page.driver is None:
        return f"Nobody drives it at the moment; {resume} goes on where the log ends."
    said = _ADVICE.get(page.state, "").format(resume=resume, branch=page.branch)
    return said.partition(" Where ")[0] if page.branch is None else said


_ADVICE = {
    "needs you": "See to the reason, then go on with {resume}.",
    "spent": "Raise the budget that ran out, then go on with {resume}.",
    "paused": "Resume it when you like.",
    "cancelled": "If it should go on after all: {resume}.",
    "done": "All criteria are met. Where the workspace is a git repository, the work is on the branch `{branch}`.",
}
