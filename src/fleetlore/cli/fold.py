"""A view at the log's head, for commands: what was folded before is not read again, and a long reading shows its progress."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from fleetlore.cli.progress import bar_if_long
from fleetlore.projections.runner import SAVE_AFTER, Fold, FoldResult, Runner, view_of
from fleetlore.projections.store import open_store
from fleetlore.views import time_ranges

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder

State = TypeVar("State")


def fold_log(log: BlockingRecorder, view: Fold[State], name: str) -> State:
    """The view, folded from the whole log."""
    return fold_to_head(log, view, name).state


def newest_blocks(log: BlockingRecorder) -> list[time_ranges.TimeBlock]:
    """For `read_newest`."""
    return time_ranges.newest_blocks(fold_log(log, time_ranges, "calendar"))


def fold_large(log: BlockingRecorder, view: Fold[State], name: str) -> State:
    """The same for a view that grows as the log does: one checkpoint of it is kept, and none to look back from."""
    return fold_to_head(log, view, name, keeps_past=False).state


def fold_to_head(log: BlockingRecorder, view: Fold[State], name: str, *, keeps_past: bool = True) -> FoldResult[State]:
    """The view, and up to which position."""
    info = log.info()
    # A short log is folded before its store is open; of a trimmed one the store may know more than is left.
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    with store or nullcontext(), bar_if_long() as show:
        runner = Runner(log, view_of(view, name), store)
        known = runner.catch_up(show)
        if not keeps_past:
            runner.keep_newest_checkpoint()
        return known
