"""MCP over standard input and output, for programs that start one `lore mcp` per agent."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from mcp.server.stdio import stdio_server

from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.protocol import Context, make_server

T = TypeVar("T")


class StdioTransport:
    """Runs tools one at a time, for the one agent that the process was started for."""

    def __init__(self, source: ViewSource, caller: Caller) -> None:
        self.source, self._caller = source, caller
        self._limiter = CapacityLimiter(1)  # concurrent calls would fold the same events

    def find_caller(self, context: Context) -> Caller:
        """The agent that the process was started for."""
        return self._caller

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """Run `work` in a thread, one at a time. Cancelled work is abandoned."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)


def serve_stdio(source: ViewSource, caller: Caller) -> None:
    """Serve until standard input is closed. Only the protocol goes to standard output; anything else printed goes to standard error."""
    # The thread that reads standard input cannot be cancelled, so Python's handler would hang on Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        anyio.run(_serve_until_closed, source, caller)
    finally:
        signal.signal(signal.SIGINT, before)


async def _serve_until_closed(source: ViewSource, caller: Caller) -> None:
    server = make_server(StdioTransport(source, caller))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
