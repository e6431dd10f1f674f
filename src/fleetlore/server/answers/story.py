"""The chronicle of a stretch of the log: the events before a place, told in the order of time.

Only the stretch is read, and a little before it, so that what began just earlier is told as what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from typing import NamedTuple

from fleetlore.chronicle import arcbook, closing, sift
from fleetlore.chronicle.arcbook import Arcbook
from fleetlore.chronicle.arcs import Arc, without_hidden
from fleetlore.chronicle.naming import Naming
from fleetlore.chronicle.narrate import Narrator, Telling, opening_of
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.story import Chapter, Detail, Sentence
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.chronology import event_order
from fleetlore.projections.newest_events import read_newest
from fleetlore.projections.thread_events import Selection, select
from fleetlore.server.answers import arcs as arc_rows
from fleetlore.server.types.common import ChapterRow, OpenThread, SentenceRow, Story
from fleetlore.server.view_cache import Look
from fleetlore.views.thread_state import ThreadsState
from fleetlore.views.time_ranges import Block, newest_blocks

NEEDS = ("arcs", "names", "threads")
"""The views that it is made of at the head."""
NEEDS_THEN = ("names", "threads")
"""And in the past, where arcs are those that the stretch itself shows: to fold them all again takes longer than to tell it."""
LEAD_IN = 300
"""Events before the stretch that are read and not told."""
MOST_OPEN = 50
RECENT = timedelta(days=2)
"""What has not moved for longer than this before the newest event is open no more as far as the closing goes; Threads lists it."""


class Wanted(NamedTuple):
    """Which stretch, and how it is told."""

    scope: str
    before: Position | None
    limit: int
    detail: Detail
    zone: tzinfo


class Stretch(NamedTuple):
    """What was read: the events that are told, and those before them."""

    told: list[Event]
    lead_in: list[Event]

    @property
    def more(self) -> Position | None:
        """Where what came earlier ends."""
        return self.told[0].position if self.lead_in and self.told else None


class Known(NamedTuple):
    """What the views say of the stretch; nothing here goes on changing."""

    selection: Selection
    """Which events are told."""
    naming: Naming
    bound: dict[str, str]
    closed: list[Arc]
    open: list[Arc]
    open_threads: tuple[str, ...]
    blocks: list[Block]


def read(log: BlockingRecorder, wanted: Wanted, views: Known, position: Position | None) -> Stretch:
    """The newest events of the scope, of a task its whole thread, before a place and before a past moment's."""
    if position == "":  # before the first event
        return Stretch([], [])
    end = None if position is None else position_after(position)
    found = list(read_newest(log, views.blocks, views.selection, before=wanted.before, end=end, limit=wanted.limit + LEAD_IN))
    found.reverse()
    cut = max(0, len(found) - wanted.limit)
    return Stretch(found[cut:], found[:cut])


def known(look: Look, scope: str) -> Known:
    """What is needed of the views, as a copy: telling takes longer than a look may."""
    threads: ThreadsState = look.states["threads"]
    selection, bound = select(scope, threads), dict(threads.bound)
    if not isinstance(selection, str):  # its goals and runs may belong to another task by now
        bound |= dict.fromkeys(selection.scopes[1:], selection.key)
    newest = look.at or look.now
    keys = tuple(thread.key for thread in sift.open_among(threads) if thread.last is not None and newest - thread.last[0] <= RECENT)
    book: Arcbook | None = look.states.get("arcs")
    blocks = newest_blocks(look.states["calendar"]) if look.caught_up else []
    if book is None:
        return Known(selection, look.naming, bound, [], [], keys, blocks)
    recent = set(keys)
    opened = [arc for arc in without_hidden(arcbook.open_arcs(book, look.now)) if arc.thread in recent]
    return Known(selection, look.naming, bound, list(without_hidden(book.closed)), opened, keys, blocks)


def tell(stretch: Stretch, wanted: Wanted, views: Known, head: dict[str, object]) -> Story:
    """The story of the stretch."""
    overview = Overview()
    for event in stretch.told:
        overview.see(event)
    telling = Telling(wanted.detail, wanted.zone, naming=views.naming)
    chapters = _chapters(stretch, telling, views)
    naming = views.naming
    return Story(
        **head,  # type: ignore[arg-type]  # `Look.head` gives the fields of `Head`
        opening=opening_of(overview, wanted.zone, naming).text,
        chapters=[_chapter_row(chapter, naming) for chapter in chapters],
        open=[OpenThread(key=key, title=naming.title(key)) for key in views.open_threads[:MOST_OPEN]] if wanted.scope == TOWN else [],
        closing=_closing(views) if wanted.scope == TOWN else "",
        more=stretch.more,
    )


def _chapters(stretch: Stretch, telling: Telling, views: Known) -> list[Chapter]:
    told = {id(event) for event in stretch.told}
    narrator = Narrator(telling)
    narrator.sifted.threads.bound = views.bound
    events = sorted((*stretch.lead_in, *stretch.told), key=event_order)
    chapters = list(narrator.chapters(events, where=lambda event: id(event) in told))
    ids = {event.id for event in stretch.told}
    mine = [arc for arc in views.closed if arc.last in ids]
    return [_with_arcs(chapter, mine) for chapter in chapters]


def _with_arcs(chapter: Chapter, known: Sequence[Arc]) -> Chapter:
    """The arcs that were closed in a chapter: those that the whole log tells, and what only the stretch shows."""
    threads = {sentence.thread for sentence in chapter.sentences}
    ends = {id for sentence in chapter.sentences for id in sentence.evidence}
    whole = [arc for arc in known if arc.thread in threads and arc.last in ends]
    keys = {(arc.kind, arc.thread, arc.last) for arc in whole}
    arcs = [*whole, *(arc for arc in chapter.arcs if (arc.kind, arc.thread, arc.last) not in keys)]
    arcs.sort(key=lambda arc: (arc.last_at, arc.first_at, arc.kind))
    return Chapter(title=chapter.title, sentences=chapter.sentences, arcs=tuple(arcs), first_at=chapter.first_at, last_at=chapter.last_at)


def _chapter_row(chapter: Chapter, naming: Naming) -> ChapterRow:
    return ChapterRow(
        title=chapter.title,
        first_at=chapter.first_at,
        last_at=chapter.last_at,
        sentences=[_sentence_row(sentence, naming) for sentence in chapter.sentences],
        arcs=arc_rows.rows(chapter.arcs, naming),
    )


def _sentence_row(sentence: Sentence, naming: Naming) -> SentenceRow:
    return SentenceRow(
        text=sentence.text,
        thread=sentence.thread,
        title=naming.title(sentence.thread),
        evidence=list(sentence.evidence),
        at=sentence.at,
        beat=sentence.beat,
        agent=sentence.agent,
        shown=naming.agent(sentence.agent),
    )


def _closing(views: Known) -> str:
    highlights = closing.Highlights()
    for arc in views.open:
        highlights.add(arc)
    return closing.told(highlights, views.open_threads, views.naming)
