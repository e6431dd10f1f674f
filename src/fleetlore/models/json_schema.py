"""Validates a value against a JSON schema: the part of the standard that is used for answers of models.

Supported are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `anyOf`, `oneOf`,
`allOf`, `$ref` within the schema, and the limits of length and size. Other keywords are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_TYPE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())),
}
_MAX_DEPTH = 200
_MAX_SHOWN_CHARS = 60


def first_error(value: Any, schema: Any) -> str | None:
    """The first error and where it is, as in `$.winner: wants one of ada, bob; got "eve"`; `None` if the value is valid."""
    return next(_iter_errors(value, schema, "$", schema, 0), None)


def resolve_reference(schema: Any, root: Any) -> Any:
    """The schema that a `$ref` within the root schema refers to, or the schema itself."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = root
        for step in filter(None, reference[1:].split("/")):
            schema = schema.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(schema, dict) else {}
    return {}


_UNSUPPORTED_IN_STRICT_MODE = ("minLength", "maxLength", "minProperties", "maxProperties", "default")


def make_strict(schema: Any) -> Any:
    """The schema as strict modes of endpoints want it: all fields required, optional ones nullable, no others allowed.

    Lengths are left out; they are checked here. `None` if the schema has an object with free fields, which strict modes reject.
    """
    if not isinstance(schema, dict) or "$ref" in schema or "allOf" in schema or schema.get("additionalProperties") not in (None, False):
        return None
    strict = {key: value for key, value in schema.items() if key not in _UNSUPPORTED_IN_STRICT_MODE}
    if "object" in _list_types(schema):
        if schema.get("additionalProperties") is not False or "properties" not in schema:
            return None
        required = schema.get("required", ())
        properties = {name: make_strict(field) for name, field in schema["properties"].items()}
        if None in properties.values():
            return None
        strict["properties"] = {name: field if name in required else _make_nullable(field) for name, field in properties.items()}
        strict["required"] = list(properties)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            strict[name] = [make_strict(choice) for choice in schema[name]]
            if None in strict[name]:
                return None
    if "items" in schema and (items := make_strict(schema["items"])) is not None:
        strict["items"] = items
    elif "array" in _list_types(schema):
        return None
    return strict


def normalise_nulls(value: Any, schema: Any) -> Any:
    """The value with missing nullable fields set to null, and null left out where the schema does not allow it."""
    if isinstance(value, list) and isinstance(schema, dict):
        return [normalise_nulls(item, schema.get("items")) for item in value]
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return value
    if "anyOf" in schema:
        choices = ((normalise_nulls(value, choice), choice) for choice in schema["anyOf"])
        return next((item for item, choice in choices if first_error(item, choice) is None), value)
    properties, required = schema.get("properties", {}), schema.get("required", ())
    known = {name: normalise_nulls(item, properties.get(name)) for name, item in value.items()}
    missing = {name: None for name in required if name not in known and _allows_null(properties.get(name))}
    return {
        name: item for name, item in known.items() if item is not None or name in required or _allows_null(properties.get(name))
    } | missing


def _list_types(schema: dict[str, Any]) -> tuple[str, ...]:
    types = schema.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def _allows_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    return None in schema["enum"] if "enum" in schema else not schema.get("type") or "null" in _list_types(schema)


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    types = _list_types(schema)
    if types and "null" not in types:
        schema = schema | {"type": [*types, "null"]}
    return schema | {"enum": [*schema["enum"], None]} if None not in schema.get("enum", (None,)) else schema


def _iter_errors(value: Any, schema: Any, path: str, root: Any, depth: int) -> Iterator[str]:
    schema = resolve_reference(schema, root)
    if schema is False or depth > _MAX_DEPTH:
        yield f"{path}: {'is not wanted' if schema is False else 'is nested too deep'}"
    elif isinstance(schema, dict):
        if reason := _type_error(value, schema) or _size_error(value, schema):
            yield f"{path}: {reason}"
        yield from _combinator_errors(value, schema, path, root, depth + 1)
        yield from _child_errors(value, schema, path, root, depth + 1)


def _combinator_errors(value: Any, schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from _iter_errors(value, part, path, root, depth)
    for name in ("anyOf", "oneOf"):
        errors = [next(_iter_errors(value, choice, path, root, depth), None) for choice in schema.get(name, ())]
        if errors and all(errors):
            yield errors[0] if len(errors) == 1 and errors[0] else f"{path}: fits none of the forms wanted"


def _child_errors(value: Any, schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _property_errors(value, schema, path, root, depth)
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _iter_errors(item, schema["items"], f"{path}[{number}]", root, depth)


def _type_error(value: Any, schema: dict[str, Any]) -> str | None:
    types = schema.get("type", ())
    types = (types,) if isinstance(types, str) else types
    if types and not any(_TYPE_CHECKS.get(name, lambda _: True)(value) for name in types):
        return f"wants {' or '.join(types)}; got {_format_value(value)}"
    if "const" in schema and not _is_equal(value, schema["const"]):
        return f"wants {_format_value(schema['const'])}; got {_format_value(value)}"
    if "enum" in schema and not any(_is_equal(value, choice) for choice in schema["enum"]):
        return f"wants one of {', '.join(str(choice) for choice in schema['enum'][:20])}; got {_format_value(value)}"
    return None


def _size_error(value: Any, schema: dict[str, Any]) -> str | None:
    match value:
        case str():
            return _length_error(len(value), "characters", schema, "minLength", "maxLength") or _pattern_error(value, schema)
        case list():
            return _length_error(len(value), "items", schema, "minItems", "maxItems")
        case dict():
            return _length_error(len(value), "fields", schema, "minProperties", "maxProperties")
        case int() | float() if not isinstance(value, bool):
            return _number_error(value, schema)
        case _:
            return None


def _length_error(length: int, unit: str, schema: dict[str, Any], min_key: str, max_key: str) -> str | None:
    if min_key in schema and length < schema[min_key]:
        return f"wants at least {schema[min_key]} {unit}; got {length}"
    if max_key in schema and length > schema[max_key]:
        return f"wants at most {schema[max_key]} {unit}; got {length}"
    return None


def _pattern_error(value: str, schema: dict[str, Any]) -> str | None:
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not re.search(pattern, value):
        return f"wants what fits /{pattern}/; got {_format_value(value)}"
    return None


def _number_error(value: float, schema: dict[str, Any]) -> str | None:
    if value < schema.get("minimum", value):
        return f"wants at least {schema['minimum']}; got {value}"
    if value > schema.get("maximum", value):
        return f"wants at most {schema['maximum']}; got {value}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return f"wants more than {schema['exclusiveMinimum']}; got {value}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        return f"wants less than {schema['exclusiveMaximum']}; got {value}"
    return None


def _property_errors(value: dict[str, Any], schema: dict[str, Any], path: str, root: Any, depth: int) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is missing"
    for name, item in value.items():
        if name in properties:
            yield from _iter_errors(item, properties[name], f"{path}.{name}", root, depth)
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{name[:_MAX_SHOWN_CHARS]}: is not wanted; {', '.join(properties) or 'nothing'} is known"
        elif "additionalProperties" in schema:
            yield from _iter_errors(item, schema["additionalProperties"], f"{path}.{name[:_MAX_SHOWN_CHARS]}", root, depth)


def _is_equal(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _format_value(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else "null" if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"
