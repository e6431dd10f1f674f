"""`McpTool`: the description of one MCP tool, from which the server lists and calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from fleetlore.log.tokens import TokenScope
from fleetlore.operations.request import Request
from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp.caller import Caller


class McpTool(NamedTuple):
    """One MCP tool."""

    name: str
    title: str
    description: str
    request: type[Request]
    response: type[Struct]
    call: Callable[[ViewSource, Caller, Any], Any]
    """The handler. It is synchronous, so the server must not call it on the event loop."""
    render: Callable[[Any], str]
    """Formats the response as text."""
    scope: TokenScope = "read"
    is_costly: bool = False
    """Whether it may be slow, so that the server runs only a few at a time."""

    @property
    def writes(self) -> bool:
        """Whether it may store events: any scope other than `read`."""
        return self.scope != "read"
