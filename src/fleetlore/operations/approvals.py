"""Approvals: what agents ask a person to allow, and the person's answers. docs/permissions.md describes both.

Requests of goals and of the user's own coding agents are the same event. An answer is a `control.requested` event; the asking process reads
it from the log: the goal's driver, or the approval hook of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from fleetlore.errors import Invalid, NotFound
from fleetlore.events.envelope import Event
from fleetlore.goal import commands
from fleetlore.kernel.journal import BlockingJournal, JournalDecision, NoState
from fleetlore.log.base import Expect
from fleetlore.operations.context import OperationContext
from fleetlore.operations.goal_lists import shorten_ids
from fleetlore.operations.goals import find_goal_id
from fleetlore.operations.request import Name, Request
from fleetlore.operations.responses import Stored
from fleetlore.projections.signed_views import SignedGoalsFold
from fleetlore.views import names as names_view
from fleetlore.views.approvals import ASKING_KINDS, ENDING_KINDS, Approval, ApprovalStatus, find_end, is_expired, parse_approval

IsTrusted: TypeAlias = Callable[[Event], bool]
UUID_CHARS, SHORT_ID = 36, 8
_CLOSED_REASONS = {
    "answered": "was answered already",
    "closed": "was answered in the program itself",
    "expired": "was not answered in time",
    "over": "was asked in a turn that is over",
}


# --- open requests


class ListApprovals(Request, kw_only=True):
    """Which approval requests; all that wait for an answer unless given."""

    id: Annotated[str, Meta(max_length=200, description="its id, or how it begins")] | None = None


class OpenApproval(Struct, kw_only=True):
    """An approval request that waits for an answer. Its texts are untrusted."""

    id: str
    short: str
    """The shortest unique prefix of its id."""
    tool: str
    input: Any
    text: str
    """What it would do, in one line."""
    goal: str | None
    goal_text: str
    """The beginning of the goal's description."""
    turn: int | None
    session: str | None
    agent: str | None
    shown: str
    """The agent's display name."""
    program: str | None
    call_id: str | None
    at: datetime | None
    expires: datetime | None
    seconds_left: int | None
    can_answer: bool
    """False if it must be answered in the program."""
    hidden: int
    """How many texts of the input were shortened or redacted."""


class OpenApprovals(Struct, kw_only=True):
    """Approval requests that wait for an answer, the newest last."""

    approvals: list[OpenApproval]


def list_approvals(context: OperationContext, request: ListApprovals) -> OpenApprovals:
    """What waits for an answer; `Invalid` if the one that is asked for does not wait."""
    if request.id is not None:
        found = [find_approval(context, request.id)]
        check_is_open(context, found[0], find_trust(context))
    else:
        found = read_open(context)
    with context.source.open_view("names") as (names, _):
        shown = {each.agent: names_view.display_name(names, each.agent) for each in found if each.agent}
    short = shorten_ids([each.id for each in found], SHORT_ID)
    return OpenApprovals(approvals=[_describe_request(context, each, short[each.id], shown.get(each.agent or "", "")) for each in found])


def read_open(context: OperationContext) -> list[Approval]:
    """All requests that wait, oldest first. On a sealed log only trusted events count."""
    now, is_trusted = context.now(), find_trust(context)
    if context.is_sealed():
        return [each for each in _read_all(context, is_trusted) if _find_status(context, each, is_trusted) == "waiting"]
    with context.source.open_view("fleet") as (fleet, _):
        return [each for each in fleet.approvals.values() if not is_expired(each, now)]


def find_approval(context: OperationContext, text: str) -> Approval:
    """The request with this id or unique prefix, open or not; an error otherwise."""
    is_trusted = find_trust(context)
    if len(text) == UUID_CHARS:
        found = [each for event in context.log.get([text.lower()]) if is_trusted(event) and (each := parse_approval(event)) is not None]
    else:
        # Ids of one minute begin alike: those that wait come first.
        found = [each for each in read_open(context) if text and each.id.startswith(text.lower())]
        found = found or [each for each in _read_all(context, is_trusted) if text and each.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"no open question id starts with {text!r}; `lore decide` lists them")
    several = ", ".join(each.id for each in found[-8:])
    raise Invalid(f"several question ids start with {text!r}; give more characters: {several}")


def find_trust(context: OperationContext) -> IsTrusted:
    """Which events to trust without the key: on a sealed log, of goals those that name it."""
    seal = None if context.source.coordination is None else context.source.coordination.load_seal()
    if seal is None:
        return lambda event: True
    is_signed = SignedGoalsFold(seal).is_signed
    return lambda event: event.goal is None or is_signed(event)


