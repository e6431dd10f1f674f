"""`query_db` against real PostgreSQL and real MariaDB, from Debian's packages: every attack, as those who may do everything.

The servers listen on loopback alone, keep their data in the given folder, run as a user that may do nothing, and end with us.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import asyncpg
import pymysql
from tests.graph.tools.attacks import ATTACKS, statement
from tests.patience import PATIENCE
from tests.servers import free_port

from fleetlore.errors import QueryFailed, QueryRefused
from fleetlore.graph.tools import mysql_reader, postgres_reader
from fleetlore.graph.tools.database import Database, QueryLimits, Table
from fleetlore.graph.tools.query_db import read_outline, run_query
from fleetlore.graph.tools.sql_names import SqlDialect

WIDE = "a row is over 262,144 bytes; ask for fewer columns, or for parts of them, as in left(text, 200)"
NASTY = (
    "",
    "it's",
    'say "hi"',
    "back\\slash",
    "\\'",
    "'; DROP TABLE lamps; --",
    "/* no */",
    "-- no",
    "a\nb\tc",
    "%s %d {}",
    "é😀\u200b",
    "`",
    "$$",
)


class Server(ABC):
    """One server with its own data; `reader` may do everything that there is to do on it."""

    dialect: SqlDialect
    packages: tuple[str, ...]
    endless: str
    wide: str
    values: tuple[str, ...]
    """Of every type that there is, and at its ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.port = folder, free_port()
        self.secret = folder / "secret.txt"
        self.secret.write_text("a file of the server")
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
            shutil.chown(self.secret, self._user)

    def run(self, *command: str) -> None:
        """Something that has to be done before."""
        done = subprocess.run(command, **self._place(), capture_output=True, text=True)
        assert done.returncode == 0, f"{command[0]}: {done.stderr[-500:]}"

    @contextmanager
    def started(self) -> Iterator[Server]:
        """Started, for as long as it is needed."""
        self.prepare()
        with open(self.folder / "server.out", "wb") as out:
            process = subprocess.Popen(self.command(), **self._place(), stdout=out, stderr=subprocess.STDOUT)
        try:
            asyncio.run(self._until_it_answers(process))
            yield self
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def _until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                assert process.poll() is None, (self.folder / "server.out").read_text()[-800:]
                try:
                    return await self.furnish()
                except (OSError, asyncpg.PostgresError, pymysql.MySQLError):
                    await asyncio.sleep(0.1)

    def _place(self) -> dict[str, Any]:
        """As whom and where it runs, and what it sees."""
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        owner = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid} if self._user else {}
        return {"cwd": self.folder, "env": env, **owner}

    @property
    @abstractmethod
    def database(self) -> Database:
        """As a graph has it."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes its data."""

    @abstractmethod
    def command(self) -> list[str]:
        """How it is started."""

    @abstractmethod
    async def furnish(self) -> None:
        """Tables, functions and whatever an attack could reach for."""

    @abstractmethod
    async def state(self) -> str:
        """Everything in it that could have been changed."""

    @abstractmethod
    async def busy(self) -> int:
        """How many statements run for readers."""

    @abstractmethod
    async def unchecked(self, sql: str, *, seconds: float = 2.0) -> Table:
        """The reader alone, as if the check had been fooled."""


