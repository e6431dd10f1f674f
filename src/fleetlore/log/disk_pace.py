"""Whether commits are quick enough for an event loop to make them itself.

Handing a commit to a thread and back costs an event loop as long as a quick disk takes to sync. So while commits are short the loop makes
them itself, and no longer than that: each commit earns what the loop may be held for, and costs what it took.
"""

from __future__ import annotations

ALLOWED_SECONDS, ALLOWED_SECONDS_PER_EVENT = 0.001, 0.000_025
"""What the loop may be held for by a commit, and more for each event of it, which would keep the interpreter busy in a thread, too."""

MAX_CREDIT, MAX_DEBT = 0.02, 1.0
"""A good past does not excuse a slow disk for long; one sync of a second is paid off by a thousand quick ones."""

CONTENTION_DEBT = 0.05
"""Where another process writes now, it will soon write again."""

MAX_EVENTS_NOWAIT = 128


class DiskPace:
    """What the last commits took. The first are made by a thread: nothing is known of the disk yet."""

    def __init__(self) -> None:
        self._credit = 0.0

    @property
    def is_quick(self) -> bool:
        """Whether the next one may be made on the loop."""
        return self._credit > 0

    def record_commit(self, seconds: float, events: int) -> None:
        """A commit of so many events took so long."""
        credit = self._credit + ALLOWED_SECONDS + ALLOWED_SECONDS_PER_EVENT * events - seconds
        self._credit = min(MAX_CREDIT, max(-MAX_DEBT, credit))

    def record_contention(self) -> None:
        """Another process was writing; a thread will wait for it."""
        self._credit = min(self._credit, -CONTENTION_DEBT)
