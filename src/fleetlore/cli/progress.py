"""Progress bars for long jobs, on standard error and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from fleetlore.cli import terminal

ShowProgress = Callable[[int, int], None]
"""Called with how much is done, and the total."""

MIN_EVENTS_FOR_BAR = 10_000
"""`show_progress_if_long` shows a bar if at least this many events are left."""


@contextmanager
def show_progress(label: str, *, bytes: bool = False) -> Iterator[ShowProgress]:
    """A progress bar for the length of the block; does nothing without a terminal."""
    if not terminal.is_terminal(sys.stderr):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


class FileProgress:
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
def show_file_progress(label: str, files: int, size: int) -> Iterator[FileProgress]:
    """A progress bar for many files with `size` bytes in total."""
    if not terminal.is_terminal(sys.stderr):
        yield FileProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.fields[files_done]:,} of {task.fields[files]:,} files")
    columns = (TextColumn("{task.description} {task.fields[day]}"), BarColumn(), DownloadColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=size or None, day="", files_done=0, files=files)
        yield FileProgress(partial(progress.update, task))


@contextmanager
def show_progress_if_long() -> Iterator[ShowProgress]:
    """A bar that appears once there is much to read."""
    update: ShowProgress | None = None
    with ExitStack() as stack:

        def show(done: int, total: int) -> None:
            nonlocal update
            if update is None and total - done >= MIN_EVENTS_FOR_BAR:
                update = stack.enter_context(show_progress("reading"))
            if update is not None:
                update(done, total)

        yield show


def count_bytes(show: ShowProgress, total: int) -> Callable[[int], None]:
    """A callback for bytes as they are read, which shows their sum."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        show(done, total)

    return add
