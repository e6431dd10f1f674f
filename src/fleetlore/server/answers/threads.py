"""Threads as rows: the lines of story, the one that moved last first."""

from __future__ import annotations

from typing import Literal

from fleetlore.chronicle.naming import Naming
from fleetlore.server.types.common import ThreadRow, Threads
from fleetlore.server.view_cache import Look
from fleetlore.views import thread_state as line
from fleetlore.views import threads as view

NEEDS = ("threads", "names")
"""The views that it is made of."""
State = Literal["open", "closed", "all"]


def show(look: Look, *, state: State, limit: int) -> Threads:
    """Threads in this state, and how many there are."""
    known: line.ThreadsState = look.states["threads"]
    wanted = [thread for thread in known.threads.values() if state in ("all", thread.state)]
    wanted.sort(key=lambda thread: (thread.last or view.OLDEST_STAMP, thread.key), reverse=True)
    naming = look.naming
    gone = 0 if state == "open" else known.dropped
    return Threads(**look.head(), threads=[_row(thread, look, naming) for thread in wanted[:limit]], total=len(wanted) + gone)


def _row(thread: line.StoryThread, look: Look, naming: Naming) -> ThreadRow:
    silence = view.stall_duration(thread, look.now)
    return ThreadRow(
        key=thread.key,
        title=naming.title(thread.key),
        state=thread.state,
        mission=thread.mission,
        agents=dict(thread.agents),
        counts=dict(thread.counts),
        first_at=thread.first_at,
        last_at=None if thread.last is None else thread.last[0],
        events=thread.events,
        stalled_seconds=None if silence is None else silence.total_seconds(),
    )
