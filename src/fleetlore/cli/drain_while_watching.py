"""Hooks go on while somebody watches: what they leave in the spool is taken in at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from fleetlore.cli import open_log

PAUSE = 0.5


@contextmanager
def drain_in_background(pause: float = PAUSE) -> Iterator[None]:
    """Look into the spool again and again as long as the block lasts; a trouble is told once."""
    ended = Event()
    thread = Thread(target=_drain_until, args=(ended, pause), name="fleetlore-drain", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)


def _drain_until(ended: Event, pause: float) -> None:
    said: set[str] = set()
    while not ended.wait(pause):
        open_log.drain_spool(said=said)
