"""Every process that runs here, as the system tells of it: `/proc` on Linux, `ps` elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

from fleetlore.minds.programs.environment import MARK, carries

HAS_PROC = sys.platform == "linux"

PS = ("ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")
_PS_FIELDS = 9
"""Before the command: the start is five words."""

# Held by the system, too: who started a child by `vfork` waits so for as long as the child is stopped.
_STILL = (b"T", b"t", b"D")

Name: TypeAlias = tuple[int, str]
"""Its id and its start: no other process has both."""


class Entry(NamedTuple):
    """One process."""

    pid: int
    parent: int
    group: int
    session: int
    born: str
    """Its start as the system tells it."""
    is_dead: bool
    """Whether it has ended, and only its parent does not know yet."""
    is_still: bool = False
    """Whether it is stopped, or the system holds it: it starts nobody."""

    @property
    def name(self) -> Name:
        """By which it is known for good."""
        return self.pid, self.born


def born_of(pid: int) -> str | None:
    """When a process started, as the system tells it; `None` if there is none."""
    entry = entry_of(pid)
    return entry.born if entry else None


def entry_of(pid: int) -> Entry | None:
    """What the system tells of one process; `None` if there is none."""
    if HAS_PROC:
        return _stat(pid)
    return next((entry for entry, _ in _listed() if entry.pid == pid), None)


def everyone(mark: str) -> tuple[list[Entry], set[int]]:
    """All processes; and the ids of those that carry the mark, as far as we may look."""
    if HAS_PROC:
        entries = [entry for pid in _pids() if (entry := _stat(pid))]
        return entries, {entry.pid for entry in entries if not entry.is_dead and _is_marked(entry.pid, mark)}
    listed = list(_listed())
    return [entry for entry, _ in listed], {entry.pid for entry, words in listed if _tells(words.split(" "), mark)}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> Entry | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    # The program's name stands in brackets, and may hold brackets itself.
    state, parent, group, session, *rest = raw[raw.rindex(b")") + 2 :].split()
    return Entry(pid, int(parent), int(group), int(session), f"{_boot()}:{rest[15].decode()}", state in (b"Z", b"X"), state in _STILL)


@cache
def _boot() -> str:
    """Which start of the machine this is: processes' times are counted from it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read(8)
    except OSError:
        return "boot"


def _is_marked(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return False
    return os.fsencode(mark) in raw and _tells([os.fsdecode(one) for one in raw.split(b"\0")], mark)


def _tells(variables: list[str], mark: str) -> bool:
    return any(carries(one.removeprefix(f"{MARK}="), mark) for one in variables if one.startswith(f"{MARK}="))


def _listed() -> Iterator[tuple[Entry, str]]:
    """Each process with its command and what may be seen of its environment."""
    told = subprocess.run(PS, capture_output=True, env={"PATH": os.defpath, "LC_ALL": "C"}, check=False).stdout
    for line in told.decode("utf-8", "replace").splitlines():
        if parsed := read_line(line):
            yield parsed


def read_line(line: str) -> tuple[Entry, str] | None:
    """One line of `ps`; `None` where it is none."""
    fields = line.split(None, _PS_FIELDS)
    if len(fields) < _PS_FIELDS or not all(one.isdecimal() and len(one) < 20 for one in fields[:3]):
        return None
    pid, parent, group = map(int, fields[:3])
    words = fields[_PS_FIELDS] if len(fields) > _PS_FIELDS else ""
    return Entry(pid, parent, group, 0, " ".join(fields[4:_PS_FIELDS]), "Z" in fields[3], fields[3][0] in "TDU"), words