class Postgres(Server):
    """PostgreSQL; the reader is its superuser."""

    dialect = "postgres"
    packages = ("postgresql", "postgresql-contrib")
    endless = "SELECT count(*) FROM generate_series(1, 100000000000) AS g(n)"
    wide = "SELECT repeat('x', 200000000)"
    values = (
        "'NaN'::numeric",
        "'infinity'::float8",
        "1e300::numeric",
        "'infinity'::timestamptz",
        "'4713-01-01 BC'::date",
        "'5000-01-01'::date",
        "'294276-12-31'::timestamp",
        "interval '178000000 years'",
        "'24:00'::time",
        "'1'::bit(3)",
        "'10.0.0.1/8'::inet",
        "'[1,5)'::int4range",
        "ARRAY[[1,2],[3,4]]",
        "ROW(1,'a')",
        "'{\"a\": [1]}'::jsonb",
        "'\\x00ff'::bytea",
        "NULL",
        "'a'",
        "to_tsvector('fox')",
        "'5'::money",
        "ARRAY[now()]",
        "tsrange(now()::timestamp, NULL)",
        "ROW(now(), 1)",
        "jsonb_build_object('at', now())",
        "interval '1 month 2 days'",
    )

    @property
    def database(self) -> Database:
        return Database(
            name="shop", kind="postgresql", host="127.0.0.1", port=self.port, user="reader", password="hush", database="postgres"
        )

    def prepare(self) -> None:
        # Debian has its programs in a folder of their version.
        self._bin = str(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))[-1].parent)
        password = self.folder / "password"
        password.write_text("hush")
        password.chmod(0o644)
        who = ("-U", "reader", "-A", "scram-sha-256", "--pwfile", str(password))
        self.run(f"{self._bin}/initdb", "--no-sync", *who, "-D", f"{self.folder}/data")

    def command(self) -> list[str]:
        data = f"{self.folder}/data"
        return [
            f"{self._bin}/postgres", "-D", data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
            "-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off",
        ]  # fmt: skip

    async def furnish(self) -> None:
        connection = await self._connected()
        await connection.execute("""
            CREATE EXTENSION IF NOT EXISTS dblink;
            CREATE TABLE lamps (id serial PRIMARY KEY, name text, price numeric, made timestamptz DEFAULT now(), tags text[], extra jsonb);
            INSERT INTO lamps (name, price, tags, extra) VALUES ('lit', 1.50, '{a,b}', '{"k": 1}'), ('out', NULL, NULL, NULL);
            CREATE FUNCTION loot(int DEFAULT 1) RETURNS int LANGUAGE sql VOLATILE AS 'DELETE FROM lamps; SELECT 1';
            CREATE DOMAIN loot_type AS text;
        """)
        await connection.close()

    async def state(self) -> str:
        connection = await self._connected()
        rows = await connection.fetch("SELECT * FROM lamps ORDER BY id")
        names = await connection.fetch("SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1")
        large = await connection.fetch("SELECT oid FROM pg_largeobject_metadata")
        last = await connection.fetch("SELECT last_value, is_called FROM lamps_id_seq")
        await connection.close()
        return f"{rows} {names} {large} {last} {_files(self.folder)}"

    async def busy(self) -> int:
        connection = await self._connected()
        count: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fleetlore' AND state <> 'idle'"
        )
        await connection.close()
        return count

    async def unchecked(self, sql: str, *, seconds: float = 2.0) -> Table:
        return await postgres_reader.read_table(self.database, sql, QueryLimits(seconds=seconds))

    async def _connected(self) -> asyncpg.Connection:
        return await asyncpg.connect(host="127.0.0.1", port=self.port, user="reader", password="hush", database="postgres")


