"""Talking with our MCP servers as others do: the protocol's own client, over HTTP against a whole server, or without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fleetlore import clock
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.tokens import TokenScope, create_token
from fleetlore.operations.sources import OnDemandSource, ViewSource, build_views
from fleetlore.projections.signed_views import SignedGoalsFold
from fleetlore.projections.store import ProjectionStore
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.protocol import make_server
from fleetlore.server.mcp.stdio import StdioTransport
from fleetlore.views.outcomes.rules import default_rules
from tests.server.serving import Served

T = TypeVar("T")
Talk = Callable[[Client], Awaitable[T]]


def over_http(served: Served, talk: Talk[T], *, token: str | None = None, mode: str = "auto") -> T:
    """What somebody with this token gets at `/mcp`; else with the server's own, which has no name to write under."""
    headers = {"authorization": f"Bearer {token or served.token}"}

    async def go() -> T:
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{served.url}mcp", http_client=http), mode=mode) as client,
        ):
            return await talk(client)

    return asyncio.run(go())


def directly(source: ViewSource, caller: Caller, talk: Talk[T]) -> T:
    """The same as over standard input and output, without the pipes."""

    async def go() -> T:
        async with Client(make_server(StdioTransport(source, caller))) as client:
            return await talk(client)

    return asyncio.run(go())


async def answer(client: Client, tool: str, **asked: Any) -> Any:
    """What a tool answers; it has to be an answer."""
    result = await client.call_tool(tool, asked)
    assert not result.is_error, result.content
    return result.structured_content


async def text(client: Client, tool: str, **asked: Any) -> str:
    """The same as text, be it a refusal."""
    [content] = (await client.call_tool(tool, asked)).content
    assert content.type == "text"
    return content.text


def token_for(served: Served, label: str, scope: TokenScope = "write") -> str:
    """A token that somebody was given."""
    secret, token = create_token(scope, now=clock.now(), label=label)
    with open_shared(served.context.url, town=served.context.town) as shared:
        shared.save_token(token)
    return secret


def on_demand(log: BlockingRecorder, store: ProjectionStore | None = None) -> OnDemandSource:
    """A log as `lore mcp` reads it."""
    rules = default_rules()
    return OnDemandSource(log, build_views(rules.costs, SignedGoalsFold()), lambda: store, town="default", rules=rules)
