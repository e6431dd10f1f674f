"""Reads the records of a program that keeps them in a SQLite file, as if its rows were the lines of a transcript.

The file is opened for reading only, while the program may be writing to it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fleetlore.ingest.lines import LineSplitter, SourceLine
from fleetlore.ingest.record_folder import RecordFolder
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.programs.recording_files import STATE_NAMES

if TYPE_CHECKING:
    from fleetlore.dialects.recording import DatabaseQuery, Recording
    from fleetlore.projections.import_offsets import ImportOffset

MAGIC = b"SQLite format 3\0"
WAL_SUFFIX = "-wal"
"""New rows are in this file beside the database until SQLite moves them."""
BATCH_ROWS = 500
IDENTITY_COLUMNS = 3
"""The first columns of a row, which say which one it is."""


def open_transcript(path: str, recording: Recording, *, import_offset: ImportOffset | None = None, live: bool = False) -> TranscriptFile:
    """A transcript, or the database or folder of a program that has one."""
    if recording.record_files is not None and os.path.basename(path) in STATE_NAMES:
        return RecordFolder(path, recording, recording.record_files, import_offset=import_offset, live=live)
    if recording.database is not None:
        with suppress(OSError), open(path, "rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return DatabaseFile(path, recording, recording.database, import_offset=import_offset, live=live)
    return TranscriptFile(path, recording, import_offset=import_offset, live=live)


class DatabaseFile(TranscriptFile):
    """Offsets are numbers of rows. If the row at an offset has changed, for example after a vacuum, the database is read from its start."""

    def __init__(
        self, path: str, recording: Recording, query: DatabaseQuery, *, import_offset: ImportOffset | None = None, live: bool = False
    ) -> None:
        super().__init__(path, recording, live=live)
        self._query = query
        with suppress(OSError):
            self.modified = max(self.modified, datetime.fromtimestamp(os.stat(f"{path}{WAL_SUFFIX}").st_mtime, UTC))
        self.size = 0
        try:
            self.size = next((row[0] or 0 for row in self._select_rows(query.last)), 0)
        except (sqlite3.Error, TypeError) as error:
            self._read_error = str(error)
        if import_offset is not None and self._can_resume_at(import_offset):
            self._resume_offset = self.import_offset = import_offset

    def _select_rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{quote(os.path.abspath(self.path))}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute(sql, values).fetchmany(BATCH_ROWS)

    def _compute_fingerprint(self, offset: int) -> str:
        rows: list[tuple[Any, ...]] = []
        with suppress(sqlite3.Error):
            rows = self._select_rows(self._query.rows, offset - 1)
        return sha256(repr(rows[0][:IDENTITY_COLUMNS]).encode(errors="replace") if rows and rows[0][0] == offset else b"").hexdigest()[:16]

    def _read_lines(self, splitter: LineSplitter, offset: int, on_read: Callable[[int], None]) -> Iterator[tuple[SourceLine, int]]:
        try:
            while rows := self._select_rows(self._query.rows, offset):
                for row in rows:
                    raw = self._query.to_record(row)
                    yield SourceLine(self.name, row[0], raw, 0, len(raw)), row[0] - offset
                    on_read(row[0] - offset)
                    offset = row[0]
        except sqlite3.Error as error:
            self._read_error = str(error)
