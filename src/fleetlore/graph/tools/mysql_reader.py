"""Queries MariaDB and MySQL: in a read-only transaction, killed on the server after the timeout.

The only module that imports PyMySQL.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from ssl import create_default_context
from threading import Event
from time import monotonic
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from fleetlore.errors import QueryFailed
from fleetlore.graph.tools.database import Database, QueryLimits, Table
from fleetlore.graph.tools.gathering import TableBuilder
from fleetlore.graph.tools.threads import run_in_thread
from fleetlore.redact import Redactor

_CONNECT_SECONDS = 10
_GRACE_SECONDS = 5.0
"""Extra seconds for the server's own timeout before we kill the statement."""
_STOPPED_ERRORS = (1028, 1317, 1969, 3024)
"""Error numbers for a statement that the server stopped."""
_CONNECTION_LOST = 2013
"""Lost connection, or read timeout."""
_SQL_MODE = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"
"""Strings and names are parsed as `sql_check` parsed them: backslashes escape, double quotes are strings."""


async def read_table(database: Database, sql: str, limits: QueryLimits) -> Table:
    """Run the query; raises `QueryFailed`. If cancelled, it is killed on the server as well."""
    mysql_query = _MysqlQuery(database, limits)
    return await run_in_thread(partial(mysql_query.fetch_table, sql), mysql_query.stop)


class _MysqlQuery:
    """One query, run in a thread; `stop` may be called from another thread."""

    def __init__(self, database: Database, limits: QueryLimits) -> None:
        self._database, self._limits = database, limits
        self._thread_id: int | None = None
        self._stopped = Event()

    def stop(self) -> None:
        self._stopped.set()
        self._kill_query()

    def fetch_table(self, sql: str) -> Table:
        connection = self._open_connection(self._limits.seconds + _GRACE_SECONDS)
        self._thread_id = connection.thread_id()
        try:
            self._configure_session(connection)
            return self._execute_query(connection, sql)
        except TimeoutError as error:
            raise QueryFailed(self._timeout_message()) from error
        except (pymysql.MySQLError, OSError, ValueError, OverflowError) as error:
            raise QueryFailed(self._error_message(error)) from error
        finally:
            with suppress(pymysql.MySQLError, OSError):
                connection.close()

    def _execute_query(self, connection: Any, sql: str) -> Table:
        builder, cursor, is_complete = TableBuilder(self._limits), connection.cursor(), False
        try:
            cursor.execute(sql)
            builder.set_columns(column[0] for column in cursor.description or ())
            is_complete = self._fetch_rows(cursor, builder)
        except pymysql.MySQLError as error:
            is_complete = error.args[:1] != (_CONNECTION_LOST,)
            raise
        finally:
            if not is_complete:
                # Closing the cursor would read all remaining rows.
                self._kill_query()
            with suppress(pymysql.MySQLError, OSError):
                cursor.close()
        return builder.build_table()

    def _fetch_rows(self, cursor: Any, builder: TableBuilder) -> bool:
        """Fetch rows up to the limits; returns whether these were all."""
        deadline = monotonic() + self._limits.seconds
        while (row := cursor.fetchone()) is not None:
            if self._stopped.is_set() or not builder.add_row(row):
                return False
            if monotonic() >= deadline:
                raise TimeoutError
        return True

    def _configure_session(self, connection: Any) -> None:
        seconds = self._limits.seconds
        is_mariadb = "mariadb" in connection.get_server_info().lower()
        time_limit = f"max_statement_time = {seconds:.3f}" if is_mariadb else f"max_execution_time = {round(seconds * 1000)}"
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {time_limit}, sql_mode = '{_SQL_MODE}', group_concat_max_len = {self._limits.bytes}")
            cursor.execute("START TRANSACTION READ ONLY")

    def _kill_query(self) -> None:
        """A statement can only be killed from another connection."""
        if self._thread_id is None:
            return
        with suppress(pymysql.MySQLError, OSError, QueryFailed):
            other = self._open_connection(_GRACE_SECONDS)
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(self._thread_id)}")
            finally:
                other.close()

    def _open_connection(self, timeout: float) -> Any:
        database = self._database
        try:
            return pymysql.connect(
                host=database.host,
                port=database.port,
                unix_socket=database.socket or None,
                user=database.user,
                password=database.password,
                database=database.database,
                charset="utf8mb4",
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=timeout,
                write_timeout=timeout,
                local_infile=False,
                ssl=create_default_context() if database.tls else None,
                ssl_disabled=not database.tls,
                cursorclass=SSCursor,
                init_command="SET SESSION TRANSACTION READ ONLY",
            )
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            reason = error.args[0] if error.args and isinstance(error.args[0], int) else type(error).__name__
            raise QueryFailed(f"database {database.name} refused the connection or did not answer ({reason}); check its URL") from error

    def _timeout_message(self) -> str:
        return f"it took more than {self._limits.seconds:g} s and was stopped; ask for less, or for fewer rows at a time"

    def _error_message(self, error: Exception) -> str:
        number, *messages = error.args or (0,)
        if number in _STOPPED_ERRORS or "timed out" in str(error):
            return self._timeout_message()
        line = " ".join(" ".join(map(str, messages)).split())[:300]
        return f"the server says: {Redactor().redact_value(line)[0]}"
