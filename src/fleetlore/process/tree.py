"""The processes of a turn: identifies, lists and ends them. Blocking.

A process belongs to the turn if it has the turn's mark in its environment, is in the group or session of the turn's leader, or descends
from such a process. A process that clears its environment, leaves its session and outlives its parents is not found. So all are stopped
before any is ended: a child that one of them starts meanwhile still has its parent.

Processes are listed from `/proc` on Linux and from `ps` elsewhere.
Not psutil: docs/decisions/0012-the-process-table.md has the measurements.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from threading import Event
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from fleetlore.process.environment import TURN_VARIABLE, has_turn_mark


class Process(Struct, frozen=True, kw_only=True):
    """A process that is stored in the log. Its id may be reused later; the start time distinguishes it."""

    pid: int
    group: int
    born: str
    """Start time, as in `ProcessEntry.born`."""
    command: str
    """As people write it, without secrets."""


HAS_PROC = sys.platform == "linux"

PS = ("ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")
_PS_FIELDS = 9
"""Fields before the command; the start time is five words."""

# `D` too: a process that started a child with `vfork` is in this state for as long as the child is stopped.
_STOPPED_STATES = (b"T", b"t", b"D")

ProcessKey: TypeAlias = tuple[int, str]
"""Process id and start time, which no two processes share."""


class ProcessEntry(NamedTuple):
    """One process."""

    pid: int
    parent: int
    group: int
    session: int
    born: str
    """Start time. On Linux the boot id and the clock ticks since boot, which no change of the clock affects."""
    is_dead: bool
    """Whether it is a zombie."""
    is_stopped: bool = False
    """Whether it is stopped or in uninterruptible sleep, so that it starts no other process."""

    @property
    def key(self) -> ProcessKey:
        """Identifies the process, even after its id was reused."""
        return self.pid, self.born


def read_start_time(pid: int) -> str | None:
    """The start time of a process, as in `ProcessEntry.born`; `None` if there is no such process."""
    entry = read_process(pid)
    return entry.born if entry else None


def read_process(pid: int) -> ProcessEntry | None:
    """The entry of one process; `None` if there is no such process."""
    if HAS_PROC:
        return _read_proc_stat(pid)
    return next((entry for entry, _ in _list_by_ps() if entry.pid == pid), None)


def list_processes(mark: str) -> tuple[list[ProcessEntry], set[int]]:
    """All processes, and the ids of those with the mark in their environment, as far as we may read it."""
    if HAS_PROC:
        entries = [entry for pid in _list_pids() if (entry := _read_proc_stat(pid))]
        return entries, {entry.pid for entry in entries if not entry.is_dead and _has_mark(entry.pid, mark)}
    listed = list(_list_by_ps())
    return [entry for entry, _ in listed], {entry.pid for entry, words in listed if _has_marked_variable(words.split(" "), mark)}


def _list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _read_proc_stat(pid: int) -> ProcessEntry | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    # The program's name is in parentheses, and may contain parentheses itself.
    state, parent, group, session, *rest = raw[raw.rindex(b")") + 2 :].split()
    return ProcessEntry(
        pid,
        int(parent),
        int(group),
        int(session),
        f"{_read_boot_id()}:{rest[15].decode()}",
        state in (b"Z", b"X"),
        state in _STOPPED_STATES,
    )


@cache
def _read_boot_id() -> str:
    """Identifies the boot from which start times are counted."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read(8)
    except OSError:
        return "boot"


def _has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return False
    return os.fsencode(mark) in raw and _has_marked_variable([os.fsdecode(one) for one in raw.split(b"\0")], mark)


def _has_marked_variable(variables: list[str], mark: str) -> bool:
    return any(has_turn_mark(one.removeprefix(f"{TURN_VARIABLE}="), mark) for one in variables if one.startswith(f"{TURN_VARIABLE}="))


def _list_by_ps() -> Iterator[tuple[ProcessEntry, str]]:
    """Each process with its command and the visible part of its environment."""
    output = subprocess.run(PS, capture_output=True, env={"PATH": os.defpath, "LC_ALL": "C"}, check=False).stdout
    for line in output.decode("utf-8", "replace").splitlines():
        if parsed := parse_ps_line(line):
            yield parsed


def parse_ps_line(line: str) -> tuple[ProcessEntry, str] | None:
    """Parse one line of `ps`; `None` if it is none."""
    fields = line.split(None, _PS_FIELDS)
    if len(fields) < _PS_FIELDS or not all(one.isdecimal() and len(one) < 20 for one in fields[:3]):
        return None
    pid, parent, group = map(int, fields[:3])
    words = fields[_PS_FIELDS] if len(fields) > _PS_FIELDS else ""
    return ProcessEntry(pid, parent, group, 0, " ".join(fields[4:_PS_FIELDS]), "Z" in fields[3], fields[3][0] in "TDU"), words


# --- ending: SIGTERM, then SIGKILL, until no process is found


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
