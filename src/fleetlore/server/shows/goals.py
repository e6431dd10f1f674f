"""Goals as a page: those there are, the ones that need a person first, and all of one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.log.base import just_after
from fleetlore.runtime.driver.gate import questions
from fleetlore.server.desk import Desk, Look
from fleetlore.server.shapes_goals import GoalFigures, GoalPage, GoalRequest, GoalRow, Goals
from fleetlore.server.shows import goal
from fleetlore.state.believed import Believed
from fleetlore.views import goal_state
from fleetlore.views.goal_state import GoalState, Limits

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
    believed: Believed = look.states["goals"]
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
        goal=None if found is None else goal.page(found, believed, look.now, make),
    )
    return Known(answer, look._replace(states={}), {id: each.spent.seconds for id, each in believed.goals.items()})


def find(believed: Believed, wanted: str | None) -> GoalState | None:
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


def _rows(believed: Believed, look: Look, desk: Desk) -> Callable[[GoalState], GoalRow]:
    naming, is_sealed = look.naming, desk.goals.signatures != "none"

    def make(goal: GoalState) -> GoalRow:
        signed = goal.id in believed.signed if is_sealed else None
        return row_of(goal, look.now, shown=naming.agent(goal.agent) if goal.agent else "", signed=signed)

    return make


def row_of(goal: GoalState, now: datetime, *, shown: str, signed: bool | None) -> GoalRow:
    """One goal in short."""
    return GoalRow(
        goal=goal.id,
        state=goal_state.state_of(goal, now),
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
        seconds=goal_state.seconds_of(goal, now),
        tokens=goal_state.tokens_of(goal),
        usd=goal_state.usd_of(goal),
        denies=spent.denies,
        errors=spent.errors,
        overflows=spent.overflows,
    )


def _limits(limits: Limits) -> GoalFigures:
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
        hidden = {each.id: found.hidden for each in _asked(desk, page) if (found := questions.question_of(each))}
        for question in page.questions:
            question.hidden, question.answered = hidden.get(question.id, 0), answers.get(question.id)
        page.driver = desk.driver_of(page.goal) if known.look.is_live else None
        if known.look.is_live and page.driver is None:
            _leave(page, known)
            page.burn[-1:] = [replace(each, seconds=page.spent.seconds) for each in page.burn[-1:]]
        page.next = goal.advice(page, known.look)
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
    before = None if look.position is None else just_after(look.position)
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
