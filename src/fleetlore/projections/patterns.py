"""The patterns view: the steps of every thread, kept current from checkpoints. `views/patterns/fold.py` is the fold."""

from __future__ import annotations

from fleetlore.events.installed_kinds import combine_version
from fleetlore.projections.runner import LogView
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.fold import PatternState
from fleetlore.views.patterns.installed import installed_patterns


def make_patterns_view() -> LogView[PatternState]:
    """The view; patterns of installed packages are part of its version."""
    return LogView(
        name="arcs",
        version=combine_version(pattern_fold.VERSION, installed_patterns().patterns),
        state=PatternState,
        initial=pattern_fold.initial,
        apply=pattern_fold.apply,
        encode=pattern_fold.encode,
        decode=pattern_fold.decode,
    )
