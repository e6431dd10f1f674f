"""`query_db`: runs one read-only query and returns a table.

Two independent protections: the query is parsed and every part of it must be known to be read-only (`sql_check.py`); and the connection
or transaction is read-only, with a timeout on the server (`sqlite_reader.py`, `postgres_reader.py`, `mysql_reader.py`).
`QueryRefused` and `QueryFailed` are worded so that a model can correct itself; asking it again is up to the caller.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from fleetlore.errors import QueryFailed
from fleetlore.graph.tools.database import Database, DatabaseKind, QueryLimits, Table
from fleetlore.graph.tools.sql_names import SqlDialect

__all__ = ["Database", "QueryLimits", "Table", "read_outline", "run_query"]

_ReadTable: TypeAlias = Callable[[Database, str, QueryLimits], Awaitable[Table]]

_DIALECT_BY_KIND: dict[DatabaseKind, SqlDialect] = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql"}

_COLUMNS_QUERY = "SELECT table_name AS table_name, column_name AS column_name, data_type AS type FROM information_schema.columns"
_OUTLINE_QUERIES: dict[DatabaseKind, str] = {
    "sqlite": (
        "SELECT t.name AS table_name, c.name AS column_name, c.type AS type FROM sqlite_master AS t, pragma_table_info(t.name) AS c "
        "WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY t.name, c.cid"
    ),
    "postgresql": f"{_COLUMNS_QUERY} WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY table_name, ordinal_position",
    "mysql": f"{_COLUMNS_QUERY} WHERE table_schema = database() ORDER BY table_name, ordinal_position",
}


async def run_query(database: Database, sql: str, *, limits: QueryLimits | None = None) -> Table:
    """Run a query. Raises `QueryRefused` if it may do more than read, `QueryFailed` if the database cannot answer."""
    with _require_sql_extra():
        # In a thread: importing the parser takes half a second, and long queries take time to parse.
        checked = await asyncio.to_thread(_check_statement, sql, database.kind)
        return await _load_reader(database.kind)(database, checked, limits or QueryLimits())


_SHOW_TABLES = re.compile(r"\s*SHOW\s+(?:FULL\s+)?TABLES\s*(?:;\s*)?", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"\s*(?:(?:DESCRIBE|DESC)(?:\s++TABLE)?|SHOW\s++(?:FULL\s++)?(?:COLUMNS|FIELDS)\s++(?:FROM|IN))\s++[`\"]?(?P<table>[A-Za-z_][\w$]{0,63})[`\"]?\s*(?:;\s*)?",
    re.IGNORECASE,
)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:QUERY\s+PLAN\s+)?(?P<query>(?:SELECT|WITH|VALUES)\b.*)", re.IGNORECASE | re.DOTALL)
_EXPLAIN_PREFIX: dict[DatabaseKind, str] = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN ", "mysql": "EXPLAIN "}


def _check_statement(sql: str, kind: DatabaseKind) -> str:
    """The statement to send. SHOW and DESCRIBE become queries of ours; EXPLAIN is allowed for a query that is."""
    from fleetlore.graph.tools.sql_check import check_query

    dialect = _DIALECT_BY_KIND[kind]
    if _SHOW_TABLES.fullmatch(sql):
        sql = f"SELECT DISTINCT table_name FROM ({_OUTLINE_QUERIES[kind]}) AS outline ORDER BY table_name"
    elif described := _DESCRIBE.fullmatch(sql):
        sql = (
            f"SELECT column_name, type FROM ({_OUTLINE_QUERIES[kind]}) AS outline WHERE lower(table_name) = '{described['table'].lower()}'"
        )
    elif explained := _EXPLAIN.fullmatch(sql):
        return _EXPLAIN_PREFIX[kind] + check_query(explained["query"], dialect)
    return check_query(sql, dialect)


async def read_outline(database: Database, *, limits: QueryLimits | None = None) -> Table:
    """The tables and columns of a database, one row per column."""
    return await run_query(database, _OUTLINE_QUERIES[database.kind], limits=limits)


def _load_reader(kind: DatabaseKind) -> _ReadTable:
    """Each client library is imported on first use."""
    if kind == "sqlite":
        from fleetlore.graph.tools.sqlite_reader import read_table
    elif kind == "postgresql":
        from fleetlore.graph.tools.postgres_reader import read_table
    else:
        from fleetlore.graph.tools.mysql_reader import read_table
    return read_table


@contextmanager
def _require_sql_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise QueryFailed(f"databases cannot be asked here ({error.name} is missing); pip install 'fleetlore[sql]'") from error
