"""Other processes: started, listened to, and always ended."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


class Process:
    """A running module of the tests; its lines are read as they come."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._child.stdout is not None
        self._out = self._child.stdout
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def lines(self, seconds: float) -> Iterator[str]:
        """The lines that come within so many seconds, or until it ends."""
        deadline = monotonic() + seconds
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                yield line.decode()
            if not self._selector.select(max(0.0, deadline - monotonic())):
                return
            data = os.read(self._out.fileno(), 65536)
            if not data:
                return
            self._rest += data

    def line(self) -> str:
        """The next line."""
        for line in self.lines(PATIENCE):
            return line
        raise AssertionError("the process ended or said nothing")

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())

    def kill(self) -> None:
        """End it as `kill -9` does; what it had said before can still be read."""
        self._child.kill()
        self._child.wait()

    @property
    def has_ended(self) -> bool:
        """Whether it is over, by itself or not."""
        return self._child.poll() is not None

    def wait(self) -> int:
        """Its exit code, once it is through."""
        return self._child.wait(PATIENCE)

    def close(self) -> None:
        """End it if it runs, and let go of its pipes."""
        self.kill()
        self._selector.close()
        self._out.close()
        assert self._child.stdin is not None
        self._child.stdin.close()


@contextmanager
def running(module: str, *arguments: str) -> Iterator[Process]:
    """A process that is ended with the block."""
    process = Process(module, *arguments)
    try:
        yield process
    finally:
        process.close()
