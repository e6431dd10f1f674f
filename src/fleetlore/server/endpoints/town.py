"""Doors for a person who steers a town: agents, tasks, missions, reviews and plans; and for whoever may write: messages and notes.

Every wish is checked against the town as it stands (`town/commands.py`), and is on the log before it is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.errors import Conflict, Invalid, InvalidPlan
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect
from fleetlore.server.answers.town_detail import MOVES
from fleetlore.server.endpoints.request_body import Body, read_as, read_body
from fleetlore.server.endpoints.response import JSON, Answer, door, positions
from fleetlore.server.problems import Problem
from fleetlore.town import commands, mission_commands
from fleetlore.town.commands import TownCommand
from fleetlore.town.plans import issues, toml
from fleetlore.views.town_state import CONDUCTOR, PERSON_MAILBOXES, TownState

if TYPE_CHECKING:
    from fleetlore.log.tokens import TokenScope
    from fleetlore.server.context import House

PERSON = "control room"
LONGEST_NAME = 200
_TRIES = 20

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Names = Annotated[list[Name], Meta(max_length=commands.MAX_NAMES)]
Reason = Annotated[str, Meta(max_length=2000)]
Words = Annotated[str, Meta(max_length=commands.MAX_TEXT_BYTES)]
Priority = Literal["urgent", "high", "normal", "low"]


class AgentWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked of an agent."""

    agent: Name
    action: Literal["interrupt", "resume", "drain", "kill", "restart"]
    reason: Reason = ""


class TaskWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a task."""

    task: Name
    action: Literal["assign", "redirect", "cancel", "retry"]
    agent: Name | None = None
    """To whom it goes, for `assign` and `redirect`, which are the same."""
    reason: Reason = ""


class NewTask(Struct, kw_only=True, forbid_unknown_fields=True):
    """A task for the backlog, or for one agent."""

    title: Annotated[str, Meta(min_length=1, max_length=300)]
    description: Words = ""
    roles: Names = []
    priority: Priority = "normal"
    tags: Names = []
    checks: Names = []
    depends_on: Names = []
    agent: Name | None = None


class MissionWish(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is asked of a mission."""

    mission: Name
    action: Literal["pause", "resume", "fail", "helped", "archive"]
    reason: Reason = ""


class Verdict(Struct, kw_only=True, forbid_unknown_fields=True):
    """A person's own word on an item's work."""

    mission: Name
    item: Name
    verdict: Literal["approve", "reject"]
    reason: Reason = ""


class NewMission(Struct, kw_only=True, forbid_unknown_fields=True):
    """A mission to be started, as docs/town-plans.md tells."""

    plan: str
    """TOML, or issues as JSON."""
    format: Literal["toml", "issues"] = "toml"
    title: Annotated[str, Meta(max_length=300)] = ""
    """For issues, which have none together."""
    done: Annotated[list[Name], Meta(max_length=500)] = []
    """Issues that need not be waited for."""


class NewMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """What an agent is told. It comes from the conductor, who gets the answer."""

    to: Name
    body: Words
    type: Literal["info", "query", "task", "confirmation"] = "info"
    priority: Priority = "normal"
    correlation: Name | None = None
    """The message that it answers; that one is then used."""
    task: Name | None = None
    mission: Name | None = None


class UsedMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message to the conductor that needs nothing more."""

    message: Name
    to: Literal["conductor", "supervisor"] = "conductor"


class NewNote(Struct, kw_only=True, forbid_unknown_fields=True):
    """Words about a mission."""

    mission: Name
    text: Words


_T = TypeVar("_T", bound=Struct)
Turn = Callable[[TownState, _T], TownCommand | Sequence[TownCommand]]


# --- wishes


def _agent(town: TownState, said: AgentWish) -> TownCommand:
    _known(town.agents, said.agent, "agent")
    return commands.control_agent(town, said.agent, said.action, by=PERSON, reason=said.reason.strip())


def _task(town: TownState, said: TaskWish) -> TownCommand:
    _known(town.tasks, said.task, "task")
    if said.action in ("assign", "redirect"):
        if said.agent is None:
            raise Problem(422, "agent: is missing; say to whom it goes")
        _known(town.agents, said.agent, "agent")
        return commands.assign_task(town, said.task, said.agent, by=PERSON)
    ask = commands.cancel_task if said.action == "cancel" else commands.retry_task
    return ask(town, said.task, by=PERSON, reason=said.reason.strip())


def _new_task(town: TownState, said: NewTask) -> TownCommand:
    if said.agent is not None:
        _known(town.agents, said.agent, "agent")
    fields = {name: getattr(said, name) for name in NewTask.__struct_fields__ if name != "title"}
    return commands.add_task(town, said.title, by=PERSON, **fields)


def _mission(town: TownState, said: MissionWish) -> TownCommand:
    _known(town.missions, said.mission, "mission")
    reason = said.reason.strip()
    if said.action == "archive":
        return mission_commands.archive_mission(town, said.mission, by=PERSON)
    if said.action == "helped":
        return mission_commands.resolve_help_request(town, said.mission, by=PERSON, reason=reason)
    return mission_commands.change_mission_state(town, said.mission, MOVES[said.action], by=PERSON, reason=reason)


def _verdict(town: TownState, said: Verdict) -> TownCommand:
    _known(town.missions, said.mission, "mission")
    _known(town.missions[said.mission].items, said.item, "item")
    is_approved = said.verdict == "approve"
    return mission_commands.review_item(town, said.mission, said.item, by=PERSON, is_approved=is_approved, reason=said.reason.strip())


def _message(town: TownState, said: NewMessage) -> TownCommand:
    if said.to not in PERSON_MAILBOXES:
        _known(town.agents, said.to, "agent")
    fields = {name: getattr(said, name) for name in ("type", "priority", "task", "mission")}
    if said.correlation is None or said.correlation not in town.inboxes.get(CONDUCTOR, {}):
        return commands.send_message(town, said.to, said.body, by=CONDUCTOR, correlation=said.correlation, **fields)
    return commands.reply(town, said.to, said.body, by=CONDUCTOR, mailbox=CONDUCTOR, reply_to=said.correlation, **fields)


def _used(town: TownState, said: UsedMessage) -> TownCommand:
    _known(town.inboxes.get(said.to, {}), said.message, "message")
    return commands.acknowledge_message(town, said.to, said.message)


def _note(town: TownState, said: NewNote) -> TownCommand:
    _known(town.missions, said.mission, "mission")
    return mission_commands.add_mission_note(town, said.mission, said.text, by=PERSON)


class Unknown(Exception):
    """Something that is not there."""


def _known(all: Any, name: str, what: str) -> None:
    if name not in all:
        raise Unknown(f"there is no such {what} in this town; `GET /api/town` lists those there are, with their whole names")


# --- doors


def _entrance(kind: type[_T], turn: Turn[_T], scope: TokenScope) -> Callable[[Request], Awaitable[Response]]:
    """The door for one kind of wish. What steers is signed where the log is sealed."""

    @door("town")
    async def enter(request: Request, house: House) -> Answer:
        await house.keys.need(request, scope)
        body = await read_body(request, house.limits)
        return positions(await house.store(body, _fulfil, house, body, kind, turn, is_signed=scope == "admin"))

    return enter


def _fulfil(house: House, body: Body, kind: type[_T], turn: Turn[_T], *, is_signed: bool) -> list[str]:
    said = _read(body.unpack(house.limits.body), kind)
    return _tell(house, lambda town: turn(town, said), is_signed=is_signed)


def _tell(house: House, turn: Callable[[TownState], TownCommand | Sequence[TownCommand]], *, is_signed: bool) -> list[str]:
    """Store what fulfils a wish; looked at again as often as somebody else was quicker."""
    for _ in range(_TRIES):
        wishes = _checked(house, turn)
        try:
            return [position for wish in wishes for position in _append(house, wish.events, wish.expect, is_signed=is_signed)]
        except Conflict:
            continue
    raise Problem(409, "so much happens to it that nothing could be decided; look again, and ask once more")


def _checked(house: House, turn: Callable[[TownState], TownCommand | Sequence[TownCommand]]) -> Sequence[TownCommand]:
    with house.desk.looking(None, ["town"]) as look:
        try:
            made = turn(look.states["town"])
        except Unknown as error:
            if look.caught_up:
                raise Problem(404, str(error)) from error
            detail = "the log is still being read, and this has not come up; try again soon"
            raise Problem(503, detail, headers={"retry-after": "1"}) from error
        except Invalid as error:
            raise Problem(409, str(error)) from error
    return [made] if isinstance(made, TownCommand) else made


def _append(house: House, events: Sequence[Event], expect: Expect | None, *, is_signed: bool) -> list[str]:
    key = house.operator if is_signed else None
    told = events if key is None else [key.sign_event(event, admit=house.log.admit) for event in events]
    return house.log.append(told, expect=expect)


def _read(raw: bytes, kind: type[_T]) -> _T:
    return read_as(raw, kind, f"known are {', '.join(each.name for each in msgspec.structs.fields(kind))}")


# --- missions from plans


@door("town")
async def start(request: Request, house: House) -> Answer:
    """Start a mission; what is wrong with its plan is told at once, in `problems`."""
    await house.keys.need(request, "admin")
    body = await read_body(request, house.limits)
    stored, mission, left_out = await house.store(body, _start, house, body)
    answer = {"positions": stored, "mission": mission, "left_out": left_out}
    return Answer(Response(msgspec.json.encode(answer), media_type=JSON), events=len(stored))


def _start(house: House, body: Body) -> tuple[list[str], str, Sequence[str]]:
    said = _read(body.unpack(house.limits.body), NewMission)
    try:
        is_toml = said.format == "toml"
        plan = (
            toml.parse_toml_plan(said.plan, "plan")
            if is_toml
            else issues.parse_issues(said.plan, "issues", title=said.title, done=said.done)
        )
    except InvalidPlan as error:
        raise Problem(422, str(error), problems=list(error.problems)) from error
    return _tell(house, lambda town: mission_commands.start_mission(town, plan, by=PERSON), is_signed=True), plan.id, plan.left_out


ENTRANCES: tuple[tuple[str, str, type[Struct], Turn[Any], TokenScope], ...] = (
    ("/api/town/agents", "Interrupt, resume, drain, kill or restart an agent", AgentWish, _agent, "admin"),
    ("/api/town/tasks", "Assign a task to an agent, cancel it, or have it tried again", TaskWish, _task, "admin"),
    ("/api/town/backlog", "Write a task down", NewTask, _new_task, "admin"),
    (
        "/api/town/missions",
        "Pause, resume, give up or archive a mission, or say that it was helped",
        MissionWish,
        _mission,
        "admin",
    ),
    ("/api/town/reviews", "Approve an item's work, or send it back", Verdict, _verdict, "admin"),
    ("/api/town/messages", "Tell an agent something", NewMessage, _message, "write"),
    ("/api/town/messages/used", "Take a message out of the conductor's inbox", UsedMessage, _used, "write"),
    ("/api/town/notes", "Write something down about a mission", NewNote, _note, "write"),
)
"""Path, what it does, what is sent, how that is done, and which scope it takes."""

ROUTES = [
    *(Route(path, _entrance(kind, turn, scope), methods=["POST"]) for path, _, kind, turn, scope in ENTRANCES),
    Route("/api/town/plans", start, methods=["POST"]),
]
