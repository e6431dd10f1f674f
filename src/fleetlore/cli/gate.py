"""`lore gate`: the MCP server that a coding agent asks for permission before it uses a tool. `lore goal run` configures it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.goal.gate import client as gate_door

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore gate < requests.jsonl", "how the program calls it: MCP, one JSON-RPC message per line"),
    (f"claude -p … --mcp-config … --permission-prompt-tool mcp__{gate_door.NAME}__{gate_door.TOOL}", "how Claude Code is configured"),
)
_SOCKET, _TOKEN = gate_door.SOCKET_VARIABLE, gate_door.TOKEN_VARIABLE
_NOTES = f"""\
An MCP server on standard input and output, named {gate_door.NAME}, with one tool, {gate_door.TOOL}.
`lore goal run` makes the agent's program start it, and passes the driver's socket and the turn's
token in {_SOCKET} and {_TOKEN}. The driver decides by the goal's rules, or asks a person: see
`lore decide`. If the driver cannot be reached or its answer is invalid, nothing is allowed.
"""


def configure(parser: ArgumentParser) -> None:
    """Add no arguments: everything is in the environment."""
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Serve until the program closes standard input."""
    return gate_door.serve_gate(os.environ)
