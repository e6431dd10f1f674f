"""What other programs and people rely on, as text: help of every verb, the HTTP API, the MCP tools, the payloads of all known kinds.

Write the files again after a wanted change, and read the diff:  python -m tests.golden.make
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fleetlore.cli import main as command_line
from fleetlore.events import catalog
from fleetlore.server.mcp import protocol, tools
from fleetlore.server.openapi import build_document

FOLDER = Path(__file__).parent
COLUMNS = "100"


def help_of_every_verb() -> str:
    """`--help` of every command and verb, as a terminal of 100 columns shows it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        names = [*command_line.COMMANDS, *command_line.BEHIND]
        return "\n".join(text for name in names for text in _help_of(command_line.make_command_parser(name)))
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _help_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    if fill := vars(parser).pop("fill", None):  # verbs of `lore town` add their arguments when first used
        fill()
    yield f"$ {parser.prog} --help\n{parser.format_help()}"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _help_of(verb)


def http_api() -> str:
    """The OpenAPI document."""
    return _pretty(json.loads(build_document()))


def mcp_tools() -> str:
    """The answer to `tools/list`, with every tool that may be offered."""
    return _pretty([protocol._tool_definition(tool).model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.TOOLS])


def payload_schemas() -> str:
    """JSON schema of the data of every known kind."""
    return _pretty({kind: msgspec.json.schema(payload) for kind, payload in sorted(catalog.known_kinds().items())})


def _pretty(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


FILES: dict[str, Callable[[], str]] = {
    "help.txt": help_of_every_verb,
    "openapi.json": http_api,
    "mcp_tools.json": mcp_tools,
    "payload_schemas.json": payload_schemas,
}


if __name__ == "__main__":
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
