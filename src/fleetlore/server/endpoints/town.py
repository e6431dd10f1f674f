"""`POST /api/town/…`: commands to agents, tasks, missions, reviews and plans (scope `admin`); messages and notes (scope `write`).

Each command is checked against the current town state (`town/commands.py`) and stored before the response.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.errors import Invalid, InvalidPlan
from fleetlore.server.answers.town_detail import STATE_AFTER_ACTION
from fleetlore.server.endpoints.request_body import RequestBody, decode_json, read_body
from fleetlore.server.endpoints.response import JSON, EndpointResult, counted_endpoint, positions_result
from fleetlore.server.problems import Problem
from fleetlore.town import commands, mission_commands
from fleetlore.town.commands import TownCommand
from fleetlore.town.plans import issues, toml
from fleetlore.town.store_commands import store_commands
from fleetlore.views.town_state import CONDUCTOR, PERSON_MAILBOXES, TownState

if TYPE_CHECKING:
    from fleetlore.log.tokens import TokenScope
    from fleetlore.server.context import AppContext

PERSON = "control room"
MAX_NAME_CHARS = 200

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Names = Annotated[list[Name], Meta(max_length=commands.MAX_NAMES)]
Reason = Annotated[str, Meta(max_length=2000)]
Words = Annotated[str, Meta(max_length=commands.MAX_TEXT_BYTES)]
Priority = Literal["urgent", "high", "normal", "low"]


class AgentAction(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command to an agent."""

    agent: Name
    action: Literal["interrupt", "resume", "drain", "kill", "restart"]
    reason: Reason = ""


