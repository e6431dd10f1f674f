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

from fleetlore.goal.memory.files import Files
from fleetlore.goal.memory.notes import is_note_name

LARGEST = 1 << 18
"""Bytes of a file that can be changed."""
BEFORE = ".before-dream."
_NEW = ".new."
_JOURNAL = ".journal.json"
_is_part = re.compile(r"\.[0-9a-f]{12}\.part").fullmatch


class Changes(Struct, frozen=True, kw_only=True):
    """What is to be written and taken away, by the names of files."""

    writes: Mapping[str, bytes]
    removals: Set[str] = frozenset()
    seen: Mapping[str, str]
    """The digests of the files as they were read; whatever is not named must not be there."""


class Overtaken(Exception):
    """Somebody changed a file since it was read."""


def apply(files: Files, changes: Changes) -> None:
    """Make all changes, or none. To be called alone."""
    mend(files)
    was = {name: files.read(name, LARGEST) for name in (*changes.writes, *changes.removals)}
    for name, raw in was.items():
        if _digest(raw) != changes.seen.get(name) or (raw is None and files.status(name)):
            raise Overtaken(f"{name} was changed meanwhile; nothing is changed, and the next time will tell")
    try:
        _prepare(files, changes, was)
        for name in changes.writes:
            files.rename(_NEW + name, name)
        for name in changes.removals:
            files.remove(name)
        files.remove(_JOURNAL)
    except OSError:
        mend(files)
        raise


def _prepare(files: Files, changes: Changes, was: Mapping[str, bytes | None]) -> None:
    for name in files.names():
        if name.startswith(BEFORE):
            files.remove(name)
    for name, raw in changes.writes.items():
        files.write(_NEW + name, raw)
    for name, old in was.items():
        if old is not None:
            files.write(BEFORE + name, old)
    steps = {name: {"before": _digest(old), "after": _digest(changes.writes.get(name))} for name, old in was.items()}
    files.write(_JOURNAL, json.dumps(steps).encode())


def mend(files: Files) -> None:
    """Undo what was left half done, and take leftovers away. To be called alone."""
    raw = files.read(_JOURNAL, LARGEST)
    for name, step in _steps(raw).items():
        if is_note_name(name):
            _undo(files, name, step)
    if raw is not None:
        files.remove(_JOURNAL)
    for name in files.names():
        if name.startswith(_NEW) or _is_part(name):
            files.remove(name)


def _undo(files: Files, name: str, step: Mapping[str, Any]) -> None:
    before, after = step.get("before"), step.get("after")
    if before == after or _digest(files.read(name, LARGEST)) != after:
        return
    if before is None:
        files.remove(name)
    elif _digest(files.read(BEFORE + name, LARGEST)) == before:
        files.rename(BEFORE + name, name)


def _steps(raw: bytes | None) -> dict[str, dict[str, Any]]:
    try:
        steps = json.loads(raw or b"{}")
    except ValueError:
        return {}
    if not isinstance(steps, dict):
        return {}
    return {name: step for name, step in steps.items() if isinstance(step, dict)}


def _digest(raw: bytes | None) -> str | None:
    return None if raw is None else sha256(raw).hexdigest()
