"""Ends the processes that are left of a turn: SIGTERM, then SIGKILL, until none is found. Blocking.

A process belongs to the turn if it has the turn's mark in its environment, is in the group or session of the turn's leader, or descends
from such a process. A process that clears its environment, leaves its session and outlives its parents is not found. So all are stopped
before any is ended: a child that one of them starts meanwhile still has its parent.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event
from typing import TypeAlias

from fleetlore.process.identity import Process
from fleetlore.process.table import ProcessEntry, ProcessKey, list_processes

POLL_SECONDS = 0.02
"""Seconds between two searches."""

GIVE_UP_SECONDS = 10.0
"""Seconds after SIGKILL until processes are given up that do not end: they hang in a disk or a driver."""

STOP_TIMEOUT_SECONDS = 1.0
"""Seconds to wait until all processes are stopped; some may not be stopped."""

_STOP_POLL_SECONDS = 0.002

# A process that starts another one and ends between two searches is missed by the first, so nothing must be found twice in a row.
_EMPTY_POLLS = 2

FindProcesses: TypeAlias = Callable[[], Sequence[ProcessEntry]]


def end_leftovers(mark: str, processes: Sequence[Process], *, grace: float = 2.0) -> int:
    """End what still runs of a turn, but never this process or its ancestors; returns how many were ended."""
    return len(end_processes(lambda: _find_turn_processes(mark, processes), grace=grace))


def find_leader_processes(leader: int, mark: str) -> list[ProcessEntry]:
    """The live processes of a turn. The leader must not have been waited for, so that its id is not reused."""
    entries, carriers = list_processes(mark)
    return _collect_tree(entries, {one.pid for one in entries if leader in (one.pid, one.group, one.session)} | carriers)


def _find_turn_processes(mark: str, processes: Sequence[Process]) -> list[ProcessEntry]:
    entries, carriers = list_processes(mark)
    known = {(process.pid, process.born) for process in processes}
    leaders = {one.pid for one in entries if one.key in known}
    return _collect_tree(entries, carriers | leaders | {one.pid for one in entries if one.group in leaders})


def _collect_tree(entries: Sequence[ProcessEntry], roots: set[int]) -> list[ProcessEntry]:
    """The roots and their descendants, without this process and its ancestors."""
    parents = {one.pid: one.parent for one in entries}
    above = set(_list_ancestors(os.getpid(), parents))
    ours = roots - above
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours - above:
        ours |= more
    return [one for one in entries if one.pid in ours and not one.is_dead]


def _list_ancestors(pid: int, parents: dict[int, int]) -> Iterable[int]:
    """The process, its parent, and so on."""
    seen: set[int] = set()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        yield pid
        pid = parents.get(pid, 0)


def end_processes(find: FindProcesses, *, grace: float, settle: float = 0.0, hurry: Event | None = None) -> set[ProcessKey]:
    """End the processes that `find` returns until it returns none; returns which had to be ended.

    They have `settle` seconds to end by themselves. Then they get SIGTERM, and after `grace` seconds, or once `hurry` is set, SIGKILL.
    """
    hurry = hurry or Event()
    gentle = time.monotonic() + settle
    hard = gentle + grace
    ended: set[ProcessKey] = set()
    looks = 0
    while (now := time.monotonic()) < hard + GIVE_UP_SECONDS:
        found = find()
        looks = 0 if found else looks + 1
        if looks == _EMPTY_POLLS:
            break
        if hurry.is_set() or now >= hard:
            found = _stop_processes(find)
            _send_signals(found, signal.SIGKILL)
        elif now >= gentle and not ended.issuperset(one.key for one in found):
            found = _stop_processes(find)
            _send_signals([one for one in found if one.key not in ended], signal.SIGTERM)
            _send_signals(found, signal.SIGCONT)
        if hurry.is_set() or now >= gentle:
            ended.update(one.key for one in found)
        _wait_for_poll(hurry)
    return ended


def _stop_processes(find: FindProcesses) -> Sequence[ProcessEntry]:
    """Stop the processes that `find` returns, until all of them were stopped before the search began; returns them, the youngest first."""
    until = time.monotonic() + STOP_TIMEOUT_SECONDS
    stopped: set[ProcessKey] = set()
    still: set[ProcessKey] = set()
    while True:
        found = find()
        if still.issuperset(one.key for one in found) or time.monotonic() > until:
            # Children before their parents: a stopped process that loses its parent is continued by the kernel.
            return found[::-1]
        still = {one.key for one in found if one.is_stopped and one.key in stopped}
        _send_signals([one for one in found if one.key not in stopped], signal.SIGSTOP)
        stopped.update(one.key for one in found)
        time.sleep(_STOP_POLL_SECONDS)


def _wait_for_poll(hurry: Event) -> None:
    """Wait until the next search; returns early when `hurry` is set."""
    if hurry.is_set():
        time.sleep(POLL_SECONDS)
    else:
        hurry.wait(POLL_SECONDS)


def _send_signals(entries: Iterable[ProcessEntry], *signals: signal.Signals) -> None:
    # Process ids are assigned in sequence, so none is reused within the milliseconds since the search.
    for entry in entries:
        for one in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(entry.pid, one)
