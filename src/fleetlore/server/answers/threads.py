"""The response of `/api/threads`: story threads, the most recently active first."""

from __future__ import annotations

from typing import Literal

from fleetlore.operations.sources import ViewSnapshot
from fleetlore.server.types.common import ThreadRow, Threads
from fleetlore.views import thread_state
from fleetlore.views import threads as view
from fleetlore.views.thread_names import Naming

NEEDS = ("threads", "names")
"""Views that the snapshot must contain."""
State = Literal["open", "closed", "all"]


def build_threads(snapshot: ViewSnapshot, *, state: State, limit: int) -> Threads:
    """Threads in this state, and their total number."""
    all_threads: thread_state.ThreadsState = snapshot.states["threads"]
    threads = [thread for thread in all_threads.threads.values() if state in ("all", thread.state)]
    threads.sort(key=lambda thread: (thread.last or view.OLDEST_STAMP, thread.key), reverse=True)
    naming = snapshot.naming
    dropped = 0 if state == "open" else all_threads.dropped
    return Threads(
        **snapshot.head_fields(),
        threads=[_thread_row(thread, snapshot, naming) for thread in threads[:limit]],
        total=len(threads) + dropped,
    )


def _thread_row(thread: thread_state.StoryThread, snapshot: ViewSnapshot, naming: Naming) -> ThreadRow:
    silence = view.stall_duration(thread, snapshot.now)
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
