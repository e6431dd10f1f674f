"""`McpTool`: what the server needs to know about one tool."""

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
    """Blocks."""
    render: Callable[[Any], str]
    """The response as text."""
    scope: TokenScope = "read"
    is_costly: bool = False
    """Whether it may be slow, so that the server runs only a few at a time."""

    @property
    def writes(self) -> bool:
        """Whether it stores events."""
        return self.scope != "read"
