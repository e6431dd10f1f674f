"""Followers of the embedded log: told at once of what this process writes; of what others write, one of them asks for all.

SQLite cannot wake another process. Asking for its change counter costs some microseconds, and the thread that wakes up to ask costs
more: so of all who wait on one log only one keeps a lookout, and the longer nothing came, the less often it asks. Followers wake within
some ten milliseconds all the same, as is promised.
"""

from __future__ import annotations

from threading import Condition, Lock
from time import monotonic
from typing import Any, Protocol

import apsw

from fleetlore.log.base import LogQuery, TailPage
from fleetlore.log.sequence import to_position, to_sequence
from fleetlore.log.sqlite.file import OpenedFile, ask, translate_errors
from fleetlore.log.sqlite.query import select_records, to_optional_position

POLL_SECONDS, IDLE_POLL_SECONDS = 0.004, 0.01
POLL_BACKOFF_RATIO = 1 / 50
"""Of the silence so far, how much longer an event of another process may take."""


class ChangeSignal:
    """How often the file is known to have changed. Whoever waits for that waits here."""

    def __init__(self) -> None:
        self.condition = Condition()
        self.count = 0
        self.last_change_at = monotonic()
        self.listeners = 0
        self.polling_tail: SqliteTail | None = None
        """Who asks the file while the others wait."""

    def notify_change(self) -> None:
        """Something is different: wake everybody."""
        if self.listeners:  # who comes later looks before it waits
            with self.condition:
                self.count += 1
                self.last_change_at = monotonic()
                self.condition.notify_all()


class FollowedLog(Protocol):
    """What a follower needs of its log."""

    path: str
    file: OpenedFile
    changes: ChangeSignal

    def check_open(self) -> None:
        """Refuse to go on once it was closed, or its file was deleted or replaced."""

    def query_town(self, connection: apsw.Connection, work: Any) -> Any:
        """Ask the town's tables."""


class SqliteTail:
    """Waits for its scope to grow."""

    def __init__(self, log: FollowedLog, connection: apsw.Connection, scope: str, after: int | None) -> None:
        self._log, self._connection, self._scope, self._after = log, connection, scope, after
        self._changes = log.changes
        self._closed = False
        self._use_lock = Lock()
        self._seen_count: int | None = None
        """The count of changes behind which there was nothing new."""
        self._data_version: list[Any] | None = None
        """Of the file, when it was asked last: at first none, so that what came before is told to the others, too."""
        with self._changes.condition:
            self._changes.listeners += 1

    def next_page(self, timeout: float) -> TailPage:
        """The next records."""
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
        """Until there was a change, or the time is over; perhaps not even so long."""
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
                changes.condition.notify_all()  # somebody else has to

    def _poll_file(self, count: int, deadline: float) -> None:
        changes = self._changes
        while True:
            self._log.check_open()
            version = ask(self._connection, "PRAGMA data_version")
            if version != self._data_version:
                self._data_version = version
                changes.notify_change()
                return
            with changes.condition:
                now = monotonic()
                if changes.count != count or self._closed or now >= deadline:
                    return
                pause = min(max(POLL_SECONDS, (now - changes.last_change_at) * POLL_BACKOFF_RATIO), IDLE_POLL_SECONDS)
                changes.condition.wait(min(pause, deadline - now))

    def _read_page(self) -> TailPage:
        return self._log.query_town(self._connection, self._select_page) or TailPage([])

    def _select_page(self, connection: apsw.Connection, n: int) -> TailPage:
        rows = select_records(connection, n, LogQuery(scope=self._scope, after=to_optional_position(self._after)))
        # Asked after the rows: what was trimmed in between is told as a gap, never passed over.
        [(trimmed,)] = ask(connection, "SELECT trimmed FROM towns WHERE n = ?", (n,))
        gap = None
        if self._after is not None and self._after < trimmed:
            gap = to_position(trimmed)
            rows = [row for row in rows if row.position > gap]
            self._after = trimmed
        if rows:
            self._after = to_sequence(rows[-1].position)
        return TailPage(rows, gap)

    def close(self) -> None:
        """Stop waiting, and let the connection go."""
        with self._changes.condition:
            self._changes.listeners -= not self._closed
            self._closed = True
            self._changes.condition.notify_all()
        with self._use_lock:
            self._connection.close()
