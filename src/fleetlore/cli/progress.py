"""A progress bar for long jobs, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

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
