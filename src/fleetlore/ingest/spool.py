"""The hook spool: one line per hook call, until the next `lore` command drains it. Standard library only.

Hooks append to one file under its lock, so lines are never interleaved. A drainer renames that file under the same
lock; a hook that waited for the lock sees that the file has moved and opens the new one. Nobody writes to a renamed
file, and it is deleted only when all of it is stored. A hook that cannot get the lock writes a file of its own.
"""

from __future__ import annotations

import fcntl
import os
import sys
from stat import S_ISREG
from time import monotonic, sleep, time

TYPE_CHECKING = False  # importing `typing` would take longer than all of `lore hook`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

CURRENT_FILE = "current.jsonl"
"""The file that hooks append to."""
SPOOL_SUFFIX = ".jsonl"
LONGEST_WAIT = 1.0
"""Seconds that a hook waits for the lock."""

_LOCK_POLL_SECONDS = 0.005
_MAX_DEFER_SECONDS = 3600.0


def spool_folder() -> str:
    """The user's spool folder, in the platform's state directory."""
    if sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Application Support")
    else:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "fleetlore", "spool")


def append_line(line: bytes, *, folder: str | None = None) -> None:
    """Append a line, which must not contain a line break.

    Not synced, since a hook must not wait for the disk. What a power failure loses is in the transcript.
    """
    folder = folder or spool_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        descriptor = _open_locked(os.path.join(folder, CURRENT_FILE), os.O_CREAT)
    except OSError:  # it may belong to root
        descriptor = None
    if descriptor is None:
        _write_own_file(folder, line)
        return
    try:
        _append_bytes(descriptor, line)
    finally:
        os.close(descriptor)


def is_spool_empty(folder: str | None = None) -> bool:
    """Whether nothing is spooled; cheap."""
    return not _list_files(folder or spool_folder())


def rotate_current(folder: str) -> None:
    """Rename the current file, so that only the drainer uses it."""
    current = os.path.join(folder, CURRENT_FILE)
    try:
        descriptor = _open_locked(current, 0)
    except FileNotFoundError:
        return
    if descriptor is None:
        return
    from fleetlore import clock

    try:
        os.rename(current, os.path.join(folder, f"{clock.uuid7()}{SPOOL_SUFFIX}"))
    finally:
        os.close(descriptor)


def iterate_rotated(folder: str) -> Iterator[str]:
    """Yield renamed files, oldest first, without those that are deferred."""
    for name in sorted(_list_files(folder)):
        path = os.path.join(folder, name)
        if name != CURRENT_FILE and not 0 < os.stat(path).st_mtime - time() < _MAX_DEFER_SECONDS:
            yield path


def rewrite_file(path: str, lines: Iterable[bytes], *, defer: float = 0.0) -> int:
    """Keep only these lines, or remove the file if there are none; return how many.

    `defer` hides the file from drainers for that many seconds.
    """
    temporary, count = f"{path}.part", 0
    if os.path.lexists(temporary):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for line in lines:
            count += 1
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    if count:
        moment = time() + defer
        os.utime(temporary, (moment, moment))
        os.replace(temporary, path)
    else:
        os.unlink(path)
        os.unlink(temporary)
    return count


def lock_for_draining(folder: str, *, patience: float = 0.0) -> int | None:
    """Lock the folder; close the descriptor to release it. `None` if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if _lock_file(descriptor, monotonic() + patience):
        return descriptor
    os.close(descriptor)
    return None


def purge_lines(match: Callable[[dict[str, Any]], bool], *, folder: str | None = None) -> int:
    """Remove every line that matches; return how many. A line that is not JSON never matches.

    Raises `TimeoutError` if another process keeps draining.
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
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and match(entry)


def _list_files(folder: str) -> list[str]:
    """Files only: a link, pipe or folder was put there by somebody else."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(SPOOL_SUFFIX) and entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _open_locked(path: str, create: int) -> int | None:
    """Open and lock the file; `None` if the lock is not free in time."""
    deadline = monotonic() + LONGEST_WAIT
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | create, 0o600)
        try:
            if not S_ISREG(os.fstat(descriptor).st_mode):  # a hook would wait for a pipe once it is full
                break
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
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(status, os.fstat(descriptor))


def _append_bytes(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # A process that was killed in the middle of a line must not spoil the next one.
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    rest = b"%b%b\n" % (b"\n" if is_torn else b"", line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _write_own_file(folder: str, line: bytes) -> None:
    from fleetlore import clock

    path = os.path.join(folder, f"{clock.uuid7()}{SPOOL_SUFFIX}")
    temporary = f"{path}.part"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _append_bytes(descriptor, line)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
