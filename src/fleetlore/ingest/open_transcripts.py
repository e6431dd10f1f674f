"""The transcripts of running sessions that hooks have named: they are read as they grow, without a hook for every tool call.

A drain remembers which transcripts its lines name, in a file beside the spool, until the session ends or nothing was written for a
day. `spool_grown_transcripts` compares their sizes, and spools a line for each that has grown: the next drain reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from time import time
from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.documents.atomic_file import write_atomically
from fleetlore.ingest import spool
from fleetlore.programs import registry
from fleetlore.programs.recording_files import is_recording

if TYPE_CHECKING:
    from fleetlore.ingest.drain import SpoolEntry

FILE = "transcripts.json"
HOOK_NAME = "TranscriptGrown"
"""`hook_event_name` of the spooled lines. They name a transcript and contain no event."""
KEPT_SECONDS = 24 * 3600.0
"""How long a transcript is looked at that does not grow."""

_END_HOOK = "SessionEnd"
_TARGET_KEYS = ("cwd", "log", "town")


def file_path() -> str:
    """The file that lists the transcripts of running sessions."""
    return os.path.join(os.path.dirname(spool.spool_folder()), FILE)


def remember_transcripts(entries: Iterable[SpoolEntry]) -> None:
    """Remember the transcripts that spooled lines name, before they are read; forget those of sessions that have ended.

    A transcript need not exist yet: programs call the first hooks before they write it.
    """
    known = _read_known()
    before = dict(known)
    for entry in entries:
        path, hook = entry.record.get("transcript_path"), entry.record.get("hook_event_name")
        if not isinstance(path, str) or hook == HOOK_NAME:
            continue
        if hook == _END_HOOK:
            known.pop(path, None)
        else:
            target = {key: value for key in _TARGET_KEYS if isinstance(value := entry.fields.get(key), str)}
            known[path] = {"program": entry.program, "named": int(time()), "size": _measure_session(entry.program, path), **target}
    if known != before:
        _write_known(known)


def spool_grown_transcripts() -> None:
    """Spool a line for every remembered transcript that has grown since; forget those of sessions that are quiet for a day."""
    known = _read_known()
    kept, lines = dict[str, Any](), list[bytes]()
    for path, session in known.items():
        size = _measure_session(session["program"], path)
        if size != session.get("size"):
            lines.append(_make_line(path, session))
        elif _is_quiet(path, session):
            continue
        kept[path] = {**session, "size": size}
    if kept != known:
        _write_known(kept)
    for line in lines:
        spool.append_line(line)


def _is_quiet(path: str, session: Mapping[str, Any]) -> bool:
    """Whether neither a hook named the transcript nor a line was added to it within a day."""
    named = session.get("named")
    return time() - max(named if isinstance(named, int) else 0, _read_status(path, "st_mtime")) > KEPT_SECONDS


def _measure_session(program: str, path: str) -> int:
    """The bytes of a session's transcript and of those of its sub-agents."""
    described = registry.find_program(program)
    folders = () if described is None else described.helper_folders(path)
    paths = [path, *(entry.path for folder in folders for entry in _list_recordings(folder))]
    return sum(int(_read_status(path, "st_size")) for path in paths)


def _list_recordings(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [entry for entry in found if is_recording(entry.name)]
    except OSError:
        return []


def _read_status(path: str, name: str) -> float:
    """A field of a file's status; 0 if there is no such file."""
    try:
        return float(getattr(os.stat(path), name))
    except (OSError, ValueError):
        return 0.0


def _make_line(path: str, session: Mapping[str, Any]) -> bytes:
    fields = {
        "at": clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "id": clock.uuid7(),
        "program": session["program"],
        **{key: session[key] for key in _TARGET_KEYS if key in session},
        "record": {"hook_event_name": HOOK_NAME, "transcript_path": path},
    }
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def _read_known() -> dict[str, dict[str, Any]]:
    if not os.path.isfile(file_path()):  # a pipe would never end
        return {}
    try:
        with open(file_path(), encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    sessions = known.items() if isinstance(known, dict) else ()
    return {path: session for path, session in sessions if isinstance(session, dict) and isinstance(session.get("program"), str)}


def _write_known(known: Mapping[str, Mapping[str, Any]]) -> None:
    os.makedirs(os.path.dirname(file_path()), mode=0o700, exist_ok=True)
    with write_atomically(file_path(), mode=0o600) as file:
        file.write(json.dumps(known).encode())
