"""Stored records at a glance, for counting events: all of the envelope, and of the data only what decides on a tool's beat."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr

from fleetlore.events.envelope import SCHEMA_VERSION, Event
from fleetlore.log.base import Stored
from fleetlore.log.reading import revive


class Traits(Struct, frozen=True, gc=False):
    """What of a tool's data decides on its beat; to be asked like the data itself."""

    deed: Any = None
    subject: Any = None
    interrupted: Any = None

    def get(self, key: str) -> Any:
        """As a dict has it; nothing of what was passed over."""
        return getattr(self, key, None)


class Glimpse(Event, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event of which most of the data was passed over."""

    data: Traits = field(default_factory=Traits)  # type: ignore[assignment]  # it is asked by `get` alone, as a dict is


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Glimpse).decode


def glimpses(rows: Sequence[Stored], closely: Container[str]) -> list[Event]:
    """Records at a glance; those of the kinds in `closely`, and all of them if one cannot be read, as `revive` gives them."""
    raws = [row.raw for row in rows]
    try:
        found = list(map(_decode, raws))
        for raw in raws:
            if not raw.isascii():
                raw.decode()  # what was passed over was not looked at
    except _UNREADABLE:
        return list(map(revive, rows))
    return [_whole(row, glimpse, closely) for row, glimpse in zip(rows, found, strict=True)]


def _whole(row: Stored, glimpse: Glimpse, closely: Container[str]) -> Event:
    if glimpse.kind in closely or glimpse.v != SCHEMA_VERSION:
        return revive(row)
    force_setattr(glimpse, "position", row.position)  # nobody else holds it yet
    return glimpse
