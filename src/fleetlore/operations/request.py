"""Requests of operations: the base class, parsing with aliases, and the functions and types behind the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.operations.table import Operation

MAX_NAME_CHARS = 200
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
_R = TypeVar("_R", bound="Request")


class InvalidRequest(Invalid):
    """The request itself is wrong, whatever the log says (HTTP 422)."""


class Impossible(Invalid):
    """The request is right, but the state of things forbids it (HTTP 409)."""


class Request(Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of an operation.

    A field's `Meta(description=…)` is its help everywhere. In its annotation, an `Argument` says how the command line writes it, and
    an `Alias` is another name that HTTP and MCP accept.
    """


class Alias(NamedTuple):
    """Another name of a field."""

    name: str


class LoadedOperation(NamedTuple):
    """The function of an operation, and its types."""

    run: Callable[[Any, Any], Any]
    request: type[Request]
    response: type[Struct]


def load_operation(operation: Operation) -> LoadedOperation:
    """Import the function of an operation; its annotations name the types of request and response."""
    return _load_function(operation.module)


@cache
def _load_function(path: str) -> LoadedOperation:
    module, _, name = path.partition(":")
    run = getattr(import_module(f"fleetlore.{module}"), name)
    hints = get_type_hints(run)
    return LoadedOperation(run, hints["request"], hints["return"])


def parse_request(kind: type[_R], given: Mapping[str, Any]) -> _R:
    """A request from plain values; `InvalidRequest` says which field is wrong and which are known."""
    values = dict(given)
    for alias, name in find_aliases(kind).items():
        if alias in values:
            if name in values:
                raise InvalidRequest(f"{alias}: is another name of {name}; give only one of them")
            values[name] = values.pop(alias)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(describe_mismatch(error, kind)) from None


@cache
def find_aliases(kind: type[Struct]) -> dict[str, str]:
    """Other names of the fields of a request → fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {note.name: field for field, hint in hints.items() for note in unwrap_annotation(hint)[1] if isinstance(note, Alias)}


def describe_mismatch(error: msgspec.ValidationError, kind: type[Struct]) -> str:
    """A validation error with the name of the field first, and all known fields at the end."""
    words, _, path = str(error).partition(" - at `$.")
    if "matching regex '^[0-9]+$'" in words:
        words = "not a position; take one as the API gives it"
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    known = f"the fields are {', '.join(names)}" if names else "there are no fields"
    prefix = f"{path.rstrip('`')}: " if path else ""
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", words):
        from difflib import get_close_matches  # not at the top: start-up time

        near = get_close_matches(match[1], names, n=1)
        return f"{prefix}unknown field {match[1]}; {f'did you mean {near[0]}? ' if near else ''}{known}"
    if match := re.fullmatch(r"Object missing required field `(.*)`", words):
        return f"{prefix}the field {match[1]} is missing; {known}"
    if match := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", words):
        return f"{prefix}has the wrong type: {_TYPE_NAMES.get(match[2], match[2])}; write {_name_types(match[1])}; {known}"
    if match := re.fullmatch(r"Expected `int` (>=|<=) (-?\d+)", words):
        return f"{prefix}write a whole number of at {'least' if match[1] == '>=' else 'most'} {match[2]}; {known}"
    if (match := re.fullmatch(r"Invalid enum value (.*)", words)) and (choices := _list_choices(kind, path.rstrip("`"))):
        return f"{prefix}unknown value {match[1]}; choose from {', '.join(choices)}"
    return f"{prefix}{words}; {known}"


def _list_choices(kind: type[Struct], name: str) -> list[str]:
    """The values that a field with a `Literal` type can have."""
    hints = {field.encode_name: field.type for field in msgspec.inspect.type_info(kind).fields}  # type: ignore[attr-defined]
    types = hints[name].types if isinstance(hints.get(name), msgspec.inspect.UnionType) else [hints.get(name)]
    return [str(value) for each in types if isinstance(each, msgspec.inspect.LiteralType) for value in each.values]


_TYPE_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Types as msgspec names them → in words."""


def _name_types(types: str) -> str:
    return " or ".join(_TYPE_NAMES.get(name, name) for name in types.split(" | "))


def unwrap_annotation(hint: Any) -> tuple[Any, list[Any]]:
    """A type without `Annotated` and `| None`, and all annotations on the way."""
    notes: list[Any] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            notes += more
            continue
        options = [option for option in get_args(hint) if option is not type(None)]
        if type(None) in get_args(hint) and len(options) == 1:
            hint = options[0]
            continue
        return hint, notes


def as_list(value: str | list[str]) -> list[str]:
    """One name or several, as a list."""
    return value if isinstance(value, list) else [value]
