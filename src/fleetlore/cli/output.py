"""Where a long text goes: to a file that is there whole or not at all, to a terminal, or into a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import ENOENT

from fleetlore.cli import terminal
from fleetlore.documents.atomic_file import write_atomically
from fleetlore.errors import Invalid

Write = Callable[[str], None]


@contextmanager
def private_file(path: str) -> Iterator[Callable[[bytes], int]]:
    """Write a file that only its owner may read; it takes its place when all of it is on the disk."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Invalid(f"--out {path}: is no file; leave it out and redirect the output")
    if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise FileNotFoundError(ENOENT, "there is no such directory", path)
    with write_atomically(path) as file:
        yield file.write


@contextmanager
def text_file(path: str) -> Iterator[Write]:
    """The same for text."""
    with private_file(path) as write:
        yield lambda text: _write(write, text)


def to_terminal(text: str) -> None:
    """Write lines of ours, each without anything that could move a cursor."""
    sys.stdout.write("\n".join(map(terminal.sanitise, text.split("\n"))))


def painted(text: str) -> None:
    """Write text whose colours are ours, and whose words are harmless already."""
    sys.stdout.write(text)


def json_to_terminal(text: str) -> None:
    """Write JSON whose strings may be hostile; the line ends between them stay."""
    sys.stdout.write("\n".join(map(terminal.escape_json, text.split("\n"))))


def to_pipe(text: str) -> None:
    """Write UTF-8, whatever the locale says: the formats promise it."""
    _write(sys.stdout.buffer.write, text)


def _write(write: Callable[[bytes], int], text: str) -> None:
    write(text.encode(errors="replace"))
