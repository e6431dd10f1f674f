"""The response of `/api/goals`: all goals, those that need a person first, and the details of one.

`copy_goals` reads the view, `complete_goals` adds what only the log and the leases know.
"""

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
from fleetlore.operations.sources import ViewSnapshot
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
from fleetlore.server.view_cache import ViewCache
from fleetlore.views import goal_state
from fleetlore.views.goal_state import MAX_TURNS, GoalLimits, GoalState, GoalUsage, SettledTurn, used_tokens, used_usd

# --- one goal: its turns, budget use over time, criteria, and possible actions

MAX_CHILDREN = 50
MakeRow = Callable[[GoalState], GoalRow]


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
    advice = _ADVICE.get(goal.state, "").format(resume=resume, branch=goal.branch)
    return advice.partition(" Where ")[0] if goal.branch is None else advice


_ADVICE = {
    "needs you": "See to the reason, then go on with {resume}.",
    "spent": "Raise the budget that ran out, then go on with {resume}.",
    "paused": "Resume it when you like.",
    "cancelled": "If it should go on after all: {resume}.",
    "done": "All criteria are met. Where the workspace is a git repository, the work is on the branch `{branch}`.",
}


# --- all goals, from the view

NEEDS = ("goals", "names")
"""Views that the snapshot must contain."""
STATE_ORDER = ("asking", "needs you", "spent", "working", "checking", "waiting", "paused", "done", "cancelled")
"""Goals that need a person come first."""
ENDED_STATES = frozenset(("done", "spent", "needs you", "cancelled"))
MIN_ID_PREFIX = 8
QUIET_AFTER = timedelta(minutes=1)
"""After so long without an event, the lease is checked for whether a driver still runs the goal."""
MAX_DRIVER_CHECKS = 20
MAX_REQUESTS = 30
MAX_TEXT_CHARS = 2000


class GoalsSnapshot(NamedTuple):
    """What the view says, copied: the view changes after the snapshot."""

    response: Goals
    snapshot: ViewSnapshot
    seconds: dict[str, float]
    """Time spent on each goal up to its last event."""


def copy_goals(snapshot: ViewSnapshot, view_cache: ViewCache, wanted: str | None, state: str) -> GoalsSnapshot:
    """All goals in a state, and the details of the wanted one."""
    signed_goals: SignedGoals = snapshot.states["goals"]
    make = _row_maker(signed_goals, snapshot, view_cache)
    found = find_goal(signed_goals, wanted)
    rows = sorted((row for each in signed_goals.goals.values() if matches_state(row := make(each), state)), key=_sort_key)
    response = Goals(
        **snapshot.head_fields(),
        now=snapshot.now,
        goals=rows,
        total=len(signed_goals.goals),
        let_go=signed_goals.let_go,
        signatures=view_cache.goals.signatures,
        goal=None if found is None else build_goal_page(found, signed_goals, snapshot.now, make),
    )
    return GoalsSnapshot(response, snapshot._replace(states={}), {id: each.spent.seconds for id, each in signed_goals.goals.items()})


def find_goal(signed_goals: SignedGoals, wanted: str | None) -> GoalState | None:
    """The goal with this id or unique prefix; `None` if there is none."""
    if wanted is None or wanted in signed_goals.goals:
        return None if wanted is None else signed_goals.goals[wanted]
    matches = [each for id, each in signed_goals.goals.items() if id.startswith(wanted)] if len(wanted) >= MIN_ID_PREFIX else []
    return matches[0] if len(matches) == 1 else None


def matches_state(row: GoalRow, state: str) -> bool:
    """Whether a goal is in a state, or in the group `all`, `open` or `over`."""
    return state in ("all", row.state) or state == ("over" if row.state in ENDED_STATES else "open")


def _sort_key(row: GoalRow) -> tuple[int, float]:
    time = row.seen_at or row.at
    return STATE_ORDER.index(row.state), 0.0 if time is None else -time.timestamp()


