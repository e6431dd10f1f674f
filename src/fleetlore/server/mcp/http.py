"""MCP at `/mcp` of the server. Every request stands by itself: its token is looked at each time, and no session outlives it.

The library is loaded with the first request: it takes as long as all the rest of the server, and most servers are never asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.datastructures import State
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fleetlore.log.tokens import Token, included_scopes
from fleetlore.server.mcp.sources import Caller, Served, Source
from fleetlore.server.problems import Problem
from fleetlore.server.security.local_token import LABEL

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from fleetlore.server.context import House
    from fleetlore.server.mcp.protocol import Context

PATH = "/mcp"
MOST_BYTES = 1 << 20
"""Of a request's body."""
NEEDED = "MCP needs the extra here: pip install 'fleetlore[mcp]', and start the server again"
_CALLER, _SERVER = "fleetlore.mcp.caller", "mcp_server"
_NO_TOKEN = "to write needs a token with the scope write, and a label to speak under: `lore token create --scope write --label NAME`"

T = TypeVar("T")


class Endpoint:
    """The application at `/mcp`, for a house."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        if request.method != "POST":
            raise Problem(405, f"{request.method} is not for {PATH}: it keeps no sessions; send a POST", headers={"allow": "POST"})
        house: House = scope["app"].state.house
        scope[_CALLER] = await caller_of(house, request)
        await _answer(await _server(scope["app"].state, house), scope, receive, send)


async def caller_of(house: House, request: Request) -> Caller:
    """Who a token lets speak, or read; a token that is not good is refused even where none is needed."""
    token = await house.keys.bearer(request)
    if token is None:
        await house.keys.need(request, "read")
        return Caller(why_not=_NO_TOKEN)
    return _known(token)


def _known(token: Token) -> Caller:
    is_own = token.label in ("", LABEL)
    if "write" not in included_scopes(token.scope):
        return Caller(token.label or None, why_not=f"the token {token.id} is for {token.scope} only; {_NO_TOKEN}")
    if is_own:
        return Caller(why_not=f"the token {token.id} has no label of its own, so nobody would know who speaks; {_NO_TOKEN}")
    return Caller(token.label, may_write=True)


async def _server(state: State, house: House) -> Server[Any]:
    """The protocol's server of a house, made when it is first asked for."""
    if not hasattr(state, _SERVER):
        setattr(state, _SERVER, asyncio.ensure_future(house.run(_make, house)))
    made: asyncio.Future[Server[Any]] = getattr(state, _SERVER)
    try:
        return await asyncio.shield(made)  # who goes away meanwhile leaves it to the others
    except ModuleNotFoundError as error:
        raise Problem(501, f"{NEEDED} ({error.name} is missing)") from error


def _make(house: House) -> Server[Any]:
    from fleetlore.server.mcp.protocol import make_server

    return make_server(Desk(house))


async def _answer(server: Server[Any], scope: Scope, receive: Receive, send: Send) -> None:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    # Host and Origin were looked at by the guard. One manager a request: it has nothing to keep, and ends with it.
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=MOST_BYTES)
    async with manager.run():
        await manager.handle_request(scope, receive, send)


class Desk:
    """The room of a house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.source: Source = Served(house)

    def caller(self, context: Context) -> Caller:
        """Who the request's token says that it is."""
        request = context.request
        return request.scope[_CALLER] if isinstance(request, Request) else Caller()

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """In the house's threads; what may take long waits for its turn."""
        return await (self._house.look(context.request, work) if is_costly and context.request else self._house.run(work))


ROUTES = [Route(PATH, Endpoint())]
