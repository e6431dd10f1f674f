"""Reads the records of a program that writes each into a file of its own, as if the files were the lines of a transcript."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from fleetlore.ingest.lines import LONGEST_LINE, SAMPLE_BYTES, LineSplitter, SourceLine
from fleetlore.ingest.transcript_file import TranscriptFile

if TYPE_CHECKING:
    from fleetlore.dialects.recording import RecordFiles, Recording
    from fleetlore.projections.import_offsets import ImportOffset


class RecordFolder(TranscriptFile):
    """Opened by the file that stands for the session. Offsets are numbers of records, from 1. A record that is being written waits."""

    def __init__(
        self, path: str, recording: Recording, files: RecordFiles, *, import_offset: ImportOffset | None = None, live: bool = False
    ) -> None:
        super().__init__(path, recording, live=live)
        self._folder = os.path.join(os.path.dirname(os.path.abspath(path)), files.folder)
        self._names: dict[int, str] = {}
        try:
            for name in os.listdir(self._folder):
                if found := files.pattern.fullmatch(name):
                    self._names[int(found[1]) + 1] = name
            self.modified = max(self.modified, datetime.fromtimestamp(os.stat(self._folder).st_mtime, UTC))
        except FileNotFoundError:  # nothing was written yet
            pass
        except OSError as error:
            self._read_error = error.strerror or str(error)
        self.size = max(self._names, default=0)
        if import_offset is not None and self._can_resume_at(import_offset):
            self._resume_offset = self.import_offset = import_offset

    def _compute_fingerprint(self, offset: int) -> str:
        """The names of records are random."""
        return sha256(self._names.get(offset, "").encode(errors="replace")).hexdigest()[:16]

    def _read_lines(self, splitter: LineSplitter, offset: int, on_read: Callable[[int], None]) -> Iterator[tuple[SourceLine, int]]:
        for number in sorted(number for number in self._names if number > offset):
            with suppress(OSError), open(os.path.join(self._folder, self._names[number]), "rb") as file:
                size, raw = os.fstat(file.fileno()).st_size, file.read(LONGEST_LINE + 1)
                if self._live and not raw.endswith(b"}"):
                    return
                raw = raw if len(raw) <= LONGEST_LINE else raw[:SAMPLE_BYTES] + sha256(raw).digest()
                yield SourceLine(self.name, number, raw, 0, max(size, len(raw))), number - offset
                on_read(number - offset)
                offset = number