class MariaDB(Server):
    """MariaDB; the reader is its root, who may read and write files."""

    dialect = "mysql"
    packages = ("mariadb-server-core", "mariadb-client-core")
    endless = "SELECT count(*) FROM seq_1_to_100000000 AS a, seq_1_to_100000000 AS b"
    wide = "SELECT repeat('x', 15000000)"
    values = (
        "CAST('838:59:59' AS time)",
        "CAST('9999-12-31' AS datetime)",
        "CAST('0000-00-00' AS date)",
        "1e308",
        "CAST(1e60 AS decimal(65, 2))",
        "18446744073709551615",
        "b'101'",
        "x'00ff'",
        "JSON_OBJECT('a', 1)",
        "NULL",
        "TRUE",
        "'é😀'",
        "CAST('a' AS binary)",
        "1 / 0",
    )

    @property
    def database(self) -> Database:
        return Database(name="shop", kind="mysql", host="127.0.0.1", port=self.port, user="reader", password="hush", database="shop")

    def prepare(self) -> None:
        self.run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/data", "--auth-root-authentication-method=normal",
            "--skip-test-db", "--skip-name-resolve",
        )  # fmt: skip

    def command(self) -> list[str]:
        return [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={self.folder}/data", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--socket={self.folder}/socket", "--skip-name-resolve", f"--pid-file={self.folder}/pid",
            f"--tmpdir={self.folder}",
        ]  # fmt: skip

    async def furnish(self) -> None:
        connection = pymysql.connect(unix_socket=f"{self.folder}/socket", user="root")
        with connection, connection.cursor() as cursor:
            for line in (
                "CREATE USER IF NOT EXISTS reader@'127.0.0.1' IDENTIFIED BY 'hush'",
                "GRANT ALL ON *.* TO reader@'127.0.0.1'",
                "CREATE DATABASE shop",
                "USE shop",
                "CREATE TABLE lamps (id int AUTO_INCREMENT PRIMARY KEY, name text, price decimal(8, 2), raw blob)",
                "INSERT INTO lamps (name, price, raw) VALUES ('lit', 1.50, x'00ff'), ('out', NULL, NULL)",
                "CREATE SEQUENCE counter",
                "CREATE FUNCTION loot(a int) RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM lamps; RETURN 1; END",
            ):
                cursor.execute(line)
            connection.commit()

    async def state(self) -> str:
        connection = pymysql.connect(unix_socket=f"{self.folder}/socket", user="root", database="shop")
        with connection, connection.cursor() as cursor:
            found = []
            for line in ("SELECT * FROM lamps", "SHOW TABLES", "SHOW DATABASES", "SELECT * FROM counter", "SELECT @@global.read_only"):
                cursor.execute(line)
                found.append(cursor.fetchall())
        return f"{found} {_files(self.folder)}"

    async def busy(self) -> int:
        connection = pymysql.connect(unix_socket=f"{self.folder}/socket", user="root")
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM information_schema.processlist WHERE user = 'reader' AND command = 'Query'")
            return int(cursor.fetchone()[0])

    async def unchecked(self, sql: str, *, seconds: float = 2.0) -> Table:
        return await mysql_reader.read_table(self.database, sql, QueryLimits(seconds=seconds))


def _files(folder: Path) -> list[str]:
    loot = [str(path) for path in Path("/tmp").glob("loot*")]
    return sorted([path.name for path in folder.iterdir() if path.name not in ("server.out", "pid")] + loot)


def install(server: type[Server], program: str) -> None:
    """From Debian's packages, where they are not there yet; that needs root."""
    if _is_there(program):
        return
    assert os.geteuid() == 0, f"{server.__name__} is not installed; apt-get install {' '.join(server.packages)}"
    subprocess.run(("apt-get", "install", "-y", "-qq", *server.packages), check=True, stdout=subprocess.DEVNULL)


def _is_there(program: str) -> bool:
    return shutil.which(program) is not None or bool(list(Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))


def attack_databases(folder: Path, seed: int, statements: int) -> str:
    """Both servers, one after the other."""
    folder.chmod(0o711)  # the server's own user has to get to its data
    recorded = []
    for make, program in ((Postgres, "postgres"), (MariaDB, "mariadbd")):
        install(make, program)
        with make(folder / make.__name__.lower()).started() as server:
            recorded.append(asyncio.run(_torment(server, seed, statements)))
    return "; ".join(recorded)


async def _torment(server: Server, seed: int, statements: int) -> str:
    await _look_around(server)
    before = await server.state()
    attacks = await _attack(server)
    assert await server.state() == before, "an attack changed something"
    stopped = await _unchecked(server)
    assert await server.state() == before, "an attack changed something behind the check"
    await _literals(server)
    await _values(server)
    ended = await _endless(server)
    outcomes = await _pick_random(server, seed, statements)
    assert await server.state() == before, "a statement by chance changed something"
    name = type(server).__name__
    return (
        f"{name}: {attacks} attacks refused, {stopped} of them handed on unchecked and stopped by the reader, nothing "
        f"changed; endless statements ended on the server after {ended[0]:.1f} s (limit 1 s) and {ended[1] * 1000:.0f} ms after being "
        f"cancelled; of {statements} statements by chance {outcomes['answered']} were answered, {outcomes['failed']} failed, "
        f"{outcomes['refused']} were refused, and none of them, unchecked, changed anything"
    )


async def _look_around(server: Server) -> None:
    rows = (await read_outline(server.database)).rows
    assert ("lamps", "name") in {row[:2] for row in rows}, rows
    found = await run_query(server.database, "SELECT id, name, price FROM lamps ORDER BY id")
    assert (found.columns, found.rows, found.cut) == (("id", "name", "price"), ((1, "lit", 1.5), (2, "out", None)), None), found
    assert (await run_query(server.database, "SELECT * FROM lamps", limits=QueryLimits(rows=1))).cut == "after 1 rows"
    assert "nope" in await _failure(server, "SELECT nope FROM lamps")
    assert await _failure(server, server.wide, seconds=60) in ("", WIDE)


