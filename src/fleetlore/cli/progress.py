"""A progress bar for long jobs, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from fleetlore.cli import terminal

Progress = Callable[[int, int], None]
"""Told how much is done, and out of how much."""

LONG = 10_000
"""Events still to be read from which on progress is worth showing."""


@contextmanager
def bar(what: str, *, bytes: bool = False) -> Iterator[Progress]:
    """A bar on standard error as long as the job runs; nothing where nobody looks."""
    if not terminal.is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


class FileBar:
    """How far an import of many files has come: bytes, files, and the day that is being read."""

    def __init__(self, update: Callable[..., None] = lambda **shown: None) -> None:
        self._update, self._done = update, 0

    def begin(self, day: str, files_done: int) -> None:
        """The files of a day are next."""
        self._update(day=day, files_done=files_done)

    def add(self, size: int) -> None:
        """So many more bytes were read."""
        self._done += size
        self._update(completed=self._done)


@contextmanager
def bar_of_files(what: str, files: int, size: int) -> Iterator[FileBar]:
    """The same for files of so many bytes in all."""
    if not terminal.is_terminal(sys.stderr):
        yield FileBar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.fields[files_done]:,} of {task.fields[files]:,} files")
    columns = (TextColumn("{task.description} {task.fields[day]}"), BarColumn(), DownloadColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=size or None, day="", files_done=0, files=files)
        yield FileBar(partial(progress.update, task))


@contextmanager
def bar_if_long() -> Iterator[Progress]:
    """A bar as soon as it is known that there is much to read."""
    with ExitStack() as stack:
        bars: list[Progress] = []

        def show(done: int, total: int) -> None:
            if not bars and total - done >= LONG:
                bars.append(stack.enter_context(bar("reading")))
            for shown in bars:
                shown(done, total)

        yield show
