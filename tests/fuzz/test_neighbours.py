"""A damaged line costs only itself: the lines around it become the same events as without it."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleetlore import clock, connect
from fleetlore.dialects.base import Dialect
from fleetlore.dialects.registry import NAMES, find_dialect
from fleetlore.ingest import spool
from fleetlore.ingest.drain import drain_into_logs
from fleetlore.ingest.files import ImportSource, read_source
from tests.dialects import golden
from tests.fuzz.mutants import mutants

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FEW = settings(max_examples=min(100, max(1, settings().max_examples // 12)), suppress_health_check=list(HealthCheck))


def damaged(samples: list[bytes]) -> st.SearchStrategy[bytes]:
    """One line that is there, whatever became of it."""
    lines = mutants(samples).map(lambda raw: raw.replace(b"\n", b" ").rstrip(b"\r"))
    return lines.filter(lambda line: bool(line.strip()) and line not in samples)


@pytest.mark.parametrize("dialect", [find_dialect(name) for name in NAMES], ids=NAMES)
@FEW
@given(data=st.data())
def test_a_damaged_line_of_a_file_is_one_item_and_its_neighbours_are_as_they_were(dialect: Dialect, data: st.DataObject) -> None:
    first, *_, last = lines = golden.lines(dialect.name)
    amid = data.draw(damaged(lines))
    items = list(read_source(ImportSource("a.jsonl", io.BytesIO(b"\n".join((first, amid, last))), NOON, 0), dialect))
    assert [item.line.n for item in items] == [1, 2, 3]
    assert [items[0].events[0].id, items[2].events[0].id] == [dialect.decode(first).id, dialect.decode(last).id]
    assert len(items[1].events) == 1


def call(words: str, **more: str) -> bytes:
    """One call of a hook, as the spool keeps it."""
    record = {"session_id": "s1", "hook_event_name": "Notification", "message": words, "cwd": "/"}
    recorded = {"at": "2026-11-15T20:00:00.000001Z", "id": clock.uuid7(), "program": "claude-code", "cwd": "/", "record": record}
    return json.dumps(recorded | more).encode()


@FEW
@given(amid=damaged([call("amid"), call("amid", town="t", log="sqlite:x.db")]))
@example(amid=call("amid", log="redis://["))
def test_a_damaged_line_of_the_spool_holds_up_no_other(amid: bytes) -> None:
    with TemporaryDirectory() as folder:
        log = connect(f"sqlite:{folder}/log.db?sync=off", town="default")
        (Path(folder) / f"{clock.uuid7()}{spool.SPOOL_SUFFIX}").write_bytes(b"\n".join((call("first"), amid, call("last"), b"")))
        drain_into_logs(lambda settings: log.blocking(), folder=folder)
        with log.blocking() as stored:
            recorded = [event.text for event in stored.read(kinds=["session.waiting"])]
    assert recorded.count("first") == 1
    assert recorded.count("last") == 1
