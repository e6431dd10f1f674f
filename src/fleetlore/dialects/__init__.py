"""How others say it: foreign records to events and back, one pure module a dialect, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.dialects.base import Dialect

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Every dialect that is spoken here."""


def find(name: str) -> Dialect:
    """The dialect of that name; `Invalid` lists the known ones."""
    if name not in NAMES:
        raise Invalid(f"no such dialect: {name!r}; known are {', '.join(NAMES)}")
    dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
    return dialect
