"""MCP tools of the operations in `operations/table.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fleetlore.operations import table
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import load_operation
from fleetlore.operations.table import Operation
from fleetlore.prompts.text_safety import quote_record
from fleetlore.server.mcp.sanitise import MAX_PAGE_BYTES
from fleetlore.server.mcp.tool import McpTool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fleetlore.operations.sources import ViewSource
    from fleetlore.server.mcp.caller import Caller
RENDERERS: dict[str, Callable[[Any], str]] = {}
"""Operation → how its response is written as text; others give their answer."""
_OWN_NAME = "Stored under your name."


def build_tools(shaped: Collection[str]) -> tuple[McpTool, ...]:
    """A tool for each operation with an MCP name, except those that are shaped for models."""
    return tuple(_make_tool(operation) for operation in table.OPERATIONS if operation.mcp and operation.mcp not in shaped)


def _make_tool(operation: Operation) -> McpTool:
    loaded = load_operation(operation)
    return McpTool(
        operation.mcp,
        operation.title or operation.help.rstrip("."),
        f"{operation.help} {_OWN_NAME}" if operation.changes else operation.help,
        loaded.request,
        loaded.response,
        partial(_call_operation, operation),
        RENDERERS.get(operation.name, render_answer if operation.changes else _render_read),
        scope=operation.scope,
        is_costly=operation.is_costly,
    )


def _render_read(response: Any) -> str:
    """What was read, as quoted text: it is words of agents and programs."""
    return quote_record(render_answer(response), MAX_PAGE_BYTES)


def _call_operation(operation: Operation, source: ViewSource, caller: Caller, request: Any) -> Any:
    actor = caller.require(operation.scope) if operation.changes else caller.name or ""
    return load_operation(operation).run(OperationContext(source, actor=actor, is_agent=True), request)


def render_answer(response: Any) -> str:
    """The answer of a response, and what was stored; a response without an answer as JSON."""
    if not hasattr(response, "answer"):
        return msgspec.json.encode(response).decode()
    stored = [f"Stored as {event.id}, at {event.position}." for event in getattr(response, "events", ())]
    return "\n".join(filter(None, (response.answer, *stored)))
