"""Arcs sifted as events arrive: one fold over the threads, at a cost that does not grow with the log.

The fold is exact for events in the order of their time, as a telling reads them. A late event is counted in its thread,
and changes no arc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.matcher import open_arcs, takers, walk_on
from fleetlore.chronicle.sifted import Repeat, Sifted
from fleetlore.chronicle.signs import FRESH_CLAIM, signs_of
from fleetlore.chronicle.spread import is_concerned, open_cascades, spread_on
from fleetlore.chronicle.walks import Step
from fleetlore.events.envelope import Event
from fleetlore.views import beats
from fleetlore.views import threads as view
from fleetlore.views.event_text import EventStamp, event_stamp
from fleetlore.views.thread_state import StoryThread, ThreadsState
from fleetlore.views.threads import OLDEST_STAMP, QUIET_BEATS

VERSION = 5
MOST_WAITING = 256
"""So many steps are looked at in one go, which is faster than a look at each as it comes."""


def initial() -> Sifted:
    """Nothing sifted yet."""
    return Sifted()


def apply(sifted: Sifted, event: Event) -> Sifted:
    """One more event. Never raises. Consumes the state: go on with the one that is returned."""
    sift(sifted, event, beats.classify_beat(sifted.beats, event))
    settle(sifted)
    sifted.threads.position = event.position or sifted.threads.position
    return sifted


def sift(sifted: Sifted, event: Event, beat: str | None, stamp: EventStamp | None = None) -> StoryThread:
    """One more event whose beat is known; answers its thread. What it means to arcs is known after `settle`."""
    thread = view.find_or_add_thread(sifted.threads, event) if event.goal is None and event.run is None else _place(sifted, event)
    stamp = stamp or event_stamp(event)
    is_fresh = beat == "claim" and _begins_anew(thread)
    in_order = view.add_to_thread(thread, event, beat, stamp)
    if beat is None or beat in QUIET_BEATS:
        return thread
    if not in_order:
        sifted.late += 1
        return thread
    waiting = sifted.waiting
    signs = FRESH_CLAIM if is_fresh else signs_of(event, beat)
    waiting.append((event, signs, event.agent or event.actor or "", stamp[0], thread.key))
    if len(waiting) >= MOST_WAITING:
        settle(sifted)
    return thread


def _begins_anew(thread: StoryThread) -> bool:
    """Whether a claim begins something new: after a delivery, or on an agent's own thread, which holds all that has no other."""
    return thread.key.startswith("agent:") or (thread.state == "closed" and "release" not in thread.counts)


def _place(sifted: Sifted, event: Event) -> StoryThread:
    """The thread of an event that may bind a goal or a run to a task."""
    threads = sifted.threads
    bound = len(threads.bound)
    thread = view.find_or_add_thread(threads, event)
    if len(threads.bound) != bound:
        settle(sifted)
        _carry_over(sifted, thread)
    return thread


def settle(sifted: Sifted) -> None:
    """Find the arcs that the steps so far have closed: in the order of the steps, those of a thread before those across threads."""
    waiting, repeats, spread, closed = sifted.waiting, sifted.repeats, sifted.spread, sifted.closed
    for event, signs, who, at, thread in waiting:
        repeat = repeats.get(thread)
        if repeat is not None and repeat.signs is signs and len(repeat.more) < repeat.known and repeat.who == who:
            repeat.more.append(event.id or "")
            repeat.last_at = at
        else:
            closed += _walk(sifted, Step(signs, who, event.id or "", at, thread), repeat)
        if is_concerned(event, signs):
            closed += spread_on(spread, event, Step(signs, who, event.id or "", at, thread))
    waiting.clear()


def _walk(sifted: Sifted, step: Step, repeat: Repeat | None) -> Sequence[Arc]:
    thread = step.thread
    if repeat is not None:
        _catch_up(repeat)
    walks = sifted.walks.get(thread)
    if walks is None:
        walks = sifted.walks[thread] = {}
        sifted.repeats[thread] = Repeat(step.signs, step.who)
        return walk_on(walks, step, is_first=True)
    found = walk_on(walks, step)
    if repeat is not None and repeat.signs is step.signs and repeat.who == step.who:
        repeat.takers, repeat.known = takers(walks, step)  # the second one: now it is known what a third would do
    else:
        sifted.repeats[thread] = Repeat(step.signs, step.who)
    return found


