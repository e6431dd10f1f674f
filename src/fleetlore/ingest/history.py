"""Puts all transcripts on this machine in import order: newest first. Used by `lore setup`.

Files that share records are imported in one batch. A record in two files is stored for the file that is read first,
and files are merged by time only inside a batch, so a session comes before its forks and subagents.
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

RECENT_DAYS = timedelta(days=7)
"""Everything this long before the newest record is one batch, in order of time.

Views of a past moment use all events stored up to it, so the days that people look back at most must be in order.
"""
EDGE_BYTES = 64 * 1024
"""Bytes at the start and end of a file that are searched for times."""
ZSTD_BLOCK = 128 * 1024
"""Maximum size of a zstd block; a block can be decompressed only when it is complete."""
_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
_MAX_FUTURE = timedelta(days=1)
"""A time further in the future is a mistake."""


class HistoryFile(NamedTuple):
    """A transcript, described by its first and last bytes."""

    program: str
    path: str
    size: int
    first: datetime
    last: datetime
    keys: frozenset[str]
    """Files with a common key belong together."""


Batch = Sequence[HistoryFile]


def inspect_file(program: str, path: str, status: os.stat_result) -> HistoryFile:
    """Describe a file without reading all of it. For one that cannot be read, the modification time is used."""
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    head, tail = b"", b""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(EDGE_BYTES)
        if path.endswith(zstd.SUFFIX) or head.startswith(zstd.MAGIC):
            head = zstd.decompress_head(head + file.read(ZSTD_BLOCK), EDGE_BYTES)  # the end is not reachable: the modification time is used
        else:
            file.seek(max(0, status.st_size - EDGE_BYTES))
            tail = file.read(EDGE_BYTES)
    last = max(_find_times(tail), default=modified)
    first = min(_find_times(head), default=last)
    keys = registry.require_program(program).find_related(path, head)
    return HistoryFile(program, path, status.st_size, min(first, last), last, frozenset(keys))


def make_batches(files: Iterable[HistoryFile], *, newest_first: bool = True) -> list[Batch]:
    """Group files into batches in import order: the last days together, then one batch per day, newest first.

    With `newest_first=False` there is one batch in order of time. A log that is trimmed by age needs that, because
    only its beginning can be cut off.
    """
    files = list(files)
    if not newest_first:
        return [files] if files else []
    groups = sorted(_group_by_key(files), key=_last_time, reverse=True)
    if not groups:
        return []
    cutoff = _last_time(groups[0]) - RECENT_DAYS
    by_day = groupby(groups, key=lambda group: None if _last_time(group) >= cutoff else _last_time(group).date())
    return [[file for group in day for file in group] for _, day in by_day]


def _last_time(group: Batch) -> datetime:
    return max(file.last for file in group)


def _group_by_key(files: Iterable[HistoryFile]) -> Iterable[Batch]:
    """Group files that share a key, directly or through other files (union-find)."""
    parents: dict[str, str] = {}

    def find_root(key: str) -> str:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = key = parents[parent]
        return key

    groups: dict[str, list[HistoryFile]] = {}
    files = list(files)
    for file in files:
        for key in file.keys:
            parents[find_root(key)] = find_root(file.path)
    for file in files:
        groups.setdefault(find_root(file.path), []).append(file)
    return groups.values()


def _find_times(data: bytes) -> Iterator[datetime]:
    latest = clock.now() + _MAX_FUTURE
    for text in _TIMESTAMP.findall(data):
        time = read_time(text.decode(errors="replace"))
        if time is not None and time <= latest:
            yield time


def find_time_span(files: Sequence[HistoryFile]) -> tuple[datetime, datetime]:
    """The times of the first and the last record of some files."""
    return min(file.first for file in files), max(file.last for file in files)
