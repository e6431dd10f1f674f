"""Finds the transcripts of coding agents on this machine and imports the lines that are new."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from getpass import getuser
from socket import gethostname
from stat import S_ISREG
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import dialects
from fleetlore.events.envelope import Event
from fleetlore.ingest import recordings, zstd
from fleetlore.ingest.batch_writer import BatchWriter, ImportTally
from fleetlore.log.admission import Admission

if TYPE_CHECKING:
    from fleetlore.ingest.lines import SourceLine
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor

TRANSCRIPT_SUFFIX = ".jsonl"
COMPRESSED_SUFFIX = f"{TRANSCRIPT_SUFFIX}{zstd.SUFFIX}"
"""Codex compresses rollouts that were not used for a week."""
_Environ = Mapping[str, str]

OnSkipped = Callable[[str, str], object]
"""Called with the path of a file that is not read, and the reason."""

_SIDE_FILES = re.compile(
    r""".*\.meta\.json  # Claude Code: what a helper was launched for; read with its transcript
    | sessions-index\.json  # Claude Code: a list of the sessions beside it
    | .*\.(?:de)?compress\.\d+\.\d+\.tmp  # Codex, while it compresses a rollout
    | \.DS_Store | Thumbs\.db | desktop\.ini""",
    re.VERBOSE,
)
"""Names of files next to transcripts that are not transcripts."""
_SIDE_FOLDERS = frozenset(("tool-results", "memory", "session-memory", "workflows"))
"""Folders in Claude Code's project and session folders with large outputs, notes and scripts."""
_UNPACKED_BY = {".gz": "zcat", ".xz": "xzcat", ".bz2": "bzcat", ".lz4": "lz4cat", ".Z": "zcat"}


def claude_folder(environ: _Environ = os.environ) -> str:
    """The folder of Claude Code's settings and projects."""
    return environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")


def codex_folder(environ: _Environ = os.environ) -> str:
    """The folder of Codex's settings and sessions."""
    return environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def recording_folders(program: str, environ: _Environ = os.environ) -> list[str]:
    """The folders in which a program keeps its transcripts; they need not exist."""
    if program == "codex":
        return [os.path.join(codex_folder(environ), name) for name in ("sessions", "archived_sessions")]
    return [os.path.join(claude_folder(environ), "projects")]


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

    for inner, folders, names in os.walk(folder, onerror=report_error):
        for name in names:
            if is_recording(name):
                yield os.path.join(inner, name)
            elif on_skipped is not None and not _is_side_file(folder, inner, name):
                on_skipped(os.path.join(inner, name), _explain_skipped(name))
        if on_skipped is not None:
            for name in folders:
                _report_skipped_folder(os.path.join(inner, name), on_skipped)


def is_recording(name: str) -> bool:
    """Whether a file of this name is a transcript."""
    return name.endswith((TRANSCRIPT_SUFFIX, COMPRESSED_SUFFIX))


def _is_side_file(folder: str, inner: str, name: str) -> bool:
    return bool(_SIDE_FILES.fullmatch(name)) or not _SIDE_FOLDERS.isdisjoint(os.path.relpath(inner, folder).split(os.sep))


def _explain_skipped(name: str) -> str:
    unpack = next((unpack for suffix, unpack in _UNPACKED_BY.items() if name.endswith(suffix)), None)
    if unpack is not None:
        return f"is compressed in a way that is not read here; unpack it first, as in {unpack} FILE | lore import DIALECT -"
    return f"is of an unknown type; {TRANSCRIPT_SUFFIX} and {COMPRESSED_SUFFIX} files are read"


def _report_skipped_folder(path: str, on_skipped: OnSkipped) -> None:
    if is_recording(path):
        on_skipped(path, "is a folder, not a file")
    elif os.path.islink(path):
        on_skipped(path, "is a link to a folder; links to folders are not followed")


def strip_suffixes(path: str) -> str:
    """The path without `.jsonl` or `.jsonl.zst`: both suffixes mean the same transcript."""
    return path.removesuffix(zstd.SUFFIX).removesuffix(TRANSCRIPT_SUFFIX)


def find_session_files(path: str) -> list[str]:
    """A session's transcript and those of its subagents, which Claude Code keeps in a folder named after the session."""
    return [path, *find_recordings(os.path.join(strip_suffixes(path), "subagents"))]


def helper_transcript_path(path: str, helper: str) -> str:
    """The path at which Claude Code will write the transcript of a subagent."""
    return os.path.join(strip_suffixes(path), "subagents", f"agent-{helper}{TRANSCRIPT_SUFFIX}")


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
    program: str = "claude-code",
    redactor: Redactor | None = None,
    veil: recordings.ChangeEvent | None = None,
    not_before: datetime | None = None,
    on_rejected: Callable[[SourceLine, str], None] = lambda line, reason: None,
    on_dropped: Callable[[str], None] = lambda message: None,
) -> ImportTally:
    """Import the lines that were added to transcripts since the last import; an incomplete last line waits."""
    recording = dialects.find_recording(program)
    transcripts = recordings.open_growing_files(list(dict.fromkeys(map(os.path.abspath, paths))), recording, log)
    admission = Admission(redactor=redactor, veil=veil)
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
