"""Lists the processes of this machine, from `/proc` on Linux and from `ps` elsewhere. `kill_tree.py` uses it to find a turn's processes.

Not psutil: docs/decisions/0012-the-process-table.md has the measurements.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

from fleetlore.process.environment import TURN_VARIABLE, has_turn_mark

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
