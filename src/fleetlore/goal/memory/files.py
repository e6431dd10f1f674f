"""A folder that is held open: names are files directly in it, no links are followed, and each write is atomic.

Used by `folder.py` and `journal.py`.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from time import monotonic, sleep
from types import TracebackType
from typing import Self

_LOCK = ".lock"
_PART = ".part"
_POLL_SECONDS = 0.02
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OpenFolder:
    """The open folder: `with OpenFolder(path) as files`. Replacing the folder or putting a link in its place has no effect on it."""

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._path, self._should_create = path, create
        self._fd = -1

    def __enter__(self) -> Self:
        if self._should_create:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
        self._fd = os.open(self._path, _FOLDER_FLAGS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def list_names(self) -> list[str]:
        """All names in the folder, sorted."""
        return sorted(os.listdir(self._fd))

    def find_status(self, name: str) -> os.stat_result | None:
        """Status of a regular file; `None` if there is none."""
        try:
            result = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return result if stat.S_ISREG(result.st_mode) else None

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Content of a regular file; `None` if it is missing, unreadable or larger than `max_bytes`."""
        try:
            fd = os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=self._fd)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            with open(fd, "rb", closefd=False) as file:
                raw = file.read(max_bytes + 1)
        finally:
            os.close(fd)
        return raw if len(raw) <= max_bytes else None

    def write(self, name: str, raw: bytes) -> None:
        """Replace a file, durably. A link of that name is replaced; its target is not touched."""
        temporary = f".{token_hex(6)}{_PART}"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o600, dir_fd=self._fd), "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            self.rename(temporary, name)
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._fd)

    def rename(self, name: str, target: str) -> None:
        """Rename a file; replaces an existing one."""
        os.replace(name, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        try:
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            return
        with suppress(OSError):  # the file is gone; at worst it is back after a power failure
            os.fsync(self._fd)

    @contextmanager
    def hold_lock(self, timeout: float) -> Iterator[None]:
        """Hold the folder's lock, which ends with the process. Raises `TimeoutError` if another process holds it for too long."""
        fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | _FILE_FLAGS, 0o600, dir_fd=self._fd)
        try:
            _acquire_lock(fd, timeout)
            yield
        finally:
            os.close(fd)


def _acquire_lock(fd: int, timeout: float) -> None:
    deadline = monotonic() + timeout
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                raise TimeoutError("another process writes memories here and does not come to an end; try again") from None
        sleep(_POLL_SECONDS)
