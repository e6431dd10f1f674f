"""Recognises the format of a file by its first records, so that `lore import` needs no format and notices a wrong one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from fleetlore.dialects import registry as dialects
from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events import codec
from fleetlore.ingest import discovery, zstd
from fleetlore.ingest.database_file import MAGIC
from fleetlore.ingest.lines import LONGEST_LINE, convert_to_utf8, split_objects
from fleetlore.ingest.transcript_file import read_documents
from fleetlore.programs import formats, registry

HEAD_BYTES, HEAD_LINES = 64 * 1024, 20
"""How much of a file is read to recognise it."""
LONGEST_HEAD = 4 * 1024 * 1024
"""How much is read if its first line is longer."""
SUFFIXES = (".jsonl", ".jsonl.zst", ".ndjson", ".json", ".traj", ".db", ".vscdb", ".sqlite")
"""Files in a folder that may be recordings."""
_NAMED_SUFFIXES = (".jsonl", ".jsonl.zst", ".ndjson", ".traj")
"""Files in a folder that are reported if they are not recognised; most others are no recordings at all."""
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", ".venv", "__pycache__"))
_TITLES = {"otlp": "OpenTelemetry", "forge": "webhooks of a forge", "cloudevents": "CloudEvents", "beads": "beads (issues)"}
OWN_EVENTS = "events of Fleetlore"


class FileFormat(NamedTuple):
    """The format of a file."""

    title: str
    """The program or format, for people."""
    reader: str | None = None
    """Its name in `lore import`, if Fleetlore reads it."""
    is_session: bool = False
    advice: str = "Fleetlore has no reader for it"
    """What to do about one without a reader."""

    @property
    def description(self) -> str:
        """What such a file is: `a session of pi`."""
        return f"a session of {self.title}" if self.is_session else self.title


class _Head(NamedTuple):
    records: Sequence[Record]
    lines: Sequence[bytes]
    """The same records as bytes."""
    tables: frozenset[str] = frozenset()
    """The tables of a database."""


def recognise_file(path: str) -> FileFormat | None:
    """The format of a file; `None` if it is not known, or the file cannot be read."""
    return _recognise_head(path, _read_head(path))


def find_mismatch(path: str, program: str, *, is_own: bool) -> str | None:
    """Why a file is not a transcript of a program, judged by its first records; `None` if it may be one.

    `is_own`: it is in the program's own folder, so unknown records may be those of a newer version.
    """
    head = _read_head(path)
    if not (head.records or head.tables) or (not head.tables and formats.is_of_program(program, head.records)):
        return None
    title, found = registry.require_program(program).title, _recognise_head(path, head)
    if (is_own and (head.tables or found is None)) or (found is not None and found.reader == program):
        return None
    if found is None:
        return f"none of its first records is from {title}, and no other known format fits"
    advice = f"use `lore import {found.reader} FILE`" if found.reader else found.advice
    return f"this looks like {found.description}, not one of {title}; {advice}"


def iterate_candidates(folder: str) -> Iterator[tuple[str, bool]]:
    """The files of a folder that may be recordings, in order, and whether to report one that is not recognised."""
    for inner, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not discovery.is_side_file(inner, inner, name):
                yield os.path.join(inner, name), name.endswith(_NAMED_SUFFIXES)


def _recognise_head(path: str, head: _Head) -> FileFormat | None:
    if head.tables:
        return _recognise_database(path, head.tables)
    if not head.records:
        return None
    for recognise in (_recognise_telemetry, _recognise_webhook, _recognise_dialect):
        if (reader := recognise(head)) is not None:
            return FileFormat(_TITLES.get(reader, reader), reader)
    if (program := formats.find_format(head.records)) is not None:
        return _describe_program(program)
    if _match_most(head.lines, _is_own_event):
        return FileFormat(OWN_EVENTS, advice="use `lore emit - < FILE`")
    return None


def _describe_program(known: formats.KnownFormat) -> FileFormat:
    return FileFormat(known.title, known.name, is_session=True)


def _recognise_database(path: str, tables: frozenset[str]) -> FileFormat | None:
    queries = ((program, registry.find_recording(program.name).database) for program in registry.load_programs())
    candidates = [(program, query) for program, query in queries if query is not None and query.tables <= tables]
    for program, query in sorted(candidates, key=lambda candidate: -len(candidate[1].tables)):
        with suppress(sqlite3.Error), closing(_open_database(path)) as database:
            database.execute(query.last)
            database.execute(query.rows, (0,))
            return FileFormat(program.title, program.name, is_session=True)
    known = formats.find_database_format(tables)
    return None if known is None else _describe_program(known)


def _recognise_telemetry(head: _Head) -> str | None:
    keys = {"resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans", "resource_logs", "resource_metrics"}
    return "otlp" if any(record.keys() & keys for record in head.records) else None


def _recognise_webhook(head: _Head) -> str | None:
    """Webhook deliveries of a forge: a body names its repository or sender, a captured request has headers or the event's name."""
    reader = registry.find_recording("forge").open(None)
    signs = ({"repository", "sender"}, {"headers", "body"}, {"event", "payload"})

    def is_delivery(line: bytes, record: Record) -> bool:
        if not any(keys <= record.keys() for keys in signs):
            return False
        with suppress(DialectError):
            return bool(reader.read(line))
        return False

    found = [is_delivery(line, record) for line, record in zip(head.lines, head.records, strict=True)]
    return "forge" if 2 * sum(found) > len(found) else None


