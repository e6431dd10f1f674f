"""A view at the log's head, for commands: what was folded before is not read again, and a long reading shows its progress."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from fleetlore.cli.progress import bar_if_long
from fleetlore.state.runner import SAVE_AFTER, Fold, Folded, Runner, view_of
from fleetlore.state.store import open_store

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder

State = TypeVar("State")


def fold(log: BlockingRecorder, view: Fold[State], name: str) -> State:
    """The view as the whole log tells it."""
    return folded(log, view, name).state


def folded(log: BlockingRecorder, view: Fold[State], name: str) -> Folded[State]:
    """The same, and up to which position."""
    info = log.info()
    # A short log is folded before its store is open; of a trimmed one the store may know more than is left.
    store = open_store(info) if info.events >= SAVE_AFTER or info.trimmed_before is not None else None
    with store or nullcontext(), bar_if_long() as show:
        return Runner(log, view_of(view, name), store).catch_up(show)
