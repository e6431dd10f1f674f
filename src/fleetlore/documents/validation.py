"""Converts the tables of goal and plan files to structs. Each error names its key path and says what to write instead."""

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
    """Collects the errors of a file."""

    def add_error(self, path: KeyPath, problem: str) -> None:
        """Add an error at this path."""


def to_plain_values(value: Any, depth: int = 0) -> Any:
    """Convert dates and times, which TOML has and JSON has not, to text."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: to_plain_values(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_plain_values(inner, depth + 1) for inner in value]
    return value.isoformat() if isinstance(value, date | time) else value


def convert_fields(
    errors: ErrorList, path: KeyPath, value: Any, struct: type[Struct], *, duration_fields: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields of a table, converted to the types of a struct; adds an error for each that does not fit.

    `duration_fields` are seconds that may be written like `20m`.
    """
    if not isinstance(value, Mapping):
        errors.add_error(path, f"a table is needed, not {_type_name(value)}")
        return {}
    known = {each.name: each for each in fields(struct)}
    converted = {}
    for name, raw in value.items():
        field_path = (*path, name)
        if name not in known:
            errors.add_error(field_path, unknown_key_message(name, tuple(known)))
            continue
        try:
            converted[name] = msgspec.convert(parse_seconds(raw) if name in duration_fields else raw, known[name].type)
        except msgspec.ValidationError as error:
            errors.add_error(*_explain_error(field_path, str(error), known[name], raw))
        except Invalid as error:
            errors.add_error(field_path, str(error))
    return converted


def missing_fields(struct: type[Struct], values: Mapping[str, Any]) -> list[str]:
    """Names of required fields that are missing."""
    return [each.name for each in fields(struct) if each.required and each.name not in values]


def parse_seconds(value: Any) -> Any:
    """Convert a text such as `20m` to seconds; other values are returned unchanged."""
    return durations.parse_duration(value) / 1e9 if isinstance(value, str) else value


def unknown_key_message(name: str, names: tuple[str, ...]) -> str:
    """The error text for an unknown key, with the closest or all known ones."""
    near = _find_nearest(name.lower().replace("-", "_"), names)
    return f"is not known here; did you mean {near}?" if near else f"is not known here; known: {', '.join(names)}"


def invalid_choice_message(value: str, names: tuple[str, ...]) -> str:
    """The error text for a value that is none of `names`."""
    near = _find_nearest(value, names)
    return f"{value[:60]!r} is none of {', '.join(names)}" + (f"; did you mean {near}?" if near else "")


def _find_nearest(word: str, names: tuple[str, ...]) -> str | None:
    near = get_close_matches(word, names, n=1) or [name for name in names if len(word) > 2 and name.startswith(word)]
    return near[0] if near else None


def _explain_error(path: KeyPath, error: str, field: FieldInfo, value: Any) -> tuple[KeyPath, str]:
    """The path of the wrong value and our error text for a msgspec error."""
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
    """The values of a `Literal` of strings; empty for other types."""
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
