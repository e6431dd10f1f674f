"""Whether a value fits a JSON schema: the part of the standard that answers of models are described with.

Known are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `anyOf`, `oneOf`, `allOf`, `$ref` within the
schema, and the limits of length and size. Anything else says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())),
}
_DEEPEST = 200
_SHOWN = 60


def misfit(value: Any, schema: Any) -> str | None:
    """The first thing that is wrong with a value, and where, as in `$.winner: wants one of ada, bob; got "eve"`; `None` if it fits."""
    return next(_wrongs(value, schema, "$", schema, 0), None)


def resolved(schema: Any, root: Any) -> Any:
    """The schema that a `$ref` within it means, or the schema itself."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = root
        for step in filter(None, reference[1:].split("/")):
            schema = schema.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(schema, dict) else {}
    return {}


def _wrongs(value: Any, schema: Any, path: str, root: Any, depth: int) -> Iterator[str]:
    schema = resolved(schema, root)
    if schema is False or depth > _DEEPEST:
        yield f"{path}: {'is not wanted' if schema is False else 'is nested too deep'}"
    elif isinstance(schema, dict):
        if reason := _wrong_kind(value, schema) or _wrong_size(value, schema):
            yield f"{path}: {reason}"
        yield from _wrong_forms(value, schema, path, root, depth + 1)
        yield from _wrong_parts(value, schema, path, root, depth + 1)


def _wrong_forms(value: Any, schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from _wrongs(value, part, path, root, depth)
    for name in ("anyOf", "oneOf"):
        wrongs = [next(_wrongs(value, choice, path, root, depth), None) for choice in schema.get(name, ())]
        if wrongs and all(wrongs):
            yield wrongs[0] if len(wrongs) == 1 and wrongs[0] else f"{path}: fits none of the forms wanted"


def _wrong_parts(value: Any, schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _wrong_members(value, schema, path, root, depth)
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _wrongs(item, schema["items"], f"{path}[{number}]", root, depth)


def _wrong_kind(value: Any, schema: dict[str, Any]) -> str | None:
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if types and not any(_TYPES.get(name, lambda _: True)(value) for name in types):
        return f"wants {' or '.join(types)}; got {_shown(value)}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"wants {_shown(schema['const'])}; got {_shown(value)}"
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        return f"wants one of {', '.join(str(choice) for choice in schema['enum'][:20])}; got {_shown(value)}"
    return None


def _wrong_size(value: Any, schema: dict[str, Any]) -> str | None:
    match value:
        case str():
            return _wrong_length(len(value), "characters", schema, "minLength", "maxLength") or _wrong_pattern(value, schema)
        case list():
            return _wrong_length(len(value), "items", schema, "minItems", "maxItems")
        case dict():
            return _wrong_length(len(value), "fields", schema, "minProperties", "maxProperties")
        case int() | float() if not isinstance(value, bool):
            return _wrong_number(value, schema)
        case _:
            return None


def _wrong_length(length: int, what: str, schema: dict[str, Any], least: str, most: str) -> str | None:
    if least in schema and length < schema[least]:
        return f"wants at least {schema[least]} {what}; got {length}"
    if most in schema and length > schema[most]:
        return f"wants at most {schema[most]} {what}; got {length}"
    return None


def _wrong_pattern(value: str, schema: dict[str, Any]) -> str | None:
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not re.search(pattern, value):
        return f"wants what fits /{pattern}/; got {_shown(value)}"
    return None


def _wrong_number(value: float, schema: dict[str, Any]) -> str | None:
    if value < schema.get("minimum", value):
        return f"wants at least {schema['minimum']}; got {value}"
    if value > schema.get("maximum", value):
        return f"wants at most {schema['maximum']}; got {value}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return f"wants more than {schema['exclusiveMinimum']}; got {value}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return f"wants less than {schema['exclusiveMaximum']}; got {value}"
    return None


def _wrong_members(value: dict[str, Any], schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is missing"
    for name, item in value.items():
        if name in known:
            yield from _wrongs(item, known[name], f"{path}.{name}", root, depth)
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{name[:_SHOWN]}: is not wanted; {', '.join(known) or 'nothing'} is known"
        elif "additionalProperties" in schema:
            yield from _wrongs(item, schema["additionalProperties"], f"{path}.{name[:_SHOWN]}", root, depth)


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _shown(value: Any) -> str:
    said = f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
