"""Imports spooled hook events while a command follows the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from fleetlore.cli import open_log

PAUSE = 0.5
"""Seconds between two imports."""


@contextmanager
def drain_in_background(pause: float = PAUSE) -> Iterator[None]:
    """Import the spool at regular intervals while the block runs; each error is printed once."""
    ended = Event()
    thread = Thread(target=_drain_until, args=(ended, pause), name="fleetlore-drain", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)


def _drain_until(ended: Event, pause: float) -> None:
    printed_errors: set[str] = set()
    while not ended.wait(pause):
        open_log.drain_spool(said=printed_errors)
