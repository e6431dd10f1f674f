"""Ends what still runs of a turn: gently, then hard, until nothing of it is found. Blocking.

A process is of the turn if it carries the mark in its environment, is in the group or the session of its leader, or descends from one that
is. What clears its environment, leaves its session and outlives its parents is not found. Hence all are stopped before any is ended: whom
one of them starts in that moment still has its parent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event
from typing import TypeAlias

from fleetlore.minds.harness import Process
from fleetlore.minds.programs.process_table import Entry, Name, born_of, everyone

__all__ = ["born_of", "end", "end_leftovers", "of_leader"]

LOOK_AGAIN = 0.02
"""Seconds between two looks."""

GIVE_UP = 10.0
"""Seconds after which what even a hard stop does not end is left to the system: it hangs in a disk or a driver."""

HOLD = 1.0
"""Seconds that a family has to come to a stop. Who may not be stopped is not waited for longer."""

_LOOK_CLOSELY = 0.002

# Whoever starts another and ends between two looks of ours is seen by neither; hence nothing has to be found twice.
_EMPTY_LOOKS = 2

Find: TypeAlias = Callable[[], Sequence[Entry]]


def end_leftovers(mark: str, processes: Sequence[Process], *, grace: float = 2.0) -> int:
    """Ends what still runs of a turn, and says how much it was; never this process, nor those that it descends from."""
    return len(end(lambda: _of_turn(mark, processes), grace=grace))


def of_leader(leader: int, mark: str) -> list[Entry]:
    """What lives of a turn whose leader was not waited for yet, so that its id is still its own."""
    entries, carriers = everyone(mark)
    return _family(entries, {one.pid for one in entries if leader in (one.pid, one.group, one.session)} | carriers)


def _of_turn(mark: str, processes: Sequence[Process]) -> list[Entry]:
    entries, carriers = everyone(mark)
    known = {(process.pid, process.born) for process in processes}
    leaders = {one.pid for one in entries if one.name in known}
    return _family(entries, carriers | leaders | {one.pid for one in entries if one.group in leaders})


def _family(entries: Sequence[Entry], roots: set[int]) -> list[Entry]:
    """The roots and all that descend from them, but for ourselves and those that we descend from."""
    parents = {one.pid: one.parent for one in entries}
    above = set(_line_of(os.getpid(), parents))
    ours = roots - above
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours - above:
        ours |= more
    return [one for one in entries if one.pid in ours and not one.is_dead]


def _line_of(pid: int, parents: dict[int, int]) -> Iterable[int]:
    """A process, its parent, and so on."""
    seen: set[int] = set()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        yield pid
        pid = parents.get(pid, 0)


def end(find: Find, *, grace: float, settle: float = 0.0, hurry: Event | None = None) -> set[Name]:
    """Ends whatever `find` finds until it finds nothing, and tells what had to be ended.

    For `settle` seconds it may go by itself; then it is asked, and after `grace` seconds, or as soon as there is a hurry, it is killed.
    """
    hurry = hurry or Event()
    gentle = time.monotonic() + settle
    hard = gentle + grace
    ended: set[Name] = set()
    looks = 0
    while (now := time.monotonic()) < hard + GIVE_UP:
        found = find()
        looks = 0 if found else looks + 1
        if looks == _EMPTY_LOOKS:
            break
        if hurry.is_set() or now >= hard:
            found = _hold(find)
            _send(found, signal.SIGKILL)
        elif now >= gentle and not ended.issuperset(one.name for one in found):
            found = _hold(find)
            _send([one for one in found if one.name not in ended], signal.SIGTERM)
            _send(found, signal.SIGCONT)
        if hurry.is_set() or now >= gentle:
            ended.update(one.name for one in found)
        _pause(hurry)
    return ended


def _hold(find: Find) -> Sequence[Entry]:
    """Stops whatever `find` finds, until it finds only who was still before it began to look; tells them, the youngest first."""
    until = time.monotonic() + HOLD
    stopped: set[Name] = set()
    still: set[Name] = set()
    while True:
        found = find()
        if still.issuperset(one.name for one in found) or time.monotonic() > until:
            # Children before their parents: the system wakes who is stopped and loses its parent.
            return found[::-1]
        still = {one.name for one in found if one.is_still and one.name in stopped}
        _send([one for one in found if one.name not in stopped], signal.SIGSTOP)
        stopped.update(one.name for one in found)
        time.sleep(_LOOK_CLOSELY)


def _pause(hurry: Event) -> None:
    """Until the next look; a hurry that begins meanwhile shortens it."""
    if hurry.is_set():
        time.sleep(LOOK_AGAIN)
    else:
        hurry.wait(LOOK_AGAIN)


def _send(entries: Iterable[Entry], *signals: signal.Signals) -> None:
    # The system gives out ids in turn: in the milliseconds since the look, none was given to another.
    for entry in entries:
        for one in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(entry.pid, one)
