"""Follows transcripts that grow: imports, poll by poll, what was added to the files of some folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.ingest import discovery, recordings
from fleetlore.ingest.batch_writer import ImportTally
from fleetlore.ingest.database_file import WAL_SUFFIX

if TYPE_CHECKING:
    from fleetlore.ingest.lines import SourceLine
    from fleetlore.ingest.recordings import ChangeEvent
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor

_FileStatus = tuple[int, int]
"""Size and modification time (ns)."""


class TranscriptFollower:
    """Watches the transcripts of one program. A poll costs one `stat` per file, and reads only files that changed."""

    def __init__(
        self,
        log: BlockingRecorder,
        folders: Iterable[str],
        *,
        program: str,
        since: float = 0.0,
        redactor: Redactor | None = None,
        anonymise: ChangeEvent | None = None,
        not_before: datetime | None = None,
        on_rejected: Callable[[SourceLine, str], None] = lambda line, reason: None,
        on_skipped: discovery.OnSkipped = lambda path, reason: None,
    ) -> None:
        self._log, self._folders, self._program, self._since = log, list(folders), program, since
        self._redactor, self._anonymise, self._not_before, self._on_rejected = redactor, anonymise, not_before, on_rejected
        self._on_skipped = on_skipped
        self._seen: dict[str, _FileStatus] = {}
        self._growing: set[str] = set()
        """Files read while they were being written: their last reply is stored when they stop changing."""

    def import_changes(self) -> ImportTally:
        """Import what is new; files last modified before `since` are ignored until they change."""
        current = {
            path: status
            for folder in self._folders
            for path in discovery.iterate_recordings(folder, on_skipped=self._on_skipped)
            if (status := _read_file_status(path, self._on_skipped))
        }
        changed = {path for path, status in current.items() if status != self._seen.get(path) and status[1] >= self._since * 1e9}
        finished_before = (clock.now() - recordings.FINISHED_AFTER).timestamp() * 1e9
        finished = {path for path in self._growing if path in current and current[path][1] <= finished_before}
        paths = sorted(changed | finished)
        tally = self._import_files(paths) if paths else ImportTally()
        self._growing = {path for path in self._growing | changed if path in current and current[path][1] > finished_before}
        self._seen = current
        return tally

    def _import_files(self, paths: Iterable[str]) -> ImportTally:
        return discovery.import_new_lines(
            self._log,
            paths,
            program=self._program,
            redactor=self._redactor,
            anonymise=self._anonymise,
            not_before=self._not_before,
            on_rejected=self._on_rejected,
        )


def _read_file_status(path: str, on_skipped: discovery.OnSkipped) -> _FileStatus | None:
    status = discovery.stat_file(path, on_skipped=on_skipped)
    if status is None:
        return None
    try:
        added = os.stat(f"{path}{WAL_SUFFIX}")
    except OSError:  # not a database, or nothing is in its write-ahead log
        return status.st_size, status.st_mtime_ns
    return status.st_size + added.st_size, max(status.st_mtime_ns, added.st_mtime_ns)
