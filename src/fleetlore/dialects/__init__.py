"""Foreign event formats: one pure module per dialect, imported on first use."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Built-in dialects, read and written; installed packages may add others."""
RECORDINGS = ("forge", "otlp")
"""Read-only formats. Coding agents add theirs: `programs/registry.py`."""


def list_dialects() -> list[str]:
    """Return the names of all dialects: built-in and installed."""
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    return [*NAMES, *DIALECT_EXTENSIONS.list_names()]


def find_dialect(name: str, *, only_read: Collection[str] = RECORDINGS) -> Dialect:
    """Return the dialect with that name; raise `Invalid`, which lists the known ones. `only_read` names read-only formats."""
    if name in NAMES:
        dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
        return dialect
    from fleetlore.dialects.installed import DIALECT_EXTENSIONS

    if (installed := DIALECT_EXTENSIONS.find_by_name(name)) is not None:
        return installed
    problem = f"{name} is only read, not written; known are" if name in only_read else f"no such dialect: {name!r}; known are"
    raise Invalid(f"{problem} {', '.join(list_dialects())}")
