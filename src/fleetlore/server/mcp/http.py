"""MCP at `/mcp` of the HTTP server. Stateless: the token is checked with every request, and there are no sessions.

The MCP library is imported with the first request: it takes as long as the rest of the server, and most servers never need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.datastructures import State
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.problems import Problem
from fleetlore.server.security.authorization import BROWSER_LABEL
from fleetlore.server.security.local_token import LOCAL_TOKEN_LABEL

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from fleetlore.server.context import AppContext
    from fleetlore.server.mcp.protocol import Context

PATH = "/mcp"
MAX_BODY_BYTES = 1 << 20
"""Of a request body."""
MISSING_EXTRA = "MCP needs an extra package on the server: pip install 'fleetlore[mcp]', then start the server again"
_CALLER = "fleetlore.mcp.caller"
"""Key of the caller in the ASGI scope."""
_SERVER = "mcp_server"
"""Attribute of the app's state."""
_HOW_TO_WRITE = "to write, use a token with the scope write and a label: `lore token create --scope write --label NAME`"

T = TypeVar("T")


class McpEndpoint:
    """The ASGI application at `/mcp`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive)
        if request.method != "POST":
            raise Problem(
                405, f"{PATH} does not accept {request.method}, because it keeps no sessions; send a POST", headers={"allow": "POST"}
            )
        app_context: AppContext = scope["app"].state.context
        scope[_CALLER] = await identify_caller(app_context, request)
        await _handle_request(await _get_server(scope["app"].state, app_context), scope, receive, send)


async def identify_caller(app_context: AppContext, request: Request) -> Caller:
    """The caller by its token."""
    token = await app_context.keys.require_scope(request, "read")
    scopes = await app_context.keys.list_scopes(request)
    if "write" not in scopes:
        return Caller(token.label or None, refusal=f"the token {token.id} has only the scope {token.scope}; {_HOW_TO_WRITE}")
    if token.label in ("", LOCAL_TOKEN_LABEL, BROWSER_LABEL):
        return Caller(refusal=f"the token {token.id} has no label of its own, so the log could not say who wrote; {_HOW_TO_WRITE}")
    return Caller(token.label, can_write=True, can_admin="admin" in scopes)


async def _get_server(state: State, app_context: AppContext) -> Server[Any]:
    """The MCP server, made with the first request."""
    made: asyncio.Future[Server[Any]] | None = getattr(state, _SERVER, None)
    if made is None or _has_failed(made):
        made = asyncio.ensure_future(app_context.run(_make_server, app_context))
        setattr(state, _SERVER, made)
    try:
        return await asyncio.shield(made)  # a client that disconnects must not cancel it for the others
    except ModuleNotFoundError as error:
        raise Problem(501, f"{MISSING_EXTRA} ({error.name} is missing)") from error


def _has_failed(made: asyncio.Future[Server[Any]]) -> bool:
    """Whether making the server failed, so that the next request tries again."""
    return made.done() and (made.cancelled() or made.exception() is not None)


def _make_server(app_context: AppContext) -> Server[Any]:
    from fleetlore.server.mcp.protocol import make_server

    return make_server(HttpTransport(app_context))


async def _handle_request(server: Server[Any], scope: Scope, receive: Receive, send: Send) -> None:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    # `Guard` has checked Host and Origin. One manager per request: without sessions it has nothing to keep.
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES)
    async with manager.run():
        await manager.handle_request(scope, receive, send)


class HttpTransport:
    """Runs tools in the threads of the HTTP server, for the caller of each request's token."""

    def __init__(self, app_context: AppContext) -> None:
        self._app_context = app_context
        self.source: ViewSource = app_context.view_cache

    def find_caller(self, context: Context) -> Caller:
        """The caller that `McpEndpoint` found by the token."""
        request = context.request
        return request.scope[_CALLER] if isinstance(request, Request) else Caller()

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """Run `work` in a thread; costly work a few at a time."""
        return await (self._app_context.run_costly(context.request, work) if is_costly and context.request else self._app_context.run(work))


ROUTES = [Route(PATH, McpEndpoint())]
