"""Whole texts through crashes, upkeep and programs that do not know of them. `tests/contract` has what holds without them."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from fleetlore import Event, clock, connect
from fleetlore.errors import Damaged
from fleetlore.log.blobs import pack_texts, unpack_texts
from fleetlore.log.nats.log import NatsLog
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.redis.log import RedisLog
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from tests.faults import writer
from tests.faults.processes import running
from tests.patience import PATIENCE
from tests.servers import Nats, Valkey

LONG = "All work and no play. " * 2000
IDS = [f"0190b6a0-0000-7000-8000-00000000000{n}" for n in range(4)]
DIGEST = sha256(LONG.encode()).hexdigest()


def long_event(id: str, text: str = LONG) -> Event:
    return Event(id=id, kind="tool.returned", actor="ada", data={"tool": "Bash", "output": text})


def open_log(path: Path) -> BlockingRecorder:
    return connect(f"sqlite:{path}").blocking()


def run_sql(path: Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


# --- crashes


@pytest.mark.parametrize("backend", ["sqlite", "redis", "nats"])
def test_a_killed_writer_leaves_no_event_without_its_text(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if backend == "sqlite":
        url = f"sqlite:{tmp_path}/fleet.db"
    else:
        server: Valkey | Nats = request.getfixturevalue({"redis": "valkey", "nats": "nats_server"}[backend])
        server.wipe()
        url = server.url
    chance, names = Random(7), [f"w{number}" for number in range(4)]
    for name in names:
        with running("tests.faults.writer", "whole", url, name) as process:
            assert process.line() == "ready"
            for _ in range(chance.randint(1, 6)):
                process.line()
            process.lines(chance.uniform(0, 0.01))
            process.kill()
            process.lines(PATIENCE)
    with connect(url).blocking() as log:
        for name in names:
            events = list(log.read(f"agent:{name}"))
            assert events
            for number, event in enumerate(events):
                assert log.restore_whole(event).data["output"] == writer.long_text(name, number)
    if backend == "sqlite":
        assert check_log(f"{tmp_path}/fleet.db").problems == []


def test_a_text_without_its_event_is_not_readable_and_is_removed_with_a_later_trim(nats_server: Nats) -> None:
    """NATS stores the text first. A process that dies before it stores the event leaves the text alone."""
    nats_server.wipe()
    with connect(nats_server.url).blocking() as log:
        backend = log.backend_and_admission()[0]
        assert isinstance(backend, NatsLog)
        backend._client.run_coroutine(backend._blobs.store([log.admit(long_event(IDS[0]))]))
        [_, second] = log.append([long_event(IDS[1]), long_event(IDS[2])])
        assert log.get_blob(IDS[0], DIGEST) is None
        log.trim(second)
        assert backend.get_blobs(IDS[0]) is not None, "it may belong to an append that is under way"
        backend._blobs._now = lambda: clock.now() + timedelta(hours=2)
        log.trim(second)
        assert [backend.get_blobs(id) is None for id in IDS[:3]] == [True, True, False]


# --- programs of 0.1, which trim and erase events and leave their texts


def test_the_texts_of_events_that_an_older_program_removed_go_with_the_next_upkeep_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with open_log(path) as log:
        log.append([long_event(id) for id in IDS])
        run_sql(path, "DELETE FROM events_1 WHERE seq = 2")
    assert [problem for problem in check_log(str(path)).problems if "whole text of an event that is gone" in problem]
    with open_log(path) as log:
        log.erase([IDS[0]], "asked to")
        assert run_sql(path, "SELECT seq FROM blobs_1") == [(3,), (4,)]


def test_the_texts_of_events_that_an_older_program_removed_go_with_the_next_upkeep_of_a_server(valkey: Valkey) -> None:
    valkey.wipe()
    with connect(valkey.url).blocking() as log:
        log.append([long_event(id) for id in IDS])
        backend = log.backend_and_admission()[0]
        assert isinstance(backend, RedisLog)
        backend.client.run_commands(("HDEL", backend.keys.ids, IDS[1]))
        log.erase([IDS[0]], "asked to")
        assert [backend.get_blobs(id) is None for id in IDS] == [True, True, False, False]


def test_a_file_without_long_texts_has_no_table_for_them(tmp_path: Path) -> None:
    """So that 0.1, which refuses files of a newer schema, reads and writes it as before."""
    path = tmp_path / "fleet.db"
    with open_log(path) as log:
        log.append([long_event(IDS[0], "short")])
    tables = {name for (name,) in run_sql(path, "SELECT name FROM sqlite_schema")}
    assert "blobs_1" not in tables
    migrations = run_sql(path, "SELECT max(n) FROM migrations")
    with open_log(path) as log:
        log.append([long_event(IDS[1])])
        assert log.get_blob(IDS[1], DIGEST) == LONG
    assert run_sql(path, "SELECT max(n) FROM migrations") == migrations


# --- verify, backup, restore


def test_a_backup_has_them_and_a_restore_brings_them_back(tmp_path: Path) -> None:
    path, copy = tmp_path / "fleet.db", tmp_path / "backup.db"
    with open_log(path) as log:
        log.append([long_event(id) for id in IDS[:2]])
    backup_log(str(path), str(copy))
    with open_log(path) as log:
        log.erase([IDS[0]], "asked to")
        log.append([long_event(IDS[2])])
    restore_log(str(copy), str(path), overwrite=True)
    with open_log(path) as log:
        assert [log.get_blob(id, DIGEST) for id in IDS[:3]] == [None, LONG, None]
        [table] = [name for (name,) in run_sql(path, "SELECT name FROM sqlite_schema WHERE name LIKE 'blobs%'")]
        assert run_sql(path, f"SELECT count(*) FROM {table}") == [(1,)], "what was erased is erased from the backup, too"
        log.append([long_event(IDS[3])])
        assert log.get_blob(IDS[3], DIGEST) == LONG
    assert check_log(str(path)).problems == []


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"no zlib", "cannot be read"),
        (pack_texts([LONG.encode()])[:-10], "cut off"),
        (pack_texts([b"another text " * 2000]), "does not name"),
    ],
)
def test_verify_finds_a_damaged_text_and_readers_go_on_without_it(tmp_path: Path, packed: bytes, problem: str) -> None:
    path = tmp_path / "fleet.db"
    with open_log(path) as log:
        log.append([long_event(IDS[0])])
        assert check_log(str(path)).problems == []
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE blobs_1 SET packed = ?", (packed,))
        connection.close()
        assert [each for each in check_log(str(path)).problems if problem in each]
        [event] = log.get([IDS[0]])
        assert log.restore_whole(event) == event


def test_a_value_that_would_fill_the_memory_is_refused() -> None:
    import zlib

    with pytest.raises(Damaged, match="longer than any text"):
        unpack_texts(zlib.compress(b"\0" * (64 << 20)))


def test_an_erased_text_leaves_no_bytes_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    text = Random(1).randbytes(20_000).hex()
    packed = pack_texts([text.encode()])
    with open_log(path) as log:
        log.append([long_event(IDS[0], text)])
        assert packed[3000:3100] in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        log.erase([IDS[0]], "asked to")
        wal = Path(f"{path}-wal")
        assert packed[3000:3100] not in path.read_bytes() + (wal.read_bytes() if wal.exists() else b"")
