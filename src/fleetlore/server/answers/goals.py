"""Goals as a page: those there are, the ones that need a person first, and all of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.events import driver_types as types
from fleetlore.events.envelope import Event
from fleetlore.goal import commands
from fleetlore.goal.gate import questions
from fleetlore.goal.workspace.repository import BRANCH_PREFIX
from fleetlore.log.base import position_after
from fleetlore.projections.signed_goals import SignedGoals
from fleetlore.server.types.goals import (
    GoalBurn,
    GoalCriterion,
    GoalDecision,
    GoalFigures,
    GoalMessage,
    GoalNow,
    GoalPage,
    GoalQuestion,
    GoalRequest,
    GoalRow,
    Goals,
    GoalTurn,
)
from fleetlore.server.view_cache import Desk, Look
from fleetlore.views import goal_state
from fleetlore.views.goal_state import MAX_TURNS, GoalLimits, GoalState, SettledTurn, used_tokens, used_usd

# --- One goal, as a page needs it: its turns, how its budgets burn down, its criteria, and what a person can do about it.

MOST_BELOW = 50
Row = Callable[[GoalState], GoalRow]


def page(goal: GoalState, all: SignedGoals, now: datetime, row: Row) -> GoalPage:
    """All that the view knows of a goal."""
    above = all.goals.get(goal.parent or "")
    below = [each for each in all.goals.values() if each.parent == goal.id]
    short = row(goal)
    return GoalPage(
        **msgspec.structs.asdict(short),
        under_way=_under_way(goal),
        words=goal.words,
        workspace=None if goal.goal is None else goal.goal.workspace,
        branch=f"{BRANCH_PREFIX}{goal.id[:8]}" if goal.plan is not None and goal.plan.isolation == "worktree" else None,
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


def _turn(turn: SettledTurn) -> GoalTurn:
    return GoalTurn(**msgspec.structs.asdict(turn), seconds=_seconds(turn))


def _seconds(turn: SettledTurn) -> float:
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
        yield GoalBurn(turn=goal.turn, at=at, turns=goal.spent.turns, seconds=seconds, tokens=used_tokens(goal), usd=used_usd(goal))


def _before(goal: GoalState, seconds: float) -> GoalBurn:
    """What was spent before the first turn that is kept: nothing, unless turns were let go."""
    start = GoalBurn(turn=0, at=goal.at, turns=0, seconds=0.0, tokens=0, usd=0.0)
    if len(goal.turns) < MAX_TURNS:
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
        commands.check_action(goal, action, value)
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


# ---

NEEDS = ("goals", "names")
"""The views that it is made of."""
STATES = ("asking", "needs you", "spent", "working", "checking", "waiting", "paused", "done", "cancelled")
"""Who needs a person comes first."""
OVER = frozenset(("done", "spent", "needs you", "cancelled"))
SHORTEST_ID = 8
QUIET = timedelta(minutes=1)
"""Of goals that gave no sign of life for so long it is looked up whether somebody drives them."""
MOST_QUIET = 20
MOST_REQUESTS = 30
LONGEST_WORDS = 2000


class Known(NamedTuple):
    """What the view says, copied: the view itself goes on."""

    answer: Goals
    look: Look
    seconds: dict[str, float]
    """The time that is known to have been spent on each goal, up to its last sign of life."""


def known(look: Look, desk: Desk, wanted: str | None, state: str) -> Known:
    """All goals, and what the view knows of one."""
    believed: SignedGoals = look.states["goals"]
    make = _rows(believed, look, desk)
    found = find(believed, wanted)
    rows = sorted((row for each in believed.goals.values() if fits(row := make(each), state)), key=_rank)
    answer = Goals(
        **look.head(),
        now=look.now,
        goals=rows,
        total=len(believed.goals),
        let_go=believed.let_go,
        signatures=desk.goals.signatures,
        goal=None if found is None else page(found, believed, look.now, make),
    )
    return Known(answer, look._replace(states={}), {id: each.spent.seconds for id, each in believed.goals.items()})


def find(believed: SignedGoals, wanted: str | None) -> GoalState | None:
    """The goal with an id, or the one whose id begins so."""
    if wanted is None or wanted in believed.goals:
        return None if wanted is None else believed.goals[wanted]
    near = [each for id, each in believed.goals.items() if id.startswith(wanted)] if len(wanted) >= SHORTEST_ID else []
    return near[0] if len(near) == 1 else None


def fits(row: GoalRow, state: str) -> bool:
    """Whether a goal is among those that are asked for."""
    return state in ("all", row.state) or state == ("over" if row.state in OVER else "open")


def _rank(row: GoalRow) -> tuple[int, float]:
    moment = row.seen_at or row.at
    return STATES.index(row.state), 0.0 if moment is None else -moment.timestamp()


def _rows(believed: SignedGoals, look: Look, desk: Desk) -> Callable[[GoalState], GoalRow]:
    naming, is_sealed = look.naming, desk.goals.signatures != "none"

    def make(goal: GoalState) -> GoalRow:
        signed = goal.id in believed.signed if is_sealed else None
        return row_of(goal, look.now, shown=naming.agent(goal.agent) if goal.agent else "", signed=signed)

    return make


def row_of(goal: GoalState, now: datetime, *, shown: str, signed: bool | None) -> GoalRow:
    """One goal in short."""
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
        spent=_spent(goal, now),
        limits=_limits(goal.limits),
        ticking=goal.clock_from is not None and not goal.is_paused,
        adrift=False,
        met=sum(each.met is True for each in goal.criteria),
        criteria=len(goal.criteria),
        asking=len(goal.questions),
        parent=goal.parent,
        signed=signed,
        position=goal.position,
    )


def _spent(goal: GoalState, now: datetime) -> GoalFigures:
    spent = goal.spent
    return GoalFigures(
        turns=spent.turns,
        seconds=goal_state.elapsed_seconds(goal, now),
        tokens=goal_state.used_tokens(goal),
        usd=goal_state.used_usd(goal),
        denies=spent.denies,
        errors=spent.errors,
        overflows=spent.overflows,
    )


def _limits(limits: GoalLimits) -> GoalFigures:
    return GoalFigures(
        turns=limits.turns,
        seconds=limits.seconds,
        tokens=limits.tokens,
        usd=limits.usd,
        denies=limits.denies,
        errors=limits.errors,
        overflows=limits.overflows,
    )


# --- by the log


def show(desk: Desk, known: Known) -> Goals:
    """The same, with what only the log can tell of the one: what was asked of it, what its questions hide, and who drives it."""
    page = known.answer.goal
    if page is not None:
        page.requests, answers = _requests(desk, page.goal, known.look, is_signed=page.signed)
        hidden = {each.id: found.hidden for each in _asked(desk, page) if (found := questions.parse_question(each))}
        for question in page.questions:
            question.hidden, question.answered = hidden.get(question.id, 0), answers.get(question.id)
        page.driver = desk.driver_of(page.goal) if known.look.is_live else None
        if known.look.is_live and page.driver is None:
            _leave(page, known)
            page.burn[-1:] = [replace(each, seconds=page.spent.seconds) for each in page.burn[-1:]]
        page.next = advice(page, known.look)
    _find_adrift(desk, known)
    return known.answer


def _find_adrift(desk: Desk, known: Known) -> None:
    """See to it that no time is counted for goals whose driver is gone."""
    rows = [row for row in known.answer.goals if row.ticking and known.look.now - (row.seen_at or known.look.now) > QUIET]
    for row in rows[:MOST_QUIET] if known.look.is_live else ():
        if desk.driver_of(row.goal) is None:
            _leave(row, known)


def _leave(row: GoalRow, known: Known) -> None:
    if row.ticking and row.harness is not None:
        row.spent.seconds, row.ticking, row.adrift = known.seconds.get(row.goal, 0.0), False, True


def _asked(desk: Desk, page: GoalPage) -> list[Event]:
    return desk.log.get([each.id for each in page.questions]) if page.questions else []


def _requests(desk: Desk, id: str, look: Look, *, is_signed: bool | None) -> tuple[list[GoalRequest], dict[str, Any]]:
    """The newest requests, and the answers to questions among those that are obeyed."""
    before = None if look.position is None else position_after(look.position)
    requests: list[GoalRequest] = []
    answers: dict[str, Any] = {}
    for event in desk.log.read(f"goal:{id}", before=before, kinds=["control.requested"], newest_first=True, limit=MOST_REQUESTS):
        action, of, value = (event.data.get(name) for name in ("action", "of", "value"))
        obeyed = None if is_signed is None else is_signed and desk.goals.is_signed(event)
        said = value.get("choice") if isinstance(value, dict) else value
        if action == "decide" and isinstance(of, str) and obeyed is not False:
            answers[of] = "allow" if said == "allow" else "deny"
        told = event.text or (said if isinstance(said, str) else "")
        requests.append(
            GoalRequest(
                id=event.id or "",
                at=event.at,
                by=event.actor or "somebody",
                action=action if isinstance(action, str) else "",
                text=told[:LONGEST_WORDS],
                obeyed=obeyed,
            )
        )
    return requests, answers
