"""Applies several changes to a memory folder as one: all of them, or none.

New files are written under temporary names, and old ones are copied. Then a journal records what is about to change,
names are changed, which needs no disk space, and the journal is deleted. The next writer that finds a journal undoes its changes
file by file, except for files that others have changed since. So a crash before the journal has changed nothing,
and a crash after it is undone by the next writer.

The copies stay until the next change, as hidden files from which a person can restore deleted notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from hashlib import sha256
from typing import Any

from msgspec import Struct

from fleetlore.goal.memory.files import OpenFolder
from fleetlore.goal.memory.notes import is_note_name

MAX_FILE_BYTES = 1 << 18
"""Largest file that can be changed."""
BACKUP_PREFIX = ".before-dream."
_NEW = ".new."
_JOURNAL = ".journal.json"
_is_partial_file = re.compile(r"\.[0-9a-f]{12}\.part").fullmatch


class MemoryChanges(Struct, frozen=True, kw_only=True):
    """Files to write and to delete, by name."""

    writes: Mapping[str, bytes]
    removals: Set[str] = frozenset()
    seen: Mapping[str, str]
    """Digests of the files as they were read. A file that is not listed must not exist."""


class ConcurrentChange(Exception):
    """Somebody changed a file since it was read."""


def apply_changes(files: OpenFolder, changes: MemoryChanges) -> None:
    """Make all changes, or none. The caller must hold the folder's lock.

    Raises `ConcurrentChange` if a file differs from `changes.seen`.
    """
    recover_changes(files)
    old_content = {name: files.read(name, MAX_FILE_BYTES) for name in (*changes.writes, *changes.removals)}
    for name, raw in old_content.items():
        if _memory_digest(raw) != changes.seen.get(name) or (raw is None and files.find_status(name)):
            raise ConcurrentChange(f"{name} was changed meanwhile; nothing was written, and it is tried again next time")
    try:
        _write_journal(files, changes, old_content)
        for name in changes.writes:
            files.rename(_NEW + name, name)
        for name in changes.removals:
            files.remove(name)
        files.remove(_JOURNAL)
    except OSError:
        recover_changes(files)
        raise


def _write_journal(files: OpenFolder, changes: MemoryChanges, old_content: Mapping[str, bytes | None]) -> None:
    for name in files.list_names():
        if name.startswith(BACKUP_PREFIX):
            files.remove(name)
    for name, raw in changes.writes.items():
        files.write(_NEW + name, raw)
    for name, old in old_content.items():
        if old is not None:
            files.write(BACKUP_PREFIX + name, old)
    entries = {
        name: {"before": _memory_digest(old), "after": _memory_digest(changes.writes.get(name))} for name, old in old_content.items()
    }
    files.write(_JOURNAL, json.dumps(entries).encode())


def recover_changes(files: OpenFolder) -> None:
    """Undo changes that were interrupted, and delete temporary files. The caller must hold the folder's lock."""
    raw = files.read(_JOURNAL, MAX_FILE_BYTES)
    for name, entry in _parse_journal(raw).items():
        if is_note_name(name):
            _undo_change(files, name, entry)
    if raw is not None:
        files.remove(_JOURNAL)
    for name in files.list_names():
        if name.startswith(_NEW) or _is_partial_file(name):
            files.remove(name)


def _undo_change(files: OpenFolder, name: str, entry: Mapping[str, Any]) -> None:
    before, after = entry.get("before"), entry.get("after")
    if before == after or _memory_digest(files.read(name, MAX_FILE_BYTES)) != after:
        return
    if before is None:
        files.remove(name)
    elif _memory_digest(files.read(BACKUP_PREFIX + name, MAX_FILE_BYTES)) == before:
        files.rename(BACKUP_PREFIX + name, name)


def _parse_journal(raw: bytes | None) -> dict[str, dict[str, Any]]:
    try:
        entries = json.loads(raw or b"{}")
    except ValueError:
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict)}


def _memory_digest(raw: bytes | None) -> str | None:
    return None if raw is None else sha256(raw).hexdigest()