async def _failure(server: Server, sql: str, seconds: float = 10.0) -> str:
    """What a query fails with, or nothing; a table that is too large is no answer."""
    try:
        found = await run_query(server.database, sql, limits=QueryLimits(seconds=seconds))
    except QueryFailed as failed:
        return str(failed)
    assert len(str(found.rows)) < 3_000
    return ""


async def _attack(server: Server) -> int:
    secret = str(server.secret)
    for attack in ATTACKS[server.dialect]:
        try:
            found = await run_query(server.database, attack.replace("/etc/passwd", secret), limits=QueryLimits(seconds=2))
        except QueryRefused:
            continue
        raise AssertionError(f"{attack[:200]} was answered: {found}")
    return len(ATTACKS[server.dialect])


async def _unchecked(server: Server) -> int:
    """Those that write: behind the check stands the transaction."""
    writes = [attack for attack in ATTACKS[server.dialect] if _is_a_write(attack)]
    for attack in writes:
        try:
            await server.unchecked(attack)
        except QueryFailed:
            continue
        raise AssertionError(f"{attack[:200]} was done")
    return len(writes)


def _is_a_write(attack: str) -> bool:
    words = attack.upper()
    # What no transaction for reading stops, and privileges should: files, programs, other connections, plugins, settings.
    beyond = ("FILE", "PROGRAM", "COPY", "DBLINK", "PLUGIN", "SONAME", "LO_", "EXPLAIN SELECT", "STATEMENT", "IMMEDIATE", "LOOT_TYPE")
    does = (
        "INSERT INTO",
        "UPDATE LAMPS",
        "DELETE FROM",
        "DROP TABLE",
        "CREATE TABLE",
        "ALTER TABLE",
        "TRUNCATE",
        "LOOT(",
        "NEXTVAL(",
    )
    return any(word in words for word in does) and not any(word in words for word in beyond) and not words.startswith(("PREPARE", "DO "))


async def _literals(server: Server) -> None:
    """What stands in a string comes back as it went, so that both sides agree on where strings end."""
    for text in NASTY:
        written = text.replace("'", "''")
        if server.dialect == "mysql":
            written = written.replace("\\", "\\\\")
        assert (await run_query(server.database, f"SELECT '{written}' AS said")).rows == ((text,),), text


async def _values(server: Server) -> None:
    """Whatever a database holds, it comes as JSON can hold it, or it is said that it cannot come."""
    recorded = []
    for value in server.values:
        try:
            recorded.append(json.dumps((await run_query(server.database, f"SELECT {value} AS found")).as_dict(), allow_nan=False))
        except QueryFailed as failed:
            recorded.append(str(failed))
    assert sum("columns" in each for each in recorded) >= len(recorded) - 3, recorded


async def _endless(server: Server) -> tuple[float, float]:
    start = perf_counter()
    assert "took more than 1 s" in await _failure(server, server.endless, seconds=1)
    lasted = perf_counter() - start
    assert lasted < 4, lasted
    assert await server.busy() == 0
    task = asyncio.create_task(run_query(server.database, server.endless, limits=QueryLimits(seconds=60)))
    while not await server.busy():  # noqa: ASYNC110 - the server sets no event
        await asyncio.sleep(0.02)
    start = perf_counter()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    async with asyncio.timeout(5):
        while await server.busy():  # noqa: ASYNC110 - nor one for its end
            await asyncio.sleep(0.02)
    return lasted, perf_counter() - start


async def _pick_random(server: Server, seed: int, statements: int) -> dict[str, int]:
    """Each as a graph would ask it, and each handed on unchecked."""
    rng, outcomes = Random(seed), {"answered": 0, "failed": 0, "refused": 0}
    for _ in range(statements):
        sql = statement(rng)
        try:
            await run_query(server.database, sql, limits=QueryLimits(seconds=2))
            outcomes["answered"] += 1
        except QueryFailed:
            outcomes["failed"] += 1
        except QueryRefused:
            outcomes["refused"] += 1
        try:
            await server.unchecked(sql, seconds=0.2)
        except QueryFailed:
            continue
    return outcomes
