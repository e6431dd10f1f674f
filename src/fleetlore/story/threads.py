"""What happened outside of sessions, by thread: a task, goal, run, mission or agent, with counts and the newest events that matter.

`ThreadBook` collects the events of a period in any order and keeps a bounded number of them; `thread_paragraphs.py` renders it.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple

from msgspec import Struct, field

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.views.event_text import EventRank, event_rank
from fleetlore.views.outcomes import session
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.task_outcomes import name_task
from fleetlore.views.threads import TOWN_THREAD, goal_and_run_keys, thread_key

MOST_KEPT = 2
"""Newest events of each sort that a thread keeps."""
MOST_CITED = 100
"""Events that are kept as the evidence of a thread's counts."""
LONGEST_TITLE = 200

QUIET_BEATS = frozenset(("pulse", "rest", "thought"))
END_BEATS = frozenset(("deliver", "release", "feat", "setback", "recovery", "propose", "judgement"))
"""The newest event with one of these beats is how a thread ended."""
FIXING_BEATS = frozenset(("deliver", "recovery"))
BOOKKEEPING = ("log.", "notify.", "context.")
"""Families that say nothing about anybody's work."""
LIMITS_USED = ".rate_limits"
"""Ends the kinds in which a program says how much of a plan is used up."""
RECORDED = session.FOLDED_KINDS | {"agent.thought", "session.compacted"}
"""Kinds that are covered by the record of their session."""

DAYS_BY_DAY = timedelta(days=10)
DAYS_BY_MONTH = timedelta(days=400)


class RankedEvent(NamedTuple):
    """An event with its place in the order of time."""

    rank: EventRank
    event: Event

    @property
    def source(self) -> Source:
        """The event as evidence."""
        return Source(self.event.id or "", self.event.id or "")


class ThreadDigest(Struct, kw_only=True):
    """What a thread did in a period."""

    key: str
    title: str = ""
    events: int = 0
    first: datetime | None = None
    last: datetime | None = None
    agents: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    quiet: int = 0
    """Signs of life, pauses and thoughts: they are in `events` and not in `kinds`."""
    end: RankedEvent | None = None
    newest: RankedEvent | None = None
    """The newest event, rather one that is not quiet."""
    is_newest_quiet: bool = True
    fixed: RankedEvent | None = None
    """The newest delivery or recovery."""
    troubles: int = 0
    newest_troubles: list[RankedEvent] = field(default_factory=list)
    texts: dict[str, list[RankedEvent]] = field(default_factory=dict)
    """The newest events with a text, by kind."""
    first_events: list[tuple[EventRank, Source]] = field(default_factory=list)
    """The evidence of its counts."""
    titled: EventRank | None = None
    """The place of the event that gave the title."""

    @property
    def cited(self) -> list[Source]:
        """The first events, as evidence."""
        return [source for _, source in self.first_events]

    def add(self, event: Event) -> None:
        """One more event."""
        ranked = RankedEvent(event_rank(event), event)
        at, beat = ranked.rank[0][0], find_beat(event)
        is_quiet = beat in QUIET_BEATS
        self.events += 1
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        if name := event.agent or event.actor:
            self.agents[name] = self.agents.get(name, 0) + 1
        if (title := find_title(event)) and (self.titled is None or ranked.rank >= self.titled):
            self.title, self.titled = title, ranked.rank
        if is_quiet:
            self.quiet += 1
        else:
            self.kinds[event.kind] = self.kinds.get(event.kind, 0) + 1
            self._cite(ranked.rank, ranked.source)
            if event.text:
                _keep_newest(self.texts.setdefault(event.kind, []), ranked)
        if self.newest is None or (self.is_newest_quiet and not is_quiet):
            self.newest, self.is_newest_quiet = ranked, is_quiet
        elif is_quiet == self.is_newest_quiet:
            self.newest = _newer_event(self.newest, ranked)
        if beat in END_BEATS:
            self.end = _newer_event(self.end, ranked)
        if beat in FIXING_BEATS:
            self.fixed = _newer_event(self.fixed, ranked)
        if beat == "setback":
            self.troubles += 1
            _keep_newest(self.newest_troubles, ranked)

    def merge(self, other: ThreadDigest) -> None:
        """Add what another thread did."""
        for own, more in ((self.agents, other.agents), (self.kinds, other.kinds)):
            for name, count in more.items():
                own[name] = own.get(name, 0) + count
        self.events, self.quiet, self.troubles = self.events + other.events, self.quiet + other.quiet, self.troubles + other.troubles
        self.first = min(at for at in (self.first, other.first) if at is not None) if self.first or other.first else None
        self.last = max(at for at in (self.last, other.last) if at is not None) if self.last or other.last else None
        self.end, self.fixed = _newer_event(self.end, other.end), _newer_event(self.fixed, other.fixed)
        if self.is_newest_quiet == other.is_newest_quiet:
            self.newest = _newer_event(self.newest, other.newest)
        elif self.is_newest_quiet:
            self.newest, self.is_newest_quiet = other.newest, False
        for ranked in other.newest_troubles:
            _keep_newest(self.newest_troubles, ranked)
        for kind, found in other.texts.items():
            for ranked in found:
                _keep_newest(self.texts.setdefault(kind, []), ranked)
        for rank, source in other.first_events:
            self._cite(rank, source)

    def _cite(self, rank: EventRank, source: Source) -> None:
        if len(self.first_events) < MOST_CITED or rank < self.first_events[-1][0]:
            insort(self.first_events, (rank, source), key=lambda pair: pair[0])
            del self.first_events[MOST_CITED:]


