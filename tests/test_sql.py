"""The statements of docs/sql.md, on a real log."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from fleetlore import Event, connect

PAGE = (Path(__file__).parent.parent / "docs" / "sql.md").read_text(encoding="utf-8")


def statements(dialect: str) -> list[str]:
    """The statements of the page for a program."""
    [block] = re.findall(rf"```sql\n-- {dialect}\n(.*?)```", PAGE, re.DOTALL)
    return [part.strip() for part in block.split(";") if part.strip()]


def test_the_temporary_view_has_every_event_with_the_columns_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="ada", task="t7", text="done")])
        for _ in range(15):
            log.append([Event(kind="model.replied", agent="ada", run="r1", data={"model": "m", "input": 7, "output": 5})])
        expected = [(event.position, event.id, event.kind, event.agent, event.text, event.visibility, event.data) for event in log.read()]
    create, kinds, models = statements("sqlite")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.execute(create)
        assert database.execute(kinds).fetchall() == [("model.replied", 15), ("fleet.commit", 1)]
        assert database.execute(models).fetchall() == [("m", 75)]
        rows = database.execute("SELECT position, id, kind, agent, text, visibility, data FROM events ORDER BY position").fetchall()
        assert [(*row[:-1], json.loads(row[-1] or "{}")) for row in rows] == expected
        columns = [each[0] for each in database.execute("SELECT * FROM events").description]
    documented = re.findall(r"`(\w+)`", PAGE.partition("Both give")[2].partition("(JSON)")[0])
    assert columns == documented
    assert documented == re.findall(r"""(\w+)"?: '""", statements("duckdb")[0])
    assert set(documented) - {"position"} <= set(Event.__struct_fields__)
