"""Reads from PostgreSQL: one prepared statement, which can hold no second, in a transaction for reading only.

The only module that knows asyncpg.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg

from fleetlore.errors import QueryFailed
from fleetlore.graph.tools.database import Database, Limits, Table
from fleetlore.graph.tools.gathering import TableBuilder
from fleetlore.redact import Redactor

_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""Seconds that the server has to end a statement by itself, before we go."""
_ROW_ALIAS = "fleetlore_row"
_NATIVE_TYPES = ("bool", "bytea", "float4", "float8", "int2", "int4", "int8", "json", "jsonb", "numeric", "text", "varchar")
"""What Python knows as well as the server; of everything else, from infinite dates to ranges, the server's own words are taken."""
_TOO_WIDE_MARK = "a row is too wide"


async def read_table(database: Database, sql: str, limits: Limits) -> Table:
    """What the query finds; `QueryFailed` if it finds nothing that can be told. Cancelled, it ends on the server, too."""
    connection = await _connect(database)
    try:
        async with asyncio.timeout(limits.seconds + _GRACE_SECONDS):
            return await _fetch_table(connection, sql, limits)
    except (TimeoutError, asyncpg.QueryCanceledError) as error:
        raise QueryFailed(f"it took more than {limits.seconds:g} s and was stopped; ask for less, or for fewer rows at a time") from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError, OverflowError) as error:
        raise QueryFailed(_error_message(error, limits)) from error
    finally:
        await _close_connection(connection)


async def _fetch_table(connection: Any, sql: str, limits: Limits) -> Table:
    found = TableBuilder(limits)
    transaction = connection.transaction(readonly=True)
    await transaction.start()
    try:
        await _configure_session(connection, limits)
        # Alone first: its columns are learnt, and what is wrong is told of the query as it was asked.
        columns = (await connection.prepare(sql)).get_attributes()
        if not columns:
            raise QueryFailed("it asks for no column")
        found.set_columns(column.name for column in columns)
        cursor = await (await connection.prepare(_wrap_with_limits(sql, [column.type.name for column in columns], limits))).cursor()
        for row in await cursor.fetch(limits.rows + 1):
            if not found.add_row(tuple(row.values())):
                break
    finally:
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            await transaction.rollback()
    return found.build_table()


async def _configure_session(connection: Any, limits: Limits) -> None:
    ms = max(1, round(limits.seconds * 1000))
    settings = {
        "statement_timeout": ms,
        "lock_timeout": ms,
        "idle_in_transaction_session_timeout": ms + round(_GRACE_SECONDS * 1000),
        # As the check has read strings.
        "standard_conforming_strings": "on",
        "datestyle": "ISO",
        "intervalstyle": "postgres",
    }
    await connection.execute("; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))


def _wrap_with_limits(sql: str, types: list[str], limits: Limits) -> str:
    """The same rows, no more than are wanted, and an error in place of one that would fill our memory."""
    names = [f"c{number}" for number in range(len(types))]
    wanted = (name if kind in _NATIVE_TYPES else f"{name}::text" for name, kind in zip(names, types, strict=True))
    few = f"SELECT * FROM ({sql}\n) AS {_ROW_ALIAS} LIMIT {limits.rows + 1}"
    size = f"pg_column_size({_ROW_ALIAS})"
    # What fails has to hang on the row, or the planner would try it once and for all.
    fits = f"CASE WHEN {size} <= {limits.bytes} THEN true ELSE ('{_TOO_WIDE_MARK}' || {size})::boolean END"
    return f"SELECT {', '.join(wanted)} FROM ({few}) AS {_ROW_ALIAS}({', '.join(names)}) WHERE {fits}"


async def _connect(database: Database) -> Any:
    try:
        return await asyncpg.connect(
            host=database.socket or database.host,
            port=database.port,
            user=database.user,
            # Nothing, and not `None`: then it would be looked for in the environment.
            password=database.password,
            database=database.database,
            ssl=database.tls,
            timeout=_CONNECT_SECONDS,
            statement_cache_size=0,
            server_settings={"application_name": "fleetlore", "default_transaction_read_only": "on"},
        )
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError, TimeoutError) as error:
        reason = f" ({type(error).__name__})"
        raise QueryFailed(f"database {database.name} does not let us in or does not answer{reason}; see to its address") from error


async def _close_connection(connection: Any) -> None:
    try:
        await connection.close(timeout=_GRACE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        connection.terminate()


def _error_message(error: Exception, limits: Limits) -> str:
    if _TOO_WIDE_MARK in str(error):
        return f"a row is over {limits.bytes:,} bytes; ask for fewer columns, or for parts of them, as in left(text, 200)"
    hint = getattr(error, "hint", None)
    line = " ".join(f"{error} {hint or ''}".split())[:300]
    return f"PostgreSQL says: {Redactor().redact_value(line)[0]}"
