"""Wakes a follower when another process writes to the log's files: inotify on Linux. Elsewhere there is none, and followers poll."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

IN_MODIFY, IN_CREATE, IN_NONBLOCK, IN_CLOEXEC = 0x2, 0x100, 0o4000, 0o2000000


class FileWatch:
    """Watches a file and the files beside it whose names begin alike, such as its write-ahead log."""

    def __init__(self, descriptor: int, name: bytes) -> None:
        self._descriptor, self._name = descriptor, name

    def wait(self, seconds: float) -> bool:
        """Wait for a write; returns whether there was one."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return False
        is_ours = False
        with suppress(BlockingIOError):
            while raw := os.read(self._descriptor, 65536):
                is_ours = is_ours or self._name in raw  # events end with the file's name
        return is_ours

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)


def open_watch(path: str) -> FileWatch | None:
    """Watch a log's file; `None` where that is not possible."""
    if sys.platform != "linux":
        return None
    try:
        from ctypes import CDLL

        library = CDLL(None, use_errno=True)
        descriptor = library.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        if descriptor < 0:  # the limit of watches is reached
            return None
        folder, name = os.path.split(os.path.abspath(path))
        if library.inotify_add_watch(descriptor, os.fsencode(folder), IN_MODIFY | IN_CREATE) < 0:
            os.close(descriptor)
            return None
    except (ImportError, OSError, AttributeError):
        return None
    return FileWatch(descriptor, os.fsencode(name))
