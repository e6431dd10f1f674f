"""Runs `lore COMMAND …` and ends it when the parent process ends (its standard input is a pipe from the parent)."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

from fleetlore.cli.main import entry


def _end_with_the_parent() -> None:
    """Nobody writes into the pipe: it says something only by being closed, however its other side ended."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=_end_with_the_parent, daemon=True).start()
    sys.exit(entry())
