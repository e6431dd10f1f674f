"""docs/reference/operations.md lists every command, HTTP operation and MCP tool, each with its operation or the reason why it has none."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore.cli import main as command_line
from fleetlore.operations.request import load_operation
from fleetlore.operations.table import OPERATIONS, Operation, list_commands
from fleetlore.server.mcp.tools import TOOLS
from fleetlore.server.openapi import build_document

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "operations.md"
_row = re.compile(r"\| `(?P<name>[^`]+)` \| (?:`(?P<operation>[^`]+)`)? \| (?P<reason>.*) \|").fullmatch


def section(title: str) -> dict[str, tuple[str | None, str]]:
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [match for line in text.splitlines() if (match := _row(line))]
    assert len({row["name"] for row in rows}) == len(rows), "listed twice"
    return {row["name"]: (row["operation"], row["reason"].strip()) for row in rows}


def commands() -> Iterator[str]:
    for name in (*command_line.COMMANDS, *command_line.BEHIND):
        yield from words_of(command_line.make_command_parser(name))


def words_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    if fill := vars(parser).pop("fill", None):
        fill()
    yield parser.prog.removeprefix("lore ")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from words_of(verb)


def routes() -> list[str]:
    paths = json.loads(build_document())["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize(
    ("title", "there_are", "operations"),
    [
        ("Commands", list(commands()), {command.words: operation.name for command, operation in list_commands()}),
        ("HTTP", routes(), {operation.http: operation.name for operation in OPERATIONS if operation.http}),
        ("MCP", [tool.name for tool in TOOLS], {operation.mcp: operation.name for operation in OPERATIONS if operation.mcp}),
    ],
)
def test_the_inventory_is_complete(title: str, there_are: list[str], operations: dict[str, str]) -> None:
    listed = section(title)
    assert sorted(listed) == sorted(there_are)
    assert {name: operation for name, (operation, _) in listed.items() if operation} == operations
    assert [name for name, (operation, reason) in listed.items() if not operation and not reason] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_says_what_it_does_and_what_each_field_is(operation: Operation) -> None:
    loaded = load_operation(operation)
    assert operation.help.endswith(".")
    assert loaded.run.__doc__
    assert loaded.request.__doc__
    assert operation.http.startswith("GET ") is not operation.changes or not operation.http
    assert len([other for other in OPERATIONS if other.name == operation.name]) == 1
