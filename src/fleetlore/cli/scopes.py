"""Resolves `--scope` and `--agent`: names in the log, display names and short ids, by the rules of `projections/name_lookup.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.projections.name_lookup import OpenViews
    from fleetlore.projections.thread_events import Selection

NOTE = "A name that is not on the log is an error; with --follow it is not, for its first event may still come."


class _OpenedViews(NamedTuple):
    states: dict[str, Any]


def view_opener(log: BlockingRecorder) -> OpenViews:
    """A function that opens the views for name lookup, with saved folds."""

    @contextmanager
    def open_views() -> Iterator[_OpenedViews]:
        from fleetlore.cli.fold import fold_log
        from fleetlore.views import names, threads

        yield _OpenedViews({"names": fold_log(log, names, "names"), "threads": fold_log(log, threads, "threads")})

    return open_views


def resolve_scope(log: BlockingRecorder, scope: str, *, may_be_new: bool = False) -> str:
    """The scope in the log; an error with suggestions if it is unknown, unless it may be new."""
    from fleetlore.projections.name_lookup import resolve_scope

    return resolve_scope(log, scope, view_opener(log), may_be_new=may_be_new)


def select_events(log: BlockingRecorder, scope: str, *, live: bool = False) -> Selection:
    """The events of a story's scope: for a task its whole thread, as on the Threads page. A live scope may be new."""
    from fleetlore.projections import thread_events

    resolved = resolve_scope(log, scope, may_be_new=live)
    if not resolved.startswith("task:"):
        return resolved
    from fleetlore.cli.fold import fold_log
    from fleetlore.views import threads

    return thread_events.select_thread(resolved, fold_log(log, threads, "threads"), live=live)
