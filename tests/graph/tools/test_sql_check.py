"""Read-only queries are sent as written; everything else is refused before the database sees it."""

from __future__ import annotations

from random import Random
from time import thread_time

import pytest

from fleetlore.errors import QueryRefused
from fleetlore.graph.tools.sql_check import check_query
from fleetlore.graph.tools.sql_names import SqlDialect
from tests.graph.tools.attacks import ATTACKS, statement

DIALECTS: tuple[SqlDialect, ...] = ("sqlite", "postgres", "mysql")


def refusal(sql: str, dialect: SqlDialect) -> str | None:
    try:
        check_query(sql, dialect)
    except QueryRefused as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_does_more_than_read_is_refused(dialect: SqlDialect) -> None:
    let_through = []
    for attack in ATTACKS[dialect]:
        reason = refusal(attack, dialect)
        if not reason or not reason.isprintable() or len(reason) > 400:
            let_through.append((attack[:200], reason))
    assert let_through == []


READS: dict[SqlDialect, tuple[str, ...]] = {
    "sqlite": (
        "SELECT * FROM lamps",
        "SELECT l.name, count(*) AS n FROM lamps AS l LEFT JOIN rooms r USING (room) GROUP BY (l.name) HAVING n > 1 ORDER BY n LIMIT 5",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) SELECT n FROM c",
        "SELECT strftime('%Y-%m', at), group_concat(name, '; '), iif(a, b, c), a->>'$.x', a == b, a NOTNULL, a GLOB 'x*' FROM lamps",
        "SELECT row_number() OVER w FROM t WINDOW w AS (ORDER BY a)",
        "SELECT sum(a) FILTER (WHERE a > 1) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT [name], `id`, \"at\", x'00ff', 0x1F, .5, 1e3 FROM lamps",
        "SELECT body, bm25(docs) FROM docs WHERE docs MATCH 'fox'",
        "SELECT value FROM json_each('[1, 2]') UNION SELECT 3 EXCEPT SELECT 1",
        "SELECT * FROM pragma_table_info('lamps')",
        "VALUES (1, 'a'), (2, ';')",
        "SELECT '(' || '((' || ';'",
    ),
    "postgres": (
        "SELECT date_trunc('month', at), to_char(at, 'FMMonth YYYY'), extract(year from at), at::date, now() - interval '1 day' FROM lamps",
        "SELECT DISTINCT ON (name) name, at FROM lamps ORDER BY (name), at DESC FETCH FIRST 5 ROWS ONLY",
        "SELECT string_agg(name, ', ' ORDER BY name), percentile_cont(0.5) WITHIN GROUP (ORDER BY price), array_agg(id) FROM lamps",
        "SELECT * FROM generate_series(1, 10) AS g(x), LATERAL (SELECT x * 2) AS d",
        "SELECT a ~ 'x', a ILIKE 'x', b @> c, b ->> 'k', b #>> '{a,b}', d[1], ARRAY[1, 2], a IS DISTINCT FROM b, a || b FROM t",
        "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), (b)), ROLLUP (a, b)",
        "SELECT substring(a from 1 for 2), trim(both 'x' from a), position('a' in b), E'a\\'b', a AT TIME ZONE 'UTC' FROM t",
        "SELECT * FROM json_to_recordset('[]') AS x(a int, b text)",
        "SELECT column_name FROM information_schema.columns",
    ),
    "mysql": (
        "SELECT DATE_ADD(NOW(), INTERVAL 1 DAY), DATE_FORMAT(at, '%Y-%m'), IF(a, b, c), a REGEXP 'x', a <=> b, a DIV (b) FROM lamps",
        "SELECT GROUP_CONCAT(DISTINCT name ORDER BY name SEPARATOR '; ') FROM lamps LIMIT 5, 10",
        "SELECT 'a\\'b', 'c''d', \"e\\\\\", 0x41, b'01' FROM `lamps`",
        "SELECT JSON_EXTRACT(a, '$.b'), a->>'$.c', CAST(a AS CHAR(20)), CONVERT(a USING utf8mb4), MATCH(a) AGAINST('x') FROM t",
        "SELECT table_name FROM information_schema.tables WHERE table_schema = database()",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("dialect", "sql"), [(dialect, sql) for dialect, queries in READS.items() for sql in queries])
def test_what_only_reads_is_asked_word_for_word(dialect: SqlDialect, sql: str) -> None:
    assert check_query(f"{sql};", dialect) == sql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_comments_reach_no_database(dialect: SqlDialect) -> None:
    assert check_query("SELECT/* one */1 /*! , 2 */ -- three\n, 4", dialect) == "SELECT 1\n, 4"
    assert check_query("SELECT '/* no comment */ -- nor this'", dialect) == "SELECT '/* no comment */ -- nor this'"


def test_two_minuses_are_a_comment_where_the_server_takes_them_for_one() -> None:
    assert check_query("SELECT 1--1", "mysql") == "SELECT 1--1"
    assert check_query("SELECT 1--1", "postgres") == "SELECT 1"


def test_an_alias_may_list_its_columns_and_hide_no_function() -> None:
    assert check_query("WITH loot(a) AS (SELECT 1) SELECT * FROM loot", "postgres")
    for sql in ("WITH loot(a) AS (SELECT 1) SELECT loot(2)", "WITH lower(a) AS (SELECT 1) SELECT * FROM loot(2)"):
        with pytest.raises(QueryRefused, match="the function loot is not among"):
            check_query(sql, "postgres")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_is_asked_it_is_refused_or_asked_and_takes_no_time(dialect: SqlDialect) -> None:
    chance, asked = Random(10), 0
    check_query("SELECT 1", dialect)  # the parser is loaded
    for _ in range(400):
        sql = statement(chance)
        start = thread_time()
        try:
            again = check_query(sql, dialect)
        except QueryRefused:
            continue
        finally:
            assert thread_time() - start < 5, sql
        asked += 1
        assert check_query(again, dialect) == again
    assert asked > 5
