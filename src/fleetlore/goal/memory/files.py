"""A folder of plain files, held open: a name is one file directly in it, no link is followed, each write is there whole or not at all."""

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
_POLL = 0.02
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OpenFolder:
    """The folder: `with Files(path) as files`. Whoever puts another folder or a link in its place meanwhile changes nothing here."""

    def __init__(self, path: str, *, is_made: bool = False) -> None:
        self._path, self._should_create = path, is_made
        self._fd = -1

    def __enter__(self) -> Self:
        if self._should_create:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
        self._fd = os.open(self._path, _FOLDER)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def names(self) -> list[str]:
        """Everything that is in it, sorted."""
        return sorted(os.listdir(self._fd))

    def status(self, name: str) -> os.stat_result | None:
        """Of a plain file."""
        try:
            found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return found if stat.S_ISREG(found.st_mode) else None

    def read(self, name: str, most: int) -> bytes | None:
        """A plain file's bytes; `None` if there is none, it cannot be read, or it is longer than that."""
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._fd)
        except OSError:
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            with open(descriptor, "rb", closefd=False) as file:
                raw = file.read(most + 1)
        finally:
            os.close(descriptor)
        return raw if len(raw) <= most else None

    def write(self, name: str, raw: bytes) -> None:
        """Put a file in its place, durably. A link of that name is replaced; what it leads to is not touched."""
        part = f".{token_hex(6)}{_PART}"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self._fd), "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            self.rename(part, name)
        finally:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._fd)

    def rename(self, name: str, target: str) -> None:
        """Give a file another name; one that bears it gives way."""
        os.replace(name, target, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

    def remove(self, name: str) -> None:
        """Take a file away; nothing happens if there is none."""
        try:
            os.unlink(name, dir_fd=self._fd)
        except FileNotFoundError:
            return
        with suppress(OSError):  # it is gone; a power cut may bring it back
            os.fsync(self._fd)

    @contextmanager
    def hold_lock(self, patience: float) -> Iterator[None]:
        """Keep all others out who ask for this; a process that dies lets go. `TimeoutError` if somebody is in for longer than that."""
        descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT | _FILE, 0o600, dir_fd=self._fd)
        try:
            _lock(descriptor, patience)
            yield
        finally:
            os.close(descriptor)


def _lock(descriptor: int, patience: float) -> None:
    end = monotonic() + patience
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= end:
                raise TimeoutError("another process writes memories here and does not come to an end; try again") from None
        sleep(_POLL)
