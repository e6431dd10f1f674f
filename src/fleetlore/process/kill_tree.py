"""Ends what still runs of a turn: gently, then hard, until nothing of it is found. Blocking.

A process is of the turn if it carries the mark in its environment, is in the group or the session of its leader, or descends from one that
is. What clears its environment, leaves its session and outlives its parents is not found. Hence all are stopped before any is ended: whom
one of them starts in that moment still has its parent.
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

from fleetlore.process.environment import TURN_VARIABLE, has_turn_mark
from fleetlore.process.identity import Process

# --- Every process that runs here, as the system tells of it: `/proc` on Linux, `ps` elsewhere.

HAS_PROC = sys.platform == "linux"

PS = ("ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")
_PS_FIELDS = 9
"""Before the command: the start is five words."""

# Held by the system, too: who started a child by `vfork` waits so for as long as the child is stopped.
_STOPPED_STATES = (b"T", b"t", b"D")

ProcessKey: TypeAlias = tuple[int, str]
"""Its id and its start: no other process has both."""


class ProcessEntry(NamedTuple):
    """One process."""

    pid: int
    parent: int
    group: int
    session: int
    born: str
    """Its start as the system tells it."""
    is_dead: bool
    """Whether it has ended, and only its parent does not know yet."""
    is_stopped: bool = False
    """Whether it is stopped, or the system holds it: it starts nobody."""

    @property
    def key(self) -> ProcessKey:
        """By which it is known for good."""
        return self.pid, self.born


def read_start_time(pid: int) -> str | None:
    """When a process started, as the system tells it; `None` if there is none."""
    entry = read_process(pid)
    return entry.born if entry else None


def read_process(pid: int) -> ProcessEntry | None:
    """What the system tells of one process; `None` if there is none."""
    if HAS_PROC:
        return _read_proc_stat(pid)
    return next((entry for entry, _ in _list_by_ps() if entry.pid == pid), None)


def list_processes(mark: str) -> tuple[list[ProcessEntry], set[int]]:
    """All processes; and the ids of those that carry the mark, as far as we may look."""
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
    # The program's name stands in brackets, and may hold brackets itself.
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
    """Which start of the machine this is: processes' times are counted from it."""
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
    """Each process with its command and what may be seen of its environment."""
    told = subprocess.run(PS, capture_output=True, env={"PATH": os.defpath, "LC_ALL": "C"}, check=False).stdout
    for line in told.decode("utf-8", "replace").splitlines():
        if parsed := parse_ps_line(line):
            yield parsed


def parse_ps_line(line: str) -> tuple[ProcessEntry, str] | None:
    """One line of `ps`; `None` where it is none."""
    fields = line.split(None, _PS_FIELDS)
    if len(fields) < _PS_FIELDS or not all(one.isdecimal() and len(one) < 20 for one in fields[:3]):
        return None
    pid, parent, group = map(int, fields[:3])
    words = fields[_PS_FIELDS] if len(fields) > _PS_FIELDS else ""
    return ProcessEntry(pid, parent, group, 0, " ".join(fields[4:_PS_FIELDS]), "Z" in fields[3], fields[3][0] in "TDU"), words


# ---

__all__ = ["end_leftovers", "end_processes", "find_leader_processes", "read_start_time"]

POLL_SECONDS = 0.02
"""Seconds between two looks."""

GIVE_UP_SECONDS = 10.0
"""Seconds after which what even a hard stop does not end is left to the system: it hangs in a disk or a driver."""

STOP_TIMEOUT_SECONDS = 1.0
"""Seconds that a family has to come to a stop. Who may not be stopped is not waited for longer."""

_STOP_POLL_SECONDS = 0.002

# Whoever starts another and ends between two looks of ours is seen by neither; hence nothing has to be found twice.
_EMPTY_POLLS = 2

FindProcesses: TypeAlias = Callable[[], Sequence[ProcessEntry]]


def end_leftovers(mark: str, processes: Sequence[Process], *, grace: float = 2.0) -> int:
    """Ends what still runs of a turn, and says how much it was; never this process, nor those that it descends from."""
    return len(end_processes(lambda: _find_turn_processes(mark, processes), grace=grace))


def find_leader_processes(leader: int, mark: str) -> list[ProcessEntry]:
    """What lives of a turn whose leader was not waited for yet, so that its id is still its own."""
    entries, carriers = list_processes(mark)
    return _collect_tree(entries, {one.pid for one in entries if leader in (one.pid, one.group, one.session)} | carriers)


def _find_turn_processes(mark: str, processes: Sequence[Process]) -> list[ProcessEntry]:
    entries, carriers = list_processes(mark)
    known = {(process.pid, process.born) for process in processes}
    leaders = {one.pid for one in entries if one.key in known}
    return _collect_tree(entries, carriers | leaders | {one.pid for one in entries if one.group in leaders})


def _collect_tree(entries: Sequence[ProcessEntry], roots: set[int]) -> list[ProcessEntry]:
    """The roots and all that descend from them, but for ourselves and those that we descend from."""
    parents = {one.pid: one.parent for one in entries}
    above = set(_list_ancestors(os.getpid(), parents))
    ours = roots - above
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours - above:
        ours |= more
    return [one for one in entries if one.pid in ours and not one.is_dead]


def _list_ancestors(pid: int, parents: dict[int, int]) -> Iterable[int]:
    """A process, its parent, and so on."""
    seen: set[int] = set()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        yield pid
        pid = parents.get(pid, 0)


def end_processes(find: FindProcesses, *, grace: float, settle: float = 0.0, hurry: Event | None = None) -> set[ProcessKey]:
    """Ends whatever `find` finds until it finds nothing, and tells what had to be ended.

    For `settle` seconds it may go by itself; then it is asked, and after `grace` seconds, or as soon as there is a hurry, it is killed.
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
    """Stops whatever `find` finds, until it finds only who was still before it began to look; tells them, the youngest first."""
    until = time.monotonic() + STOP_TIMEOUT_SECONDS
    stopped: set[ProcessKey] = set()
    still: set[ProcessKey] = set()
    while True:
        found = find()
        if still.issuperset(one.key for one in found) or time.monotonic() > until:
            # Children before their parents: the system wakes who is stopped and loses its parent.
            return found[::-1]
        still = {one.key for one in found if one.is_stopped and one.key in stopped}
        _send_signals([one for one in found if one.key not in stopped], signal.SIGSTOP)
        stopped.update(one.key for one in found)
        time.sleep(_STOP_POLL_SECONDS)


def _wait_for_poll(hurry: Event) -> None:
    """Until the next look; a hurry that begins meanwhile shortens it."""
    if hurry.is_set():
        time.sleep(POLL_SECONDS)
    else:
        hurry.wait(POLL_SECONDS)


def _send_signals(entries: Iterable[ProcessEntry], *signals: signal.Signals) -> None:
    # The system gives out ids in turn: in the milliseconds since the look, none was given to another.
    for entry in entries:
        for one in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(entry.pid, one)
