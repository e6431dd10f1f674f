"""Stored records at a glance, for counting events: of the envelope only when, what and who, of the data only what decides on a tool's beat.

Most of a telling's first reading would else be the making of strings that nobody looks at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from typing import Any, TypedDict, cast

import msgspec
from msgspec import Struct, field

from fleetlore.events.envelope import SCHEMA_VERSION, Event, Moment
from fleetlore.log.base import Stored
from fleetlore.log.reading import put_in_place, revive


class Traits(TypedDict, total=False):
    """What of a tool's data decides on its beat; msgspec passes over the rest."""

    deed: Any
    subject: Any
    interrupted: Any


class Source(Struct, frozen=True, gc=False):
    """What of an origin orders events."""

    dialect: str = ""
    source: str | None = None
    id: str | None = None
    n: int | None = None


class Glimpse(Struct, frozen=True, kw_only=True):
    """What is counted of an event, and what orders it: named as in the event itself."""

    kind: str
    id: str | None = None
    at: Moment | None = None
    actor: str | None = None
    agent: str | None = None
    child: str | None = None
    run: str | None = None
    origin: Source | None = None
    data: Traits = field(default_factory=Traits)
    v: int = SCHEMA_VERSION
    position: str | None = None


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = msgspec.json.Decoder(Glimpse).decode
_OURS = b'{"id":"'
"""How a record begins that we have written. What else is wrong with another one, a glance would not tell."""


def glimpses(rows: Sequence[Stored], closely: Container[str]) -> list[Event]:
    """Records at a glance; those of the kinds in `closely`, and all of them if one cannot be read, as `revive` gives them."""
    raws = [row.raw for row in rows]
    try:
        found = cast("list[Event]", list(map(_decode, raws)))  # they have all that is asked of an event here
        if not all(map(bytes.isascii, raws)):
            deque(map(bytes.decode, raws), maxlen=0)  # what was passed over was not looked at
    except _UNREADABLE:
        return list(map(revive, rows))
    put_in_place(found, rows)
    for number, (glimpse, raw) in enumerate(zip(found, raws, strict=True)):
        if glimpse.kind in closely or glimpse.v != SCHEMA_VERSION or not raw.startswith(_OURS):
            found[number] = revive(rows[number])
    return found
