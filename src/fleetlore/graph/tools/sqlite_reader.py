"""Queries an SQLite file: opened read-only, every operation authorized, interrupted after the timeout."""

from __future__ import annotations

import os
from functools import partial
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import quote

import apsw

from fleetlore.errors import QueryFailed
from fleetlore.graph.tools.database import Database, QueryLimits, Table
from fleetlore.graph.tools.gathering import TableBuilder
from fleetlore.graph.tools.sql_names import ALLOWED_FUNCTIONS
from fleetlore.graph.tools.threads import run_in_thread

_PROGRESS_STEPS = 2_000
"""SQLite instructions between two checks of the clock; a few microseconds."""
_MAX_VALUE_BYTES = 8 << 20
"""Limit of one value, including intermediate results."""
_BUSY_TIMEOUT_MS = 1_000
_ALLOWED_PRAGMAS = (
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
    "data_version",
)
"""Pragmas that describe tables; full-text tables use `data_version` themselves."""
_INTERNAL_FUNCTIONS = frozenset(("match", "regexp", "->", "->>", "fts5"))
"""Internal names of operators and of full-text tables."""


async def read_table(database: Database, sql: str, limits: QueryLimits) -> Table:
    """Run the query; raises `QueryFailed`."""
    stop = Event()
    return await run_in_thread(partial(_fetch_table, database, sql, limits, stop), stop.set)


def _fetch_table(database: Database, sql: str, limits: QueryLimits, stop: Event) -> Table:
    deadline, builder = monotonic() + limits.seconds, TableBuilder(limits)
    connection = _open_read_only(database)
    try:
        _restrict_connection(connection)
        connection.set_progress_handler(lambda: stop.is_set() or monotonic() >= deadline, _PROGRESS_STEPS)
        cursor = connection.cursor()
        cursor.exec_trace = partial(_set_columns, builder)
        for row in cursor.execute(sql):
            if not builder.add_row(row):
                break
    except apsw.InterruptError as error:
        raise QueryFailed(f"it took more than {limits.seconds:g} s and was stopped; ask for less, or for fewer rows at a time") from error
    except UnicodeDecodeError as error:
        raise QueryFailed("a value is not text in UTF-8; ask for it with hex()") from error
    except apsw.Error as error:
        raise QueryFailed(_error_message(error)) from error
    finally:
        connection.close(True)
    return builder.build_table()


def _open_read_only(database: Database) -> apsw.Connection:
    path = os.path.abspath(database.path)
    if not os.path.isfile(path):
        raise QueryFailed(f"the file of database {database.name} does not exist; check its URL in the settings")
    try:
        return apsw.Connection(f"file:{quote(path)}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise QueryFailed(f"the file of database {database.name} cannot be opened: {_error_message(error)}") from error


def _restrict_connection(connection: apsw.Connection) -> None:
    """Second line of defence: nothing can be written, attached or loaded, and no value gets too large."""
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    for name, value in (("query_only", 1), ("trusted_schema", 0), ("cell_size_check", 1), ("mmap_size", 0)):
        connection.pragma(name, value)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.enable_load_extension(False)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.limit(apsw.SQLITE_LIMIT_WORKER_THREADS, 0)
    connection.authorizer = _authorize_action


def _authorize_action(action: int, first_argument: str | None, second_argument: str | None, *_: Any) -> int:
    allowed = ALLOWED_FUNCTIONS["sqlite"] | _INTERNAL_FUNCTIONS
    match action:
        case apsw.SQLITE_SELECT | apsw.SQLITE_RECURSIVE | apsw.SQLITE_READ:
            return apsw.SQLITE_OK
        case apsw.SQLITE_FUNCTION if (second_argument or "").lower() in allowed:
            return apsw.SQLITE_OK
        case apsw.SQLITE_PRAGMA if (first_argument or "").lower() in _ALLOWED_PRAGMAS:
            return apsw.SQLITE_OK
        case _:
            return apsw.SQLITE_DENY


def _set_columns(builder: TableBuilder, cursor: apsw.Cursor, *_: Any) -> bool:
    builder.set_columns(name for name, *_ in cursor.get_description())
    return True


def _error_message(error: Exception) -> str:
    line = " ".join(str(error).removeprefix("SQLError: ").split())[:300]
    return f"SQLite says: {line}" if line else "SQLite cannot answer it"
