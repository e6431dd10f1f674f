"""Finds transcripts of Claude Code that belong together: `SESSION.jsonl`, and its sub-agents' `SESSION/subagents/agent-ID.jsonl`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.programs.recording_files import TRANSCRIPT_SUFFIX, plain_name

_HELPERS = "subagents"


def helper_folder(path: str) -> str:
    """The folder with the transcripts of a session's sub-agents."""
    return os.path.join(plain_name(path), _HELPERS)


def helper_transcript_path(path: str, helper: str) -> str:
    """The path at which the transcript of a sub-agent will be written."""
    return os.path.join(helper_folder(path), f"agent-{helper}{TRANSCRIPT_SUFFIX}")


def find_keys(path: str, head: bytes) -> Iterator[str]:
    """Keys that a transcript shares with those of its sub-agents and forks."""
    rows = list(_parse_rows(head.split(b"\n")))
    yield f"session:{_find_session(path)}"
    yield from (f"session:{parent}" for row in rows if (parent := as_text(as_object(row.get("forkedFrom")).get("sessionId"))))
    # A resumed or forked session may begin with a copy of its parent's rows.
    yield from (f"row:{own}" for row in rows if (own := as_text(row.get("uuid"))))


def _find_session(path: str) -> str:
    folders = plain_name(path).split(os.sep)
    return folders[folders.index(_HELPERS) - 1] if _HELPERS in folders else folders[-1]


def _parse_rows(lines: Iterable[bytes]) -> Iterator[Record]:
    for line in lines:
        with suppress(DialectError):  # the last line may be truncated; the import reports lines that cannot be read
            yield parse_record(line)