def _recognise_dialect(head: _Head) -> str | None:
    for name in dialects.list_dialects():
        dialect = dialects.find_dialect(name)

        def reads(line: bytes, decode: Callable[[bytes], object] = dialect.decode) -> bool:
            with suppress(DialectError):
                return decode(line) is not None
            return False

        if _match_most(head.lines, reads):
            return name
    return None


def _is_own_event(line: bytes) -> bool:
    """Whether it is an event as a log holds it; one that somebody wrote may lack its id."""
    try:
        event = codec.decode_event(line)
    except InvalidEvent:
        return False
    return event.id is not None and event.at is not None


def _match_most(lines: Sequence[bytes], matches: Callable[[bytes], bool]) -> bool:
    return 2 * sum(map(matches, lines)) > len(lines)


# --- The beginning of a file


def _read_head(path: str) -> _Head:
    """The first records of a file, compressed or not; none if it cannot be read or has none."""
    try:
        with open(path, "rb") as file:
            data = file.read(HEAD_BYTES)
            if data.startswith(MAGIC):
                return _Head((), (), _list_tables(path))
            if data.startswith(zstd.MAGIC):
                data = zstd.decompress_head(data + file.read(2 * HEAD_BYTES), LONGEST_HEAD)
            elif b"\n" not in data:
                data += file.read(LONGEST_HEAD)
    except OSError:
        return _Head((), ())
    lines = b"".join(convert_to_utf8([data])).removeprefix(b"\xef\xbb\xbf").split(b"\n")[:HEAD_LINES]
    return _parse_lines(lines) or _parse_documents(path)


def _parse_lines(lines: Sequence[bytes]) -> _Head | None:
    pairs: list[tuple[Record, bytes]] = []
    for line in lines:
        raw = line.lstrip(b"\0")
        try:
            pairs.append((parse_record(raw), raw))
        except DialectError:  # the last line is cut
            pairs += [(parse_record(each), each) for each in split_objects(raw)]
    return _Head([record for record, _ in pairs], [line for _, line in pairs]) if pairs else None


def _parse_documents(path: str) -> _Head:
    with suppress(OSError):
        if os.path.getsize(path) <= LONGEST_LINE:
            documents = read_documents(path, os.path.basename(path))
            return _parse_lines([document.raw for document in (documents or ())[:HEAD_LINES]]) or _Head((), ())
    return _Head((), ())


def _list_tables(path: str) -> frozenset[str]:
    with suppress(sqlite3.Error), closing(_open_database(path)) as database:
        return frozenset(str(name) for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchmany(500))
    return frozenset()


def _open_database(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=5)
