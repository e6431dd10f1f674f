"""A whole telling as a stream of text: the opening, chapter by chapter, the ending, in any format."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from fleetlore.chronicle import sift
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.narrate import Narrator, Shelf, Telling, opening_of
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.story import Chapter, Closing, Opening, Summary
from fleetlore.events.envelope import Event
from fleetlore.views import beats
from fleetlore.views.event_text import EPOCH, event_stamp

NOTHING_THEN = "Nothing was recorded in this time."
"""How a telling begins that tells nothing, though something lies before it."""


class Before(NamedTuple):
    """What lies before the events that are told."""

    events: int
    since: datetime
    text: str = ""
    """A line that says so, where nobody has asked for a part."""


class Ending(NamedTuple):
    """What comes behind the last chapter."""

    closing: Closing
    arcs: Iterable[Arc]
    summary: Summary
    before: Before | None = None


class Format(Protocol):
    """One way to write a telling down. The parts, joined, are the whole of it; the opening is one part."""

    @property
    def lists_arcs(self) -> bool:
        """Whether its ending names every arc; else nobody keeps them."""

    def opening(self, opening: Opening) -> str:
        """Who, when and how much."""

    def chapter(self, chapter: Chapter) -> Iterator[str]:
        """One chapter."""

    def ending(self, ending: Ending) -> Iterator[str]:
        """The arcs, what is still open, and what the format needs to be whole."""


class Tale(NamedTuple):
    """What is told: its numbers, which are known beforehand, and its events in the order of their time."""

    overview: Overview
    events: Iterable[Event]
    where: Callable[[Event], bool] | None = None
    """Which of the events are told; the others are read for the sake of threads and arcs."""
    before: Before | None = None


def tell(tale: Tale, telling: Telling, form: Format, *, shelf: Shelf | None = None) -> Iterator[str]:
    """The telling, part by part: memory holds the open threads and one day."""
    yield begin(tale, telling, form)
    yield from go_on(tale, telling, form, shelf=shelf)


def begin(tale: Tale, telling: Telling, form: Format) -> str:
    """How the telling begins. It says what the overview knows, which has to be all."""
    opening = opening_of(tale.overview, telling.zone, telling.naming)
    return form.opening(replace(opening, text=NOTHING_THEN) if tale.before is not None and not opening.events else opening)


def go_on(tale: Tale, telling: Telling, form: Format, *, shelf: Shelf | None = None) -> Iterator[str]:
    """What stands behind the beginning, chapters and ending; the overview has to be whole only when the last event has been read."""
    narrator = Narrator(telling, shelf if form.lists_arcs else deque(maxlen=0))
    for chapter in narrator.chapters(tale.events, where=tale.where):
        yield from form.chapter(chapter)
    closing = narrator.close()
    yield from form.ending(Ending(closing, narrator.arcs, tale.overview.summary(narrator.threads), tale.before))


def arcs_of(events: Iterable[Event], *, now: datetime | None = None) -> Iterator[Arc]:
    """The arcs of events in the order of their time: closed ones as they end, then those that are open as of `now`, else as of the end."""
    sifted = sift.initial()
    day: date | None = None
    newest = EPOCH
    for event in events:
        newest = event_stamp(event)[0]
        if newest.date() != day:
            sift.settle(sifted)
            sift.drop_closed(sifted)
            day = newest.date()
        sift.sift(sifted, event, beats.classify_beat(sifted.beats, event))
        if sifted.closed:
            yield from sifted.closed
            sifted.closed.clear()
    sift.settle(sifted)
    yield from sifted.closed
    yield from sorted(sift.arcs_open(sifted, now or newest), key=lambda arc: (arc.last_at, arc.first_at, arc.kind, arc.thread))
