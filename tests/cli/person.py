"""A person at a terminal: `lore` as a process whose controlling terminal is a pseudo-terminal, and answers typed when asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from select import select
from time import monotonic
from typing import NamedTuple

from tests.cli.running import Lore, command
from tests.patience import PATIENCE


class Seen(NamedTuple):
    """What a command came to, and what the person saw on the terminal."""

    code: int
    out: str
    err: str
    tty: str


class Person:
    """Sees what is written on the terminal of one process, and types."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.seen = b""

    @property
    def sees_typing(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def wait_for(self, end: bytes) -> None:
        """Read until the terminal's last words are these."""
        deadline = monotonic() + PATIENCE
        while not self.seen.endswith(end):
            assert monotonic() < deadline, self.seen
            self.look(0.1)

    def look(self, seconds: float = 0.0) -> bytes:
        """Read what is there; answers all that was seen so far."""
        while select([self._terminal], [], [], seconds)[0]:
            self.seen += os.read(self._terminal, 65536)
            seconds = 0.0
        return self.seen

    def answer(self, text: str) -> None:
        """Type a line when something is asked."""
        self.wait_for(b": ")
        os.write(self._terminal, text.encode() + b"\n")
        self.seen += b"\n"


_BEHIND = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], process_group=0).returncode)"


@contextmanager
def seated(lore: Lore, *argv: str, behind: bool = False) -> Iterator[tuple[subprocess.Popen[bytes], Person]]:
    """Start `lore` with a person at its terminal, in the background on request; its other streams are pipes."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _BEHIND, *command(argv)] if behind else command(argv),
        cwd=lore.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    try:
        yield process, Person(ours)
    finally:
        process.kill()
        process.communicate()
        os.close(theirs)
        os.close(ours)


def at_terminal(lore: Lore, *argv: str, answers: Sequence[str] = ()) -> Seen:
    """Run `lore`, and type each answer when it is asked for."""
    with seated(lore, *argv) as (process, person):
        for text in answers:
            person.answer(text)
        out, err = process.communicate(timeout=PATIENCE)
        return Seen(process.returncode, out.decode(), err.decode(), person.look().decode())


def alone(lore: Lore, *argv: str, typed: str = "") -> Seen:
    """Run `lore` as an agent's shell would: no terminal, and words on standard input."""
    process = lore.start(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    out, err = process.communicate(f"{typed}\n{typed}\n".encode(), timeout=PATIENCE)
    return Seen(process.returncode, out.decode(), err.decode(), "")
