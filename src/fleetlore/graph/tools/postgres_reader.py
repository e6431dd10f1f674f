"""Queries PostgreSQL: one prepared statement (which cannot contain a second one) in a read-only transaction.

The only module that imports asyncpg.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg

from fleetlore.errors import QueryFailed
from fleetlore.graph.tools.database import Database, QueryLimits, Table
from fleetlore.graph.tools.gathering import TableBuilder
from fleetlore.redact import Redactor

_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""Extra seconds for the server's own timeout before we disconnect."""
_ROW_ALIAS = "fleetlore_row"
_NATIVE_TYPES = ("bool", "bytea", "float4", "float8", "int2", "int4", "int8", "json", "jsonb", "numeric", "text", "varchar")
"""Types that Python represents exactly; all others (infinite dates, ranges …) are cast to text by the server."""
_TOO_WIDE_MARK = "a row is too wide"


async def read_table(database: Database, sql: str, limits: QueryLimits) -> Table:
    """Run the query; raises `QueryFailed`. If cancelled, it is cancelled on the server as well."""
    connection = await _connect_read_only(database)
    try:
        async with asyncio.timeout(limits.seconds + _GRACE_SECONDS):
            return await _fetch_table(connection, sql, limits)
    except (TimeoutError, asyncpg.QueryCanceledError) as error:
        raise QueryFailed(f"it took more than {limits.seconds:g} s and was stopped; ask for less, or for fewer rows at a time") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError, OverflowError) as error:
        raise QueryFailed(_error_message(error, limits)) from error
    finally:
        await _close_connection(connection)


async def _fetch_table(connection: Any, sql: str, limits: QueryLimits) -> Table:
    builder = TableBuilder(limits)
    transaction = connection.transaction(readonly=True)
    await transaction.start()
    try:
        await _configure_session(connection, limits)
        # Prepared unwrapped first, for its columns, and so that errors refer to the query as written.
        columns = (await connection.prepare(sql)).get_attributes()
        if not columns:
            raise QueryFailed("it asks for no column")
        builder.set_columns(column.name for column in columns)
        # A plan cannot be wrapped; it is short, and made of texts.
        limited = sql if sql.startswith("EXPLAIN ") else _wrap_with_limits(sql, [column.type.name for column in columns], limits)
        cursor = await (await connection.prepare(limited)).cursor()
        for row in await cursor.fetch(limits.rows + 1):
            if not builder.add_row(tuple(row.values())):
                break
    finally:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await transaction.rollback()
    return builder.build_table()


async def _configure_session(connection: Any, limits: QueryLimits) -> None:
    ms = max(1, round(limits.seconds * 1000))
    settings = {
        "statement_timeout": ms,
        "lock_timeout": ms,
        "idle_in_transaction_session_timeout": ms + round(_GRACE_SECONDS * 1000),
        # Strings are parsed as `sql_check` parsed them.
        "standard_conforming_strings": "on",
        "datestyle": "ISO",
        "intervalstyle": "postgres",
    }
    await connection.execute("; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))


def _wrap_with_limits(sql: str, types: list[str], limits: QueryLimits) -> str:
    """Limit the number of rows, and raise an error for a row that is too large for our memory."""
    names = [f"c{number}" for number in range(len(types))]
    selected = (name if kind in _NATIVE_TYPES else f"{name}::text" for name, kind in zip(names, types, strict=True))
    limited = f"SELECT * FROM ({sql}\n) AS {_ROW_ALIAS} LIMIT {limits.rows + 1}"
    size = f"pg_column_size({_ROW_ALIAS})"
    # The failing cast must depend on the row; otherwise the planner evaluates it as a constant.
    fits = f"CASE WHEN {size} <= {limits.bytes} THEN true ELSE ('{_TOO_WIDE_MARK}' || {size})::boolean END"
    return f"SELECT {', '.join(selected)} FROM ({limited}) AS {_ROW_ALIAS}({', '.join(names)}) WHERE {fits}"


async def _connect_read_only(database: Database) -> Any:
    try:
        return await asyncpg.connect(
            host=database.socket or database.host,
            port=database.port,
            user=database.user,
            # An empty string, because with `None` asyncpg reads the environment.
            password=database.password,
            database=database.database,
            ssl=database.tls,
            timeout=_CONNECT_SECONDS,
            statement_cache_size=0,
            server_settings={"application_name": "fleetlore", "default_transaction_read_only": "on"},
        )
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError, TimeoutError) as error:
        reason = f" ({type(error).__name__})"
        raise QueryFailed(f"database {database.name} refused the connection or did not answer{reason}; check its URL") from error


async def _close_connection(connection: Any) -> None:
    try:
        await connection.close(timeout=_GRACE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


def _error_message(error: Exception, limits: QueryLimits) -> str:
    if _TOO_WIDE_MARK in str(error):
        return f"a row is over {limits.bytes:,} bytes; ask for fewer columns, or for parts of them, as in left(text, 200)"
    hint = getattr(error, "hint", None)
    line = " ".join(f"{error} {hint or ''}".split())[:300]
    return f"PostgreSQL says: {Redactor().redact_value(line)[0]}"
