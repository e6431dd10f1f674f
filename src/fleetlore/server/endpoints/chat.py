"""`POST /api/chat`, `/api/clear` and `/api/graph/switch`: run a turn of a chat session, clear it, change its graph.

`/ws/chat` (live/chat.py) streams the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.operations.conversations import ChatReply, ChatStanding
from fleetlore.server.endpoints.request_body import decode_json, read_body
from fleetlore.server.endpoints.response import JSON, EndpointResult, counted_endpoint
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.graph.session import GraphTurnResult, Session
    from fleetlore.server.context import AppContext

MAX_TEXT_CHARS = 8000
MAX_CONTROLS = 500
MAX_MESSAGE_BYTES = 128 << 10
"""Of one message: it becomes part of an event."""

Id = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, pattern=r"\S")]
Dashboard = Annotated[list[dict[str, Any]], Meta(max_length=MAX_CONTROLS)]
"""The controls on the page."""
_T = TypeVar("_T")


class ChatPost(Struct, kw_only=True, forbid_unknown_fields=True):
    """A user's message: either `text`, or an `action` of the screen."""

    session: Id | None = None
    """A new session is started if none is given."""
    text: Text | None = None
    action: Id | None = None
    data: Any = None
    """Arguments of the action."""
    dashboard: Dashboard | None = None


class ClearSession(Struct, kw_only=True, forbid_unknown_fields=True):
    """Clear a session."""

    session: Id


class SwitchGraph(Struct, kw_only=True, forbid_unknown_fields=True):
    """Change the graph of a session."""

    graph: Annotated[str, Meta(min_length=1, max_length=200)]
    session: Id | None = None
    """A new session is started if none is given."""


@counted_endpoint("chat")
async def post_chat(request: Request, context: AppContext) -> EndpointResult:
    """Run one turn and respond when it is over."""
    identity = await context.chats.resolve_identity(request, "write")
    post = await read_message(request, context, ChatPost, 'send {"text": …} or {"action": …}, and the "session" to go on with')
    if (post.text is None) == (post.action is None):
        raise Problem(422, 'either "text" or "action" is needed, and not both')
    session = await context.chats.open_session(post.session, identity)
    return json_result(_chat_reply(session, await context.chats.start_turn(_run_turn(session, post))), events=1)


async def _run_turn(session: Session, post: ChatPost) -> GraphTurnResult:
    if post.action is None:
        return await session.handle_text(post.text or "", post.dashboard)
    return await session.handle_action(post.action, post.data, post.dashboard)


def _chat_reply(session: Session, result: GraphTurnResult) -> ChatReply:
    screen = session.build_screen()
    replies = [entry.text for entry in screen.history if entry.role == "assistant" and entry.turn == result.turn]
    text = replies[-1] if replies and result.error is None else ""
    return ChatReply(session=session.id, text=text, controls=screen.controls, state=screen.state, error=result.error)


@counted_endpoint("chat")
async def post_clear(request: Request, context: AppContext) -> EndpointResult:
    """Clear the conversation and the screen of a session; the log keeps its events."""
    identity = await context.chats.resolve_identity(request, "write")
    clear = await read_message(request, context, ClearSession, 'send {"session": …}')
    session = await context.chats.open_session(clear.session, identity)
    await session.clear_conversation()
    return session_result(session)


@counted_endpoint("chat")
async def post_switch(request: Request, context: AppContext) -> EndpointResult:
    """Change the graph; conversation and screen stay."""
    identity = await context.chats.resolve_identity(request, "write")
    body = await read_message(request, context, SwitchGraph, 'send {"graph": …}, and the "session"')
    session = await context.chats.open_session(body.session, identity)
    await session.switch_graph(body.graph)
    return session_result(session)


# --- for all chat endpoints


async def read_message(request: Request, context: AppContext, kind: type[_T], usage: str) -> _T:
    """The request body as a type; a `Problem` that ends with `usage` if it does not fit."""
    raw = (await read_body(request, context.limits)).decompress(context.limits.body)
    if len(raw) > MAX_MESSAGE_BYTES:
        raise Problem(413, f"more than {MAX_MESSAGE_BYTES:,} bytes in one message; shorten it or split it")
    return decode_json(raw, kind, usage)


def json_result(value: Struct, *, events: int = 0) -> EndpointResult:
    """A result with a JSON body."""
    return EndpointResult(Response(msgspec.json.encode(value), media_type=JSON), events=events)


def session_result(session: Session) -> EndpointResult:
    """The state of a session after a change."""
    return json_result(ChatStanding(session=session.id, screen=session.build_screen()), events=1)


ROUTES = [
    Route("/api/chat", post_chat, methods=["POST"]),
    Route("/api/clear", post_clear, methods=["POST"]),
    Route("/api/graph/switch", post_switch, methods=["POST"]),
]