def check_is_open(context: OperationContext, approval: Approval, is_trusted: IsTrusted) -> None:
    """`Invalid` if a request was answered, has timed out, or its turn is over."""
    found = _find_status(context, approval, is_trusted)
    if found != "waiting":
        raise Invalid(f"question {approval.id} {_CLOSED_REASONS[found]}; `lore decide` shows what waits")


def _read_all(context: OperationContext, is_trusted: IsTrusted) -> list[Approval]:
    events = context.log.read(kinds=ASKING_KINDS)
    return [each for event in events if is_trusted(event) and (each := parse_approval(event)) is not None]


def _find_status(context: OperationContext, approval: Approval, is_trusted: IsTrusted) -> ApprovalStatus:
    for event in context.log.read(approval.scope, after=approval.position, kinds=ENDING_KINDS):
        if (ended := find_end(approval, event)) is not None and is_trusted(event):
            return ended
    return "expired" if is_expired(approval, context.now()) else "waiting"


def _describe_request(context: OperationContext, approval: Approval, short: str, shown: str) -> OpenApproval:
    started = None
    if approval.goal is not None:
        started = next(iter(context.log.read(approval.scope, kinds=("driver.goal_started",), limit=1)), None)
    same = ("id", "tool", "input", "text", "goal", "turn", "agent", "program", "call_id", "at", "expires", "can_answer", "hidden")
    return OpenApproval(
        **{name: getattr(approval, name) for name in same},
        short=short,
        shown=shown or approval.agent or "",
        session=approval.run,
        goal_text="" if started is None else (started.text or "")[:400],
        seconds_left=None if approval.expires is None else round((approval.expires - context.now()).total_seconds()),
    )


# --- answers


class AnswerGoal(Request, kw_only=True):
    """A person's answer to an approval request of a goal."""

    id: Annotated[Name, Meta(description="the goal, by its id or a unique prefix")]
    of: Annotated[Name, Meta(description="the question, by its id or a unique prefix")]
    choice: Literal["allow", "deny"]
    message: Annotated[str, Meta(max_length=2000, description="the reason; the agent sees it")] | None = None


def answer_goal(context: OperationContext, request: AnswerGoal) -> Stored:
    """`decide_approval` for a request of this goal."""
    if find_goal_id(context.log, request.id) != find_approval(context, request.of).goal:
        raise NotFound(f"goal {request.id} has not asked {request.of}; `lore decide` lists open questions")
    return decide_approval(context, Decide(id=request.of, choice=request.choice, reason=request.message))


class Decide(Request, kw_only=True):
    """A person's answer to an approval request of an agent."""

    id: Annotated[Name, Meta(description="the request, by its id or a unique prefix")]
    choice: Literal["allow", "deny"]
    reason: Annotated[str, Meta(max_length=2000, description="the reason; the agent sees it")] | None = None


def decide_approval(context: OperationContext, request: Decide) -> Stored:
    """Allow or deny what an agent asks for. `Invalid` if it was answered, has timed out, or its turn is over."""
    approval = find_approval(context, request.id)
    if not approval.can_answer:
        raise Invalid(f"question {approval.id} can only be answered in {approval.program or 'the program'} itself")
    if context.is_agent and context.actor == approval.agent:
        raise Invalid("an agent cannot answer its own request; a person must")
    is_sealed = context.is_sealed()
    check_is_open(context, approval, lambda event: not is_sealed)  # signatures are checked once the key is known
    key = context.signing_key("to answer")
    if key is not None and not any(map(key.has_signed, context.log.get([approval.id]))):
        raise Invalid(f"question {approval.id} was not asked by the goal's driver: its signature is false; `lore decide` shows what waits")
    reason = (request.reason or "").strip()

    def answer(_: None) -> JournalDecision[None]:
        head = context.log.head(approval.scope)  # before looking, so that an event in between causes a conflict
        check_is_open(context, approval, (lambda event: True) if key is None else key.has_signed)
        value = {"choice": request.choice, "message": reason}
        event = commands.make_control_event(
            approval.goal, "decide", by=context.actor, value=value, of=approval.id, reason=reason or None, now=context.now
        )
        text = f"{request.choice} {approval.tool}" + (f": {reason}" if reason else "")
        event = replace(event, text=text[: commands.MAX_TEXT_CHARS], data=event.data | {"via": context.via})
        if approval.goal is None:
            event = replace(event, run=approval.run, agent=approval.agent)
        return JournalDecision([event], guard=Expect(approval.scope, head))

    # A busy agent must not keep a person from answering. Who asked ignores an answer that comes too late.
    stored = BlockingJournal(context.log, NoState(), scopes=(), key=key).decide(answer, unguarded=True).events
    word = "allowed" if request.choice == "allow" else "denied"
    of = f"turn {approval.turn or '?'} of goal {approval.goal}" if approval.goal is not None else f"session {approval.run}"
    return Stored.from_events(f"{word}: {approval.tool} in {of}", stored)
