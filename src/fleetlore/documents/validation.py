"""What a file of ours says, checked against the shapes that it may have: each complaint with its place and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from difflib import get_close_matches
from typing import Any, Protocol, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from fleetlore.documents import durations
from fleetlore.errors import Invalid

MAX_DEPTH = 30
MAX_ERRORS = 100

KeyPath = tuple[str | int, ...]

_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
    "datetime": "a date",
    "date": "a date",
    "time": "a time",
}
_expected = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_bound = re.compile(r"Expected `[^`]+` (>=|<=|>|<) (\S+)")
_index = re.compile(r"\[(\d+)\]")


class ErrorList(Protocol):
    """Whatever keeps what is wrong with a file."""

    def add_error(self, path: KeyPath, problem: str) -> None:
        """Keep a problem; where is said by its path."""


def to_plain_values(value: Any, depth: int = 0) -> Any:
    """TOML knows dates; JSON does not."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: to_plain_values(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_plain_values(inner, depth + 1) for inner in value]
    return value.isoformat() if isinstance(value, date | time) else value


def convert_fields(sheet: ErrorList, path: KeyPath, value: Any, shape: type[Struct], *, spans: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a table that fit a struct's; complaints about the others. `spans` are seconds that may be written like `20m`."""
    if not isinstance(value, Mapping):
        sheet.add_error(path, f"a table is needed, not {_type_name(value)}")
        return {}
    known = {each.name: each for each in fields(shape)}
    found = {}
    for name, told in value.items():
        here = (*path, name)
        if name not in known:
            sheet.add_error(here, unknown_key_message(name, tuple(known)))
            continue
        try:
            found[name] = msgspec.convert(parse_seconds(told) if name in spans else told, known[name].type)
        except msgspec.ValidationError as error:
            sheet.add_error(*_explain_error(here, str(error), known[name], told))
        except Invalid as error:
            sheet.add_error(here, str(error))
    return found


def missing_fields(shape: type[Struct], given: Mapping[str, Any]) -> list[str]:
    """The fields that a struct needs, and that are not there."""
    return [each.name for each in fields(shape) if each.required and each.name not in given]


def parse_seconds(value: Any) -> Any:
    """`20m` as seconds; anything else as it is."""
    return durations.parse_duration(value) / 1e9 if isinstance(value, str) else value


def unknown_key_message(name: str, names: tuple[str, ...]) -> str:
    """That there is no such key, and which there are."""
    near = _find_nearest(name.lower().replace("-", "_"), names)
    return f"is not known here; did you mean {near}?" if near else f"is not known here; known: {', '.join(names)}"


def invalid_choice_message(value: str, names: tuple[str, ...]) -> str:
    """That something is called otherwise."""
    near = _find_nearest(value, names)
    return f"{value[:60]!r} is none of {', '.join(names)}" + (f"; did you mean {near}?" if near else "")


def _find_nearest(word: str, names: tuple[str, ...]) -> str | None:
    near = get_close_matches(word, names, n=1) or [name for name in names if len(word) > 2 and name.startswith(word)]
    return near[0] if near else None


def _explain_error(path: KeyPath, error: str, field: FieldInfo, value: Any) -> tuple[KeyPath, str]:
    """msgspec's words in ours, and the place of the very item."""
    reason, _, inner = error.partition(" - at `$")
    for index in _index.findall(inner):
        path = (*path, int(index))
        value = value[int(index)] if isinstance(value, list) else value
    if match := _expected.search(reason):
        wanted = " or ".join(_TYPE_NAMES.get(word.strip(), word.strip()) for word in match[1].split("|") if word.strip() != "null")
        return path, f"{wanted} is needed, not {_TYPE_NAMES.get(match[2], match[2])}"
    if match := _bound.search(reason):
        words = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
        return path, f"{words[match[1]]} {_number(match[2])} is needed"
    if isinstance(value, str) and (names := _literal_values(field.type)):
        return path, invalid_choice_message(value, names)
    return path, "is no UUID; leave it out, and one is made" if "regex" in reason else f"{reason[:1].lower()}{reason[1:]}"


def _literal_values(type: Any) -> tuple[str, ...]:
    """What a `Literal` lets stand."""
    found = get_args(type)
    return tuple(found) if found and all(isinstance(each, str) for each in found) else ()


def _number(text: str) -> str:
    number = float(text)
    return f"{number:,.0f}" if number == int(number) else text


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", type(None): "null"}
    name = names.get(type(value), type(value).__name__)
    return _TYPE_NAMES.get(name, name)


def format_path(path: KeyPath) -> str:
    """A path as people write it: `agents.Juno.script.lines[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
