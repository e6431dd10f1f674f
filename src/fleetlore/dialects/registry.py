"""All dialects by name: the built-in ones, imported on first use, and those of installed packages (entry point `fleetlore.dialects`).

Installed ones follow the same rules. Any error of theirs counts as a bad record and is stored as `log.rejected`.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from fleetlore.dialects.base import Dialect
from fleetlore.errors import DialectError, Invalid
from fleetlore.events.envelope import Event, Origin
from fleetlore.plugins import ExtensionPoint

NAMES = ("nexus", "tinytown", "nexo", "stage", "cloudevents", "beads", "git")
"""Built-in dialects, read and written; installed packages may add others."""
RECORDINGS = ("forge", "otlp")
"""Read-only formats. Coding agents add theirs: `programs/registry.py`."""


class GuardedDialect(Dialect):
    """Wraps a dialect so that it raises only `DialectError`."""

    __slots__ = ()

    def decode(self, raw: bytes, *, nth: int = 0) -> Event:
        """Decode one record."""
        try:
            event = super().decode(raw, nth=nth)
        except DialectError:
            raise
        except Exception as error:  # third-party code on untrusted bytes: the next record may be fine
            raise _wrap_error(self.name, error) from error
        # Without an origin it would look like an event of our own.
        return event if event.origin is not None else replace(event, origin=Origin(dialect=self.name))

    def encode(self, event: Event, *, town: str = "default") -> bytes | None:
        """Encode the event as one record."""
        try:
            return super().encode(event, town=town)
        except Exception as error:  # third-party code, too
            raise _wrap_error(f"{self.name}, writing {event.id},", error) from error


def _wrap_error(name: str, error: Exception) -> DialectError:
    return DialectError("$", f"{name} failed: {type(error).__name__}: {error}; report it to its authors")


def _validate_dialect(name: str, thing: Any) -> Dialect:
    if not isinstance(thing, Dialect):
        raise TypeError(f"a fleetlore.dialects.base.Dialect is needed, not {type(thing).__name__}")
    if thing.name != name:
        raise ValueError(f"the dialect calls itself {thing.name!r}, and its entry point {name!r}; they must be the same")
    return GuardedDialect(name=thing.name, style=thing.style, read=thing.read, write=thing.write)


DIALECT_EXTENSIONS: ExtensionPoint[Dialect] = ExtensionPoint("fleetlore.dialects", _validate_dialect, builtin_names=(*NAMES, *RECORDINGS))


def list_dialects() -> list[str]:
    """Return the names of all dialects: built-in and installed."""
    return [*NAMES, *DIALECT_EXTENSIONS.list_names()]


def find_dialect(name: str, *, only_read: Collection[str] = RECORDINGS) -> Dialect:
    """Return the dialect with that name; raise `Invalid`, which lists the known ones. `only_read` names read-only formats."""
    if name in NAMES:
        dialect: Dialect = import_module(f"fleetlore.dialects.{name}").DIALECT
        return dialect
    if (installed := DIALECT_EXTENSIONS.find_by_name(name)) is not None:
        return installed
    problem = f"{name} can only be read, not written" if name in only_read else f"unknown format: {name!r}"
    raise Invalid(f"{problem}; choose from {', '.join(list_dialects())}")
