"""How others say it: foreign records to events and back, one pure module a dialect, loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Every dialect that is spoken here; installed packages may add others."""
RECORDINGS = ("forge", "otlp")
"""What is only read: records of sources that we do not write to. Coding agents add theirs: `programs/registry.py`."""


def known() -> list[str]:
    """Ours, and those of installed packages."""
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    return [*NAMES, *DIALECT_EXTENSIONS.list_names()]


def find(name: str, *, only_read: Collection[str] = RECORDINGS) -> Dialect:
    """The dialect of that name; `Invalid` lists the known ones. `only_read` are names of what is not written."""
    if name in NAMES:
        dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
        return dialect
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    if (added := DIALECT_EXTENSIONS.find_by_name(name)) is not None:
        return added
    told = f"{name} is only read, not written; known are" if name in only_read else f"no such dialect: {name!r}; known are"
    raise Invalid(f"{told} {', '.join(known())}")
