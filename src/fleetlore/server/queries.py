"""Query parameters of GET requests and sockets, as requests of operations or `Query`. Anything else is refused with a 422."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_origin, get_type_hints

from msgspec import Struct
from starlette.requests import HTTPConnection

from fleetlore.operations.request import Request, parse_request, unwrap_annotation
from fleetlore.server.problems import Problem


class Query(Request, kw_only=True):
    """No parameters."""


T = TypeVar("T", bound=Request)


def parse_query(request: HTTPConnection, kind: type[T]) -> T:
    """The query parameters of a request; an error (422) for unknown, repeated or malformed ones."""
    return parse_request(kind, read_parameters(request, kind))


def read_parameters(request: HTTPConnection, kind: type[Struct]) -> dict[str, Any]:
    """The query parameters by name, with lists, booleans and whole numbers as the type has them; a `Problem` 422 for repeated ones."""
    given: dict[str, Any] = {}
    types = _parameter_types(kind)
    for name, value in request.query_params.multi_items():
        if types.get(name) is list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem(422, f"{name}: is given twice; give it once")
        elif types.get(name) is bool and value in ("true", "false"):
            given[name] = value == "true"
        else:
            given[name] = int(value) if types.get(name) is int and _is_number(value) else value
    return given


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20  # all limits are shorter, and Python refuses to parse 5,000 digits


@cache
def _parameter_types(kind: type[Struct]) -> dict[str, Any]:
    """Parameter name → type; `list` means that it may be repeated."""
    plain = {name: unwrap_annotation(hint)[0] for name, hint in get_type_hints(kind).items()}
    return {name: get_origin(hint) or hint for name, hint in plain.items()}
