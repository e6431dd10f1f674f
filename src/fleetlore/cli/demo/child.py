"""Runs `lore COMMAND …` and ends it when the parent process ends (its standard input is a pipe from the parent)."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

from fleetlore.cli.entry import run_command_line


def _end_with_the_parent() -> None:
    """Wait for the end of the pipe. The parent never writes to it, so a read returns only when the parent has ended."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=_end_with_the_parent, daemon=True).start()
    sys.exit(run_command_line())