class ThreadBook:
    """The threads of a period. Events of a session that its record covers are left out."""

    def __init__(self, sessions: Iterable[str], zone: tzinfo, since: datetime | None = None, until: datetime | None = None) -> None:
        self._sessions, self._zone = frozenset(sessions), zone
        self._name_bucket = choose_bucket(None if since is None or until is None else until - since)
        self._bound: dict[str, str] = {}
        self._threads: dict[tuple[str, str], ThreadDigest] = {}
        self.beside_sessions: dict[str, ThreadDigest] = {}
        """Session → what is on record about it beside its record: events of a fleet or a town that name the session."""

    def add(self, event: Event) -> None:
        """One more event, in the order of the log."""
        if is_bookkeeping(event) or not can_see(event, READER):
            return
        is_of_session = event.run in self._sessions or (event.run is not None and event.parent is not None)
        if event.run is not None and event.kind in RECORDED and is_of_session:
            return
        task = name_task(event)
        if task is not None:
            for owner in goal_and_run_keys(event):
                self._bound[owner] = f"task:{task}"
        key = thread_key(event, self._bound)
        if task is not None and key == f"task:{event.task}":
            key = f"task:{task}"
        if event.run in self._sessions:
            self.beside_sessions.setdefault(event.run or "", ThreadDigest(key=f"run:{event.run}")).add(event)
            if key == f"run:{event.run}":
                return
        kind = key.partition(":")[0]
        at = event_rank(event)[0][0]
        bucket = self._name_bucket(at.astimezone(self._zone)) if kind in ("agent", "mission", TOWN_THREAD) else ""
        self._threads.setdefault((bucket, key), ThreadDigest(key=key)).add(event)

    def list_tasks(self) -> dict[str, ThreadDigest]:
        """The threads of tasks by the task's name."""
        found = [digest for (_, key), digest in self._threads.items() if key.startswith("task:")]
        return {digest.key.partition(":")[2]: digest for digest in sorted(found, key=lambda one: (one.first is None, one.first, one.key))}

    def list_others(self) -> list[tuple[str, ThreadDigest]]:
        """The other threads, each with the day, month or year that it is about (empty for a goal or a run)."""
        found = [(bucket, digest) for (bucket, key), digest in self._threads.items() if not key.startswith("task:")]
        return sorted(found, key=lambda pair: (pair[1].first is None, pair[1].first, pair[1].key))

    def list_days(self) -> set[date]:
        """The days on which threads began or ended."""
        times = (at for digest in self._threads.values() for at in (digest.first, digest.last) if at is not None)
        return {at.astimezone(self._zone).date() for at in times}

    def count_events(self) -> int:
        """All events of all threads."""
        return sum(digest.events for digest in self._threads.values())

    def count_agents(self) -> int:
        """Everybody who took part."""
        return len({name for digest in self._threads.values() for name in digest.agents})


def is_news(event: Event) -> bool:
    """Whether an event outside of a session is more than bookkeeping or a sign of life."""
    is_recorded = event.run is not None and event.kind in RECORDED
    return not (is_bookkeeping(event) or is_recorded or find_beat(event) in QUIET_BEATS)


def is_bookkeeping(event: Event) -> bool:
    """Whether an event says nothing about anybody's work."""
    return event.kind.startswith(BOOKKEEPING) or event.kind == "agent.named" or event.kind.endswith(LIMITS_USED)


def choose_bucket(span: timedelta | None) -> Callable[[datetime], str]:
    """How an agent's work is cut up: by day, or in a long period by month or year. `None`: of unknown length."""
    if span is not None and span <= DAYS_BY_DAY:
        return lambda at: f"{at:%Y-%m-%d}"
    if span is not None and span <= DAYS_BY_MONTH:
        return lambda at: f"{at:%Y-%m}"
    return lambda at: f"{at:%Y}"


def find_title(event: Event) -> str:
    """The name of a task, goal, mission or run, if the event says it. Untrusted text on one line."""
    data: Mapping[str, object] = event.data
    goal = data.get("goal")
    found: object = data.get("title")
    if event.kind == "driver.goal_started" and isinstance(goal, dict):
        found = goal.get("description")
    elif event.kind == "run.started":
        found = data.get("scenario") or goal
    if not isinstance(found, str):
        return ""
    return " ".join(next((line for line in found[: 2 * LONGEST_TITLE].splitlines() if line.strip()), "").split())[:LONGEST_TITLE]


def count_kinds(digests: Iterable[ThreadDigest]) -> Counter[str]:
    """The events of several threads by kind."""
    total: Counter[str] = Counter()
    for digest in digests:
        total.update(digest.kinds)
    return total


def iterate_kinds(digest: ThreadDigest) -> Iterator[tuple[str, int]]:
    """The kinds of a thread's events, the most frequent first."""
    yield from sorted(digest.kinds.items(), key=lambda pair: (-pair[1], pair[0]))


def _newer_event(one: RankedEvent | None, other: RankedEvent | None) -> RankedEvent | None:
    if one is None or other is None:
        return one or other
    return other if other.rank >= one.rank else one


def _keep_newest(kept: list[RankedEvent], ranked: RankedEvent) -> None:
    insort(kept, ranked, key=lambda one: one.rank)
    del kept[:-MOST_KEPT]
