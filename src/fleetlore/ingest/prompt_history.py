"""Imports the prompts of sessions whose transcripts were deleted, from the history that some coding agents keep of all prompts."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.dialects.recording import parse_record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem
from fleetlore.ingest.lines import SourceLine, convert_to_utf8, split_lines
from fleetlore.programs.prompt_history import PromptHistory, RememberedPrompt, make_session_events, start_id

if TYPE_CHECKING:
    from fleetlore.ingest.recordings import ChangeEvent
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.programs.base import Program

MAX_SESSION_PROMPTS = 450
"""Prompts of one session that are imported, so that they fit into one append; the newest are dropped."""
CHUNK_BYTES = 256 * 1024


def import_prompt_history(
    program: Program,
    writer: BatchWriter,
    log: BlockingRecorder,
    *,
    change: ChangeEvent | None = None,
    not_before: datetime | None = None,
    path: str | None = None,
) -> int:
    """Store the prompts of sessions that the log does not have; returns how many sessions.

    Call it after the transcripts were imported: a session without any other event in the log has none. `path`: a file elsewhere.
    """
    history = program.load_prompt_history()
    if history is None:
        return 0
    sessions = _read_sessions(path or os.path.join(program.find_home(), history.file), history, not_before)
    items: list[ImportItem] = []
    for session, prompts in sessions.items():
        first = next(iter(log.read(f"run:{session}", limit=1)), None)
        if first is not None and first.id != start_id(prompts[0].context):
            continue
        events = make_session_events(prompts)
        line = SourceLine(history.file, len(items) + 1, b"", 0, sum(len(prompt.words) for prompt in prompts))
        items.append(ImportItem(line, tuple(_add_source(event, history.file) for event in (map(change, events) if change else events))))
    writer.write_all(items)
    return len(items)


def _read_sessions(path: str, history: PromptHistory, not_before: datetime | None) -> dict[str, list[RememberedPrompt]]:
    sessions: dict[str, list[RememberedPrompt]] = {}
    with suppress(OSError), open(path, "rb") as file:
        for line in split_lines(path, convert_to_utf8(iter(lambda: file.read(CHUNK_BYTES), b""))):
            with suppress(DialectError):  # the file is one of many sources; a torn line says nothing about a session
                prompt = None if line.too_long else history.read(parse_record(line.raw))
                if prompt is None or prompt.context.run is None or (not_before and prompt.context.at and prompt.context.at < not_before):
                    continue
                prompts = sessions.setdefault(prompt.context.run, [])
                if len(prompts) < MAX_SESSION_PROMPTS:
                    prompts.append(prompt)
    return sessions


def _add_source(event: Event, source: str) -> Event:
    return event if event.origin is None else replace(event, origin=replace(event.origin, source=source))
