"""The patterns view: the steps of every thread, kept current from checkpoints. `views/patterns/book.py` is the fold."""

from __future__ import annotations

from fleetlore.events.installed_kinds import combine_version
from fleetlore.projections.runner import LogView
from fleetlore.views.patterns import book
from fleetlore.views.patterns.book import PatternBook
from fleetlore.views.patterns.installed import installed_patterns


def make_patterns_view() -> LogView[PatternBook]:
    """The view; patterns of installed packages are part of its version."""
    return LogView(
        name="arcs",
        version=combine_version(book.VERSION, installed_patterns().patterns),
        state=PatternBook,
        initial=book.initial,
        apply=book.apply,
        encode=book.encode,
        decode=book.decode,
    )
