"""Databases are read and never changed; results are tables of plain values within the limits."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from random import Random
from threading import active_count

import apsw
import pytest

from fleetlore.errors import ConfigError, QueryFailed, QueryRefused
from fleetlore.graph.tools import sqlite_reader
from fleetlore.graph.tools.database import Database, QueryLimits, parse_database_address
from fleetlore.graph.tools.gathering import convert_cell
from fleetlore.graph.tools.query_db import read_outline, run_query
from tests.graph.tools.attacks import ATTACKS, statement
from tests.patience import PATIENCE

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT {} FROM c"


@pytest.fixture
def shop(tmp_path: Path) -> Database:
    connection = apsw.Connection(str(tmp_path / "shop.db"))
    connection.execute("""
        CREATE TABLE lamps (id INTEGER PRIMARY KEY, name TEXT, price REAL, raw BLOB);
        INSERT INTO lamps VALUES (1, 'lit', 1.5, x'00ff'), (2, 'out', NULL, NULL), (3, 'it''s 😀', 9007199254740993, NULL);
        CREATE VIEW names AS SELECT name FROM lamps;
        CREATE TRIGGER loot AFTER DELETE ON lamps BEGIN SELECT 1; END;
        CREATE VIRTUAL TABLE docs USING fts5(body);
        INSERT INTO docs VALUES ('the quick fox'), ('a lazy dog');
    """)
    connection.close()
    return Database(name="shop", kind="sqlite", path=str(tmp_path / "shop.db"))


def state_of(database: Database) -> dict[str, str]:
    """Every file around it, by its hash."""
    folder = Path(database.path).parent
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


async def test_a_query_is_answered_with_a_table(shop: Database) -> None:
    found = await run_query(shop, "SELECT id, name, price FROM lamps ORDER BY id")
    assert found.columns == ("id", "name", "price")
    assert found.rows == ((1, "lit", 1.5), (2, "out", None), (3, "it's 😀", 9007199254740992.0))
    assert found.cut is None
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()


async def test_nothing_found_is_a_table_all_the_same(shop: Database) -> None:
    found = await run_query(shop, "SELECT name AS who FROM names WHERE 1 = 0")
    assert (found.columns, found.rows) == (("who",), ())


async def test_full_text_and_views_can_be_read(shop: Database) -> None:
    assert (await run_query(shop, "SELECT snippet(docs, 0, '[', ']', '…', 5) FROM docs WHERE docs MATCH 'fox'")).rows == (
        ("the quick [fox]",),
    )


async def test_a_model_is_given_what_there_is_to_ask_for(shop: Database) -> None:
    recorded = await read_outline(shop)
    assert ("lamps", "price", "REAL") in recorded.rows
    assert ("names", "name", "TEXT") in recorded.rows


async def test_no_attack_changes_a_byte(shop: Database) -> None:
    before = state_of(shop)
    for attack in ATTACKS["sqlite"]:
        with pytest.raises(QueryRefused):
            await run_query(shop, attack)
    assert state_of(shop) == before


async def test_behind_the_first_wall_stands_another(shop: Database) -> None:
    """What nobody has checked is handed to the reader, as if the check had been fooled."""
    before = state_of(shop)
    stopped, limits = 0, QueryLimits(seconds=2)
    for attack in (*ATTACKS["sqlite"], "SELECT * FROM pragma_user_version", "PRAGMA query_only = OFF; DELETE FROM lamps"):
        try:
            await sqlite_reader.read_table(shop, attack, limits)
        except QueryFailed:
            stopped += 1
        except ValueError:
            continue  # no text at all
    assert state_of(shop) == before
    assert stopped > 50


async def test_no_statement_by_chance_changes_a_byte(shop: Database) -> None:
    before, chance = state_of(shop), Random(7)
    outcomes = {"answered": 0, "failed": 0, "refused": 0}
    for _ in range(1000):
        try:
            await run_query(shop, statement(chance), limits=QueryLimits(seconds=1))
            outcomes["answered"] += 1
        except QueryFailed:
            outcomes["failed"] += 1
        except QueryRefused:
            outcomes["refused"] += 1
    assert state_of(shop) == before
    assert min(outcomes.values()) > 0, outcomes


async def test_nor_does_one_that_was_never_checked(shop: Database) -> None:
    before, chance = state_of(shop), Random(8)
    for _ in range(1000):
        try:
            await sqlite_reader.read_table(shop, statement(chance), QueryLimits(seconds=1))
        except QueryFailed:
            continue
    assert state_of(shop) == before


@pytest.mark.parametrize("sql", ["SELECT nope FROM lamps", "SELECT * FROM nowhere"])
async def test_what_the_database_does_not_like_is_reported_for_correction(shop: Database, sql: str) -> None:
    with pytest.raises(QueryFailed, match="SQLite says: no such") as caught:
        await run_query(shop, sql)
    assert shop.path not in str(caught.value)


async def test_a_query_without_end_is_stopped(shop: Database) -> None:
    with pytest.raises(QueryFailed, match=r"took more than 0\.1 s and was stopped"):
        await run_query(shop, ENDLESS.format("count(*)"), limits=QueryLimits(seconds=0.1))


async def test_rows_without_end_are_cut(shop: Database) -> None:
    found = await run_query(shop, ENDLESS.format("n"), limits=QueryLimits(rows=7))
    assert ([row[0] for row in found.rows], found.cut) == ([1, 2, 3, 4, 5, 6, 7], "after 7 rows")


async def test_bytes_and_long_values_are_cut(shop: Database) -> None:
    wide = "SELECT printf('%5000s', n) FROM (" + ENDLESS.format("n") + ")"
    found = await run_query(shop, wide, limits=QueryLimits(bytes=10_000, cell=100))
    assert found.cut == "after 10,000 bytes"
    assert 90 <= len(found.rows) < 100
    assert all(len(str(row[0])) == 101 for row in found.rows)
    with pytest.raises(QueryFailed, match="too big"):
        await run_query(shop, "SELECT printf('%1000000000s', 1)")


async def test_as_many_rows_as_may_be_are_not_cut(shop: Database) -> None:
    assert (await run_query(shop, "SELECT * FROM lamps", limits=QueryLimits(rows=3))).cut is None


async def test_cancelled_it_ends_at_once_and_leaves_nothing(shop: Database) -> None:
    threads = active_count()
    task = asyncio.create_task(run_query(shop, ENDLESS.format("count(*)"), limits=QueryLimits(seconds=60)))
    while active_count() == threads:  # noqa: ASYNC110 - nobody sets an event when it begins
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await task


async def test_a_file_that_others_write_can_be_read(shop: Database) -> None:
    writer = apsw.Connection(shop.path)
    writer.pragma("journal_mode", "wal")
    writer.execute("BEGIN IMMEDIATE; UPDATE lamps SET name = 'new'")
    assert ("lit",) in (await run_query(shop, "SELECT name FROM lamps")).rows
    writer.execute("COMMIT")
    assert ("new",) in (await run_query(shop, "SELECT name FROM lamps")).rows
    writer.close()


async def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match="the file of database shop does not exist"):
        await run_query(Database(name="shop", kind="sqlite", path=str(tmp_path / "none.db")), "SELECT 1")
    assert not any(tmp_path.glob("*"))  # noqa: ASYNC240 - a test may look
    (tmp_path / "prose.db").write_text("Once upon a time, " * 100)
    with pytest.raises(QueryFailed, match="not a database"):
        await run_query(Database(name="shop", kind="sqlite", path=str(tmp_path / "prose.db")), "SELECT * FROM lamps")


@pytest.mark.parametrize("address", ["postgresql://reader:hush@127.0.0.1:1/shop", "mysql://reader:hush@127.0.0.1:1/shop"])
async def test_a_server_that_is_not_there_is_mentioned_without_its_address(address: str) -> None:
    with pytest.raises(QueryFailed, match="database shop refused the connection or did not answer") as caught:
        await run_query(parse_database_address("shop", address), "SELECT 1")
    assert "hush" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_addresses_say_where_and_who() -> None:
    environ = {"SHOP_KEY": "hush"}
    served = parse_database_address("shop", "postgres://reader@db.house/my%20shop?password_env=SHOP_KEY", environ=environ)
    assert (served.kind, served.host, served.port, served.user, served.database) == ("postgresql", "db.house", 5432, "reader", "my shop")
    assert (served.password, served.tls) == ("hush", True)
    assert "hush" not in repr(served)
    near = parse_database_address("shop", "mariadb://reader:p%40ss@127.0.0.1:3307/shop")
    assert (near.kind, near.port, near.password, near.tls) == ("mysql", 3307, "p@ss", False)
    assert parse_database_address("shop", "sqlite:shop.db").path == "shop.db"


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("shop.db", "must start with"),
        ("oracle://hush@host/db", "must start with"),
        ("sqlite:", "write sqlite:PATH"),
        ("postgresql://host/hush", "user or database is missing"),
        ("postgresql://hush@host/", "user or database is missing"),
        ("mysql://u:hush@host:port/db", "cannot be read"),
        ("mysql://u:hush@host/db?password=hush", "unknown option .password="),
        ("mysql://u@host/db?password_env=NOTHING", "NOTHING is empty or not set"),
        ("mysql://u:hush@host/db?tls=maybe", "write tls=on or tls=off"),
    ],
)
def test_an_address_that_cannot_be_is_not_repeated(address: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice) as caught:
        parse_database_address("shop", address, environ={})
    assert "hush" not in str(caught.value)


def test_every_value_is_plain_json() -> None:
    from datetime import UTC, date, datetime, timedelta
    from decimal import Decimal
    from uuid import UUID

    values = [
        None, True, 2**53, 2**53 + 1, float("nan"), float("inf"), 0.1, Decimal("12.50"), Decimal("3"), Decimal("0.1234567890123456789"),
        Decimal("NaN"), "x" * 30, b"\x00" * 40, datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), timedelta(hours=1), {"a": [1, None]},
        [Decimal("1.5")], UUID(int=5), "half \ud83d", memoryview(b"a"),
    ]  # fmt: skip
    cells = [convert_cell(value, 20) for value in values]
    assert json.loads(json.dumps(cells, allow_nan=False)) == cells
    assert cells[2:9] == [2**53, str(2**53 + 1), "nan", "inf", 0.1, 12.5, 3]
    assert cells[9:12] == ["0.1234567890123456789", "NaN", "x" * 20 + "…"]
    assert cells[12] == "0x" + "00" * 32 + "… (40 bytes)"
    assert "".join(map(str, cells)).encode()


# --- what models try first


async def test_show_describe_and_explain_are_answered(shop: Database) -> None:
    assert (("lamps",) in (await run_query(shop, "SHOW TABLES;")).rows) is True
    for sql in ("DESCRIBE lamps", "desc `lamps`", "SHOW COLUMNS FROM lamps", "show full fields in LAMPS;"):
        assert ("price", "REAL") in (await run_query(shop, sql)).rows, sql
    assert "SCAN lamps" in str((await run_query(shop, "EXPLAIN SELECT * FROM lamps")).rows)


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN DELETE FROM lamps",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN (ANALYZE) SELECT 1",
        "EXPLAIN SELECT load_extension('x')",
        "EXPLAIN SELECT 1; DROP TABLE lamps",
        "SHOW VARIABLES",
        "SHOW DATABASES",
        "SHOW TABLES; DROP TABLE lamps",
        "DESCRIBE lamps; DROP TABLE lamps",
        "DESCRIBE lamps' OR '1'='1",
    ],
)
async def test_what_is_not_safe_of_them_is_refused(shop: Database, sql: str) -> None:
    with pytest.raises(QueryRefused):
        await run_query(shop, sql)
