"""Writes long texts: atomically to a file, sanitised to a terminal, or as UTF-8 into a pipe."""

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
def open_private_file(path: str) -> Iterator[Callable[[bytes], int]]:
    """Write a file atomically, readable only by its owner. `Invalid` if the path is not a file."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise Invalid(f"--out {path}: is no file; leave it out and redirect the output")
    if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise FileNotFoundError(ENOENT, "no such directory", path)
    with write_atomically(path) as file:
        yield file.write


@contextmanager
def open_text_file(path: str) -> Iterator[Write]:
    """`open_private_file` for text."""
    with open_private_file(path) as write:
        yield lambda text: _write_text(write, text)


def write_to_terminal(text: str) -> None:
    """Write text, each line sanitised."""
    sys.stdout.write("\n".join(map(terminal.sanitise_text, text.split("\n"))))


def write_styled(text: str) -> None:
    """Write text with colours that was sanitised before."""
    sys.stdout.write(text)


def write_json_to_terminal(text: str) -> None:
    """Write JSON with unsafe characters escaped; line breaks stay."""
    sys.stdout.write("\n".join(map(terminal.escape_json, text.split("\n"))))


def write_to_pipe(text: str) -> None:
    """Write UTF-8 regardless of the locale, as the formats require."""
    _write_text(sys.stdout.buffer.write, text)


def _write_text(write: Callable[[bytes], int], text: str) -> None:
    write(text.encode(errors="replace"))
