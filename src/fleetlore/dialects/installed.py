"""Dialects of installed packages, under the entry point `fleetlore.dialects`: a `Dialect` by the name that it has there.

They get the laws of ours. Whatever they stumble over is refused like a bad record, and goes on record as a `log.rejected`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fleetlore.dialects import NAMES, RECORDINGS
from fleetlore.dialects.base import Dialect
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from fleetlore.plugins import ExtensionPoint


class GuardedDialect(Dialect):
    """A dialect that fails by `DialectError` alone."""

    __slots__ = ()

    def decode(self, raw: bytes, *, nth: int = 0) -> Event:
        """One record as an event."""
        try:
            event = super().decode(raw, nth=nth)
        except DialectError:
            raise
        except Exception as error:  # others' code, on hostile bytes: the next record may be good
            raise _wrap_error(self.name, error) from error
        # Without an origin it would pass for something that was said here.
        return event if event.origin is not None else replace(event, origin=Origin(dialect=self.name))

    def encode(self, event: Event, *, town: str = "default") -> bytes | None:
        """The event as one record."""
        try:
            return super().encode(event, town=town)
        except Exception as error:  # the same
            raise _wrap_error(f"{self.name}, writing {event.id},", error) from error


def _wrap_error(name: str, error: Exception) -> DialectError:
    return DialectError("$", f"{name} stumbled: {type(error).__name__}: {error}; its authors should know")


def _validate_dialect(name: str, thing: Any) -> Dialect:
    if not isinstance(thing, Dialect):
        raise TypeError(f"a fleetlore.dialects.base.Dialect is needed, not {type(thing).__name__}")
    if thing.name != name:
        raise ValueError(f"the dialect calls itself {thing.name!r}, and its entry point {name!r}; they must be the same")
    return GuardedDialect(name=thing.name, style=thing.style, read=thing.read, write=thing.write)


DIALECT_EXTENSIONS: ExtensionPoint[Dialect] = ExtensionPoint("fleetlore.dialects", _validate_dialect, builtin_names=(*NAMES, *RECORDINGS))
