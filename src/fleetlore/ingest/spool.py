"""The spool: what hooks have handed over, one line a call, until the next `lore` command takes it into a log. Standard library only.

Hooks append to one file, each under its lock, so that no line is mixed with another. A drainer renames that file under the same
lock: whoever waited for the lock sees that the file is no longer in its place, and opens the new one. From then on nobody writes
to the renamed file, and it is deleted only when all of it is in a log. A hook that cannot have the lock writes a file of its own.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, sleep, time
from typing import Any

from fleetlore import clock

CURRENT_FILE = "current.jsonl"
"""The file that hooks append to."""
SPOOL_SUFFIX = ".jsonl"
LONGEST_WAIT = 1.0
"""Seconds that a hook waits for the lock."""

_DRAIN_LOCK = "drain.lock"
_LOCK_POLL_SECONDS = 0.005
_MAX_DEFER_SECONDS = 3600.0


def spool_folder() -> str:
    """The user's one spool: where the platform keeps what is neither settings nor to be thrown away."""
    if sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Application Support")
    else:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "fleetlore", "spool")


def append(line: bytes, *, folder: str | None = None) -> None:
    """Add a line, which must not hold another.

    It is not synced: a hook waits for no disk, and what a power cut takes the transcript tells again.
    """
    folder = folder or spool_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        descriptor = _open_locked(os.path.join(folder, CURRENT_FILE), os.O_CREAT)
    except OSError:  # it may be somebody else's, who was root for a moment
        descriptor = None
    if descriptor is None:
        _write_own_file(folder, line)
        return
    try:
        _append_bytes(descriptor, line)
    finally:
        os.close(descriptor)


def is_spool_empty(folder: str | None = None) -> bool:
    """Whether nothing waits; costs next to nothing."""
    return not _list_files(folder or spool_folder())


def rotate_current(folder: str) -> None:
    """Set aside what was written so far: it is now nobody's but the drainer's."""
    current = os.path.join(folder, CURRENT_FILE)
    try:
        descriptor = _open_locked(current, 0)
    except FileNotFoundError:
        return
    if descriptor is None:
        return
    try:
        os.rename(current, os.path.join(folder, f"{clock.uuid7()}{SPOOL_SUFFIX}"))
    finally:
        os.close(descriptor)


def iterate_rotated(folder: str) -> Iterator[str]:
    """The files that nobody writes to any more, the oldest first; without those that are to be left alone for a while."""
    for name in sorted(_list_files(folder)):
        path = os.path.join(folder, name)
        if name != CURRENT_FILE and not 0 < os.stat(path).st_mtime - time() < _MAX_DEFER_SECONDS:
            yield path


def rewrite_file(path: str, lines: Iterable[bytes], *, defer: float = 0.0) -> int:
    """Leave only these lines in a file, or remove it if there are none; answers how many. `defer`: leave it alone for so many seconds."""
    part, count = f"{path}.part", 0
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        for line in lines:
            count += 1
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    if count:
        moment = time() + defer
        os.utime(part, (moment, moment))
        os.replace(part, path)
    else:
        os.unlink(path)
        os.unlink(part)
    return count


def lock_for_draining(folder: str, *, patience: float = 0.0) -> int | None:
    """The right to drain, to be given back by closing it; `None` if another process has it."""
    descriptor = os.open(os.path.join(folder, _DRAIN_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    if _lock_file(descriptor, monotonic() + patience):
        return descriptor
    os.close(descriptor)
    return None


def purge_lines(match: Callable[[dict[str, Any]], bool], *, folder: str | None = None) -> int:
    """Take out every line that matches, for good; answers how many. A line that is no JSON matches nothing.

    `TimeoutError` if another process drains, and does not come to an end.
    """
    folder = folder or spool_folder()
    if is_spool_empty(folder):
        return 0
    descriptor = lock_for_draining(folder, patience=10.0)
    if descriptor is None:
        raise TimeoutError(f"{folder}: another `lore` is reading the spool; try again when it is done")
    try:
        rotate_current(folder)
        return sum(_purge_file(os.path.join(folder, name), match) for name in _list_files(folder) if name != CURRENT_FILE)
    finally:
        os.close(descriptor)


def _purge_file(path: str, match: Callable[[dict[str, Any]], bool]) -> int:
    with open(path, "rb") as file:
        lines = list(file)
    kept = [line for line in lines if not _is_matching_line(line, match)]
    if len(kept) < len(lines):
        rewrite_file(path, kept)
    return len(lines) - len(kept)


def _is_matching_line(line: bytes, match: Callable[[dict[str, Any]], bool]) -> bool:
    import json

    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and match(told)


def _list_files(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(SPOOL_SUFFIX)]
    except FileNotFoundError:
        return []


def _open_locked(path: str, create: int) -> int | None:
    """The file at a path, locked; `None` if that cannot be had in time."""
    deadline = monotonic() + LONGEST_WAIT
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | create, 0o600)
        try:
            if not _lock_file(descriptor, deadline):
                break
            if _is_same_file(path, descriptor):
                return descriptor
        except OSError:
            break
        os.close(descriptor)
    os.close(descriptor)
    return None


def _lock_file(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
            sleep(_LOCK_POLL_SECONDS)
        else:
            return True


def _is_same_file(path: str, descriptor: int) -> bool:
    """Whether the open file is still the one at the path."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _append_bytes(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # Whoever was killed in the middle of a line must not spoil the next one.
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    rest = b"%b%b\n" % (b"\n" if torn else b"", line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _write_own_file(folder: str, line: bytes) -> None:
    path = os.path.join(folder, f"{clock.uuid7()}{SPOOL_SUFFIX}")
    part = f"{path}.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _append_bytes(descriptor, line)
    finally:
        os.close(descriptor)
    os.rename(part, path)
