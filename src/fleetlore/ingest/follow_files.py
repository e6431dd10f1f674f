"""Recordings that grow: what is new in the files of some folders, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.ingest import discovery, recordings
from fleetlore.ingest.batch_writer import ImportTally

if TYPE_CHECKING:
    from fleetlore.ingest.lines import SourceLine
    from fleetlore.ingest.recordings import ChangeEvent
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor

_FileStatus = tuple[int, int]
"""A file's size and the time of its last change."""


class TranscriptFollower:
    """Watches the recordings of one program. A round costs one look at each file, and the reading of those that have changed."""

    def __init__(
        self,
        log: BlockingRecorder,
        folders: Iterable[str],
        *,
        program: str,
        since: float = 0.0,
        redactor: Redactor | None = None,
        veil: ChangeEvent | None = None,
        not_before: datetime | None = None,
        on_rejected: Callable[[SourceLine, str], None] = lambda line, reason: None,
        on_skipped: discovery.OnSkipped = lambda path, reason: None,
    ) -> None:
        self._log, self._folders, self._program, self._since = log, list(folders), program, since
        self._redactor, self._veil, self._not_before, self._on_rejected = redactor, veil, not_before, on_rejected
        self._on_skipped = on_skipped
        self._seen: dict[str, _FileStatus] = {}
        self._growing: set[str] = set()
        """Files that were read while they were being written to: their last answer is stored when they come to rest."""

    def import_changes(self) -> ImportTally:
        """Take in what is new; files that were last written to before `since` are left alone until they change."""
        now = {
            path: seen
            for folder in self._folders
            for path in discovery.iterate_recordings(folder, on_skipped=self._on_skipped)
            if (seen := _read_file_status(path, self._on_skipped))
        }
        changed = {path for path, seen in now.items() if seen != self._seen.get(path) and seen[1] >= self._since * 1e9}
        quiet_since = (clock.now() - recordings.FINISHED_AFTER).timestamp() * 1e9
        finished = {path for path in self._growing if path in now and now[path][1] <= quiet_since}
        paths = sorted(changed | finished)
        tally = self._import_files(paths) if paths else ImportTally()
        self._growing = {path for path in self._growing | changed if path in now and now[path][1] > quiet_since}
        self._seen = now
        return tally

    def _import_files(self, paths: Iterable[str]) -> ImportTally:
        return discovery.import_new_lines(
            self._log,
            paths,
            program=self._program,
            redactor=self._redactor,
            veil=self._veil,
            not_before=self._not_before,
            on_rejected=self._on_rejected,
        )


def _read_file_status(path: str, on_skipped: discovery.OnSkipped) -> _FileStatus | None:
    status = discovery.stat_file(path, on_skipped=on_skipped)
    return None if status is None else (status.st_size, status.st_mtime_ns)
