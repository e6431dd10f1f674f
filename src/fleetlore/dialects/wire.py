"""JSON parsing and writing for dialects, without losing how values were spelt.

A number may be written in a way that no writer here would choose (`1.50`, `1e400`, a thousand digits), and a string may
contain a lone surrogate. Such a value is replaced by the nearest plain value, and its spelling is kept under its JSON
pointer. Writing restores the spelling if the plain value has not changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

import msgspec

from fleetlore.errors import DialectError

Record: TypeAlias = dict[str, Any]
"""A foreign record: plain JSON values, keys in their original order."""

Spellings: TypeAlias = dict[str, str]
"""JSON pointer → how the value there was written."""

MAX_JSON_DEPTH = 128
# The lowest value that Python's limit for integer digits can be set to.
_MAX_DIGITS = 640
_CONSTANTS = frozenset(("NaN", "Infinity", "-Infinity"))
_NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONE_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
_JSON_TYPE_NAMES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How the programs of a dialect format their JSON."""

    dump: Callable[[Any], str]
    comma: str
    colon: str
    constants: bool
    """Whether `NaN` and `Infinity` are allowed."""


@dataclass(frozen=True, slots=True)
class _OddNumber:
    spelling: str


def _dump_compact(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


PYTHON = JsonStyle(dump=json.JSONEncoder(default=msgspec.to_builtins).encode, comma=", ", colon=": ", constants=True)
"""Python's `json.dumps` with its defaults."""

COMPACT = JsonStyle(dump=_dump_compact, comma=",", colon=":", constants=False)
"""No white space, minimal escaping, shortest numbers: serde and pydantic."""


def json_type_name(value: object) -> str:
    """Return the name of a JSON value's type, for messages."""
    return _JSON_TYPE_NAMES.get(type(value), type(value).__name__)


def parse_record_with_spellings(raw: bytes, style: JsonStyle) -> tuple[Record, Spellings]:
    """Parse one record and its unusual spellings; raise `DialectError` for anything but a JSON object."""
    try:
        value = _make_decoder(style).decode(raw.decode())
    except UnicodeDecodeError as error:
        raise DialectError("$", f"not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError as error:
        raise DialectError("$", f"nested more than {MAX_JSON_DEPTH} deep") from error
    except ValueError as error:
        raise DialectError("$", f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DialectError("$", f"an object is needed, not {_describe_json_type(value)}")
    spellings: Spellings = {}
    record: Record = _extract_spellings(value, (), spellings)
    return record, spellings


def _describe_json_type(value: object) -> str:
    return "a number" if isinstance(value, _OddNumber) else json_type_name(value)


def _make_decoder(style: JsonStyle) -> json.JSONDecoder:
    return _PYTHON_DECODER if style.constants else _COMPACT_DECODER


def _extract_spellings(value: Any, path: tuple[str, ...], spellings: Spellings) -> Any:
    if len(path) > MAX_JSON_DEPTH:
        raise DialectError("$", f"nested more than {MAX_JSON_DEPTH} deep")
    if isinstance(value, dict):
        return {_validate_key(key): _extract_spellings(inner, (*path, key), spellings) for key, inner in value.items()}
    if isinstance(value, list):
        return [_extract_spellings(inner, (*path, str(index)), spellings) for index, inner in enumerate(value)]
    if isinstance(value, _OddNumber):
        spellings[_make_json_pointer(path)] = value.spelling
        return _parse_nearest_float(value.spelling)
    if isinstance(value, str) and _LONE_SURROGATE_PATTERN.search(value):
        spellings[_make_json_pointer(path)] = json.dumps(value)
        return _LONE_SURROGATE_PATTERN.sub("\ufffd", value)
    return value


def _validate_key(key: str) -> str:
    if _LONE_SURROGATE_PATTERN.search(key):
        raise DialectError("$", f"a key with half a surrogate pair: {json.dumps(key)}")
    return key


def _make_json_pointer(path: tuple[str, ...]) -> str:
    return "".join(f"/{_escape_pointer_key(key)}" for key in path)


def _escape_pointer_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _parse_nearest_float(spelling: str) -> float | None:
    number = float(spelling)
    return number if isfinite(number) else None


def _parse_float(style: JsonStyle, spelling: str) -> float | _OddNumber:
    number = float(spelling)
    return number if isfinite(number) and style.dump(number) == spelling else _OddNumber(spelling)


def _parse_integer(spelling: str) -> int | _OddNumber:
    if len(spelling) <= _MAX_DIGITS and str(number := int(spelling)) == spelling:
        return number
    return _OddNumber(spelling)


def _reject_constant(constant: str) -> _OddNumber:
    raise ValueError(f"{constant} is no JSON number")


_PYTHON_DECODER = json.JSONDecoder(parse_float=partial(_parse_float, PYTHON), parse_int=_parse_integer, parse_constant=_OddNumber)
_COMPACT_DECODER = json.JSONDecoder(parse_float=partial(_parse_float, COMPACT), parse_int=_parse_integer, parse_constant=_reject_constant)


def write_record(record: Record, style: JsonStyle, spellings: Mapping[str, Any]) -> bytes:
    """Write a record in its dialect's style; spellings that no longer match their value are ignored."""
    text = _write_value(record, "", style, spellings) if spellings else style.dump(record)
    # A lone surrogate has no UTF-8, but its escape is valid JSON.
    return text.encode("utf-8", "backslashreplace")


def _write_value(value: Any, pointer: str, style: JsonStyle, spellings: Mapping[str, Any]) -> str:
    if isinstance(value, dict):
        members = (
            f"{style.dump(key)}{style.colon}{_write_value(inner, f'{pointer}/{_escape_pointer_key(key)}', style, spellings)}"
            for key, inner in value.items()
        )
        return f"{{{style.comma.join(members)}}}"
    if isinstance(value, list):
        return f"[{style.comma.join(_write_value(inner, f'{pointer}/{index}', style, spellings) for index, inner in enumerate(value))}]"
    spelling = spellings.get(pointer)
    if isinstance(spelling, str):
        return _write_leaf(value, spelling, style)
    return style.dump(value)


def _write_leaf(value: Any, spelling: str, style: JsonStyle) -> str:
    if isinstance(value, str):
        original = _parse_string(spelling)
        is_current = original is not None and _LONE_SURROGATE_PATTERN.sub("\ufffd", original) == value
        return style.dump(original if is_current else value)
    is_valid = _NUMBER_PATTERN.fullmatch(spelling) or (style.constants and spelling in _CONSTANTS)
    return spelling if is_valid and _parse_nearest_float(spelling) == value else style.dump(value)


def _parse_string(spelling: str) -> str | None:
    try:
        value = json.loads(spelling)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None
