"""Followers of the SQLite log.

Writes of this process wake followers at once. SQLite cannot wake other processes, so for their writes one follower polls
SQLite's change counter on behalf of all others: waking a thread costs more than the query. The longer nothing happens,
the longer the poll interval, up to about 10 ms. After a second without a change it waits for a write to the file instead, where
the system reports those, and polls only a few times a second, for file systems that report nothing.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from threading import Condition, Lock
from time import monotonic
from typing import Any, Protocol

import apsw

from fleetlore.log.base import LogQuery, TailPage, to_position, to_sequence
from fleetlore.log.sqlite.file import OpenedFile, fetch_rows, translate_errors
from fleetlore.log.sqlite.query import select_records, to_optional_position

POLL_SECONDS, IDLE_POLL_SECONDS = 0.004, 0.01
POLL_BACKOFF_RATIO = 1 / 50
"""Poll interval as a share of the time since the last change."""
ACTIVE_SECONDS, WATCHED_POLL_SECONDS = 1.0, 0.25
"""A write is reported before it is committed: polls are frequent for so long after it."""


class ChangeSignal:
    """Counts known changes of the file; followers wait on its condition."""

    def __init__(self) -> None:
        self.condition = Condition()
        self.count = 0
        self.last_change_at = monotonic()
        self.listeners = 0
        self.polling_tail: SqliteTail | None = None
        """The follower that polls the file while the others wait."""
        self.watch: FileWatch | None = None
        self.is_watch_tried = False

    def notify_change(self) -> None:
        """Wake every follower."""
        if self.listeners:  # a follower that registers later reads before it waits
            with self.condition:
                self.count += 1
                self.last_change_at = monotonic()
                self.condition.notify_all()


class FollowedLog(Protocol):
    """The part of `SqliteLog` that a follower uses."""

    path: str
    file: OpenedFile
    changes: ChangeSignal

    def check_open(self) -> None:
        """Raise if the log was closed, or its file was deleted or replaced."""

    def query_town(self, connection: apsw.Connection, work: Any) -> Any:
        """Run a query on the town's tables."""


class SqliteTail:
    """Waits for new records in its scope."""

    def __init__(self, log: FollowedLog, connection: apsw.Connection, scope: str, after: int | None) -> None:
        self._log, self._connection, self._scope, self._after = log, connection, scope, after
        self._changes = log.changes
        self._closed = False
        self._use_lock = Lock()
        self._seen_count: int | None = None
        """The change count at which nothing new was found."""
        self._data_version: list[Any] | None = None
        """The file's version at the last poll. Initially `None`, so that the first poll wakes all followers."""
        with self._changes.condition:
            self._changes.listeners += 1

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records, or an empty page after `timeout`."""
        deadline = monotonic() + timeout
        with self._use_lock, translate_errors(self._log.path, self._log.file):
            while not self._closed:
                self._log.check_open()
                count = self._changes.count
                if count != self._seen_count:
                    page = self._read_page()
                    if page.rows or page.gap:
                        self._seen_count = None  # there may be more
                        return page
                    self._seen_count = count
                if monotonic() >= deadline:
                    break
                self._wait_for_change(count, deadline)
        return TailPage([])

    def _wait_for_change(self, count: int, deadline: float) -> None:
        """Wait for a change or the deadline; may return early."""
        changes = self._changes
        with changes.condition:
            if changes.count != count or self._closed:
                return
            if changes.polling_tail is not None:
                changes.condition.wait(max(0.0, deadline - monotonic()))
                return
            changes.polling_tail = self
        try:
            self._poll_file(count, deadline)
        finally:
            with changes.condition:
                changes.polling_tail = None
                changes.condition.notify_all()  # another follower takes over polling

    def _poll_file(self, count: int, deadline: float) -> None:
        changes = self._changes
        while True:
            self._log.check_open()
            version = fetch_rows(self._connection, "PRAGMA data_version")
            if version != self._data_version:
                self._data_version = version
                changes.notify_change()
                return
            with changes.condition:
                now = monotonic()
                if changes.count != count or self._closed or now >= deadline:
                    return
                watch = self._find_watch() if now - changes.last_change_at > ACTIVE_SECONDS else None
                if watch is None:
                    pause = min(max(POLL_SECONDS, (now - changes.last_change_at) * POLL_BACKOFF_RATIO), IDLE_POLL_SECONDS)
                    changes.condition.wait(min(pause, deadline - now))
                    continue
            # Writes of this process are seen here, too: they change the same file.
            if watch.wait(min(WATCHED_POLL_SECONDS, deadline - now)):
                changes.last_change_at = monotonic()

    def _find_watch(self) -> FileWatch | None:
        if not self._changes.is_watch_tried:
            self._changes.is_watch_tried, self._changes.watch = True, open_watch(self._log.path)
        return self._changes.watch

    def _read_page(self) -> TailPage:
        return self._log.query_town(self._connection, self._select_page) or TailPage([])

    def _select_page(self, connection: apsw.Connection, n: int) -> TailPage:
        rows = select_records(connection, n, LogQuery(scope=self._scope, after=to_optional_position(self._after)))
        # Read after the rows: what is trimmed in between is then reported as a gap, never skipped silently.
        [(trimmed, erasures, first)] = fetch_rows(
            connection, f"SELECT trimmed, erasures, (SELECT min(seq) FROM events_{n}) FROM towns WHERE n = ?", (n,)
        )
        if not erasures and first is not None:
            trimmed = max(trimmed, first - 1)  # events that another program deleted
        gap = None
        if self._after is not None and self._after < trimmed:
            gap = to_position(trimmed)
            rows = [row for row in rows if row.position > gap]
            self._after = trimmed
        if rows:
            self._after = to_sequence(rows[-1].position)
        return TailPage(rows, gap)

    def close(self) -> None:
        """Stop waiting and close the connection."""
        with self._changes.condition:
            self._changes.listeners -= not self._closed
            self._closed = True
            self._changes.condition.notify_all()
        with self._use_lock:
            self._connection.close()
        with self._changes.condition:
            if self._changes.listeners == 0 and self._changes.watch is not None:
                self._changes.watch.close()
                self._changes.watch, self._changes.is_watch_tried = None, False


# --- writes of other processes

_IN_MODIFY, _IN_CREATE, _IN_NONBLOCK, _IN_CLOEXEC = 0x2, 0x100, 0o4000, 0o2000000


class FileWatch:
    """Watches a file and the files beside it whose names begin alike, such as its write-ahead log: inotify on Linux."""

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
    """Watch a log's file; `None` if that is not possible: followers then poll."""
    if sys.platform != "linux":
        return None
    try:
        from ctypes import CDLL

        library = CDLL(None, use_errno=True)
        descriptor = library.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if descriptor < 0:  # the limit of watches is reached
            return None
        folder, name = os.path.split(os.path.abspath(path))
        if library.inotify_add_watch(descriptor, os.fsencode(folder), _IN_MODIFY | _IN_CREATE) < 0:
            os.close(descriptor)
            return None
    except (ImportError, OSError, AttributeError):
        return None
    return FileWatch(descriptor, os.fsencode(name))
