"""The telling: events in the order of their time become chapters, one day after another, each sentence with its proof.

Memory holds the open threads and the current day. Nothing here looks at a clock: `now` and the time zone are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, Protocol

from fleetlore.chronicle import closing, sift, work
from fleetlore.chronicle.arcs import Arc, without_hidden
from fleetlore.chronicle.call_flags import CALLED, CallFlags
from fleetlore.chronicle.grammar import clock_time, ended, listed, number, plural, words
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.phrasing import say, say_run
from fleetlore.chronicle.rests import HEARD, WAITS, Ear
from fleetlore.chronicle.sifted import Sifted
from fleetlore.chronicle.story import Chapter, Closing, Detail, Opening, Sentence
from fleetlore.chronicle.telling_deeds import is_same_trouble, key_of, say_the_same, words_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.views import beats
from fleetlore.views.event_text import EPOCH, event_stamp
from fleetlore.views.recent_calls import BeatReason
from fleetlore.views.thread_state import StoryThread

FOLDED = frozenset(("pulse", "rest", "progress", "thought"))
"""Beats of which like ones in a row may be told together though they do not say the same."""
QUIET_BEATS = frozenset(("pulse", "rest", "thought"))
"""Beats that are told once a day, and only by a full telling."""
RETOLD = frozenset(("driver.acceptance",))
"""Kinds that only a full telling tells, for what comes next says the same: the end of a turn says what its check found."""
MOST_QUOTED, LONGEST_QUOTE = 3, 90
"""So many of a run's events are quoted, each in so many characters."""
WEIGHTS = {"feat": 6, "deliver": 5, "setback": 4, "recovery": 4, "release": 4, "propose": 2, "handoff": 2, "judgement": 2, "claim": 1}
WAIT_WEIGHT = 3
MOST_FLAGGED = 3
"""So many commands with flags that decide how far they can be trusted are told beside the headline of a thread."""
MOST_AHEAD = 256
"""So many events are sifted before they are told: one thing at a time is faster."""
PAUSE = timedelta(minutes=30)
"""After so long a silence within a thread a sentence says its time again."""
_at = attrgetter("at")
EARLIEST, LATEST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""Times beyond these are shown as these: in another time zone the calendar would not reach them."""


class Run:
    """One event, or several alike in a row, of one thread in one day."""

    __slots__ = ("_flags_of_each", "beat", "event", "events", "first", "flags", "ids", "key", "last", "says_the_same", "work")

    def __init__(self, event: Event, beat: str | None, at: datetime, *, key: str | None = None, flags: tuple[str, ...] = ()) -> None:
        self.event, self.beat = event, beat
        self.flags = flags
        """Flags of its commands that decide how far they can be trusted."""
        self._flags_of_each: tuple[tuple[str, ...], ...] = (flags,)
        self.key = key or event.kind
        """Under which words it is told."""
        self.events: tuple[Event, ...] = (event,)
        """The first few; of many that say the same, the first."""
        self.ids = [event.id or ""]
        self.first = self.last = at
        """When it began, and when its newest event was."""
        self.says_the_same = True
        self.work: work.Work | None = None
        """What it holds, if it is a stretch of work."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ids)

    def add(self, event: Event, at: datetime, key: str = "", flags: tuple[str, ...] = ()) -> None:
        """One more; of other words, where both are work."""
        if flags != self.flags:
            self.says_the_same = False
            self.flags = tuple(dict.fromkeys((*self.flags, *flags)))
        if key in work.KEYS:
            self._work_on(event, key)
        ids = self.ids
        ids.append(event.id or "")
        self.last = at
        if self.says_the_same:
            self.says_the_same = say_the_same(self.event, event)
        if len(ids) <= MOST_QUOTED:
            self.events += (event,)
            self._flags_of_each += (flags,)
        elif self.says_the_same and len(ids) == MOST_QUOTED + 1:
            self.events = self.events[:1]  # a day has many runs: what will not be told need not be kept

    def _work_on(self, event: Event, key: str) -> None:
        if self.work is None:
            self.work = work.Work()
            self.work.add(self.event, self.key)
        self.work.add(event, key)
        if key != self.key:
            self.key = work.KEY

    def apart(self) -> Sequence[Run]:
        """The run itself; of a few that do not say the same, each by itself."""
        if self.says_the_same or len(self.ids) > MOST_QUOTED or self.key == work.KEY or self.beat in QUIET_BEATS:
            return (self,)
        each = zip(self.events, self._flags_of_each, strict=True)
        return [Run(event, self.beat, shown_time(event), key=self.key, flags=flags) for event, flags in each]


