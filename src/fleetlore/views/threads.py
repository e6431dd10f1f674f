"""The threads view: groups events into story threads. docs/patterns.md describes the rules.

An event's thread is its task, else its goal, run, mission or agent. An event that names a task and a goal (or run)
binds them: later events of the goal belong to the task, and earlier ones are the task's prologue. A thread closes by
delivery, by release, or by the end of its goal or run; any later beat but a pulse or a rest reopens it.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from itertools import islice, pairwise
from statistics import median
from typing import Literal

from msgspec import Struct, field

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import EPOCH, EventStamp, event_stamp, is_shell_prompt

VERSION = 12
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""

MAX_CLOSED_THREADS = 2000
"""Finished threads kept; an older one that is reopened starts anew."""
MOST_MOVES = 100
"""Newest task bindings kept per goal or run."""
PRUNED_EVERY = 250
"""This many more may accumulate before the oldest are dropped."""

TOWN_THREAD = "town"
"""The thread of events that name nobody."""
QUIET_BEATS = frozenset(("pulse", "rest"))
"""Beats that do not reopen a closed thread."""
CLOSING_BEATS = frozenset(("deliver", "release"))
ENDING_KINDS = frozenset(("driver.goal_completed", "run.finished"))
"""Kinds that end a goal or a run, with whatever outcome."""

TURN_ENDING_KINDS = frozenset(("session.turn_ended", "session.ended"))
"""Kinds after which a session has nothing to do until the next prompt: its thread closes.

So does the thread of a guessed task. An assigned task stays open until it is delivered or released.
"""

MAX_BINDINGS = 20_000
"""Goals and runs whose task is remembered; beyond that, the bindings made longest ago are dropped."""
MAX_GAPS = 100
"""Newest gaps that make up a thread's rhythm."""
MAX_TIMES = 2 * MAX_GAPS
"""Events collected before their gaps are computed; most threads end before anybody needs their rhythm."""
OLDEST_STAMP: EventStamp = (EPOCH, "", 0)
MIN_STALL = timedelta(minutes=10)
STALL_FACTOR = 5


class StoryThread(Struct, kw_only=True, array_like=True, gc=False):
    """One story thread, as far as the log says."""

    key: str
    mission: str | None = None
    state: Literal["open", "closed"] = "open"
    agents: dict[str, int] = field(default_factory=dict)
    """Who took part, in order of appearance, with the number of events."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by beat; unknown kinds have none."""
    first_id: str = ""
    first_at: datetime | None = None
    last_id: str = ""
    last: EventStamp | None = None
    """Stamp of the newest event; an older one is late."""
    gaps: list[int] = field(default_factory=list)
    """Tenths of a second between its newest events."""
    times: list[datetime] = field(default_factory=list)
    """Times of earlier events that are not in `gaps` yet; `update_gaps` adds them."""
    prologue: tuple[str, ...] = ()
    """Threads that turned out to be its beginning and were merged into it."""
    last_agent: str = ""
    """Who acted in its newest event: its agent, else its actor."""
    is_guessed: bool = False
    """Whether every event guessed the task from a branch or a prompt, so no tracker will report that it is done."""

    @property
    def events(self) -> int:
        """Number of events."""
        return sum(self.agents.values())


class ThreadsState(Struct, kw_only=True):
    """All threads of a town. Serialises to JSON."""

    version: int = VERSION
    position: str | None = None
    threads: dict[str, StoryThread] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    """`goal:X` and `run:X` → the thread of the task they are bound to."""
    moves: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """`goal:X` and `run:X` → positions from which they were bound to a task's thread, oldest first."""
    dropped: int = 0
    """Closed threads that are not kept any more."""
    room: int = MAX_CLOSED_THREADS + PRUNED_EVERY
    """With more threads than this, the oldest closed ones are dropped."""


def initial() -> ThreadsState:
    """The state before the first event."""
    return ThreadsState()


def apply(threads: ThreadsState, event: Event) -> ThreadsState:
    """Return the threads after one more event; modifies the given ones. Never raises."""
    threads.position = event.position or threads.position
    thread = find_or_add_thread(threads, event)
    if event.task is not None and event.position is not None:
        _record_moves(threads, event, event.position)
    add_to_thread(thread, event, find_beat(event), event_stamp(event))
    update_gaps(thread)
    if len(threads.threads) > threads.room:
        _prune_closed(threads)
    return threads


def _prune_closed(threads: ThreadsState) -> None:
    finished = sorted(filter(is_thread_over, threads.threads.values()), key=_age_key)
    for thread in finished[:-MAX_CLOSED_THREADS]:
        del threads.threads[thread.key]
        threads.dropped += 1
    threads.room = len(threads.threads) + PRUNED_EVERY


def is_thread_over(thread: StoryThread) -> bool:
    """Whether nothing is left to do: it is closed, or has only signs of life."""
    return thread.state == "closed" or QUIET_BEATS.issuperset(thread.counts)


def _age_key(thread: StoryThread) -> tuple[EventStamp, str]:
    return thread.last or OLDEST_STAMP, thread.key


def find_or_add_thread(threads: ThreadsState, event: Event) -> StoryThread:
    """Return the thread of an event, created if needed; binds goals and runs to tasks."""
    is_new = False
    if (task := event.task) is None:
        key = thread_key(event, threads.bound)
    else:
        key = f"task:{task}"
        is_new = key not in threads.threads
        if event.goal is not None or event.run is not None:
            _bind_to_task(threads, event, key)
    thread = threads.threads.get(key)
    if thread is None:
        thread = threads.threads[key] = StoryThread(key=key)
    if task is not None and (is_new or thread.is_guessed):
        thread.is_guessed = event.data.get("task_guessed") is True
    if event.mission is not None:
        thread.mission = event.mission
    return thread


