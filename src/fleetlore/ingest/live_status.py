"""What coding agents say about their running sessions, spooled like a hook call whenever it changes.

The states that were spooled last are kept in a file beside the spool, so that several commands do not report the same twice, and a session
whose state file is gone is noticed.
"""

from __future__ import annotations

import json
import os

from fleetlore import clock
from fleetlore.ingest import spool
from fleetlore.programs import registry
from fleetlore.programs.base import LiveSession

FILE = "live.json"
HOOK_NAME = "SessionState"
"""`hook_event_name` of the spooled records."""


def spool_changes() -> None:
    """Spool the state of every session whose state has changed since the last call, by whichever process."""
    folder = os.path.dirname(spool.spool_folder())
    known = _read_known(os.path.join(folder, FILE))
    current = {
        f"{program.name} {live.run}": (program.name, live) for program in registry.list_live() for live in program.read_live_sessions()
    }
    states = {key: [live.status, live.waiting_for, live.cwd] for key, (_, live) in current.items()}
    changed = [current[key] for key, state in states.items() if known.get(key) != state]
    for key, state in known.items():
        if key not in states and isinstance(state, list) and len(state) == 3 and state[0] != "gone":
            program, _, run = key.partition(" ")
            changed.append((program, LiveSession(run, "gone", cwd=state[2] if isinstance(state[2], str) else None)))
    if not changed and states == known:
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _write_known(os.path.join(folder, FILE), states)
    for program, live in changed:
        spool.append_line(_make_line(program, live))


def _make_line(program: str, live: LiveSession) -> bytes:
    record = {"hook_event_name": HOOK_NAME, "session_id": live.run, "status": live.status}
    more = {"waiting_for": live.waiting_for, "pid": live.pid, "cwd": live.cwd}
    fields = {
        "at": clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "id": clock.uuid7(),
        "program": program,
        "cwd": live.cwd if live.cwd and os.path.isdir(live.cwd) else os.path.expanduser("~"),
        "record": record | {key: value for key, value in more.items() if value is not None},
    }
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def _read_known(path: str) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_known(path: str, states: dict[str, list[str | None]]) -> None:
    from fleetlore.documents.atomic_file import write_atomically

    with write_atomically(path, mode=0o600) as file:
        file.write(json.dumps(states).encode())
