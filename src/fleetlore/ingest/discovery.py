"""Where coding agents keep their recordings on this machine, and what of them has not been read yet."""

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
COMPRESSED_ROWS = f"{TRANSCRIPT_SUFFIX}{zstd.SUFFIX}"
"""Codex rewrites rollouts that nobody has used for a week to this."""
_Environ = Mapping[str, str]

OnSkipped = Callable[[str, str], object]
"""Called with the path of whatever is not read, and why."""

_BESIDE_FILES = re.compile(
    r""".*\.meta\.json  # Claude Code: what a helper was launched for; read with its transcript
    | sessions-index\.json  # Claude Code: a list of the sessions beside it
    | .*\.(?:de)?compress\.\d+\.\d+\.tmp  # Codex, while it compresses a rollout
    | \.DS_Store | Thumbs\.db | desktop\.ini""",
    re.VERBOSE,
)
"""Names of files that programs and systems keep beside recordings, and that are none."""
_BESIDE_FOLDERS = frozenset(("tool-results", "memory", "session-memory", "workflows"))
"""Folders that Claude Code keeps in those of projects and sessions: large outputs, notes and scripts."""
_UNPACKED_BY = {".gz": "zcat", ".xz": "xzcat", ".bz2": "bzcat", ".lz4": "lz4cat", ".Z": "zcat"}


def claude_folder(environ: _Environ = os.environ) -> str:
    """Where Claude Code keeps its settings and projects."""
    return environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")


def codex_folder(environ: _Environ = os.environ) -> str:
    """Where Codex keeps its settings and sessions."""
    return environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def recording_folders(program: str, environ: _Environ = os.environ) -> list[str]:
    """The folders in which a program keeps its recordings, there or not."""
    if program == "codex":
        return [os.path.join(codex_folder(environ), name) for name in ("sessions", "archived_sessions")]
    return [os.path.join(claude_folder(environ), "projects")]


def find_recordings(folder: str, *, on_skipped: OnSkipped = lambda path, reason: None) -> list[str]:
    """Every recording in a folder and those below it, by name."""
    return sorted(path for path in iterate_recordings(folder, on_skipped=on_skipped) if stat_file(path, on_skipped=on_skipped))


def stat_file(path: str, *, on_skipped: OnSkipped = lambda path, reason: None) -> os.stat_result | None:
    """What is known of a file; nothing of one that is gone, leads nowhere, or is no file."""
    try:
        status = os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or os.path.islink(path):  # else it was removed, or replaced, a moment ago
            on_skipped(path, f"cannot be read: {error.strerror or error}")
        return None
    if not S_ISREG(status.st_mode):
        on_skipped(path, "is not a file")
        return None
    return status


def iterate_recordings(folder: str, *, on_skipped: OnSkipped | None = None) -> Iterator[str]:
    """The same in no order, and without a look at the files."""

    def say(error: OSError) -> None:
        if on_skipped is not None:
            on_skipped(error.filename or folder, f"cannot be read: {error.strerror or error}")

    for inner, folders, names in os.walk(folder, onerror=say):
        for name in names:
            if is_recording(name):
                yield os.path.join(inner, name)
            elif on_skipped is not None and not _is_beside(folder, inner, name):
                on_skipped(os.path.join(inner, name), _why_skipped(name))
        if on_skipped is not None:
            for name in folders:
                _say_of_folder(os.path.join(inner, name), on_skipped)


def is_recording(name: str) -> bool:
    """Whether a file of this name is read."""
    return name.endswith((TRANSCRIPT_SUFFIX, COMPRESSED_ROWS))


def _is_beside(folder: str, inner: str, name: str) -> bool:
    return bool(_BESIDE_FILES.fullmatch(name)) or not _BESIDE_FOLDERS.isdisjoint(os.path.relpath(inner, folder).split(os.sep))


def _why_skipped(name: str) -> str:
    unpack = next((unpack for suffix, unpack in _UNPACKED_BY.items() if name.endswith(suffix)), None)
    if unpack is not None:
        return f"is compressed in a way that is not read here; unpack it first, as in {unpack} FILE | lore import DIALECT -"
    return f"is of an unknown type; {TRANSCRIPT_SUFFIX} and {COMPRESSED_ROWS} files are read"


def _say_of_folder(path: str, on_skipped: OnSkipped) -> None:
    if is_recording(path):
        on_skipped(path, "is a folder, not a file")
    elif os.path.islink(path):
        on_skipped(path, "is a link to a folder; links to folders are not followed")


def plain_name(path: str) -> str:
    """The path of a recording without what says how it is written: `….jsonl` and `….jsonl.zst` are the same recording."""
    return path.removesuffix(zstd.SUFFIX).removesuffix(TRANSCRIPT_SUFFIX)


def find_session_files(path: str) -> list[str]:
    """A session's transcript, and those of its helpers, which Claude Code keeps in a folder of the session's name."""
    return [path, *find_recordings(os.path.join(plain_name(path), "subagents"))]


def helper_transcript_path(path: str, helper: str) -> str:
    """Where the transcript of a session's helper is going to be."""
    return os.path.join(plain_name(path), "subagents", f"agent-{helper}{TRANSCRIPT_SUFFIX}")


def find_branch(folder: str) -> str | None:
    """The branch that a folder's repository is on now, if it is in one."""
    while folder and not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        folder = above if above != folder else ""
    try:
        head = _first_line(_git_folder(os.path.join(folder, ".git")), "HEAD") if folder else ""
    except (OSError, ValueError):
        return None
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None


def _git_folder(path: str) -> str:
    """A further working tree has a file that says where its folder is."""
    if os.path.isdir(path):
        return path
    return os.path.join(os.path.dirname(path), _first_line(path).removeprefix("gitdir: "))


def _first_line(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.readline(4096).strip()


def expand_paths(paths: Iterable[str], *, on_skipped: OnSkipped = lambda path, reason: None) -> list[str]:
    """Files as they are; of folders all recordings in them. Each once."""
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
    """Read on in recordings of this machine from where each was left; an unfinished last line waits."""
    recording = dialects.find_recording(program)
    tapes = recordings.open_growing_files(list(dict.fromkeys(map(os.path.abspath, paths))), recording, log)
    admission = Admission(redactor=redactor, veil=veil)
    deposit = BatchWriter(log, dialect=recording.name, admission=admission, on_rejected=on_rejected, on_dropped=on_dropped)
    if tapes:
        recordings.import_transcripts(tapes, deposit, log, change=make_machine_stamp(), not_before=not_before)
    return deposit.tally


def make_machine_stamp() -> recordings.ChangeEvent:
    """Say of each session that starts here on whose behalf and on which machine."""
    known = {key: value for key, value in (("host", _ask_or_none(gethostname)), ("person", _ask_or_none(getuser))) if value}

    def change(event: Event) -> Event:
        return replace(event, data=known | event.data) if event.kind == "session.started" else event

    return change


def _ask_or_none(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except (OSError, KeyError):
        return None
