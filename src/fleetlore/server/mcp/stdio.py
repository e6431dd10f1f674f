"""MCP over standard input and output: for a program that starts one process of ours beside each agent."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from mcp.server.stdio import stdio_server

from fleetlore.server.mcp.protocol import Context, make_server
from fleetlore.server.mcp.sources import Caller, Source

T = TypeVar("T")


class Desk:
    """The room of one process: everybody who asks here is the one agent that it was started for."""

    def __init__(self, source: Source, caller: Caller) -> None:
        self.source, self._caller = source, caller
        self._one = CapacityLimiter(1)  # what is folded is folded once, however many ask

    def caller(self, context: Context) -> Caller:
        """Who the process was told that it speaks for."""
        return self._caller

    async def run(self, context: Context, work: Callable[[], T], *, is_costly: bool) -> T:
        """One after the other; whoever is called off meanwhile is not waited for."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._one)


def serve(source: Source, caller: Caller) -> None:
    """Talk until the other side closes our input. Nothing but the protocol goes to standard output: what else is said there goes to
    standard error.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # the thread that waits for input cannot be called off: a Ctrl-C would wait, too
    try:
        anyio.run(_serve, source, caller)
    finally:
        signal.signal(signal.SIGINT, before)


async def _serve(source: Source, caller: Caller) -> None:
    server = make_server(Desk(source, caller))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
