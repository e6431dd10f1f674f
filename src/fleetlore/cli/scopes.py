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


def looking_at(log: BlockingRecorder) -> OpenViews:
    """The views that names are looked up in; what was folded before is not read again."""

    @contextmanager
    def look() -> Iterator[_OpenedViews]:
        from fleetlore.cli.fold import fold
        from fleetlore.views import names, threads

        yield _OpenedViews({"names": fold(log, names, "names"), "threads": fold(log, threads, "threads")})

    return look


def resolve(log: BlockingRecorder, scope: str, *, may_be_new: bool = False) -> str:
    """The scope of the log that is meant; an error with suggestions if there is none, unless it may be new."""
    from fleetlore.projections.name_lookup import resolve_scope

    return resolve_scope(log, scope, looking_at(log), may_be_new=may_be_new)


def select(log: BlockingRecorder, scope: str, *, live: bool = False) -> Selection:
    """What a story of a scope tells: of a task, its whole thread, as the Threads page shows it. The scope of a live story may be new."""
    from fleetlore.projections import thread_events

    meant = resolve(log, scope, may_be_new=live)
    if not meant.startswith("task:"):
        return meant
    from fleetlore.cli.fold import fold
    from fleetlore.views import threads

    return thread_events.select(meant, fold(log, threads, "threads"), live=live)
