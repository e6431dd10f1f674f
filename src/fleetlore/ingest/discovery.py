"""Finds the transcripts of coding agents on this machine and imports the lines that are new."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from getpass import getuser
from socket import gethostname
from stat import S_ISREG
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.ingest import recordings
from fleetlore.ingest.batch_writer import BatchWriter, ImportTally
from fleetlore.log.admission import Admission
from fleetlore.programs import registry
from fleetlore.programs.recording_files import COMPRESSED_SUFFIX, TRANSCRIPT_SUFFIX, is_recording

if TYPE_CHECKING:
    from fleetlore.ingest.lines import SourceLine
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor

OnSkipped = Callable[[str, str], object]
"""Called with the path of a file that is not read, and the reason."""

_SYSTEM_FILES = r"\.DS_Store|Thumbs\.db|desktop\.ini"
_UNPACKED_BY = {".gz": "zcat", ".xz": "xzcat", ".bz2": "bzcat", ".lz4": "lz4cat", ".Z": "zcat"}


def find_recordings(folder: str, *, on_skipped: OnSkipped = lambda path, reason: None) -> list[str]:
    """List every transcript in a folder and its subfolders, sorted by path."""
    return sorted(path for path in iterate_recordings(folder, on_skipped=on_skipped) if stat_file(path, on_skipped=on_skipped))


def stat_file(path: str, *, on_skipped: OnSkipped = lambda path, reason: None) -> os.stat_result | None:
    """Return the file's status, or `None` if it is gone, a broken link, or not a regular file."""
    try:
        status = os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or os.path.islink(path):  # otherwise it was removed or replaced a moment ago
            on_skipped(path, f"cannot be read: {error.strerror or error}")
        return None
    if not S_ISREG(status.st_mode):
        on_skipped(path, "is not a file")
        return None
    return status


def iterate_recordings(folder: str, *, on_skipped: OnSkipped | None = None) -> Iterator[str]:
    """Yield the paths of all transcripts below a folder, unsorted and without checking the files."""

    def report_error(error: OSError) -> None:
        if on_skipped is not None:
            on_skipped(error.filename or folder, f"cannot be read: {error.strerror or error}")

    if os.path.isfile(folder):
        yield folder
        return
    for inner, folders, names in os.walk(folder, onerror=report_error):
        for name in names:
            if is_recording(name):
                yield os.path.join(inner, name)
            elif on_skipped is not None and not is_side_file(folder, inner, name):
                on_skipped(os.path.join(inner, name), _explain_skipped(name))
        if on_skipped is not None:
            for name in folders:
                _report_skipped_folder(os.path.join(inner, name), on_skipped)


def is_side_file(folder: str, inner: str, name: str) -> bool:
    """Whether a file below a folder is not a transcript, but one that programs keep beside them."""
    files, folders = _load_side_names()
    return bool(files.fullmatch(name)) or not folders.isdisjoint(os.path.relpath(inner, folder).split(os.sep))


@cache
def _load_side_names() -> tuple[re.Pattern[str], frozenset[str]]:
    programs = registry.load_programs()
    files = "|".join(f"(?:{names})" for names in (*(program.side_files for program in programs), _SYSTEM_FILES) if names)
    return re.compile(files), frozenset(name for program in programs for name in program.side_folders)


def _explain_skipped(name: str) -> str:
    unpack = next((unpack for suffix, unpack in _UNPACKED_BY.items() if name.endswith(suffix)), None)
    if unpack is not None:
        return f"is compressed in a way that is not read here; unpack it first, as in {unpack} FILE | lore import DIALECT -"
    return f"is not read: it is no {TRANSCRIPT_SUFFIX} or {COMPRESSED_SUFFIX} file"


def _report_skipped_folder(path: str, on_skipped: OnSkipped) -> None:
    if is_recording(path):
        on_skipped(path, "is a folder, not a file")
    elif os.path.islink(path):
        on_skipped(path, "is a link to a folder; links to folders are not followed")


def find_session_files(program: str, path: str) -> list[str]:
    """A session's transcript, and those of its sub-agents."""
    known = registry.find_program(program)
    folders = () if known is None else known.helper_folders(path)
    return [path, *(found for folder in folders for found in find_recordings(folder))]


def find_branch(folder: str) -> str | None:
    """The branch that is checked out in a folder's repository; `None` outside of a repository or on a detached HEAD."""
    while folder and not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        folder = above if above != folder else ""
    try:
        head = _first_line(_git_folder(os.path.join(folder, ".git")), "HEAD") if folder else ""
    except (OSError, ValueError):
        return None
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None


def _git_folder(path: str) -> str:
    """Resolve `.git`: in a linked worktree it is a file that names the folder."""
    if os.path.isdir(path):
        return path
    return os.path.join(os.path.dirname(path), _first_line(path).removeprefix("gitdir: "))


def _first_line(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.readline(4096).strip()


def expand_paths(paths: Iterable[str], *, on_skipped: OnSkipped = lambda path, reason: None) -> list[str]:
    """Replace folders by the transcripts in them; return absolute paths without duplicates."""
    found = [inner for path in paths for inner in (find_recordings(path, on_skipped=on_skipped) if os.path.isdir(path) else [path])]
    return list(dict.fromkeys(map(os.path.abspath, found)))


def import_new_lines(
    log: BlockingRecorder,
    paths: Iterable[str],
    *,
    program: str,
    redactor: Redactor | None = None,
    anonymise: recordings.ChangeEvent | None = None,
    not_before: datetime | None = None,
    on_rejected: Callable[[SourceLine, str], None] = lambda line, reason: None,
    on_dropped: Callable[[str], None] = lambda message: None,
) -> ImportTally:
    """Import the lines that were added to transcripts since the last import; an incomplete last line waits."""
    recording = registry.find_recording(program)
    transcripts = recordings.open_growing_files(list(dict.fromkeys(map(os.path.abspath, paths))), recording, log)
    admission = Admission(redactor=redactor, anonymise=anonymise)
    writer = BatchWriter(log, dialect=recording.name, admission=admission, on_rejected=on_rejected, on_dropped=on_dropped)
    if transcripts:
        recordings.import_transcripts(transcripts, writer, log, change=make_machine_stamp(), not_before=not_before)
    return writer.tally


def make_machine_stamp() -> recordings.ChangeEvent:
    """Return a function that adds this machine's host and user to `session.started` events."""
    known = {key: value for key, value in (("host", _call_or_none(gethostname)), ("person", _call_or_none(getuser))) if value}

    def change(event: Event) -> Event:
        return replace(event, data=known | event.data) if event.kind == "session.started" else event

    return change


def _call_or_none(call: Callable[[], str]) -> str | None:
    try:
        return call()
    except (OSError, KeyError):
        return None