def _catch_up(repeat: Repeat) -> None:
    """Let the walks take what was put off."""
    if more := repeat.more:
        for walk in repeat.takers:
            walk.take_more(more, repeat.last_at)
        repeat.known -= len(more)
        repeat.more = []


def rest(sifted: Sifted) -> None:
    """Let the walks take all that was put off, and forget what only saves time: the rest encodes to JSON and back."""
    for repeat in sifted.repeats.values():
        _catch_up(repeat)
    sifted.repeats.clear()
    for thread in sifted.threads.threads.values():
        view.update_gaps(thread)


def _carry_over(sifted: Sifted, thread: StoryThread) -> None:
    """What was under way on a prologue goes on on the thread that it belongs to."""
    for own in thread.prologue:
        before = sifted.walks.pop(own, None)
        for key in (own, thread.key):
            if (repeat := sifted.repeats.pop(key, None)) is not None:
                _catch_up(repeat)
        if before:
            mine = sifted.walks.setdefault(thread.key, {})
            for kind, walks in before.items():
                mine[kind] = walks + mine.get(kind, [])


def arcs_open(sifted: Sifted, now: datetime) -> Iterator[Arc]:
    """What is open as of a moment, stalls among it, once all is settled."""
    for repeat in sifted.repeats.values():
        _catch_up(repeat)
    for key, walks in sifted.walks.items():
        thread = sifted.threads.threads.get(key)
        is_idle = thread is not None and _is_idle_session(thread)
        yield from (arc for arc in open_arcs(walks, key) if not (is_idle and arc.kind == "struggle_and_recovery"))
    yield from open_cascades(sifted.spread)
    for thread in filter(_is_open, sifted.threads.threads.values()):
        view.update_gaps(thread)
        if view.stall_duration(thread, now) is not None and thread.last is not None:
            yield _stall(thread, thread.last[0], now)


def _is_idle_session(thread: StoryThread) -> bool:
    """Whether its session has ended its turn: what it did not fix it has left, and is not struggling with it."""
    return thread.state == "closed" and (thread.is_guessed or thread.key.startswith("run:"))


def open_threads(sifted: Sifted) -> list[StoryThread]:
    """Those with something left to do, the one that moved last first."""
    return open_among(sifted.threads)


def open_among(threads: ThreadsState) -> list[StoryThread]:
    """The same, of threads that were folded without arcs."""
    return sorted(filter(_is_open, threads.threads.values()), key=lambda thread: (thread.last or OLDEST_STAMP, thread.key), reverse=True)


def _is_open(thread: StoryThread) -> bool:
    """Signs of life alone open nothing: neither of an agent without work, nor after the end of a thread that was let go.

    What an agent does outside of any task is open only if somebody asked for it.
    """
    if thread.key.startswith("agent:") and "claim" not in thread.counts:
        return False
    return not view.is_thread_over(thread)


def _stall(thread: StoryThread, since: datetime, now: datetime) -> Arc:
    """A silence: proved by the last event before it, by the agent that acted in it, and lasting until now."""
    last = thread.last_id
    return Arc(
        kind="stall",
        thread=thread.key,
        agents=[thread.last_agent] if thread.last_agent else [],
        state="open",
        first=last,
        last=last,
        evidence=[last],
        count=1,
        first_at=since,
        last_at=now,
    )


def drop_closed(sifted: Sifted, *, most: int | None = None) -> None:
    """Let go of threads that are closed and have nothing under way, once all is settled; a beat that opens one again begins it anew.

    With `most`, of the other closed ones the newest are kept, so many at the most, and none on which there were only signs of life: a
    fold that goes on for ever would gather them, for agents rest after what is long closed.
    """
    closed = [
        thread
        for thread in sifted.threads.threads.values()
        if thread.state == "closed" or (most is not None and view.is_thread_over(thread))
    ]
    held = [thread for thread in closed if (walks := sifted.walks.get(thread.key)) and any(walks.values())]
    if most is not None and len(held) > most:
        held = sorted(held, key=lambda thread: (thread.last or OLDEST_STAMP, thread.key))[-most:]
    kept = {thread.key for thread in held}
    for thread in closed:
        if (key := thread.key) not in kept:
            sifted.walks.pop(key, None)
            sifted.repeats.pop(key, None)
            del sifted.threads.threads[key]
