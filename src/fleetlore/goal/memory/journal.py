"""Several changes of a memory folder as one: all of them, or none.

What is new is written beside first, and what was is copied; then a journal says what is about to change; then names are changed, which
takes no room on the disk; then the journal goes. Whoever finds a journal undoes what it tells of, file by file: what somebody else has
changed since stays as it is. So a crash before the journal changed nothing, and one after it is undone by the next who writes.

The copies stay until the next change: hidden files, by which a person can get back what was let go.
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
"""Bytes of a file that can be changed."""
BACKUP_PREFIX = ".before-dream."
_NEW = ".new."
_JOURNAL = ".journal.json"
_is_partial_file = re.compile(r"\.[0-9a-f]{12}\.part").fullmatch


class MemoryChanges(Struct, frozen=True, kw_only=True):
    """What is to be written and taken away, by the names of files."""

    writes: Mapping[str, bytes]
    removals: Set[str] = frozenset()
    seen: Mapping[str, str]
    """The digests of the files as they were read; whatever is not named must not be there."""


class ConcurrentChange(Exception):
    """Somebody changed a file since it was read."""


def apply_changes(files: OpenFolder, changes: MemoryChanges) -> None:
    """Make all changes, or none. To be called alone."""
    recover_changes(files)
    was = {name: files.read(name, MAX_FILE_BYTES) for name in (*changes.writes, *changes.removals)}
    for name, raw in was.items():
        if _digest(raw) != changes.seen.get(name) or (raw is None and files.status(name)):
            raise ConcurrentChange(f"{name} was changed meanwhile; nothing is changed, and the next time will tell")
    try:
        _write_journal(files, changes, was)
        for name in changes.writes:
            files.rename(_NEW + name, name)
        for name in changes.removals:
            files.remove(name)
        files.remove(_JOURNAL)
    except OSError:
        recover_changes(files)
        raise


def _write_journal(files: OpenFolder, changes: MemoryChanges, was: Mapping[str, bytes | None]) -> None:
    for name in files.names():
        if name.startswith(BACKUP_PREFIX):
            files.remove(name)
    for name, raw in changes.writes.items():
        files.write(_NEW + name, raw)
    for name, old in was.items():
        if old is not None:
            files.write(BACKUP_PREFIX + name, old)
    steps = {name: {"before": _digest(old), "after": _digest(changes.writes.get(name))} for name, old in was.items()}
    files.write(_JOURNAL, json.dumps(steps).encode())


def recover_changes(files: OpenFolder) -> None:
    """Undo what was left half done, and take leftovers away. To be called alone."""
    raw = files.read(_JOURNAL, MAX_FILE_BYTES)
    for name, step in _parse_journal(raw).items():
        if is_note_name(name):
            _undo(files, name, step)
    if raw is not None:
        files.remove(_JOURNAL)
    for name in files.names():
        if name.startswith(_NEW) or _is_partial_file(name):
            files.remove(name)


def _undo(files: OpenFolder, name: str, step: Mapping[str, Any]) -> None:
    before, after = step.get("before"), step.get("after")
    if before == after or _digest(files.read(name, MAX_FILE_BYTES)) != after:
        return
    if before is None:
        files.remove(name)
    elif _digest(files.read(BACKUP_PREFIX + name, MAX_FILE_BYTES)) == before:
        files.rename(BACKUP_PREFIX + name, name)


def _parse_journal(raw: bytes | None) -> dict[str, dict[str, Any]]:
    try:
        steps = json.loads(raw or b"{}")
    except ValueError:
        return {}
    if not isinstance(steps, dict):
        return {}
    return {name: step for name, step in steps.items() if isinstance(step, dict)}


def _digest(raw: bytes | None) -> str | None:
    return None if raw is None else sha256(raw).hexdigest()