class Line:
    """What happened on one thread in one day."""

    __slots__ = (
        "_about",
        "_ear",
        "_is_full",
        "_latest",
        "_naming",
        "_quiet",
        "_until",
        "_zone",
        "first",
        "last",
        "mission",
        "runs",
        "sentences",
        "thread",
        "weight",
    )

    def __init__(self, thread: str, telling: Telling, at: datetime) -> None:
        self.thread, self._zone, self._naming = thread, telling.zone, telling.naming
        self._is_full = telling.detail == "full"
        self.mission: str | None = None
        self.first = self.last = at
        self.runs: list[Run] = []
        """What is not told yet. Signs of life are among it only where all is told."""
        self.sentences: list[Sentence] = []
        self._until: datetime | None = None
        self._about = ""
        """What a claim has said that the thread is about: a story need not say it again."""
        self._latest: Run | None = None
        self._ear = Ear()
        self._quiet: dict[tuple[str, str | None], Run] = {}
        self.weight = 0

    def add(self, event: Event, beat: str | None, at: datetime, note: BeatReason | None, flags: tuple[str, ...] = ()) -> bool:
        """One more event, and why it has its beat; answers whether a run is over with it.

        A command with flags that decide how far it can be trusted is told, whatever it was for.
        """
        self.last = at
        if event.mission is not None:
            self.mission = event.mission
        is_full = self._is_full
        is_flagged = bool(flags) and (is_full or event.kind != CALLED)
        if beat in QUIET_BEATS and not is_flagged and (event.kind not in HEARD or not self._ear.hears(event)):
            if is_full:
                self._add_quiet(event, beat, at, key_of(event, beat, note))
            return False
        latest, key = self._latest, key_of(event, beat, note)
        if latest is not None and is_like(latest, event, beat, key, loosely=not is_full, flags=flags):
            latest.add(event, at, "" if is_full else key, flags)
            return False
        return self._go_over(event, beat, at, key, flags)

    def _go_over(self, event: Event, beat: str | None, at: datetime, key: str, flags: tuple[str, ...]) -> bool:
        """Begin another run; answers whether one is over with it."""
        if not self._is_full and event.kind in RETOLD:
            return False
        latest, self._latest = self._latest, Run(event, beat, at, key=key, flags=flags)
        self.runs.append(self._latest)
        self.weight += WAIT_WEIGHT if event.kind in WAITS else WEIGHTS.get(beat or "", 0)
        return latest is not None

    def _add_quiet(self, event: Event, beat: str | None, at: datetime, key: str) -> None:
        """Signs of life are told once a day, wherever they stand between deeds."""
        place = (key, event.agent or event.actor)
        run = self._quiet.get(place)
        if run is None:
            run = self._quiet[place] = Run(event, beat, at, key=key)
            self.runs.append(run)
        else:
            run.add(event, at)

    def tell_past(self) -> None:
        """Make sentences of the runs that are over, all but the latest; not where signs of life, which are never over, are told."""
        self._tell(self.runs[:-1])
        del self.runs[:-1]

    def tell(self) -> None:
        """Make sentences of all runs: the day is over."""
        self._tell(self.runs)
        self.runs.clear()

    def _tell(self, runs: Iterable[Run]) -> None:
        until, zone, naming, thread = self._until, self._zone, self._naming, self.thread
        for run in runs:
            for each in run.apart():
                timed = until is None or each.first - until > PAUSE
                told = sentence_of(each, zone, timed=timed, naming=naming, about=self._about)
                self.sentences.append(proved(told, thread, each))
                if each.beat == "claim" and not self._is_full:
                    self._about = self._about or words(each.event.text or "")
                until = each.last
        self._until = until

    def tell_headline(self) -> None:
        """The one thing to know of a thread: that somebody is waited for, else its last deed that counts.

        A commit, a test run or the like with flags that skip a check or force something is told beside it.
        """
        if not self.runs:
            return
        latest = self.runs[-1]
        told = latest if latest.event.kind in WAITS else max(self.runs, key=lambda run: (WEIGHTS.get(run.beat or "", 0), run.last))
        flagged = [run for run in self.runs if run.flags and run.beat not in QUIET_BEATS and run is not told]
        for run in (told, *flagged[-MOST_FLAGGED:]):
            self.sentences.append(proved(sentence_of(run, self._zone, naming=self._naming), self.thread, run))


