"""`/api/chat` and `/api/clear`: one turn with an agent, and the session as the log has it. `/ws/chat` says the same word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.server import queries
from fleetlore.server.answers import graph as shows
from fleetlore.server.endpoints.request_body import read_as, read_body
from fleetlore.server.endpoints.response import JSON, Answer, door
from fleetlore.server.problems import Problem
from fleetlore.server.types.graph import Chat, ChatReply, ChatStanding

if TYPE_CHECKING:
    from fleetlore.graph.session import GraphTurnResult, Session
    from fleetlore.server.context import House

LONGEST = 8000
MOST_CONTROLS = 500
MOST_BYTES = 128 << 10
"""Of all that is said at once: it becomes part of an event."""

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=r"\S")]
Dashboard = Annotated[list[dict[str, Any]], Meta(max_length=MOST_CONTROLS)]
"""What the page shows, each as a control."""
_T = TypeVar("_T")


class ChatQuery(queries.AsOf, kw_only=True):
    """Which session."""

    session: Annotated[str, Meta(min_length=1, max_length=200, description="Which of one's own to show.")] | None = None


class Message(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a user says or presses: either `text`, or an `action` of the screen."""

    session: Id | None = None
    """Which; a new one is begun if none is named."""
    text: Text | None = None
    action: Id | None = None
    data: Any = None
    """What goes with the action."""
    dashboard: Dashboard | None = None


class Clearing(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which session is to forget."""

    session: Id


async def look(request: Request) -> Response:
    """A session of one's own, and all there are; as of any moment."""
    house: House = request.app.state.house
    identity = await house.talk.identity(request, "read")
    query = queries.read(request, ChatQuery)
    shown = house.look(request, _look, house, query, identity) if query.as_of else house.run(_look, house, query, identity)
    return answered(await shown).response


def _look(house: House, query: ChatQuery, identity: str) -> Chat:
    with house.desk.looking(house.desk.place(query.as_of), shows.NEEDS) as look:
        return shows.chat(look, identity, query.session)


@door("chat")
async def talk(request: Request, house: House) -> Answer:
    """Take one turn, and answer when it is over."""
    identity = await house.talk.identity(request, "write")
    said = await read_said(request, house, Message, 'send {"text": …} or {"action": …}, and the "session" to go on with')
    if (said.text is None) == (said.action is None):
        raise Problem(422, 'either "text" or "action" is needed, and not both')
    session = await house.talk.open(said.session, identity)
    return answered(_reply(session, await house.talk.begin(_turn(session, said))), events=1)


async def _turn(session: Session, said: Message) -> GraphTurnResult:
    if said.action is None:
        return await session.handle_text(said.text or "", said.dashboard)
    return await session.handle_action(said.action, said.data, said.dashboard)


def _reply(session: Session, ended: GraphTurnResult) -> ChatReply:
    screen = session.build_screen()
    told = [entry.text for entry in screen.history if entry.role == "assistant" and entry.turn == ended.turn]
    text = told[-1] if told and ended.error is None else ""
    return ChatReply(session=session.id, text=text, controls=screen.controls, state=screen.state, error=ended.error)


@door("chat")
async def clear(request: Request, house: House) -> Answer:
    """Forget what was said, and clear the screen; the log keeps what was."""
    identity = await house.talk.identity(request, "write")
    said = await read_said(request, house, Clearing, 'send {"session": …}')
    session = await house.talk.open(said.session, identity)
    await session.clear_conversation()
    return standing(session)


# --- for all doors of conversations


async def read_said(request: Request, house: House, kind: type[_T], how: str) -> _T:
    """What came in, as a type."""
    raw = (await read_body(request, house.limits)).unpack(house.limits.body)
    if len(raw) > MOST_BYTES:
        raise Problem(413, f"more than {MOST_BYTES:,} bytes were said at once; say less, or say it in parts")
    return read_as(raw, kind, how)


def answered(value: Struct, *, events: int = 0) -> Answer:
    """A value as JSON."""
    return Answer(Response(msgspec.json.encode(value), media_type=JSON), events=events)


def standing(session: Session) -> Answer:
    """How a session stands now."""
    return answered(ChatStanding(session=session.id, screen=session.build_screen()), events=1)


ROUTES = [
    Route("/api/chat", look, methods=["GET"]),
    Route("/api/chat", talk, methods=["POST"]),
    Route("/api/clear", clear, methods=["POST"]),
]
