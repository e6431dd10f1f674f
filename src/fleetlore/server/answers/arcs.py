"""Arcs as rows: the patterns in the log, each with a sentence and its proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fleetlore.chronicle import arcbook
from fleetlore.chronicle.arcbook import Arcbook
from fleetlore.chronicle.arcs import HIDDEN_KINDS, Arc
from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.naming import Naming
from fleetlore.server.types.common import ArcRow, Arcs
from fleetlore.server.view_cache import Look

NEEDS = ("arcs", "names")
"""The views that it is made of."""
State = Literal["open", "closed", "all"]


def show(look: Look, *, state: State, kinds: Sequence[str], limit: int, hidden: bool = True) -> Arcs:
    """The open ones first, then the newest of those that are closed; with the kinds that pages leave out, unless `hidden` is false."""
    book: Arcbook = look.states["arcs"]
    open_ones = [] if state == "closed" else sorted(arcbook.open_arcs(book, look.now), key=_by_end, reverse=True)
    arcbook.settle(book)
    closed = [] if state == "open" else sorted(book.closed, key=_by_end, reverse=True)
    wanted = [arc for arc in (*open_ones, *closed) if (not kinds or arc.kind in kinds) and (hidden or arc.kind not in HIDDEN_KINDS)]
    return Arcs(**look.head(), arcs=rows(wanted[:limit], look.naming), counts=dict(sorted(book.counts.items())))


def rows(arcs: Iterable[Arc], naming: Naming) -> list[ArcRow]:
    """Arcs, told."""
    return [
        ArcRow(
            kind=arc.kind,
            thread=arc.thread,
            title=naming.title(arc.thread),
            agents=list(arc.agents),
            state=arc.state,
            first=arc.first,
            last=arc.last,
            evidence=list(arc.evidence),
            count=arc.count,
            first_at=arc.first_at,
            last_at=arc.last_at,
            note=arc.note,
            text=arc_told(arc, naming=naming),
        )
        for arc in arcs
    ]


def _by_end(arc: Arc) -> tuple[object, ...]:
    return arc.last_at, arc.first_at, arc.kind, arc.thread
