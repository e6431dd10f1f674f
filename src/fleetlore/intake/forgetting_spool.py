"""What waits in the spool of hooks and is to be forgotten before it reaches a log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any

from fleetlore.dialects.codex_marks import NAME as CODEX
from fleetlore.dialects.codex_marks import agent_of
from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.intake import spool
from fleetlore.intake.drain import Place
from fleetlore.intake.forgetting import Wanted
from fleetlore.log.connect import split

if TYPE_CHECKING:
    from fleetlore.config import Settings

_SESSIONS = ("session_id", "thread_id", "thread-id", "conversation_id")
_ANY_KIND = "hook.waiting"
_UNFINISHED = f"{spool.SUFFIX}.part"
_GIVEN_UP = 60.0
"""Seconds after which nobody is still writing."""


def purge(wanted: Wanted, settings: Settings, *, folder: str | None = None) -> int:
    """Take the lines of a log that tell of what is to be forgotten out of the spool; answers how many.

    A line has no kind yet, and the log has given it no id: where those are asked for, it stays.
    """
    _clear(folder or spool.spool_folder())
    if wanted.kinds or wanted.ids is not None:
        return 0
    return spool.purge(lambda line: any(map(wanted.fits, _events_of(line))) and _belongs_to(line, settings), folder=folder)


def _clear(folder: str) -> None:
    """Remove what somebody left who was killed while writing a file anew; what it was to hold is in the file itself."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_UNFINISHED) and entry.stat().st_mtime < time() - _GIVEN_UP:
                os.unlink(entry.path)


def _belongs_to(line: Mapping[str, Any], settings: Settings) -> bool:
    """Whether a line would go into the log that the settings mean."""
    place = Place(*(value if isinstance(value := line.get(name), str) and value else None for name in Place._fields))
    try:
        there = place.settings()
        same_log = _address(there.log.value, place.cwd or "") == _address(settings.log.value, "")
    except FleetloreError:  # what nobody can read chooses no log
        return False
    return same_log and there.town.value == settings.town.value


def _address(url: str, folder: str) -> str:
    """The address of a log, however it was written; that of a file may be relative to a folder."""
    scheme, path, _ = split(url)
    return os.path.realpath(os.path.join(folder, os.path.expanduser(path))) if scheme == "sqlite" and path else url


def _events_of(line: Mapping[str, Any]) -> list[Event]:
    """The line as events that name what it names: its session's agent, and the helper that called."""
    record = line.get("record")
    record = record if isinstance(record, dict) else {}
    sessions = [session for name in _SESSIONS if isinstance(session := record.get(name), str)]
    helper = record.get("agent_id")
    helpers = [helper] if isinstance(helper, str) else []
    whose: list[tuple[str | None, str | None]]
    if line.get("program") == CODEX:  # its helpers have threads of their own
        whose = [(agent_of(thread), thread) for thread in (*sessions, *helpers)]
    else:
        run = sessions[0] if sessions else None
        whose = [*((f"{line.get('program')}/{session[:8]}", run) for session in sessions), *((each, run) for each in helpers)]
    return [Event(kind=_ANY_KIND, at=_moment(line.get("at")), agent=agent, run=run) for agent, run in whose or [(None, None)]]


def _moment(text: object) -> datetime:
    try:
        at = datetime.fromisoformat(str(text))
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
