"""The telling of what happens now: a sentence for each event, or for a run of like ones, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from fleetlore.chronicle import sift
from fleetlore.chronicle.call_flags import CALLED, CallFlags
from fleetlore.chronicle.naming import naming_of
from fleetlore.chronicle.narrate import FOLDED, QUIET_BEATS, WEIGHTS, Run, Telling, is_like, proved, sentence_of, shown_time
from fleetlore.chronicle.rests import WAITS, Ear
from fleetlore.chronicle.story import Sentence
from fleetlore.chronicle.telling_deeds import key_of
from fleetlore.events.envelope import Event
from fleetlore.views import beats
from fleetlore.views import names as names_view
from fleetlore.views.names import AgentNames

LONGEST_RUN = timedelta(seconds=30)
"""A run that goes on is told after so long, whatever comes."""
MOST_IN_RUN = 1000
MANY_THREADS = 10_000


class LiveTeller:
    """Takes events one by one, in the order of the log. What can be folded waits for more of its kind, until `flush`."""

    def __init__(self, telling: Telling, names: AgentNames | None = None) -> None:
        self._telling = telling
        self._names = names or names_view.initial()
        self.naming = naming_of(self._names)
        """What everybody is called by now."""
        self._sifted, self._ear, self._flags = sift.initial(), Ear(), CallFlags()
        self._waiting: dict[str, Run] = {}
        """Thread → the run that may go on."""

    def add(self, event: Event) -> Iterator[Sentence]:
        """One more event; gives what can be told now."""
        if event.kind in names_view.NAMING_KINDS:
            self._names = names_view.apply(self._names, event)
            self.naming = naming_of(self._names)
        beat = beats.classify_beat(self._sifted.beats, event)
        key = key_of(event, beat, self._sifted.beats.note)
        thread = sift.sift(self._sifted, event, beat).key
        self._forget()
        flags = self._flags.of(event)
        if not self._is_told(event, beat, flags):
            return
        run = self._waiting.get(thread)
        if run is not None and is_like(run, event, beat, key, loosely=False, flags=flags) and run.beat in FOLDED:
            run.add(event, shown_time(event), flags=flags)
        else:
            if run is not None:
                yield self._told(thread)
            self._waiting[thread] = Run(event, beat, shown_time(event), key=key, flags=flags)
        yield from self._due(event)
        if beat not in FOLDED and thread in self._waiting:
            yield self._told(thread)

    def flush(self) -> Iterator[Sentence]:
        """Tell all that waits: it has been quiet for a while."""
        for thread in list(self._waiting):
            yield self._told(thread)

    def _due(self, event: Event) -> Iterator[Sentence]:
        newest = shown_time(event)
        for thread, run in list(self._waiting.items()):
            if newest - run.first > LONGEST_RUN or run.count >= MOST_IN_RUN:
                yield self._told(thread)

    def _told(self, thread: str) -> Sentence:
        run = self._waiting.pop(thread)
        return proved(sentence_of(run, self._telling.zone, naming=self.naming), thread, run)

    def _is_told(self, event: Event, beat: str | None, flags: tuple[str, ...]) -> bool:
        if self._telling.detail == "headline":
            return event.kind in WAITS or beat in WEIGHTS or (bool(flags) and beat not in QUIET_BEATS)
        if flags and event.kind != CALLED:
            return True
        return self._telling.detail == "full" or beat not in QUIET_BEATS or self._ear.hears(event)

    def _forget(self) -> None:
        """Arcs are not told live; threads are needed only for their names."""
        self._sifted.closed.clear()
        if len(self._sifted.threads.threads) > MANY_THREADS:
            sift.settle(self._sifted)
            sift.drop_closed(self._sifted)
