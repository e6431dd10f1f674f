"""How often a log is read for a telling: once where that will do, else twice.

The opening says how much there is, and everybody is called by the name that the whole log gives: so there is a survey first, and what it
finds is told in a second reading. But most logs are in the order of their time, and in most nobody is called otherwise than each event
calls them. Such a one is told while it is read for the first time, and its text waits in a temporary file for the opening; where the log
turns out to be another, that text is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.teller import Tale, begin, go_on, tell
from fleetlore.chronicle.timeline import Timeline
from fleetlore.cli.tell.range import Span, Survey
from fleetlore.projections.chronology import Chronology, OutOfOrder
from fleetlore.views import names

if TYPE_CHECKING:
    from fleetlore.chronicle.narrate import Telling
    from fleetlore.chronicle.teller import Format
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.thread_events import Selection


# --- Arcs of a telling, kept in memory as long as they are few, then in a temporary file that nobody else can read.


class SpoolingShelf(AbstractContextManager["SpoolingShelf"]):
    """Keeps any number of arcs in the order of their coming."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(MOST_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by __exit__
        self._encoder, self._decoder = msgspec.json.Encoder(), msgspec.json.Decoder(Arc)
        self._is_at_end = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def append(self, arc: Arc, /) -> None:
        """One more."""
        if not self._is_at_end:
            self._file.seek(0, 2)
            self._is_at_end = True
        self._file.write(self._encoder.encode(arc) + b"\n")

    def __iter__(self) -> Iterator[Arc]:
        self._file.seek(0)
        self._is_at_end = False
        for line in self._file:
            yield self._decoder.decode(line)


# ---

MOST_BYTES_IN_MEMORY = 4 << 20
_AT_A_TIME = 1 << 18


class Watch:
    """Whoever looks on while events are read; here nobody."""

    def begin(self) -> None:
        """The log is read from its beginning, for the first time or because one reading did not do."""

    def see(self, events: Sequence[Event]) -> None:
        """Some more events were counted."""

    def passing(self, events: Iterable[Event]) -> Iterable[Event]:
        """What the events go through on their way to being told."""
        return events


class Wanted(NamedTuple):
    """What is told, and how."""

    log: BlockingRecorder
    scope: Selection
    span: Span
    telling: Telling
    """But for its naming, which the log gives."""
    form: Callable[[Timeline, Naming], Format]
    picture: bool = False
    """Whether the format looks at the timeline."""
    watch: Watch = Watch()


def told(wanted: Wanted, stack: ExitStack, *, early: bool = False) -> Iterator[str]:
    """The telling, part by part, as long as the stack is open; `early`: its beginning is worth more than an early end."""
    at_once = None if early or wanted.span != Span() else _told_at_once(wanted, stack)
    return _told_after_a_survey(wanted, stack) if at_once is None else at_once


def _told_after_a_survey(wanted: Wanted, stack: ExitStack) -> Iterator[str]:
    wanted.watch.begin()
    log, scope, span, zone = wanted.log, wanted.scope, wanted.span, wanted.telling.zone
    chronology = stack.enter_context(Chronology(log, scope, until=span.until))
    survey = Survey(span, zone, log=log, scope=scope, picture=wanted.picture)

    def see(events: Sequence[Event]) -> None:
        survey.see_all(events)
        wanted.watch.see(events)

    chronology.scan_batches(see)
    tale = Tale(survey.overview, wanted.watch.passing(chronology.iterate_in_order()), survey.where, survey.before())
    naming = survey.naming
    shelf = stack.enter_context(SpoolingShelf())
    return tell(tale, wanted.telling._replace(naming=naming), wanted.form(survey.timeline, naming), shelf=shelf)


def _told_at_once(wanted: Wanted, stack: ExitStack) -> Iterator[str] | None:
    """The same parts in one reading, or nothing where one reading does not do."""
    wanted.watch.begin()
    overview, timeline = Overview(), Timeline()
    telling, form = wanted.telling._replace(naming=AS_THEY_ARE), wanted.form(timeline, AS_THEY_ARE)
    with ExitStack() as held, Chronology(wanted.log, wanted.scope) as chronology:
        spool, shelf = held.enter_context(_Spool()), held.enter_context(SpoolingShelf())
        tale = Tale(overview, wanted.watch.passing(_seen(chronology, overview, timeline, wanted)))
        try:
            spool.take(go_on(tale, telling, form, shelf=shelf))
        except (OutOfOrder, _Renamed, _Full):
            return None
        stack.push(held.pop_all())
    return spool.behind(begin(tale, telling, form))


def _seen(chronology: Chronology, overview: Overview, timeline: Timeline, wanted: Wanted) -> Iterator[Event]:
    """The events, counted as they come."""
    called = names.initial()
    for events in chronology.read_in_order_once():
        overview.see_all(events)
        for event in events if wanted.picture else ():
            timeline.see(event)
        for event in [event for event in events if event.kind in names.NAMING_KINDS]:
            called = names.apply(called, event)
            if names.has_display_name(called, event):
                raise _Renamed
        wanted.watch.see(events)
        yield from events


class _Renamed(Exception):
    """Somebody is called otherwise than was told."""


class _Full(Exception):
    """The text that waits has no place."""


class _Spool(AbstractContextManager["_Spool"]):
    """Text that waits for what stands before it: in memory as long as it is short, then in a file that nobody else can read."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(MOST_BYTES_IN_MEMORY)  # noqa: SIM115  # closed by __exit__

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def take(self, parts: Iterable[str]) -> None:
        """Keep all parts."""
        for part in parts:
            raw = part.encode(errors="surrogatepass")
            try:
                self._file.write(raw)
            except OSError as error:
                raise _Full from error

    def behind(self, part: str) -> Iterator[str]:
        """The part, and all that was kept."""
        yield part
        self._file.seek(0)
        while lines := self._file.readlines(_AT_A_TIME):
            yield b"".join(lines).decode(errors="surrogatepass")
