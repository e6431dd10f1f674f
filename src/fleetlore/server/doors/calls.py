"""One call of a coding program's hook that came over HTTP, taken in as the drain of the spool does. Plain code for a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore import clock
from fleetlore.dialects import claude_code_hooks, codex_hooks
from fleetlore.dialects.fields import as_text, write_time
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.intake import hook_lines, retention, transcripts
from fleetlore.intake.drain import Entry
from fleetlore.intake.lines import Line
from fleetlore.intake.veil import veiling
from fleetlore.redact import Redactor
from fleetlore.server.doors.reading import foreign_record
from fleetlore.server.doors.storing import keep_all, told

if TYPE_CHECKING:
    from fleetlore.config import Settings
    from fleetlore.log.recorder import BlockingRecorder

PROGRAMS: Mapping[str, Callable[..., list[Event]]] = {"claude-code": claude_code_hooks.read_hook, "codex": codex_hooks.read_hook}
"""Whose hooks are read."""
SOURCE = "http"
_STEP = "hook_event_name"
_TRANSCRIPTS = ("transcript_path", "agent_transcript_path")


class Call(NamedTuple):
    """Who called, when, and whether from this machine."""

    program: str
    at: datetime
    is_local: bool


def take_call(log: BlockingRecorder, settings: Settings, call: Call, raw: bytes) -> list[str]:
    """Store what one call tells, after what the transcripts that it names do; `Problem` or `Invalid` for what is no call."""
    record = foreign_record(raw)
    if as_text(record.get(_STEP)) is None:
        raise DialectError(f"$.{_STEP}", "missing: every call of a hook says at which step it is")
    paths = _own_transcripts(record, call)
    if paths:
        _catch_up(log, settings, call.program, paths)
    else:
        record = {key: value for key, value in record.items() if key not in _TRANSCRIPTS}  # nobody else is going to tell it
    entry = _entry(record, call, raw)
    if hook_lines.is_told(entry, log):
        return []
    id = str(entry.told["id"])
    said = hook_lines.with_branch(entry) if call.is_local else record
    events = told(lambda: PROGRAMS[call.program](said, id=id, at=call.at))
    if call.is_local:
        events = list(map(transcripts.of_this_machine(), events))
    return keep_all(log, [hook_lines.under_known_id(event, id, log) for event in events])


def _entry(record: Mapping[str, Any], call: Call, raw: bytes) -> Entry:
    """The call as a line of the spool would have it."""
    line = Line(SOURCE, 1, raw, 0, len(raw))
    return Entry(line, {"at": write_time(call.at), "id": hook_lines.id_by_http(), "program": call.program, "record": record})


def _own_transcripts(record: Mapping[str, Any], call: Call) -> list[str]:
    """The recordings that a call names, as far as they are this machine's and lie where the program keeps them.

    Whoever may write to the log may not therefore have any file of this machine read into it.
    """
    if not call.is_local:
        return []
    folders = [os.path.join(os.path.realpath(folder), "") for folder in transcripts.folders_of(call.program)]
    named = dict.fromkeys(path for key in _TRANSCRIPTS if (path := as_text(record.get(key))))
    found = [path for path in named if _is_within(path, folders)]
    if call.program != "claude-code":
        return found
    return [each for path in found for each in transcripts.with_helpers(path) if _is_within(each, folders)]


def _is_within(path: str, folders: list[str]) -> bool:
    try:
        real = os.path.realpath(path)
        return real.endswith(transcripts.ROWS) and real.startswith(tuple(folders)) and os.path.isfile(real)
    except ValueError:  # a path that no system has
        return False


def _catch_up(log: BlockingRecorder, settings: Settings, program: str, paths: list[str]) -> None:
    levels = settings.redact_levels.value
    transcripts.catch_up(
        log,
        paths,
        program=program,
        redactor=Redactor(settings.redact_patterns.value),
        veil=veiling(levels) if levels else None,
        not_before=retention.oldest_kept(settings, clock.now()),
    )
