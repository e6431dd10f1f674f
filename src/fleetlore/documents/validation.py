"""Error messages for documents, and the types that they need: paths, similar keys, msgspec's errors in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct

from fleetlore.documents import durations

MAX_DEPTH = 30
MAX_ERRORS = 100
MAX_EXCERPT = 80

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


def to_plain_values(value: Any, depth: int = 0) -> Any:
    """Dates as text: TOML has them, JSON does not."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {key: to_plain_values(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_plain_values(inner, depth + 1) for inner in value]
    return value.isoformat() if isinstance(value, date | time) else value


def parse_seconds(value: Any) -> Any:
    """`20m` as seconds; anything else as it is."""
    return durations.parse_duration(value) / 1e9 if isinstance(value, str) else value


# --- Types


def struct_in(type: Any) -> type[Struct] | None:
    """The struct that a table is converted to: the type itself, or the one struct of a union such as `ScriptLine | str`."""
    structs = [each for each in _format_options(type) if isinstance(each, _StructMeta)]
    return structs[0] if len(structs) == 1 else None


def item_type(type: Any) -> Any:
    """The type of the items of a list, or of the values of a table, if it holds structs; else `None`: msgspec converts it as a whole."""
    for each in _format_options(type):
        args = [arg for arg in get_args(each) if arg is not Ellipsis]
        if get_origin(each) in (tuple, list, dict, Mapping) and args and (struct_in(args[-1]) or item_type(args[-1])):
            return args[-1]
    return None


def value_type(type: Any) -> Any:
    """The type of the values of a table; `None` where it is not said."""
    return next((get_args(each)[-1] for each in _format_options(type) if get_origin(each) in (dict, Mapping) and get_args(each)), None)


_StructMeta: Any = type(Struct)


def _format_options(type: Any) -> tuple[Any, ...]:
    if get_origin(type) is Annotated:
        return _format_options(get_args(type)[0])
    if get_origin(type) in (Union, UnionType):
        return tuple(each for option in get_args(type) if option is not NoneType for each in _format_options(option))
    return (type,)


def _literal_values(type: Any) -> tuple[str, ...]:
    """The values of a `Literal`, also as the items of a list."""
    for each in _format_options(type):
        if get_origin(each) is Literal:
            return tuple(value for value in get_args(each) if isinstance(value, str))
        for arg in get_args(each):
            if values := _literal_values(arg):
                return values
    return ()


# --- Messages


def unknown_key_message(name: str, names: tuple[str, ...]) -> str:
    """The error for an unknown key, with the most similar key or all of them."""
    near = _find_nearest(name.lower().replace("-", "_"), names)
    return f"is not known here; did you mean {near}?" if near else f"is not known here; known: {', '.join(names)}"


def invalid_choice_message(value: str, names: tuple[str, ...]) -> str:
    """The error for a value that is not allowed, with the most similar one."""
    near = _find_nearest(value, names)
    return f"{value[:60]!r} is none of {', '.join(names)}" + (f"; did you mean {near}?" if near else "")


def _find_nearest(word: str, names: tuple[str, ...]) -> str | None:
    near = get_close_matches(word, names, n=1) or [name for name in names if len(word) > 2 and name.startswith(word)]
    return near[0] if near else None


def explain_error(path: KeyPath, error: str, type: Any, value: Any, *, is_yaml: bool = False) -> tuple[KeyPath, str]:
    """msgspec's error in plain words, and the path of the item."""
    reason, _, inner = error.partition(" - at `$")
    for index in _index.findall(inner):
        path = (*path, int(index))
        value = value[int(index)] if isinstance(value, list | tuple) else value
    if match := _expected.search(reason):
        wanted = [_TYPE_NAMES.get(word.strip(), word.strip()) for word in match[1].split("|") if word.strip() != "null"]
        problem = f"{' or '.join(wanted)} is needed, not {_TYPE_NAMES.get(match[2], match[2])}"
        if is_yaml and match[2] == "bool" and _TYPE_NAMES["str"] in wanted:
            problem += "; YAML takes yes, no, on and off for true and false: put words into quotes"
        return path, problem
    if match := _bound.search(reason):
        words = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
        return path, f"{words[match[1]]} {_format_number(match[2])} is needed"
    if isinstance(value, str) and (names := _literal_values(type)):
        return path, invalid_choice_message(value, names)
    return path, "is no UUID; leave it out, and one is made" if "regex" in reason else f"{reason[:1].lower()}{reason[1:]}"


def _format_number(text: str) -> str:
    number = float(text)
    return f"{number:,.0f}" if number == int(number) else text


def type_name(value: Any) -> str:
    """The type of a value, as it is called in messages."""
    names = {dict: "object", list: "array", type(None): "null"}
    name = names.get(type(value), type(value).__name__)
    return _TYPE_NAMES.get(name, name)


def format_path(path: KeyPath) -> str:
    """A path as people write it: `agents.Juno.script.lines[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def make_excerpt(text: str) -> str:
    """Text from a file, made safe for a message: printable, one line, at most 80 characters."""
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text[:MAX_EXCERPT])
    return clean + "…" if len(text) > MAX_EXCERPT else clean
