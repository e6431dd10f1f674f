"""The response of `/api/story`: the story of one page of events, in order of time.

Only that page is read, and a few events before it, so that what began just earlier is told correctly.
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
from fleetlore.server.answers.arcs import build_arc_rows
from fleetlore.server.types.common import ChapterRow, OpenThread, SentenceRow, StoryPage
from fleetlore.server.view_cache import ViewSnapshot
from fleetlore.views.thread_state import ThreadsState
from fleetlore.views.time_ranges import TimeBlock, newest_blocks

NEEDS = ("names", "threads")
"""Views that a snapshot of the head must contain."""
NEEDS_IN_PAST = ("names", "threads")
"""The same for the past. It uses only arcs within the page: to fold all arcs again takes longer than the story itself."""
LEAD_IN_EVENTS = 300
"""Events before the page that are read for context and not told."""
MAX_OPEN_THREADS = 50
RECENT = timedelta(days=2)
"""The closing names open threads that had an event within this time before the newest event; `/api/threads` lists all."""


class StoryOptions(NamedTuple):
    """Which page of which scope, and how it is told."""

    scope: str
    before: Position | None
    limit: int
    detail: Detail
    zone: tzinfo


class StoryEvents(NamedTuple):
    """The events to tell, and those before them for context."""

    events: list[Event]
    lead_in: list[Event]

    @property
    def more(self) -> Position | None:
        """The position before which the next page ends; `None` if there is none."""
        return self.events[0].position if self.lead_in and self.events else None


class StoryViews(NamedTuple):
    """What the views say about the scope, copied."""

    selection: Selection
    """The events of the scope."""
    naming: Naming
    bound: dict[str, str]
    closed: list[Arc]
    open: list[Arc]
    open_threads: tuple[str, ...]
    blocks: list[TimeBlock]


def read_events(log: BlockingRecorder, options: StoryOptions, views: StoryViews, position: Position | None) -> StoryEvents:
    """The newest events of the scope (for a task: its whole thread) before a position, and up to a past position."""
    if position == "":  # before the first event
        return StoryEvents([], [])
    end = None if position is None else position_after(position)
    found = list(read_newest(log, views.blocks, views.selection, before=options.before, end=end, limit=options.limit + LEAD_IN_EVENTS))
    found.reverse()
    cut = max(0, len(found) - options.limit)
    return StoryEvents(found[cut:], found[:cut])


def copy_views(snapshot: ViewSnapshot, scope: str) -> StoryViews:
    """What the story needs from the views, copied: building it takes longer than a snapshot may be held."""
    threads: ThreadsState = snapshot.states["threads"]
    selection, bound = select(scope, threads), dict(threads.bound)
    if not isinstance(selection, str):  # its goals and runs may belong to another task in the current view
        bound |= dict.fromkeys(selection.scopes[1:], selection.key)
    newest = snapshot.at or snapshot.now
    keys = tuple(thread.key for thread in sift.open_among(threads) if thread.last is not None and newest - thread.last[0] <= RECENT)
    book: Arcbook | None = snapshot.states.get("arcs")
    blocks = newest_blocks(snapshot.states["calendar"]) if snapshot.caught_up else []
    if book is None:
        return StoryViews(selection, snapshot.naming, bound, [], [], keys, blocks)
    recent = set(keys)
    opened = [arc for arc in without_hidden(arcbook.open_arcs(book, snapshot.now)) if arc.thread in recent]
    return StoryViews(selection, snapshot.naming, bound, list(without_hidden(book.closed)), opened, keys, blocks)


def build_story(page: StoryEvents, options: StoryOptions, views: StoryViews, head: dict[str, object]) -> StoryPage:
    """The story of a page of events."""
    overview = Overview()
    for event in page.events:
        overview.see(event)
    telling = Telling(options.detail, options.zone, naming=views.naming)
    chapters = _build_chapters(page, telling, views)
    naming = views.naming
    return StoryPage(
        **head,  # type: ignore[arg-type]  # `head_fields` gives the fields of `Head`
        opening=opening_of(overview, options.zone, naming).text,
        chapters=[_chapter_row(chapter, naming) for chapter in chapters],
        open=[OpenThread(key=key, title=naming.title(key)) for key in views.open_threads[:MAX_OPEN_THREADS]]
        if options.scope == TOWN
        else [],
        closing=_closing_text(views) if options.scope == TOWN else "",
        more=page.more,
    )


def _build_chapters(page: StoryEvents, telling: Telling, views: StoryViews) -> list[Chapter]:
    told = {id(event) for event in page.events}
    narrator = Narrator(telling)
    narrator.sifted.threads.bound = views.bound
    events = sorted((*page.lead_in, *page.events), key=event_order)
    chapters = list(narrator.chapters(events, where=lambda event: id(event) in told))
    ids = {event.id for event in page.events}
    closed = [arc for arc in views.closed if arc.last in ids]
    return [_with_arcs(chapter, closed) for chapter in chapters]


def _with_arcs(chapter: Chapter, known: Sequence[Arc]) -> Chapter:
    """The chapter with the arcs that were closed in it: those of the view, and those found in this page only."""
    threads = {sentence.thread for sentence in chapter.sentences}
    ends = {id for sentence in chapter.sentences for id in sentence.evidence}
    known_arcs = [arc for arc in known if arc.thread in threads and arc.last in ends]
    keys = {(arc.kind, arc.thread, arc.last) for arc in known_arcs}
    arcs = [*known_arcs, *(arc for arc in chapter.arcs if (arc.kind, arc.thread, arc.last) not in keys)]
    arcs.sort(key=lambda arc: (arc.last_at, arc.first_at, arc.kind))
    return Chapter(title=chapter.title, sentences=chapter.sentences, arcs=tuple(arcs), first_at=chapter.first_at, last_at=chapter.last_at)


def _chapter_row(chapter: Chapter, naming: Naming) -> ChapterRow:
    return ChapterRow(
        title=chapter.title,
        first_at=chapter.first_at,
        last_at=chapter.last_at,
        sentences=[_sentence_row(sentence, naming) for sentence in chapter.sentences],
        arcs=build_arc_rows(chapter.arcs, naming),
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


def _closing_text(views: StoryViews) -> str:
    highlights = closing.Highlights()
    for arc in views.open:
        highlights.add(arc)
    return closing.told(highlights, views.open_threads, views.naming)
