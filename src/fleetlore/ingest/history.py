"""All recordings that programs have kept on this machine, in the order in which they are imported: the newest first.

Files that share records belong to one batch. A record that two files hold is stored as that of the file that is read first, and only
inside a batch files are merged by time, so that a session comes before its forks and its helpers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from fleetlore import clock
from fleetlore.dialects.fields import read_time
from fleetlore.ingest import zstd
from fleetlore.programs import registry

FIRST_BATCH = timedelta(days=7)
"""So much before the newest record is imported as one batch, in the order of time: views of a past moment are made of all events
that were stored up to it, and so need this order for the days that people look back at most."""
EDGE = 64 * 1024
"""Bytes at either end of a file in which its times are looked for."""
ZSTD_BLOCK = 128 * 1024
"""Nothing of a block of zstd's can be decompressed before all of it is there, and this is the longest."""
_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
_AHEAD = timedelta(days=1)
"""A time that lies further ahead than this is a mistake."""


class HistoryFile(NamedTuple):
    """One recording, and what a look at its beginning and its end tells."""

    program: str
    path: str
    size: int
    first: datetime
    last: datetime
    keys: frozenset[str]
    """Files that have one in common belong together."""


Batch = Sequence[HistoryFile]


def look_into(program: str, path: str, status: os.stat_result) -> HistoryFile:
    """What is known of a file without reading all of it. One that cannot be read is as old as its last change."""
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    head, tail = b"", b""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(EDGE)
        if path.endswith(zstd.SUFFIX) or head.startswith(zstd.MAGIC):
            head = _decompressed(head + file.read(ZSTD_BLOCK))  # its end is behind all the rest: the time of its last change has to do
        else:
            file.seek(max(0, status.st_size - EDGE))
            tail = file.read(EDGE)
    last = max(_times(tail), default=modified)
    first = min(_times(head), default=last)
    keys = registry.require_program(program).find_related(path, head)
    return HistoryFile(program, path, status.st_size, min(first, last), last, frozenset(keys))


def in_batches(files: Iterable[HistoryFile], *, newest_first: bool = True) -> list[Batch]:
    """The files in the order of import: those of the last days together, then those of each day before, the newest first.

    Else all of them together, in the order of time: a log that is trimmed by age needs that, because only its beginning can be cut off.
    """
    files = list(files)
    if not newest_first:
        return [files] if files else []
    groups = sorted(_groups(files), key=_last, reverse=True)
    if not groups:
        return []
    recent = _last(groups[0]) - FIRST_BATCH
    by_day = groupby(groups, key=lambda group: None if _last(group) >= recent else _last(group).date())
    return [[file for group in day for file in group] for _, day in by_day]


def _last(group: Batch) -> datetime:
    return max(file.last for file in group)


def _groups(files: Iterable[HistoryFile]) -> Iterable[Batch]:
    """Files that share a key, directly or by way of others."""
    above: dict[str, str] = {}

    def top(key: str) -> str:
        while (upper := above.setdefault(key, key)) != key:
            above[key] = key = above[upper]
        return key

    groups: dict[str, list[HistoryFile]] = {}
    files = list(files)
    for file in files:
        for key in file.keys:
            above[top(key)] = top(file.path)
    for file in files:
        groups.setdefault(top(file.path), []).append(file)
    return groups.values()


def _decompressed(head: bytes) -> bytes:
    found = bytearray()
    with suppress(zstd.Damaged):
        for piece in zstd.decompress([head]):
            found += piece
            if len(found) >= EDGE:
                break
    return bytes(found[:EDGE])


def _times(part: bytes) -> Iterator[datetime]:
    latest = clock.now() + _AHEAD
    for found in _TIMESTAMP.findall(part):
        time = read_time(found.decode(errors="replace"))
        if time is not None and time <= latest:
            yield time


def span_of(files: Sequence[HistoryFile]) -> tuple[datetime, datetime]:
    """When the first record of some files was written, and the last."""
    return min(file.first for file in files), max(file.last for file in files)
