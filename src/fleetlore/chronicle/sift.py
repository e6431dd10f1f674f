"""Arcs sifted as events arrive: one fold over the threads, at a cost that does not grow with the log.

The fold is exact for events in the order of their time, as a telling reads them. A late event is counted in its thread,
and changes no arc.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.matcher import Walk, Walks, open_arcs, takers, walk_on
from fleetlore.chronicle.signs import Step, signs_of
from fleetlore.chronicle.spread import Spread, open_cascades, spread_on
from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.views import threads as view
from fleetlore.views.reading import EPOCH, Stamp, stamp_of
from fleetlore.views.threads import QUIET, Thread, Threads

VERSION = 1
LONG_AGO: Stamp = (EPOCH, "", 0)


class Repeat(Struct):
    """The last step of a thread, and which walks one more like it means something to; `None`: that is not known yet."""

    signs: frozenset[str]
    who: str
    takers: list[Walk] | None = None


class Sifted(Struct):
    """The threads, what is under way on each, and the arcs that are closed."""

    threads: Threads = field(default_factory=view.initial)
    walks: dict[str, Walks] = field(default_factory=dict)
    spread: Spread = field(default_factory=Spread)
    closed: list[Arc] = field(default_factory=list)
    late: int = 0
    repeats: dict[str, Repeat] = field(default_factory=dict)
    """Thread → its last step. Agents do the same thing many times over; only the first two of them are worth a thought."""


def initial() -> Sifted:
    """Nothing sifted yet."""
    return Sifted()


def apply(sifted: Sifted, event: Event) -> Sifted:
    """One more event. Never raises. Consumes the state: go on with the one that is returned."""
    sift(sifted, event, beat_of(event))
    return sifted


def sift(sifted: Sifted, event: Event, beat: str | None) -> Thread:
    """One more event whose beat is known; answers its thread."""
    threads = sifted.threads
    threads.position = event.position or threads.position
    before = len(threads.bound)
    thread = view.place(threads, event)
    if len(threads.bound) != before:
        _carry_over(sifted, thread)
    stamp = stamp_of(event)
    in_order = view.add(thread, event, beat, stamp)
    if beat is None or beat in QUIET:
        return thread
    if not in_order:
        sifted.late += 1
        return thread
    step = Step(signs_of(event, beat), event.agent or event.actor or "", event.id or "", stamp[0], thread.key)
    _walk(sifted, step)
    sifted.closed.extend(spread_on(sifted.spread, event, step))
    return thread


def _walk(sifted: Sifted, step: Step) -> None:
    walks = sifted.walks.get(step.thread)
    is_first = walks is None
    if walks is None:
        walks = sifted.walks[step.thread] = {}
    repeat = sifted.repeats.get(step.thread)
    if repeat is None or repeat.signs != step.signs or repeat.who != step.who:
        sifted.closed.extend(walk_on(walks, step, is_first=is_first))
        sifted.repeats[step.thread] = Repeat(step.signs, step.who)
    elif repeat.takers is not None:
        for walk in repeat.takers:
            walk.take(step)
    else:  # the second one alike: now it is known what a third would do
        sifted.closed.extend(walk_on(walks, step))
        repeat.takers = takers(walks, step)


def _carry_over(sifted: Sifted, thread: Thread) -> None:
    """What was under way on a prologue goes on on the thread that it belongs to."""
    for own in thread.prologue:
        before = sifted.walks.pop(own, None)
        sifted.repeats.pop(own, None)
        sifted.repeats.pop(thread.key, None)
        if before:
            mine = sifted.walks.setdefault(thread.key, {})
            for kind, walks in before.items():
                mine[kind] = walks + mine.get(kind, [])


def arcs_open(sifted: Sifted, now: datetime) -> Iterator[Arc]:
    """What is open as of a moment, stalls among it."""
    for key, walks in sifted.walks.items():
        yield from open_arcs(walks, key)
    yield from open_cascades(sifted.spread)
    for thread in sifted.threads.threads.values():
        if _is_open(thread) and view.stalled_for(thread, now) is not None and thread.last is not None:
            yield _stall(thread, thread.last[0], now)


def open_threads(sifted: Sifted) -> list[Thread]:
    """Those with something left to do, the one that moved last first."""
    return sorted(filter(_is_open, sifted.threads.threads.values()), key=lambda thread: (thread.last or LONG_AGO, thread.key), reverse=True)


def _is_open(thread: Thread) -> bool:
    """Signs of life alone open nothing: neither of an agent without work, nor after the end of a thread that was let go."""
    return thread.state == "open" and not QUIET.issuperset(thread.counts)


def _stall(thread: Thread, since: datetime, now: datetime) -> Arc:
    """A silence: proved by the last event before it, and lasting until now."""
    last = thread.last_id
    return Arc(
        kind="stall",
        thread=thread.key,
        agents=[name for name in thread.agents if name][-1:],
        state="open",
        first=last,
        last=last,
        evidence=[last],
        count=1,
        first_at=since,
        last_at=now,
    )


def drop_closed(sifted: Sifted) -> None:
    """Let go of threads that are closed and have nothing under way; a beat that opens one again begins it anew."""
    for key in [key for key, thread in sifted.threads.threads.items() if thread.state == "closed"]:
        walks = sifted.walks.get(key)
        if not walks or not any(walks.values()):
            sifted.walks.pop(key, None)
            sifted.repeats.pop(key, None)
            del sifted.threads.threads[key]
