"""What no query may do, as people try it: writing, reaching for files and other connections, waiting, hiding in comments."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from string import ascii_letters

from fleetlore.graph.tools.sql_names import SqlDialect

TABLE = "lamps"

EVERYWHERE = (
    "",
    ";",
    "   -- nothing",
    "DROP TABLE lamps",
    "DELETE FROM lamps",
    "UPDATE lamps SET name = 'x'",
    "INSERT INTO lamps (id) VALUES (99)",
    "CREATE TABLE loot AS SELECT * FROM lamps",
    "CREATE VIEW loot AS SELECT 1",
    "ALTER TABLE lamps ADD COLUMN loot int",
    "TRUNCATE lamps",
    "SELECT 1; DELETE FROM lamps",
    "SELECT 1;; DROP TABLE lamps --",
    "SELECT 1;\nSELECT 2",
    "SELECT name FROM lamps WHERE name = ''; DROP TABLE lamps; --'",
    "SELECT * FROM lamps WHERE id = 1; UPDATE lamps SET name = 'x' WHERE '1' = '1",
    "WITH gone AS (DELETE FROM lamps RETURNING *) SELECT * FROM gone",
    "WITH new AS (INSERT INTO lamps (id) VALUES (99) RETURNING id) SELECT * FROM new",
    "WITH new AS (UPDATE lamps SET name = 'x' RETURNING id) SELECT * FROM new",
    "WITH a AS (SELECT 1) DELETE FROM lamps",
    "WITH a AS (SELECT 1) INSERT INTO lamps (id) SELECT 99",
    "SELECT * INTO loot FROM lamps",
    "SELECT * FROM lamps FOR UPDATE",
    "SELECT * FROM lamps FOR SHARE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SET autocommit = 1",
    "EXPLAIN ANALYZE DELETE FROM lamps",
    "SELECT loot()",
    "SELECT secret.loot(1)",
    "SELECT * FROM loot(1)",
    'SELECT "loot"(1)',
    "SELECT /* */ loot /* */ (1)",
    "SELECT zone(1)",
    "SELECT 'unfinished",
    "SELECT /* unfinished",
    "SELECT 1 \x00 FROM lamps",
    "SELECT '\ud800'",
    "SELECT " + "(" * 100 + "1" + ")" * 100,
    "SELECT " + "NOT " * 3000 + "1",
    "SELECT " + "-" * 0 + "- " * 3000 + "1",
    "SELECT 1" + " + 1" * 10_000,
)

SQLITE = (
    "ATTACH 'loot.db' AS loot",
    "ATTACH DATABASE ':memory:' AS loot",
    "DETACH main",
    "PRAGMA user_version = 5",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = ON",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA query_only = OFF",
    "VACUUM",
    "VACUUM INTO 'loot.db'",
    "REINDEX",
    "ANALYZE",
    "REPLACE INTO lamps (id) VALUES (1)",
    "SELECT load_extension('loot.so')",
    "SELECT writefile('loot', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x')",
    "SELECT fts3_tokenizer('simple', x'00')",
    "SELECT randomblob(1000000000)",
    "SELECT 'load_extension'('x')",
    "SELECT [load_extension]('x')",
    "SELECT `load_extension`('x')",
)

POSTGRES = (
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_read_file('/etc/passwd')",
    "SELECT pg_catalog.pg_read_file('/etc/passwd')",
    "SELECT \"pg_read_file\"('/etc/passwd')",
    "SELECT U&\"pg\\005fread_file\"('/etc/passwd')",
    "SELECT PG_READ_FILE /* */ ('/etc/passwd')",
    "WITH pg_read_file(a) AS (SELECT 1) SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/loot')",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_creat(-1)",
    "SELECT * FROM dblink('dbname=postgres', 'DROP TABLE lamps') AS t(a int)",
    "SELECT dblink_exec('dbname=postgres', 'DROP TABLE lamps')",
    "COPY lamps TO '/tmp/loot'",
    "COPY (SELECT 1) TO PROGRAM 'touch /tmp/loot'",
    "COPY lamps FROM '/etc/passwd'",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT current_setting('data_directory')",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "RESET ALL",
    "SELECT pg_sleep(60)",
    "SELECT pg_sleep_for('1 minute')",
    "SELECT count(*) FROM generate_series(1, 10) AS g, pg_sleep(1)",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT nextval('lamps_id_seq')",
    "SELECT setval('lamps_id_seq', 5)",
    "SELECT query_to_xml('DELETE FROM lamps', true, true, '')",
    "SELECT table_to_xml('lamps', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT ts_stat('SELECT pg_sleep(9)')",
    "SELECT xmlparse(document '<a/>')",
    "SELECT public.loot()",
    "SELECT a OPERATOR(public.+) b FROM lamps",
    "SELECT 1 OPERATOR(pg_catalog.+) 2",
    "SELECT 'x'::loot_type",
    "SELECT CAST(1 AS public.loot_type)",
    "SELECT (lamps).loot FROM lamps",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_catalog.pg_shadow",
    "SELECT query FROM pg_stat_activity",
    "SELECT * FROM lamps TABLESAMPLE loot (5)",
    "SELECT * FROM ROWS FROM (loot(1), loot(2))",
    "DO $$ BEGIN DELETE FROM lamps; END $$",
    "SELECT $$ ' $$, loot('x')",
    "PREPARE a AS DELETE FROM lamps",
    "EXECUTE a",
    "DECLARE c CURSOR FOR SELECT 1",
    "LISTEN a",
    "NOTIFY a",
    "LOCK TABLE lamps",
    "CALL loot()",
    "GRANT ALL ON lamps TO public",
    "SELECT $1",
    "SELECT * FROM lamps FOR NO KEY UPDATE",
    "SELECT * FROM lamps FOR KEY SHARE SKIP LOCKED",
    "MERGE INTO lamps USING lamps l ON true WHEN MATCHED THEN DELETE",
)

MYSQL = (
    "SELECT 'x' INTO OUTFILE '/tmp/loot'",
    "SELECT 'x' INTO DUMPFILE '/tmp/loot'",
    "SELECT * FROM lamps INTO OUTFILE '/tmp/loot'",
    "SELECT * INTO @a FROM lamps",
    "SELECT 1 /*! INTO OUTFILE '/tmp/loot' */, loot()",
    "SELECT 1 /*!50000 , LOAD_FILE('/etc/passwd') */ , sleep(5)",
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT load_file\n('/etc/passwd')",
    "SELECT `load_file`('/etc/passwd')",
    "SELECT 1--1 UNION SELECT LOAD_FILE('/etc/passwd')",
    "SELECT 'a\\' , LOAD_FILE(' /etc/passwd')",
    'SELECT "\\"", sleep(9), "',
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE lamps",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE lamps",
    "SELECT sleep(60)",
    "SELECT * FROM lamps WHERE sleep(1) = 0",
    "SELECT benchmark(1000000000, md5('x'))",
    "SELECT get_lock('a', 60)",
    "SELECT release_all_locks()",
    "SELECT master_pos_wait('a', 1)",
    "SELECT sys_exec('touch /tmp/loot')",
    "SELECT last_insert_id(5)",
    "SELECT nextval(loot)",
    "SELECT NEXT VALUE FOR loot",
    "SELECT setval(loot, 5)",
    "SELECT @a := 1",
    "SELECT @@datadir",
    "SET GLOBAL read_only = 0",
    "SET SESSION TRANSACTION READ WRITE",
    "START TRANSACTION READ WRITE",
    "DO sleep(60)",
    "CALL loot()",
    "HANDLER lamps OPEN",
    "SHOW VARIABLES",
    "KILL 1",
    "SELECT * FROM mysql.user",
    "SELECT * FROM performance_schema.threads",
    "SELECT * FROM lamps PROCEDURE ANALYSE()",
    "SELECT * FROM lamps LOCK IN SHARE MODE",
    "SELECT * FROM lamps FOR UPDATE SKIP LOCKED",
    "SELECT _binary'a', loot()",
    "SELECT {fn sleep(5)}",
    "REPLACE INTO lamps (id) VALUES (1)",
    "RENAME TABLE lamps TO loot",
    "FLUSH TABLES",
    "INSTALL PLUGIN loot SONAME 'loot.so'",
    "CREATE FUNCTION loot RETURNS STRING SONAME 'loot.so'",
    "SET STATEMENT max_statement_time = 0 FOR SELECT 1",
    "PREPARE a FROM 'DELETE FROM lamps'",
    "EXECUTE IMMEDIATE 'DELETE FROM lamps'",
)

ATTACKS: dict[SqlDialect, tuple[str, ...]] = {
    "sqlite": EVERYWHERE + SQLITE,
    "postgres": EVERYWHERE + POSTGRES,
    "mysql": EVERYWHERE + MYSQL,
}

_READS = (
    "SELECT {e}, {e} FROM {t} WHERE {e}",
    "SELECT {f}({e}) FROM {t}",
    "SELECT * FROM {t} WHERE {e} IN (SELECT {e} FROM {t})",
    "WITH x AS ({s}) SELECT * FROM x",
    "SELECT {e} FROM {t} UNION SELECT {e} FROM {t}",
    "SELECT * FROM ({s}) AS y",
    "SELECT name, count(*) FROM {t} GROUP BY name ORDER BY {n}",
)
_ACTIONS = (
    "WITH x(a) AS ({s}) {s}",
    "SELECT * FROM ({s}) AS y, {f}({e}) AS z",
    "VALUES ({e}, {e})",
    "DELETE FROM {t} WHERE {e}",
    "UPDATE {t} SET name = {e}",
    "INSERT INTO {t} (id) {s}",
    "CREATE TABLE t{n} AS {s}",
    "DROP TABLE {t}",
    "PRAGMA user_version = {n}",
    "ATTACH {l} AS a{n}",
    "VACUUM",
    "SELECT {e} INTO {t} FROM {t}",
    "{s} FOR UPDATE",
    "{s}; {s}",
)
_EXPRESSIONS = (
    "{n}", "{l}", "name", "id", "({e})", "{e} = {e}", "id + {n}", "name LIKE {l}", "{f}({e})", "CASE WHEN id = {n} THEN {e} END",
    "name IS NULL", "EXISTS ({s})", "/* {l} */ {e}", "NOT id = {n}",
)  # fmt: skip
_ODD = ("{e}::text", "@a := {e}", "{e} || {e}", "{f}({e}, {e})", "({s})", "CAST({e} AS text)", "{t}.id", "@@datadir", "$1", "{e} -- {l}\n")
_FUNCTIONS = ("lower", "length", "count", "coalesce", "max", "upper")
_HARM = ("load_extension", "pg_read_file", "sleep", "pg_sleep", "setval", "load_file", "loot", "nextval", "writefile", "lo_import")
_LITERALS = ("'x'", "''", "'it''s'", "'lit'", "'-- '", "'/*'", "'é😀'")
_STRANGE = ("'\\'", "'\\''", "E'\\''", "$$x$$", '"name"', "`name`", "[name]", "x'00'", "U&'\\0041'", "N'x'", "_utf8'x'")
_SALT = (
    "'", '"', "`", "\\", ";", "--", "-- ", "/*", "*/", "/*!", "#", "(", ")", "$$", "\n", "\u00a0", " INTO ", " DELETE FROM lamps ", "\x1b",
)  # fmt: skip


def statement(chance: Random, depth: int = 3) -> str:
    """A statement by chance: half of them only read, the rest do what they like, and many have salt in them that no grammar knows."""
    is_tame = chance.random() < 0.5
    text = _grown(chance.choice(_READS if is_tame else _READS + _ACTIONS), chance, depth, is_tame)
    while chance.random() < (0.2 if is_tame else 0.5):
        place = chance.randrange(len(text) + 1)
        salt = chance.choice((*_SALT, chance.choice(ascii_letters)))
        text = text[:place] + salt + text[place + chance.choice((0, 0, 1, 5)) :]
    return text


def _grown(form: str, chance: Random, depth: int, is_tame: bool) -> str:
    def one_of(usual: tuple[str, ...], odd: tuple[str, ...]) -> str:
        return chance.choice(usual if is_tame else usual + odd)

    def deeper(forms: tuple[str, ...], end: str) -> str:
        return _grown(chance.choice(forms), chance, depth - 1, is_tame) if depth > 0 else end

    parts: dict[str, Callable[[], str]] = {
        "{t}": lambda: one_of((TABLE,), ("sqlite_master", "information_schema.tables", "nothing")),
        "{n}": lambda: str(chance.randrange(1, 3)),
        "{l}": lambda: one_of(_LITERALS, _STRANGE),
        "{f}": lambda: one_of(_FUNCTIONS, _HARM),
        "{e}": lambda: deeper(_EXPRESSIONS if is_tame else _EXPRESSIONS + _ODD, "name"),
        "{s}": lambda: deeper(_READS if is_tame else _READS + _ACTIONS, f"SELECT name FROM {TABLE}"),
    }
    for name, make in parts.items():
        while name in form:
            form = form.replace(name, make(), 1)
    return form
