"""Where coding agents keep their recordings on this machine, and what of them has not been read yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from getpass import getuser
from socket import gethostname
from stat import S_ISREG
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import dialects
from fleetlore.events.envelope import Event
from fleetlore.intake import recordings
from fleetlore.intake.deposit import Deposit, Tally
from fleetlore.log.admission import Admission

if TYPE_CHECKING:
    from fleetlore.intake.lines import Line
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor

ROWS = ".jsonl"
_Environ = Mapping[str, str]


def claude_folder(environ: _Environ = os.environ) -> str:
    """Where Claude Code keeps its settings and projects."""
    return environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")


def codex_folder(environ: _Environ = os.environ) -> str:
    """Where Codex keeps its settings and sessions."""
    return environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def folders_of(program: str, environ: _Environ = os.environ) -> list[str]:
    """The folders in which a program keeps its recordings, there or not."""
    if program == "codex":
        return [os.path.join(codex_folder(environ), name) for name in ("sessions", "archived_sessions")]
    return [os.path.join(claude_folder(environ), "projects")]


def find_all(folder: str, *, since: float = 0.0) -> list[str]:
    """Every recording in a folder and those below it, by name; only what was written to after `since`."""
    return sorted(path for path in walk(folder) if (status := look(path)) and status.st_mtime >= since)


def look(path: str) -> os.stat_result | None:
    """What is known of a file; nothing of one that is gone, leads nowhere, or is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status if S_ISREG(status.st_mode) else None


def walk(folder: str) -> Iterator[str]:
    """The same in no order, and without a look at the files."""
    for inner, _, names in os.walk(folder):
        yield from (os.path.join(inner, name) for name in names if name.endswith(ROWS))


def with_helpers(path: str) -> list[str]:
    """A session's transcript, and those of its helpers, which Claude Code keeps in a folder of the session's name."""
    return [path, *find_all(os.path.join(path.removesuffix(ROWS), "subagents"))]


def helper_s(path: str, helper: str) -> str:
    """Where the transcript of a session's helper is going to be."""
    return os.path.join(path.removesuffix(ROWS), "subagents", f"agent-{helper}{ROWS}")


def branch_of(folder: str) -> str | None:
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


def expand(paths: Iterable[str]) -> list[str]:
    """Files as they are; of folders all recordings in them. Each once."""
    found = [inner for path in paths for inner in (find_all(path) if os.path.isdir(path) else [path])]
    return list(dict.fromkeys(map(os.path.abspath, found)))


def catch_up(
    log: BlockingRecorder,
    paths: Iterable[str],
    *,
    program: str = "claude-code",
    redactor: Redactor | None = None,
    veil: recordings.Change | None = None,
    not_before: datetime | None = None,
    on_rejected: Callable[[Line, str], None] = lambda line, reason: None,
    on_dropped: Callable[[str], None] = lambda message: None,
) -> Tally:
    """Read on in recordings of this machine from where each was left; an unfinished last line waits."""
    recording = dialects.find_recording(program)
    tapes = recordings.open_growing(list(dict.fromkeys(map(os.path.abspath, paths))), recording, log)
    admission = Admission(redactor=redactor, veil=veil)
    deposit = Deposit(log, dialect=recording.name, admission=admission, on_rejected=on_rejected, on_dropped=on_dropped)
    if tapes:
        recordings.take_in(tapes, deposit, log, change=of_this_machine(), not_before=not_before)
    return deposit.tally


def of_this_machine() -> recordings.Change:
    """Say of each session that starts here on whose behalf and on which machine."""
    known = {key: value for key, value in (("host", _asked(gethostname)), ("person", _asked(getuser))) if value}

    def change(event: Event) -> Event:
        return replace(event, data=known | event.data) if event.kind == "session.started" else event

    return change


def _asked(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except (OSError, KeyError):
        return None
