"""Reads from MariaDB and MySQL: in a transaction for reading only, killed on the server when it takes too long.

The only module that knows PyMySQL.
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
from fleetlore.graph.tools.database import Database, Limits, Table
from fleetlore.graph.tools.gathering import TableBuilder
from fleetlore.graph.tools.threads import run_in_thread
from fleetlore.redact import Redactor

_CONNECT_SECONDS = 10
_GRACE_SECONDS = 5.0
"""Seconds that the server has to end a statement by itself, before we have it killed."""
_STOPPED_ERRORS = (1028, 1317, 1969, 3024)
"""The numbers under which a server tells that it stopped a statement."""
_CONNECTION_LOST = 2013
"""The connection, or our patience with it."""
_SQL_MODE = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES"
"""Strings and names as the check has read them: backslashes escape, double quotes are strings."""


async def read_table(database: Database, sql: str, limits: Limits) -> Table:
    """What the query finds; `QueryFailed` if it finds nothing that can be told. Cancelled, it ends on the server, too."""
    reading = _MysqlQuery(database, limits)
    return await run_in_thread(partial(reading.fetch_table, sql), reading.stop)


class _MysqlQuery:
    """One query, in a thread; `stop` may come from any other."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database, self._limits = database, limits
        self._thread_id: int | None = None
        self._stopped = Event()

    def stop(self) -> None:
        """Has the server end it."""
        self._stopped.set()
        self._kill_query()

    def fetch_table(self, sql: str) -> Table:
        """All of it, or as much as is wanted."""
        connection = self._connect(self._limits.seconds + _GRACE_SECONDS)
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
        found, cursor, is_over = TableBuilder(self._limits), connection.cursor(), False
        try:
            cursor.execute(sql)
            found.set_columns(column[0] for column in cursor.description or ())
            is_over = self._fetch_rows(cursor, found)
        except pymysql.MySQLError as error:
            is_over = error.args[:1] != (_CONNECTION_LOST,)
            raise
        finally:
            if not is_over:
                # What is left unread would be read to its end with the cursor's.
                self._kill_query()
            with suppress(pymysql.MySQLError, OSError):
                cursor.close()
        return found.build_table()

    def _fetch_rows(self, cursor: Any, found: TableBuilder) -> bool:
        """Takes rows for as long as they are wanted; whether that were all."""
        end = monotonic() + self._limits.seconds
        while (row := cursor.fetchone()) is not None:
            if self._stopped.is_set() or not found.add_row(row):
                return False
            if monotonic() >= end:
                raise TimeoutError
        return True

    def _configure_session(self, connection: Any) -> None:
        seconds = self._limits.seconds
        is_mariadb = "mariadb" in connection.get_server_info().lower()
        longest = f"max_statement_time = {seconds:.3f}" if is_mariadb else f"max_execution_time = {round(seconds * 1000)}"
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {longest}, sql_mode = '{_SQL_MODE}', group_concat_max_len = {self._limits.bytes}")
            cursor.execute("START TRANSACTION READ ONLY")

    def _kill_query(self) -> None:
        """A statement can be ended only from another connection."""
        if self._thread_id is None:
            return
        with suppress(pymysql.MySQLError, OSError, QueryFailed):
            other = self._connect(_GRACE_SECONDS)
            try:
                with other.cursor() as cursor:
                    cursor.execute(f"KILL QUERY {int(self._thread_id)}")
            finally:
                other.close()

    def _connect(self, patience: float) -> Any:
        place = self._database
        try:
            return pymysql.connect(
                host=place.host,
                port=place.port,
                unix_socket=place.socket or None,
                user=place.user,
                password=place.password,
                database=place.database,
                charset="utf8mb4",
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=patience,
                write_timeout=patience,
                local_infile=False,
                ssl=create_default_context() if place.tls else None,
                ssl_disabled=not place.tls,
                cursorclass=SSCursor,
                init_command="SET SESSION TRANSACTION READ ONLY",
            )
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            reason = error.args[0] if error.args and isinstance(error.args[0], int) else type(error).__name__
            raise QueryFailed(f"database {place.name} does not let us in or does not answer ({reason}); see to its address") from error

    def _timeout_message(self) -> str:
        return f"it took more than {self._limits.seconds:g} s and was stopped; ask for less, or for fewer rows at a time"

    def _error_message(self, error: Exception) -> str:
        number, *words = error.args or (0,)
        if number in _STOPPED_ERRORS or "timed out" in str(error):
            return self._timeout_message()
        line = " ".join(" ".join(map(str, words)).split())[:300]
        return f"the server says: {Redactor().redact_value(line)[0]}"
