"""Progress bars for long jobs, on standard error and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from fleetlore.cli import terminal

Progress = Callable[[int, int], None]
"""Called with how much is done, and the total."""

MIN_EVENTS_FOR_BAR = 10_000
"""`bar_if_long` shows a bar if at least so many events are left."""


@contextmanager
def show_progress(what: str, *, bytes: bool = False) -> Iterator[Progress]:
    """A progress bar for the length of the block; does nothing without a terminal."""
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
    """Progress of an import of many files: bytes, files, and the day that is read."""

    def __init__(self, update: Callable[..., None] = lambda **shown: None) -> None:
        self._update, self._done = update, 0

    def begin_day(self, day: str, files_done: int) -> None:
        """Show the day that is read next."""
        self._update(day=day, files_done=files_done)

    def add(self, size: int) -> None:
        """Add bytes that were read."""
        self._done += size
        self._update(completed=self._done)


@contextmanager
def bar_of_files(what: str, files: int, size: int) -> Iterator[FileBar]:
    """A progress bar for many files with `size` bytes in total."""
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
    """A bar that appears if there is much to read."""
    with ExitStack() as stack:
        bars: list[Progress] = []

        def show(done: int, total: int) -> None:
            if not bars and total - done >= MIN_EVENTS_FOR_BAR:
                bars.append(stack.enter_context(show_progress("reading")))
            for update in bars:
                update(done, total)

        yield show


def count_bytes(show: Progress, total: int) -> Callable[[int], None]:
    """A callback for bytes as they are read, which shows their sum."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        show(done, total)

    return add
