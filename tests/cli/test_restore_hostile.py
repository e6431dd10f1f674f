"""`lore restore` of a file that somebody else made: its schema is checked before anything of it is read, and tokens are named."""

from __future__ import annotations

import apsw
import pytest

from tests.cli.running import Lore

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS seq, i AS at, '' AS raw FROM n"
SCHEMAS = {
    "endless view instead of the events": f"DROP TABLE events_1; CREATE VIEW events_1 AS {ENDLESS}",
    "view beside": f"CREATE VIEW other AS {ENDLESS}",
    "view of tokens": f"DROP TABLE tokens; CREATE VIEW tokens AS {ENDLESS}",
    "view of migrations": f"CREATE VIEW migrations_2 AS {ENDLESS}",
    "trigger": "CREATE TRIGGER later AFTER INSERT ON tokens BEGIN DELETE FROM towns; END",
    "trigger on the towns": "CREATE TRIGGER later AFTER UPDATE ON towns BEGIN DELETE FROM events_1; END",
    "virtual table": "CREATE VIRTUAL TABLE words USING fts5(text)",
    "virtual table with our name": "CREATE VIRTUAL TABLE events_2 USING fts5(text)",
    "another table": "CREATE TABLE more (a)",
    "table with a hostile name": 'CREATE TABLE "events_1; DROP TABLE towns" (a)',
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_backup_with_anything_but_tables_of_a_log_is_not_read(lore: Lore, name: str) -> None:
    lore("emit", "fleet.idle", "--log", "sqlite:own.db", code=0)
    lore("backup", "--log", "sqlite:own.db", "copy.db", code=0)
    connection = apsw.Connection(str(lore.folder / "copy.db"))
    connection.execute(SCHEMAS[name])
    connection.close()
    result = lore("restore", "--log", "sqlite:new.db", "copy.db", code=1)
    assert "nothing was read" in result.err or "migrations" in result.err
    assert not (lore.folder / "new.db").exists()


def test_tokens_of_a_backup_are_named(lore: Lore) -> None:
    lore("emit", "fleet.idle", "--log", "sqlite:own.db", code=0)
    lore("token", "create", "--log", "sqlite:own.db", "--scope", "admin", "--label", "backdoor", code=0)
    lore("backup", "--log", "sqlite:own.db", "copy.db", code=0)
    result = lore("restore", "--log", "sqlite:new.db", "copy.db", code=0)
    assert "1 events and 1 token" in result.out
    assert "admin  backdoor" in result.out
    assert "lore token revoke" in result.out
    again = lore("restore", "--force", "--log", "sqlite:new.db", "copy.db", "--json", code=0).json
    assert [token["label"] for token in again["tokens"]] == ["backdoor"]