def is_like(run: Run, event: Event, beat: str | None, key: str, *, loosely: bool, flags: tuple[str, ...] = ()) -> bool:
    """Whether an event goes on with a run: of work, `loosely`, also one that says something else."""
    first = run.event
    if run.flags != flags and not (loosely and key in work.KEYS):
        return False
    if (
        first.kind != event.kind
        or first.agent != event.agent
        or first.actor != event.actor
        or first.child != event.child
        or (run.key != key and not (loosely and key in work.KEYS and run.key in work.KEYS))
    ):
        return False
    return (
        (loosely and (beat in FOLDED or is_same_trouble(first, event))) or (beat in QUIET_BEATS and not flags) or say_the_same(first, event)
    )


def shown_time(event: Event) -> datetime:
    """When it happened, as far as every time zone can say it."""
    at = event.at
    if at is not None and at.tzinfo is not None and EARLIEST <= at <= LATEST:
        return at
    return min(max(event_stamp(event)[0], EARLIEST), LATEST)


class Shelf(Protocol):
    """Where the arcs of a telling are kept: a list, or something that holds more than memory does."""

    def append(self, arc: Arc, /) -> None:
        """One more."""

    def __iter__(self) -> Iterator[Arc]: ...


class Telling(NamedTuple):
    """How it is told."""

    detail: Detail = "story"
    zone: tzinfo = UTC
    now: datetime | None = None
    naming: Naming = AS_THEY_ARE


def opening_of(overview: Overview, zone: tzinfo, naming: Naming = AS_THEY_ARE) -> Opening:
    """Who, when and how much."""
    first, last, agents = overview.first_at, overview.last_at, overview.agents()
    if first is None or last is None:
        return Opening(text="Nothing has been recorded yet.", events=0, agents=())
    who = listed([naming.agent(agent) for agent in agents]) if agents else "nobody by name"
    text = f"{plural(overview.events, 'event').capitalize()} by {who}, {_period(first, last, zone)}."
    return Opening(text=text, events=overview.events, agents=tuple(agents), first_at=first, last_at=last)


def _period(first: datetime, last: datetime, zone: tzinfo) -> str:
    one, other = (min(max(at, EARLIEST), LATEST).astimezone(zone) for at in (first, last))
    if one.date() != other.date():
        return f"from {day_name(one.date())}, {one:%H:%M}, to {day_name(other.date())}, {other:%H:%M}"
    if f"{one:%H:%M}" == f"{other:%H:%M}":
        return f"on {day_name(one.date())} at {one:%H:%M}"
    return f"on {day_name(one.date())} between {one:%H:%M} and {other:%H:%M}"


def day_name(day: date) -> str:
    """`15 November 2026`."""
    return f"{day.day} {day:%B %Y}"


def _times_between(begins: datetime, ends: datetime, events: Sequence[Event]) -> list[datetime] | None:
    """When events happened, where all of that is between two moments, and in order; nothing where that takes a closer look at each."""
    times = list(map(_at, events))
    try:
        return times if begins <= times[0] and times[-1] < ends and sorted(times) == times else None
    except TypeError:  # one has no time, or no time zone
        return None


def day_of(at: datetime, zone: tzinfo) -> tuple[date, datetime, datetime]:
    """The day of a moment, when it begins, and when the next one does, as far as these can be shown."""
    day = at.astimezone(zone).date()
    begins, ends = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + timedelta(days=1)))
    return day, max(begins, EARLIEST), min(ends, LATEST)