def _row_maker(signed_goals: SignedGoals, snapshot: ViewSnapshot, view_cache: ViewCache) -> Callable[[GoalState], GoalRow]:
    naming, is_sealed = snapshot.naming, view_cache.goals.signatures != "none"

    def make(goal: GoalState) -> GoalRow:
        signed = goal.id in signed_goals.signed if is_sealed else None
        return build_goal_row(goal, snapshot.now, shown=naming.agent(goal.agent) if goal.agent else "", signed=signed)

    return make


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
        signed=signed,
        position=goal.position,
    )


def _copy_figures(amounts: GoalLimits | GoalUsage) -> GoalFigures:
    return GoalFigures(**{name: getattr(amounts, name) for name in GoalFigures.__struct_fields__})


# --- from the log


def complete_goals(view_cache: ViewCache, copied: GoalsSnapshot) -> Goals:
    """The response with what the view does not have: requests, redactions in questions, and which driver runs each goal."""
    page = copied.response.goal
    if page is not None:
        page.requests, answers = _read_requests(view_cache, page.goal, copied.snapshot, is_signed=page.signed)
        hidden = {each.id: found.hidden for each in _question_events(view_cache, page) if (found := questions.parse_question(each))}
        for question in page.questions:
            question.hidden, question.answered = hidden.get(question.id, 0), answers.get(question.id)
        page.driver = view_cache.find_driver(page.goal) if copied.snapshot.is_live else None
        if copied.snapshot.is_live and page.driver is None:
            _mark_adrift(page, copied)
            page.burn[-1:] = [replace(each, seconds=page.spent.seconds) for each in page.burn[-1:]]
        page.next = describe_next_step(page, copied.snapshot)
    _mark_adrift_goals(view_cache, copied)
    return copied.response


def _mark_adrift_goals(view_cache: ViewCache, copied: GoalsSnapshot) -> None:
    """Stop the clock of goals whose driver is gone."""
    rows = [
        row for row in copied.response.goals if row.ticking and copied.snapshot.now - (row.seen_at or copied.snapshot.now) > QUIET_AFTER
    ]
    for row in rows[:MAX_DRIVER_CHECKS] if copied.snapshot.is_live else ():
        if view_cache.find_driver(row.goal) is None:
            _mark_adrift(row, copied)


def _mark_adrift(row: GoalRow, copied: GoalsSnapshot) -> None:
    if row.ticking and row.harness is not None:
        row.spent.seconds, row.ticking, row.adrift = copied.seconds.get(row.goal, 0.0), False, True
        row.budgets = [replace(use, used=row.spent.seconds) if use.unit == "seconds" else use for use in row.budgets]


def _question_events(view_cache: ViewCache, page: GoalPage) -> list[Event]:
    return view_cache.log.get([each.id for each in page.questions]) if page.questions else []


def _read_requests(
    view_cache: ViewCache, id: str, snapshot: ViewSnapshot, *, is_signed: bool | None
) -> tuple[list[GoalRequest], dict[str, Any]]:
    """The newest requests, and the answers to questions among the trusted ones."""
    before = None if snapshot.position is None else position_after(snapshot.position)
    requests: list[GoalRequest] = []
    answers: dict[str, Any] = {}
    for event in view_cache.log.read(f"goal:{id}", before=before, kinds=["control.requested"], newest_first=True, limit=MAX_REQUESTS):
        action, of, value = (event.data.get(name) for name in ("action", "of", "value"))
        obeyed = None if is_signed is None else is_signed and view_cache.goals.is_signed(event)
        choice = value.get("choice") if isinstance(value, dict) else value
        if action == "decide" and isinstance(of, str) and obeyed is not False:
            answers[of] = "allow" if choice == "allow" else "deny"
        text = event.text or (choice if isinstance(choice, str) else "")
        requests.append(
            GoalRequest(
                id=event.id or "",
                at=event.at,
                by=event.actor or "somebody",
                action=action if isinstance(action, str) else "",
                text=text[:MAX_TEXT_CHARS],
                obeyed=obeyed,
            )
        )
    return requests, answers
