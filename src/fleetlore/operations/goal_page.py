"""All goals, those that need a person first, and the details of one.

`copy_goals` reads the view, `complete_goals` adds what only the log and the leases know.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.log.base import position_after
from fleetlore.operations.context import OperationContext
from fleetlore.operations.goal_rows import GoalPage, GoalRequest, GoalRow, build_goal_page, build_goal_row, describe_next_step
from fleetlore.operations.reading import AsOfRequest, Head
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.projections.signed_views import SignedGoals
from fleetlore.views.approvals import parse_approval
from fleetlore.views.goal_state import GoalState

STATE_ORDER = ("asking", "needs you", "spent", "working", "checking", "waiting", "paused", "done", "cancelled")
"""Goals that need a person come first."""
ENDED_STATES = frozenset(("done", "spent", "needs you", "cancelled"))
MIN_ID_PREFIX = 8
QUIET_AFTER = timedelta(minutes=1)
"""After so long without an event, the lease is checked for whether a driver still runs the goal."""
MAX_DRIVER_CHECKS = 20
MAX_REQUESTS = 30
MAX_TEXT_CHARS = 2000


GoalFilter = Literal["all", "open", "over", "working", "checking", "waiting", "asking", "paused", "done", "spent", "needs you", "cancelled"]


class ReadGoals(AsOfRequest, kw_only=True):
    """Goals."""

    goal: Annotated[str, Meta(max_length=500, description="Which to show all of: its id, or how that begins.")] | None = None
    state: Annotated[GoalFilter, Meta(description="Which to list: by their state, or those that are open, or over.")] = "all"


class Goals(Head, kw_only=True):
    """All goals, those that need a person first, and the details of one."""

    now: datetime
    goals: list[GoalRow]
    total: int
    """The number of all goals, regardless of the filter."""
    let_go: int
    """Older goals that the view dropped; their events are still in the log."""
    signatures: Literal["none", "named", "checked"]
    """What events need to be trusted: nothing (the log is not sealed), the name of its key, or a valid signature."""
    goal: GoalPage | None
    """`null` if none was asked for or it is not found."""


def read_goals(context: OperationContext, request: ReadGoals) -> Goals:
    """All goals in a state, and the details of the wanted one."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("goals", "names")) as snapshot:
        copied = copy_goals(context, snapshot, request.goal, request.state)
    return complete_goals(context, copied)


class GoalsSnapshot(NamedTuple):
    """What the view says, copied: the view changes after the snapshot."""

    response: Goals
    snapshot: ViewSnapshot
    seconds: dict[str, float]
    """Time spent on each goal up to its last event."""


def copy_goals(context: OperationContext, snapshot: ViewSnapshot, wanted: str | None, state: str) -> GoalsSnapshot:
    """All goals in a state, and the details of the wanted one."""
    signed_goals: SignedGoals = snapshot.states["goals"]
    make = _row_maker(signed_goals, snapshot, context)
    found = find_goal(signed_goals, wanted)
    rows = sorted((row for each in signed_goals.goals.values() if matches_state(row := make(each), state)), key=_sort_key)
    response = Goals(
        **snapshot.head_fields(),
        now=snapshot.now,
        goals=rows,
        total=len(signed_goals.goals),
        let_go=signed_goals.let_go,
        signatures=context.source.goals_fold.signatures,
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


def _row_maker(signed_goals: SignedGoals, snapshot: ViewSnapshot, context: OperationContext) -> Callable[[GoalState], GoalRow]:
    naming, is_sealed = snapshot.naming, context.source.goals_fold.signatures != "none"

    def make(goal: GoalState) -> GoalRow:
        signed = goal.id in signed_goals.signed if is_sealed else None
        return build_goal_row(goal, snapshot.now, shown=naming.agent(goal.agent) if goal.agent else "", signed=signed)

    return make


# --- from the log


def complete_goals(context: OperationContext, copied: GoalsSnapshot) -> Goals:
    """The response with what the view does not have: requests, redactions in questions, and which driver runs each goal."""
    page = copied.response.goal
    if page is not None:
        page.requests, answers = _read_requests(context, page.goal, copied.snapshot, is_signed=page.signed)
        hidden = {each.id: found.hidden for each in _question_events(context, page) if (found := parse_approval(each))}
        for question in page.questions:
            question.hidden, question.answered = hidden.get(question.id, 0), answers.get(question.id)
        page.driver = context.find_holder(f"goal:{page.goal}") if copied.snapshot.is_live else None
        if copied.snapshot.is_live and page.driver is None:
            _mark_adrift(page, copied)
            page.burn[-1:] = [replace(each, seconds=page.spent.seconds) for each in page.burn[-1:]]
        page.next = describe_next_step(page, copied.snapshot)
    _mark_adrift_goals(context, copied)
    return copied.response


def _mark_adrift_goals(context: OperationContext, copied: GoalsSnapshot) -> None:
    """Stop the clock of goals whose driver is gone."""
    rows = [
        row for row in copied.response.goals if row.ticking and copied.snapshot.now - (row.seen_at or copied.snapshot.now) > QUIET_AFTER
    ]
    for row in rows[:MAX_DRIVER_CHECKS] if copied.snapshot.is_live else ():
        if context.find_holder(f"goal:{row.goal}") is None:
            _mark_adrift(row, copied)


def _mark_adrift(row: GoalRow, copied: GoalsSnapshot) -> None:
    if row.ticking and row.harness is not None:
        row.spent.seconds, row.ticking, row.adrift = copied.seconds.get(row.goal, 0.0), False, True
        row.budgets = [replace(use, used=row.spent.seconds) if use.unit == "seconds" else use for use in row.budgets]


def _question_events(context: OperationContext, page: GoalPage) -> list[Event]:
    return context.log.get([each.id for each in page.questions]) if page.questions else []


def _read_requests(
    context: OperationContext, id: str, snapshot: ViewSnapshot, *, is_signed: bool | None
) -> tuple[list[GoalRequest], dict[str, Any]]:
    """The newest requests, and the answers to questions among the trusted ones."""
    before = None if snapshot.position is None else position_after(snapshot.position)
    requests: list[GoalRequest] = []
    answers: dict[str, Any] = {}
    for event in context.log.read(f"goal:{id}", before=before, kinds=["control.requested"], newest_first=True, limit=MAX_REQUESTS):
        action, of, value = (event.data.get(name) for name in ("action", "of", "value"))
        obeyed = None if is_signed is None else is_signed and context.source.goals_fold.is_signed(event)
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
