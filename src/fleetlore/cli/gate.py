"""`lore gate`: where an agent's program asks before it uses a tool. It is the driver that has the program start it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.goal.gate import client as gate_door

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SUMMARY = "ask a goal whether a tool may be used; called by the coding agent"

_EXAMPLES = (
    ("lore gate < requests.jsonl", "what the program does: MCP, one JSON-RPC message a line"),
    (f"claude -p … --mcp-config … --permission-prompt-tool mcp__{gate_door.NAME}__{gate_door.TOOL}", "how Claude Code is told of it"),
)
_SOCKET, _TOKEN = gate_door.SOCKET_VARIABLE, gate_door.TOKEN_VARIABLE
_NOTES = f"""\
It is an MCP server on standard input and output, called {gate_door.NAME}, with one tool, {gate_door.TOOL}. `lore goal run` has
the agent's program start it, and tells it by its environment where the driver listens and for which turn it speaks:
{_SOCKET}, {_TOKEN}. The driver decides by the goal's rules, or asks a person: see `lore decide`. Where the driver
cannot be reached, or its answer makes no sense, nothing is allowed.
"""


def configure(parser: ArgumentParser) -> None:
    """It takes no arguments: all that it needs is in its environment."""
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Talk until the program closes our input."""
    return gate_door.serve(os.environ)
