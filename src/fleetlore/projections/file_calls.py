"""Finds the tool calls that read or wrote a file, by its name. The index is kept in the store and brought up to date before use.

Only hashes of file names are stored, and the ids of calls: what a call did is read from the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from posixpath import basename
from typing import NamedTuple

import apsw

from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.file import fetch_rows
from fleetlore.programs.tool_calls import CallInput, normalise_input
from fleetlore.projections.runner import ProgressCallback, split_chunks
from fleetlore.projections.store import ProjectionStore, get_fact, make_anchor, raise_anchor, set_fact
from fleetlore.views.outcomes.file_edits import list_written_paths
from fleetlore.views.outcomes.shell import parse_script

CALL = "tool.called"
RESULTS = ("tool.returned", "tool.failed", "tool.denied")
CHUNK = 1000
LOOKED_UP_AT_ONCE = 500
VERSION = "2"
_WRITERS = frozenset(("cat", "tee", "printf", "echo"))
_KEEPERS = frozenset(("git", "rm", "unlink"))
"""They remove, move or restore a file, but write no new lines."""
_substitution = re.compile(r"s([/|#,])(?P<old>[\w \"'<>:;=@!%~-]+)\1(?P<new>[\w \"'<>:;=@!%~.()-]*)\1g?")
"""An argument of `sed -i` that replaces a literal text."""


class FileCall(NamedTuple):
    """A call that names a file, with its result; the result is `None` if there is none."""

    call: Event
    result: Event | None


def find_file_calls(
    log: BlockingRecorder, store: ProjectionStore | None, names: Sequence[str], progress: ProgressCallback | None = None
) -> list[FileCall]:
    """The calls that name one of these files, by their last component, in the order of the log. Denied and failed ones are included."""
    hashes = {_hash_name(name) for name in names}
    if store is None or not _update_index(log, store, progress):
        return list(_scan_log(log, hashes))
    none: list[tuple[Position, str, str | None]] = []
    found = store.run_read(lambda connection: _select_rows(connection, sorted(hashes)), none)
    ids = [id for _, call, result in found for id in (call, result) if id]
    events = {
        event.id: event for start in range(0, len(ids), LOOKED_UP_AT_ONCE) for event in log.get(ids[start : start + LOOKED_UP_AT_ONCE])
    }
    return [FileCall(events[call], events.get(result)) for _, call, result in found if call in events]


def read_call(call: Event) -> CallInput:
    """The normalised call of an event."""
    tool = call.data.get("tool")
    return normalise_input(
        call.origin.dialect if call.origin is not None else None, tool if isinstance(tool, str) else "", call.data.get("input")
    )


class ShellWrite(NamedTuple):
    """A file that a command wrote, and what is known about that."""

    path: str
    edit: tuple[str | None, str] | None
    """Old text (`None`: the file was written whole) and new text; `None` if the command does not show them."""
    is_certain: bool = True
    """Whether nothing else was written."""


def list_shell_writes(script: str) -> Iterator[ShellWrite]:
    """The files that a script plainly writes: here-documents, `sed -i`, inline programs, and so on."""
    for command in parse_script(script):
        target = command.writes[0] if len(command.writes) == 1 else command.words[1] if len(command.words) == 2 else ""
        if command.body and target and command.program in _WRITERS:
            yield ShellWrite(target, ("" if _is_appended(script, target) else None, command.body))
            continue
        for path in list_written_paths(command) if command.program not in _KEEPERS else ():
            substitutions = [_substitution.fullmatch(word) for word in command.words[1:-1]] if command.program == "sed" else []
            found = [each for each in substitutions if each is not None]
            yield ShellWrite(path, (found[0]["old"], found[0]["new"]) if len(found) == 1 else None, is_certain=False)


def _is_appended(script: str, path: str) -> bool:
    return re.search(rf">>\s*['\"]?{re.escape(path)}|\btee\s+(?:-a|--append)\b", script) is not None


def _find_names(event: Event) -> set[bytes]:
    call = read_call(event)
    paths = {*call.paths, *(path for path, _, _ in call.edits)} if call.kind in ("edit", "read") else set[str]()
    if call.kind == "command":
        paths = {write.path for write in list_shell_writes(call.command)}
    return {_hash_name(path) for path in paths}


def _hash_name(path: str) -> bytes:
    return blake2b(basename(path.replace("\\", "/")).encode(errors="replace"), digest_size=8).digest()


def _scan_log(log: BlockingRecorder, hashes: set[bytes]) -> Iterator[FileCall]:
    """Without a store: read the whole log."""
    calls = {event.id: event for event in log.read(kinds=(CALL,)) if hashes & _find_names(event)}
    results = {event.cause: event for event in log.read(kinds=RESULTS) if event.cause in calls} if calls else {}
    for id, call in calls.items():
        yield FileCall(call, results.get(id))


# --- the index


def _select_rows(connection: apsw.Connection, hashes: Sequence[bytes]) -> list[tuple[Position, str, str | None]]:
    marks = ", ".join("?" * len(hashes))
    return fetch_rows(
        connection, f"SELECT DISTINCT position, call, result FROM file_calls WHERE name IN ({marks}) ORDER BY position", hashes
    )


def _update_index(log: BlockingRecorder, store: ProjectionStore, progress: ProgressCallback | None) -> bool:
    """Bring the index to the log's head; whether that was possible."""
    if not store.is_synced_with(log) or not store.run_write(_keep_version, False):
        return False
    while (outcome := _add_all(log, store, progress)) == "again":
        pass  # another process was faster: continue after it
    return outcome == "done"


def _keep_version(connection: apsw.Connection) -> bool:
    if get_fact(connection, "file_calls_version") != VERSION:
        connection.execute("DELETE FROM file_calls")
        set_fact(connection, "file_calls_version", VERSION)
        set_fact(connection, "file_calls_at", None)
    return True


def _add_all(log: BlockingRecorder, store: ProjectionStore, progress: ProgressCallback | None) -> str:
    after: Position | None = store.run_read(lambda connection: get_fact(connection, "file_calls_at"), None)
    done, last = 0, None
    for chunk in split_chunks(log.read(after=after, kinds=(CALL, *RESULTS)), CHUNK):
        last = chunk[-1]
        outcome = store.run_write(_make_writer(chunk, after), "failed")
        if outcome != "done":
            return outcome
        after, done = last.position, done + len(chunk)
        if progress is not None:
            progress(done, done)
    if last is not None:
        anchor = make_anchor(log, last)
        store.run_write(lambda connection: raise_anchor(connection, anchor), None)
    return "done"


def _make_writer(events: Sequence[Event], after: Position | None) -> Callable[[apsw.Connection], str]:
    calls = [(name, event.position, event.id) for event in events if event.kind == CALL for name in _find_names(event)]
    results = [(event.id, event.cause) for event in events if event.kind in RESULTS and event.cause]

    def write(connection: apsw.Connection) -> str:
        if get_fact(connection, "file_calls_at") != after:
            return "again"
        connection.executemany("INSERT OR IGNORE INTO file_calls VALUES (?, ?, ?, NULL)", calls)
        connection.executemany("UPDATE file_calls SET result = ? WHERE call = ?", results)
        set_fact(connection, "file_calls_at", events[-1].position)
        return "done"

    return write