def _title(day: date, mission: str, *, is_one_of_several: bool) -> str:
    of = f" · mission {mission}" if mission else " · outside of missions" if is_one_of_several else ""
    return f"{day:%A}, {day_name(day)}{of}"


class Narrator:
    """Tells chapter by chapter; the arcs go to a shelf."""

    def __init__(self, telling: Telling, shelf: Shelf | None = None) -> None:
        self._telling = telling
        self.sifted: Sifted = sift.initial()
        self.arcs: Shelf = [] if shelf is None else shelf
        self.threads = 0
        """How many were told; one that was closed and is opened on another day counts again."""
        self._highlights = closing.Highlights()
        self._day: date | None = None
        self._lines: dict[str, Line] = {}
        self._told_threads: set[str] = set()
        self._newest: datetime | None = None
        self._is_told = True
        """Whether the events since the last `_settle` are told."""
        self._closed: list[Arc] = []
        """The arcs of the day."""
        self._ahead: list[tuple[Event, datetime]] = []
        """Events that are to be told next, and when each happened."""
        self._flags = CallFlags()

    def chapters(self, events: Iterable[Event], *, where: Callable[[Event], bool] | None = None) -> Iterator[Chapter]:
        """The chapters of events that come in the order of their time.

        Those for which `where` says no are read but not told: threads and arcs that began with them are whole.
        """
        begins = ends = EARLIEST
        ahead, feed = self._ahead, iter(events)
        while batch := list(islice(feed, MOST_AHEAD)):
            if where is None and (times := _times_between(begins, ends, batch)):
                ahead += zip(batch, times, strict=True)
                self._go_on()
                continue
            for event in batch:
                at = event.at
                if at is None or at.tzinfo is None or not begins <= at < ends:
                    at = shown_time(event)
                    day, begins, ends = day_of(at, self._telling.zone)
                    if day != self._day:
                        yield from self._end_day()
                        self._day = day
                is_told = where is None or where(event)
                if is_told != self._is_told:
                    self._settle()
                    self._is_told = is_told
                if is_told:
                    ahead.append((event, at))
                else:
                    sift.sift(self.sifted, event, beats.classify_beat(self.sifted.beats, event))
                    self._flags.of(event)
            self._go_on()
        yield from self._end_day()

    def _go_on(self) -> None:
        """Add what lies ahead to its lines; a story tells the runs that are over, and lets go of their events."""
        ahead, sifted, hands = self._ahead, self.sifted, self.sifted.beats
        if not ahead:
            return
        stamps = [(at, "", 0) if event.at is at and event.origin is None else event_stamp(event) for event, at in ahead]
        found = [(beats.classify_beat(hands, event, stamp), hands.note) for (event, _), stamp in zip(ahead, stamps, strict=True)]
        known = self._lines.get
        lines = [
            known((thread := sift.sift(sifted, event, beat, stamp)).key) or self._begin(thread, at)
            for (event, at), (beat, _), stamp in zip(ahead, found, stamps, strict=True)
        ]
        flags_of = self._flags.of
        over = [
            line
            for line, (event, at), (beat, note) in zip(lines, ahead, found, strict=True)
            if line.add(event, beat, at, note, flags_of(event))
        ]
        self._newest = ahead[-1][0].at
        ahead.clear()
        if self._telling.detail == "story":
            for line in over:
                line.tell_past()

    def _begin(self, thread: StoryThread, at: datetime) -> Line:
        """The day's line of a thread that has none yet."""
        if self._told_threads.isdisjoint((thread.key, *thread.prologue)):
            self.threads += 1
        self._told_threads.add(thread.key)
        line = self._lines[thread.key] = Line(thread.key, self._telling, at)
        return line

    def _settle(self) -> None:
        """Keep the arcs that were closed, unless what closed them is not told."""
        self._go_on()
        sift.settle(self.sifted)
        if self._is_told:
            self._closed += without_hidden(self.sifted.closed)
        self.sifted.closed = []

    def _end_day(self) -> Iterator[Chapter]:
        if self._day is None:
            return
        self._settle()
        lines, self._lines = self._lines, {}
        arcs, self._closed = self._closed, []
        for arc in arcs:
            self._keep(arc)
        missions = sorted({line.mission or "" for line in lines.values()}, key=lambda name: (not name, name))
        for mission in missions:
            mine = [line for line in lines.values() if (line.mission or "") == mission]
            title = _title(self._day, mission, is_one_of_several=len(missions) > 1)
            if (chapter := self._chapter(title, mine, arcs)) is not None:
                yield chapter
        sift.drop_closed(self.sifted)
        self._told_threads.intersection_update(self.sifted.threads.threads)

    def _keep(self, arc: Arc) -> None:
        self.arcs.append(arc)
        self._highlights.add(arc)

    def _chapter(self, title: str, lines: list[Line], arcs: list[Arc]) -> Chapter | None:
        lines.sort(key=lambda line: (-line.weight, line.first, line.thread))
        sentences: list[Sentence] = []
        for line in lines:
            line.tell_headline() if self._telling.detail == "headline" else line.tell()
            sentences += line.sentences
        if not sentences:
            return None
        keys = {line.thread for line in lines}
        return Chapter(
            title=title,
            sentences=tuple(sentences),
            arcs=tuple(arc for arc in arcs if arc.thread in keys),
            first_at=min(sentence.at for sentence in sentences),
            last_at=max(line.last for line in lines),
        )

    def close(self) -> Closing:
        """The arcs, and what is still open, as of `now`, else as of the newest event."""
        now = self._telling.now or self._newest or EPOCH
        for arc in without_hidden(sift.arcs_open(self.sifted, now)):
            self._keep(arc)
        open_threads = tuple(thread.key for thread in sift.open_threads(self.sifted))
        return Closing(text=closing.told(self._highlights, open_threads, self._telling.naming), open_threads=open_threads)


