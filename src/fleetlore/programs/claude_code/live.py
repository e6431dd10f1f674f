"""What Claude Code itself says about its running sessions: the files behind `claude agents --json`.

`sessions/PID.json` (one per running process, since 2.1.2xx) has `sessionId, pid, procStart, cwd, status, waitingFor, statusUpdatedAt`;
`jobs/ID/state.json` (background sessions) has `sessionId, state, cwd, updatedAt`. Reading them takes a fraction of a millisecond, while
the command starts a process of 0.2 s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from glob import escape, glob
from typing import Any

from fleetlore.dialects.fields import as_name, as_text
from fleetlore.programs.base import LiveSession

_STATUS_BY_JOB_STATE = {"working": "busy", "blocked": "waiting", "done": "idle", "failed": "idle", "stopped": "gone"}
_KNOWN = frozenset(("busy", "waiting", "idle"))
MOST_BYTES = 64 * 1024


def read_live_sessions(home: str) -> Iterator[LiveSession]:
    """The sessions that have a state file, those of dead processes as `gone`."""
    for path in glob(os.path.join(escape(home), "sessions", "*.json")):
        state = _read_object(path)
        session, pid, status = as_name(state.get("sessionId")), state.get("pid"), as_text(state.get("status"))
        if session is None or not isinstance(pid, int):
            continue
        is_alive = _is_alive(pid, as_text(state.get("procStart")))
        if status in _KNOWN or not is_alive:
            waits = as_text(state.get("waitingFor"))
            yield LiveSession(session, str(status) if is_alive else "gone", waits, pid, as_text(state.get("cwd")))
    for path in glob(os.path.join(escape(home), "jobs", "*", "state.json")):
        state = _read_object(path)
        session, status = as_name(state.get("sessionId")), _STATUS_BY_JOB_STATE.get(as_text(state.get("state")) or "")
        if session is not None and status is not None:
            waits = (as_text(state.get("detail")) or "input needed") if status == "waiting" else None
            yield LiveSession(session, status, waits, None, as_text(state.get("cwd")))


def _read_object(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_alive(pid: int, started: str | None) -> bool:
    """Whether the process runs, and is not another one that got its number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, OSError):
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return True  # not Linux
    return started is None or not started.isdigit() or ticks == started