class TaskAction(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command about a task."""

    task: Name
    action: Literal["assign", "redirect", "cancel", "retry"]
    agent: Name | None = None
    """The assignee, for `assign` and `redirect` (which are the same)."""
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


class MissionAction(Struct, kw_only=True, forbid_unknown_fields=True):
    """A command about a mission."""

    mission: Name
    action: Literal["pause", "resume", "fail", "helped", "archive"]
    reason: Reason = ""


class ItemReview(Struct, kw_only=True, forbid_unknown_fields=True):
    """A person's review of an item's work."""

    mission: Name
    item: Name
    verdict: Literal["approve", "reject"]
    reason: Reason = ""


class NewMission(Struct, kw_only=True, forbid_unknown_fields=True):
    """A mission to start; docs/town-plans.md describes plans."""

    plan: str
    """TOML, or issues as JSON."""
    format: Literal["toml", "issues"] = "toml"
    title: Annotated[str, Meta(max_length=300)] = ""
    """The mission's title, for issues."""
    done: Annotated[list[Name], Meta(max_length=500)] = []
    """Issues that count as done."""


class NewMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message to an agent from the conductor, who gets the reply."""

    to: Name
    body: Words
    type: Literal["info", "query", "task", "confirmation"] = "info"
    priority: Priority = "normal"
    correlation: Name | None = None
    """The message that this answers; it is acknowledged."""
    task: Name | None = None
    mission: Name | None = None


class UsedMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """Acknowledge a message to the conductor."""

    message: Name
    to: Literal["conductor", "supervisor"] = "conductor"


class NewNote(Struct, kw_only=True, forbid_unknown_fields=True):
    """A note on a mission."""

    mission: Name
    text: Words


_T = TypeVar("_T", bound=Struct)
MakeCommand = Callable[[TownState, _T], TownCommand | Sequence[TownCommand]]


# --- commands


def _control_agent(town: TownState, request: AgentAction) -> TownCommand:
    _require_known(town.agents, request.agent, "agent")
    return commands.control_agent(town, request.agent, request.action, by=PERSON, reason=request.reason.strip())


def _control_task(town: TownState, request: TaskAction) -> TownCommand:
    _require_known(town.tasks, request.task, "task")
    if request.action in ("assign", "redirect"):
        if request.agent is None:
            raise Problem(422, "agent: is missing; say to whom it goes")
        _require_known(town.agents, request.agent, "agent")
        return commands.assign_task(town, request.task, request.agent, by=PERSON)
    ask = commands.cancel_task if request.action == "cancel" else commands.retry_task
    return ask(town, request.task, by=PERSON, reason=request.reason.strip())


def _add_task(town: TownState, request: NewTask) -> TownCommand:
    if request.agent is not None:
        _require_known(town.agents, request.agent, "agent")
    fields = {name: getattr(request, name) for name in NewTask.__struct_fields__ if name != "title"}
    return commands.add_task(town, request.title, by=PERSON, **fields)


def _control_mission(town: TownState, request: MissionAction) -> TownCommand:
    _require_known(town.missions, request.mission, "mission")
    reason = request.reason.strip()
    if request.action == "archive":
        return mission_commands.archive_mission(town, request.mission, by=PERSON)
    if request.action == "helped":
        return mission_commands.resolve_help_request(town, request.mission, by=PERSON, reason=reason)
    return mission_commands.change_mission_state(town, request.mission, STATE_AFTER_ACTION[request.action], by=PERSON, reason=reason)


def _review_item(town: TownState, request: ItemReview) -> TownCommand:
    _require_known(town.missions, request.mission, "mission")
    _require_known(town.missions[request.mission].items, request.item, "item")
    is_approved = request.verdict == "approve"
    return mission_commands.review_item(
        town, request.mission, request.item, by=PERSON, is_approved=is_approved, reason=request.reason.strip()
    )


def _send_message(town: TownState, request: NewMessage) -> TownCommand:
    if request.to not in PERSON_MAILBOXES:
        _require_known(town.agents, request.to, "agent")
    fields = {name: getattr(request, name) for name in ("type", "priority", "task", "mission")}
    if request.correlation is None or request.correlation not in town.inboxes.get(CONDUCTOR, {}):
        return commands.send_message(town, request.to, request.body, by=CONDUCTOR, correlation=request.correlation, **fields)
    return commands.reply(town, request.to, request.body, by=CONDUCTOR, mailbox=CONDUCTOR, reply_to=request.correlation, **fields)


def _acknowledge_message(town: TownState, request: UsedMessage) -> TownCommand:
    _require_known(town.inboxes.get(request.to, {}), request.message, "message")
    return commands.acknowledge_message(town, request.to, request.message)


def _add_note(town: TownState, request: NewNote) -> TownCommand:
    _require_known(town.missions, request.mission, "mission")
    return mission_commands.add_mission_note(town, request.mission, request.text, by=PERSON)


class UnknownTownName(Exception):
    """An agent, task, mission, item or message that the town does not have."""


def _require_known(known: Any, name: str, what: str) -> None:
    if name not in known:
        raise UnknownTownName(f"there is no such {what} in this town; `GET /api/town` lists those there are, with their whole names")


# --- endpoints


def _make_endpoint(kind: type[_T], make_command: MakeCommand[_T], scope: TokenScope) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of one command type. Commands with the scope `admin` are signed on a sealed log."""

    @counted_endpoint("town")
    async def endpoint(request: Request, context: AppContext) -> EndpointResult:
        await context.keys.need(request, scope)
        body = await read_body(request, context.limits)
        return positions_result(
            await context.run_storing(body, _handle_body, context, body, kind, make_command, is_signed=scope == "admin")
        )

    return endpoint


def _handle_body(context: AppContext, body: RequestBody, kind: type[_T], make_command: MakeCommand[_T], *, is_signed: bool) -> list[str]:
    request = _parse_body(body.decompress(context.limits.body), kind)
    return _decide_and_store(context, lambda town: make_command(town, request), is_signed=is_signed)


def _decide_and_store(
    context: AppContext, make_command: Callable[[TownState], TownCommand | Sequence[TownCommand]], *, is_signed: bool
) -> list[str]:
    """Make commands from the current state and store their events; returns their positions."""
    key = context.operator if is_signed else None
    stored = store_commands(context.log, lambda: _make_commands(context, make_command), key=key)
    return [event.position or "" for command in stored for event in command.events]


def _make_commands(context: AppContext, make_command: Callable[[TownState], TownCommand | Sequence[TownCommand]]) -> Sequence[TownCommand]:
    with context.view_cache.snapshot(None, ["town"]) as snapshot:
        try:
            made = make_command(snapshot.states["town"])
        except UnknownTownName as error:
            if snapshot.caught_up:
                raise Problem(404, str(error)) from error
            detail = "the log is still being read, and this has not come up; try again soon"
            raise Problem(503, detail, headers={"retry-after": "1"}) from error
        except Invalid as error:
            raise Problem(409, str(error)) from error
    return [made] if isinstance(made, TownCommand) else made


def _parse_body(raw: bytes, kind: type[_T]) -> _T:
    return decode_json(raw, kind, f"known are {', '.join(each.name for each in msgspec.structs.fields(kind))}")


# --- missions from plans


@counted_endpoint("town")
async def post_plan(request: Request, context: AppContext) -> EndpointResult:
    """Start a mission from a plan; errors of the plan are all listed in `problems`."""
    await context.keys.need(request, "admin")
    body = await read_body(request, context.limits)
    positions, mission, left_out = await context.run_storing(body, _start_mission, context, body)
    response = {"positions": positions, "mission": mission, "left_out": left_out}
    return EndpointResult(Response(msgspec.json.encode(response), media_type=JSON), events=len(positions))


def _start_mission(context: AppContext, body: RequestBody) -> tuple[list[str], str, Sequence[str]]:
    request = _parse_body(body.decompress(context.limits.body), NewMission)
    try:
        is_toml = request.format == "toml"
        plan = (
            toml.parse_toml_plan(request.plan, "plan")
            if is_toml
            else issues.parse_issues(request.plan, "issues", title=request.title, done=request.done)
        )
    except InvalidPlan as error:
        raise Problem(422, str(error), problems=list(error.problems)) from error
    return (
        _decide_and_store(context, lambda town: mission_commands.start_mission(town, plan, by=PERSON), is_signed=True),
        plan.id,
        plan.left_out,
    )


TOWN_COMMANDS: tuple[tuple[str, str, type[Struct], MakeCommand[Any], TokenScope], ...] = (
    ("/api/town/agents", "Interrupt, resume, drain, kill or restart an agent", AgentAction, _control_agent, "admin"),
    ("/api/town/tasks", "Assign a task to an agent, cancel it, or have it tried again", TaskAction, _control_task, "admin"),
    ("/api/town/backlog", "Write a task down", NewTask, _add_task, "admin"),
    (
        "/api/town/missions",
        "Pause, resume, give up or archive a mission, or say that it was helped",
        MissionAction,
        _control_mission,
        "admin",
    ),
    ("/api/town/reviews", "Approve an item's work, or send it back", ItemReview, _review_item, "admin"),
    ("/api/town/messages", "Tell an agent something", NewMessage, _send_message, "write"),
    ("/api/town/messages/used", "Take a message out of the conductor's inbox", UsedMessage, _acknowledge_message, "write"),
    ("/api/town/notes", "Write something down about a mission", NewNote, _add_note, "write"),
)
"""Path, summary, body type, function that makes the command, and the scope it needs."""

ROUTES = [
    *(Route(path, _make_endpoint(kind, make_command, scope), methods=["POST"]) for path, _, kind, make_command, scope in TOWN_COMMANDS),
    Route("/api/town/plans", post_plan, methods=["POST"]),
]