def sentence_of(run: Run, zone: tzinfo, *, timed: bool = False, naming: Naming = AS_THEY_ARE, about: str = "") -> str:
    """A run in words, with some of what it says, but not what it is known to be about; those of one event with its time if asked for."""
    told = _said_of(run, zone, timed=timed, naming=naming, about=about)
    return _with_flags(told, run) if run.flags else told


def _with_flags(told: str, run: Run) -> str:
    """The sentence with the flags of its command behind what the command was about, else at its end."""
    flags = shown_flags([words(flag) for flag in run.flags], told)
    subject = words(words_of(run.event)) if run.says_the_same else ""
    place = told.find(subject) if subject else -1
    if not flags or place < 0:
        return ended(f"{told.removesuffix('.')}{flags}") if flags else told
    place += len(subject)
    place += told.startswith("”", place)
    return ended(f"{told[:place]}{flags}{told[place:]}")


def _said_of(run: Run, zone: tzinfo, *, timed: bool, naming: Naming, about: str) -> str:
    if len(run.ids) == 1:
        return say(run.event, key=run.key, at=clock_time(run.first, zone) if timed else "", naming=naming, zone=zone, about=about)
    told = say_run(run.event, run.count, run.first, run.last, zone, key=run.key, naming=naming)
    if run.work is not None and run.key == work.KEY:
        return ended(f"{told.rstrip('.')}: {run.work.told()}")
    if (run.beat in QUIET_BEATS and not run.flags) or not can_see(run.event, READER):
        return told
    quotes = _quotes(run)
    return ended(f"{told.rstrip('.')}: {quotes}") if quotes and quotes != about and quotes not in told else told


def _quotes(run: Run) -> str:
    """What a run says, once where it says the same."""
    if run.says_the_same:
        return words(words_of(run.event))
    texts = list(dict.fromkeys(_quote(words_of(event)) for event in run.events if can_see(event, READER)))
    quoted = [f"“{text}”" for text in texts if text]
    rest = run.count - len(quoted)
    return f"{', '.join(quoted)} and {number(rest)} more" if quoted and rest else listed(quoted)


def _quote(text: str) -> str:
    line = words(text)
    return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def proved(text: str, thread: str, run: Run) -> Sentence:
    """The sentence with the events that prove it."""
    event = run.event
    return Sentence(
        text=text,
        thread=thread,
        evidence=tuple(run.ids),
        at=run.first,
        beat=run.beat or "",
        agent=event.agent or event.actor or "",
    )
