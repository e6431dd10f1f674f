"""The response of `/api/arcs`: patterns in the log, each with a sentence and its source events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from fleetlore.chronicle import arcbook
from fleetlore.chronicle.arcbook import Arcbook
from fleetlore.chronicle.arcs import HIDDEN_KINDS, Arc
from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.naming import Naming
from fleetlore.server.types.common import ArcRow, ArcsPage
from fleetlore.server.view_cache import ViewSnapshot

NEEDS = ("arcs", "names")
"""Views that the snapshot must contain."""
State = Literal["open", "closed", "all"]


def build_arcs(snapshot: ViewSnapshot, *, state: State, kinds: Sequence[str], limit: int, hidden: bool = True) -> ArcsPage:
    """Open arcs first, then closed ones, newest first. `hidden` includes the kinds that pages leave out."""
    book: Arcbook = snapshot.states["arcs"]
    open_arcs = [] if state == "closed" else sorted(arcbook.open_arcs(book, snapshot.now), key=_end_key, reverse=True)
    arcbook.settle(book)
    closed = [] if state == "open" else sorted(book.closed, key=_end_key, reverse=True)
    arcs = [arc for arc in (*open_arcs, *closed) if (not kinds or arc.kind in kinds) and (hidden or arc.kind not in HIDDEN_KINDS)]
    return ArcsPage(**snapshot.head_fields(), arcs=build_arc_rows(arcs[:limit], snapshot.naming), counts=dict(sorted(book.counts.items())))


def build_arc_rows(arcs: Iterable[Arc], naming: Naming) -> list[ArcRow]:
    """Arcs as rows, with titles and sentences."""
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


def _end_key(arc: Arc) -> tuple[object, ...]:
    return arc.last_at, arc.first_at, arc.kind, arc.thread
