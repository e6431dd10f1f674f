"""The arcs as they are known at the log's head: what is open, and the newest of those that are closed. A fold over the log.

It takes events in the order of the log. One that comes late to its own thread is counted there and changes no arc; `lore arcs` and
`lore tell`, which read in the order of time, take it into account.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from types import GenericAlias
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct, field

from fleetlore.chronicle import sift
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.sifted import Sifted
from fleetlore.events.envelope import Event
from fleetlore.views import beats

VERSION = 7
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""
MOST_CLOSED = 500
MOST_THREADS = 300
"""So many closed threads with something under way are remembered, should one be opened again; the others begin anew then."""
PRUNED_EVERY = 250
"""So many more threads than that, and than are open, may come together before some are let go."""


class Arcbook(Struct, kw_only=True):
    """All that is under way, the newest arcs that are closed, and how many there were of each kind."""

    sifted: Sifted = field(default_factory=sift.initial)
    closed: list[Arc] = field(default_factory=list)
    """In the order in which they were closed."""
    counts: dict[str, int] = field(default_factory=dict)
    """Kind → closed so far."""
    room: int = MOST_THREADS + PRUNED_EVERY
    """With more threads than this, those that nobody will open again are let go."""


def initial() -> Arcbook:
    """No arc yet."""
    return Arcbook()


def apply(book: Arcbook, event: Event) -> Arcbook:
    """The book after one more event. Never raises. Consumes it: go on with the one that is returned."""
    sifted = book.sifted
    sift.sift(sifted, event, beats.classify_beat(sifted.beats, event))
    if sifted.closed:
        _enter(book)
    if len(sifted.threads.threads) > book.room:
        settle(book)
        sift.drop_closed(sifted, most=MOST_THREADS)
        book.room = len(sifted.threads.threads) + PRUNED_EVERY
    return book


def settle(book: Arcbook) -> None:
    """Look at what was put off."""
    sift.settle(book.sifted)
    _enter(book)


def _enter(book: Arcbook) -> None:
    for arc in book.sifted.closed:
        book.counts[arc.kind] = book.counts.get(arc.kind, 0) + 1
    book.closed += book.sifted.closed
    book.sifted.closed.clear()
    del book.closed[:-MOST_CLOSED]


def open_arcs(book: Arcbook, now: datetime) -> Iterator[Arc]:
    """What is open as of a moment, stalls among it."""
    settle(book)
    return sift.arcs_open(book.sifted, now)


def encode(book: Arcbook) -> bytes:
    """The book as bytes."""
    settle(book)
    sift.rest(book.sifted)
    return msgspec.json.encode(book)


def decode(raw: bytes) -> Arcbook:
    """The book that was encoded."""
    return _decoder.decode(raw)


def _revive(kind: type, value: Any) -> Any:
    """msgspec knows no dicts whose order can be changed."""
    if get_origin(kind) is not OrderedDict:
        raise NotImplementedError(kind)
    plain: Any = GenericAlias(dict, get_args(kind))
    return OrderedDict(msgspec.convert(value, plain, strict=False, dec_hook=_revive))


_decoder = msgspec.json.Decoder(Arcbook, dec_hook=_revive)
