"""What errors and refusals say, read as a set: one form, the user's words, no shouting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fleetlore import errors

SOURCE = Path(__file__).parent.parent / "src" / "fleetlore"
OURS = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.FleetloreError)}
OURS |= {"Problem", "UsageError", "NotStarted", "BadControl", "ToolTrouble"}
PROPER = ("API", "JSON", "JetStream", "NATS", "OTLP", "Python", "SQLite", "UTF-8")
"""Names that keep their capital at the beginning."""
NOBODYS_WORDS = re.compile(r"\binvalid\b|\bmust be of type\b|\boops\b|\bplease\b|\bfailed to\b|!$", re.IGNORECASE)


class Message(NamedTuple):
    """One that is raised, and where; a hole in it is `\\0`."""

    place: str
    text: str


def raised() -> Iterator[Message]:
    for module in sorted(SOURCE.rglob("*.py")):
        source = module.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if " raise " in source else ():
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = ast.unparse(node.exc.func).rpartition(".")[2]
                texts = [text for argument in node.exc.args if (text := words_of(argument))]
                if name in OURS and texts:
                    yield Message(f"{module.relative_to(SOURCE)}:{node.lineno}", texts[-1])


def words_of(node: ast.AST, *, filled: str = "\0") -> str:
    """The words of a text in the source, with a sign in the place of what is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(words_of(each, filled=filled) or filled for each in values)
    return ""


@pytest.mark.parametrize("wrong", ["Cannot do that", "it is so.", "invalid value", "please try again"])
def test_a_message_of_another_form_would_be_found(wrong: str) -> None:
    assert is_odd(wrong)


def is_odd(text: str) -> bool:
    shouts = text[0].isupper() and text[:2] != text[:2].upper() and not text.startswith(PROPER)
    return shouts or (text.endswith(".") and not text.endswith("…")) or bool(NOBODYS_WORDS.search(text))


def test_every_message_is_one_sentence_that_begins_small_and_ends_open() -> None:
    """The line that shows it begins with `lore:`, and a second half behind a semicolon says what to do."""
    messages = list(raised())
    assert len(messages) > 400
    assert [message for message in messages if is_odd(message.text)] == []