def thread_key(event: Event, bound: dict[str, str]) -> str:
    """The key of an event's thread, given earlier bindings."""
    if (task := event.task) is not None:
        return f"task:{task}"
    if event.goal is not None:
        key = f"goal:{event.goal}"
        return bound.get(key, key)
    if event.run is not None:
        key = f"run:{event.run}"
        return bound.get(key, key)
    if event.mission is not None:
        return f"mission:{event.mission}"
    return f"agent:{event.agent}" if event.agent is not None else TOWN_THREAD


def bound_task_at(moves: list[tuple[str, str]], position: str) -> str | None:
    """The task thread of a goal's or run's events at a position; events before the first task belong to it."""
    if not moves:
        return None
    index = bisect_right(moves, position, key=lambda move: move[0])
    return moves[max(0, index - 1)][1]


def _record_moves(threads: ThreadsState, event: Event, position: str) -> None:
    task = f"task:{event.task}"
    for owner in goal_and_run_keys(event):
        moves = threads.moves.setdefault(owner, [])
        if not moves or moves[-1][1] != task:
            moves.append((position, task))
            del moves[:-MOST_MOVES]


def goal_and_run_keys(event: Event) -> list[str]:
    """The keys of the goal and the run that an event names."""
    return [f"{kind}:{name}" for kind, name in (("goal", event.goal), ("run", event.run)) if name]


def _bind_to_task(threads: ThreadsState, event: Event, task: str) -> None:
    for owner in goal_and_run_keys(event):
        if threads.bound.get(owner) == task:
            continue
        is_first = threads.bound.pop(owner, None) is None
        threads.bound[owner] = task  # moved to the end
        if is_first and len(threads.bound) > MAX_BINDINGS + PRUNED_EVERY:
            for old in list(islice(threads.bound, PRUNED_EVERY)):
                del threads.bound[old]
                threads.moves.pop(old, None)
        if is_first and (prologue := threads.threads.pop(owner, None)) is not None:
            _merge_prologue(threads.threads.setdefault(task, StoryThread(key=task)), prologue)


def _merge_prologue(thread: StoryThread, prologue: StoryThread) -> None:
    """Merge an earlier thread into this one."""
    update_gaps(prologue)
    update_gaps(thread)
    thread.prologue = (*thread.prologue, prologue.key)
    thread.mission = thread.mission or prologue.mission
    for own_counts, prologue_counts in ((thread.agents, prologue.agents), (thread.counts, prologue.counts)):
        merged = prologue_counts | {name: own_counts.get(name, 0) + prologue_counts.get(name, 0) for name in own_counts}
        own_counts.clear()
        own_counts.update(merged)
    if prologue.first_at is not None and (thread.first_at is None or prologue.first_at < thread.first_at):
        thread.first_id, thread.first_at = prologue.first_id, prologue.first_at
    if prologue.last is not None and (thread.last is None or prologue.last > thread.last):
        thread.last_id, thread.last, thread.state = prologue.last_id, prologue.last, prologue.state
        thread.last_agent = prologue.last_agent
    thread.gaps = (prologue.gaps + thread.gaps)[-MAX_GAPS:]


def add_to_thread(thread: StoryThread, event: Event, beat: str | None, stamp: EventStamp) -> bool:
    """Count one more event; return whether it came in order. `update_gaps` does what can wait."""
    agent, agents = event.agent or event.actor or "", thread.agents
    agents[agent] = agents.get(agent, 0) + 1
    if beat is not None:
        counts = thread.counts
        counts[beat] = counts.get(beat, 0) + 1
    last = thread.last
    if last is None:
        thread.first_id, thread.first_at = event.id or "", stamp[0]
    elif stamp[0] <= last[0] and stamp < last:
        return _add_late_event(thread, event, stamp[0])
    else:
        times = thread.times
        times.append(last[0])
        if len(times) > MAX_TIMES:
            del times[:-MAX_GAPS]
    thread.last_id, thread.last, thread.last_agent = event.id or "", stamp, agent
    if beat in CLOSING_BEATS or event.kind in ENDING_KINDS:
        thread.state = "closed"
    elif beat == "rest":
        if event.kind in TURN_ENDING_KINDS and (thread.is_guessed or thread.key.startswith("run:")):
            thread.state = "closed"
    elif thread.state == "closed" and beat not in QUIET_BEATS and not is_shell_prompt(event):
        thread.state = "open"
    return True


def update_gaps(thread: StoryThread) -> None:
    """Compute the gaps up to the newest event."""
    times, gaps = thread.times, thread.gaps
    if times and thread.last is not None:
        gaps += [round((after - before).total_seconds() * 10) for before, after in pairwise((*times, thread.last[0]))]
        times.clear()
        if len(gaps) > MAX_GAPS:
            del gaps[:-MAX_GAPS]


def _add_late_event(thread: StoryThread, event: Event, at: datetime) -> bool:
    """Late events change neither the state nor the rhythm."""
    if thread.first_at is not None and at < thread.first_at:
        thread.first_id, thread.first_at = event.id or "", at
    return False


def stall_duration(thread: StoryThread, now: datetime) -> timedelta | None:
    """How long an open thread has been silent, if that is long by its rhythm. Call `update_gaps` first."""
    if thread.state == "closed" or thread.last is None:
        return None
    silence = now - thread.last[0]
    return silence if silence > stall_threshold(thread) else None


def stall_threshold(thread: StoryThread) -> timedelta:
    """How long a thread may be silent before it counts as stalled. Call `update_gaps` first."""
    usual = timedelta(seconds=median(thread.gaps) / 10) if thread.gaps else timedelta(0)
    return max(MIN_STALL, STALL_FACTOR * usual)
