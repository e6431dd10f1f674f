"""The lines that docs/events.md must hold, made from the payload classes."""

from __future__ import annotations

import re
from inspect import get_annotations

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from fleetlore.events import driver_types
from fleetlore.events.models import Block
from fleetlore.events.payload import Payload
from fleetlore.events.stage import StageFact

_PLAIN = {"Any": "any", "float": "number", "U32": "int", "U64": "int", "Uuid": "uuid", "Duration": "duration", "Timestamp": "time"}


def row(payload: type[Payload]) -> str:
    """The line of one kind."""
    return f"| `{payload.kind}` | {payload.beat} | {payload.__doc__} | {_data(payload)} |"


def shape_row(shape: type[Struct]) -> str:
    """The line of one nested shape; a tagged one starts with its tag."""
    tag = shape.__struct_config__.tag
    first = [f'`kind: "{tag}"`'] if tag else []
    return f"| `{shape.__name__}` | {shape.__doc__} | {', '.join([*first, *([_data(shape)] if fields(shape) else [])])} |"


def shapes() -> list[type[Struct]]:
    """The nested shapes of payloads, in the order of their modules."""
    driver = [
        thing for thing in vars(driver_types).values() if isinstance(thing, type) and issubclass(thing, Struct) and thing is not Struct
    ]
    return [*driver, Block]


def _data(struct: type[Struct]) -> str:
    # The fields that all kinds of the stage share are listed once, above the table.
    shared = StageFact.__struct_fields__ if issubclass(struct, StageFact) else ()
    return ", ".join(f"`{_field(struct, field)}`" for field in fields(struct) if field.name not in shared) or "–"


def _field(struct: type[Struct], field: FieldInfo) -> str:
    needed = field.default is NODEFAULT and field.default_factory is NODEFAULT
    return f"{field.name}{'' if needed else '?'}: {_type(_annotation(struct, field.name))}"


def _annotation(struct: type[Struct], name: str) -> str:
    return next(str(own[name]) for base in struct.__mro__ if name in (own := get_annotations(base)))


def _type(annotation: str) -> str:
    names = re.sub(r"tuple\[(.+), \.\.\.\]", r"\1[]", annotation.removesuffix(" | None"))
    names = re.sub(r"dict\[str, Any\]", "object", names)
    names = re.sub(r"dict\[str, (\w+)\]", r"object of \1", names)
    return re.sub(r"\w+", lambda word: _PLAIN.get(word[0], word[0]), names).replace(" | ", " or ")
