"""Formats of session files, recognised by their first records: those of the programs with a reader, and of some that have none yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from fleetlore.dialects.wire import Record
from fleetlore.programs.base import Program
from fleetlore.programs.registry import find_program, load_programs


class KnownFormat(NamedTuple):
    """A format of sessions."""

    title: str
    """The program, for people."""
    name: str | None = None
    """The program's name, if it has a reader."""


class _UnreadFormat(NamedTuple):
    title: str
    recognises: Callable[[Record], bool] = lambda record: False
    tables: frozenset[str] = frozenset()
    """Tables of its database, if it keeps one."""


_WITHOUT_READER = (
    _UnreadFormat("Crush", tables=frozenset(("sessions", "messages", "files"))),
    _UnreadFormat("Cursor", tables=frozenset(("blobs", "meta"))),
    _UnreadFormat("Cursor", tables=frozenset(("ItemTable", "cursorDiskKV"))),
    _UnreadFormat("Hermes", tables=frozenset(("sessions", "messages", "state_meta"))),
    _UnreadFormat("Goose", lambda record: {"working_dir", "description", "message_count"} <= record.keys()),
    _UnreadFormat("Cursor", lambda record: "role" in record and isinstance(record.get("message"), dict) and "type" not in record),
    _UnreadFormat("Amp", lambda record: "messages" in record and str(record.get("id", "")).startswith("T-")),
    _UnreadFormat("Harbor (ATIF)", lambda record: str(record.get("schema_version", "")).startswith("ATIF-")),
    _UnreadFormat(
        "SWE-agent", lambda record: isinstance(record.get("history"), list) and bool(record.keys() & {"trajectory", "environment"})
    ),
    _UnreadFormat("SWE-agent", lambda record: record.keys() == {"history"}),
    _UnreadFormat("mini-SWE-agent", lambda record: str(record.get("trajectory_format", "")).startswith("mini-swe-agent")),
)


def has_signs(program: Program) -> bool:
    """Whether a program says how its records are recognised."""
    return type(program).recognises is not Program.recognises


def is_of_program(name: str, records: Sequence[Record]) -> bool:
    """Whether some of these records can only be from the transcripts of a program, or the program cannot tell."""
    program = find_program(name)
    return program is None or not has_signs(program) or any(map(program.recognises, records))


def find_format(records: Sequence[Record]) -> KnownFormat | None:
    """The program that wrote these first records of a file."""
    for program in load_programs():
        if any(map(program.recognises, records)):
            return KnownFormat(program.title, program.name)
    found = next((each for each in _WITHOUT_READER if any(map(each.recognises, records))), None)
    return None if found is None else KnownFormat(found.title)


def find_database_format(tables: Collection[str]) -> KnownFormat | None:
    """The program without a reader that keeps a database with these tables."""
    found = next((each for each in _WITHOUT_READER if each.tables and each.tables <= set(tables)), None)
    return None if found is None else KnownFormat(found.title)
