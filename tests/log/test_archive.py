"""Old events are moved into compressed files: every reader still finds them, erasing reaches them, and a crash loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from fleetlore import Event, connect
from fleetlore.errors import Damaged, Forgotten
from fleetlore.events import codec
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import archive
from fleetlore.log.sqlite.log import SqliteLog
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from fleetlore.log.sqlite.salvage import salvage_log

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 3000
OLD = 2200
SECRET = "d0-not-keep-me"


def make_events(count: int) -> list[Event]:
    return [
        Event(
            kind="fleet.commit" if n % 3 else "fleet.push",
            agent=f"a{n % 5}",
            task=f"t{n // 100}",
            at=START + timedelta(minutes=n),
            text=SECRET if n == 100 else f"step {n}",
            data={"diff": "d" * 50_000} if n == 200 else {"n": n},
        )
        for n in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.db"
    with connect(f"sqlite:{path}?sync=off").blocking() as log:
        log.append_all(make_events(COUNT))
    return path


def opened(path: Path) -> BlockingRecorder:
    return connect(f"sqlite:{path}").blocking()


def run_archive(log: BlockingRecorder, count: int = OLD) -> int:
    backend, _ = log.backend_and_admission()
    assert isinstance(backend, SqliteLog)
    return backend.archive(START + timedelta(minutes=count))


def read_raw(path: Path, scope: str = "town") -> list[tuple[str | None, bytes]]:
    with opened(path) as log:
        return [(event.position, codec.encode_event(event)) for event in log.read(scope)]


def files_of(path: Path) -> list[Path]:
    return sorted(Path(archive.archive_folder(str(path))).iterdir())


def content_of(files: Sequence[Path]) -> bytes:
    return b"".join(raw + packed for file in files for _, raw, packed in archive.scan_file(str(file)))


def test_every_reader_still_finds_archived_events(path: Path) -> None:
    before = {scope: read_raw(path, scope) for scope in ("town", "agent:a3", "task:t1")}
    with opened(path) as log:
        ids = [event.id or "" for event in log.read(limit=300)]
        assert run_archive(log) == OLD
        assert [event.id for event in log.get(ids[50:60])] == ids[50:60]
        assert [event.text for event in log.read(newest_first=True, before=f"{101:016}", limit=1)] == ["step 99"]
        assert len(list(log.read(kinds=["fleet.push"]))) == COUNT // 3
        assert next(log.follow(after=f"{5:016}")).text == "step 5"
        whole = log.restore_whole(log.get([ids[200]])[0])
        assert whole.data is not None
        assert len(whole.data["diff"]) == 50_000
        assert log.append([Event(id=ids[7], kind="fleet.commit", agent="a2")]) == [f"{8:016}"]
        assert run_archive(log) == 0
    assert {scope: read_raw(path, scope) for scope in before} == before
    report = check_log(str(path))
    assert (report.events, report.problems) == (COUNT, [])


def test_the_log_has_no_copy_and_the_files_are_small(path: Path) -> None:
    with opened(path) as log:
        size = sum(len(raw) for _, raw in read_raw(path)[:OLD])
        run_archive(log)
    assert SECRET.encode() not in path.read_bytes()
    assert sum(file.stat().st_size for file in files_of(path)) < size / 3


def test_a_forgotten_event_is_gone_from_the_files(path: Path) -> None:
    with opened(path) as log:
        [secret] = [event for event in log.read(limit=200) if event.text == SECRET]
        whole = next(event for event in log.read(limit=300) if event.text == "step 200")
        run_archive(log)
        assert SECRET.encode() in content_of(files_of(path))
        assert log.erase([secret.id or "", whole.id or ""], "asked to") == 2
        assert SECRET.encode() not in content_of(files_of(path))
        assert len(list(log.read(limit=COUNT))) == COUNT - 1  # two are gone, one says so
        with pytest.raises(Forgotten):
            log.append([secret])
    assert check_log(str(path)).problems == []


def test_a_trim_deletes_the_files_of_what_is_gone(path: Path) -> None:
    with opened(path) as log:
        run_archive(log)
        log.trim(f"{OLD - 50:016}")
        assert len([event for event in log.read() if event.position and int(event.position) <= OLD]) == 51
    assert content_of(files_of(path)).count(b'"kind":') == 51
    assert check_log(str(path)).problems == []


def test_a_backup_takes_the_files_along_and_brings_them_back(path: Path, tmp_path: Path) -> None:
    before = read_raw(path)
    with opened(path) as log:
        run_archive(log)
    backup_log(str(path), str(tmp_path / "backup.db"))
    assert check_log(str(tmp_path / "backup.db")).problems == []
    restore_log(str(tmp_path / "backup.db"), str(tmp_path / "new.db"))
    assert read_raw(tmp_path / "new.db") == before
    with opened(path) as log:
        log.erase([event.id or "" for event in log.read(limit=1)], "asked to")
    restore_log(str(tmp_path / "backup.db"), str(path), overwrite=True)
    assert read_raw(path) == before[1:]  # what was erased stays erased
    assert check_log(str(path)).problems == []


def test_damage_in_a_file_is_found_and_the_rest_can_be_saved(path: Path, tmp_path: Path) -> None:
    with opened(path) as log:
        run_archive(log)
    first = files_of(path)[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    archive.delete_files([])  # forget what was read
    assert any("is damaged at byte" in problem for problem in check_log(str(path)).problems)
    with opened(path) as log, pytest.raises(Damaged, match="bring the file back from a backup"):
        list(log.read())
    report = salvage_log(str(path), str(tmp_path / "saved.db"))
    assert report.events == COUNT - archive.EVENTS_PER_BLOCK
    assert report.missing_events == archive.EVENTS_PER_BLOCK
    assert check_log(str(tmp_path / "saved.db")).problems == []


def test_a_missing_file_is_named(path: Path) -> None:
    with opened(path) as log:
        run_archive(log)
        files_of(path)[0].unlink()
        archive.delete_files([])
        with pytest.raises(Damaged, match=r"\.flar: an archive of the log is missing"):
            list(log.read())
        log.append([Event(kind="fleet.idle", agent="a1")])


ARCHIVER = """
import sys
from datetime import datetime
from fleetlore import connect
from fleetlore.log.sqlite import archive
archive.EVENTS_PER_FILE = 50
with connect(sys.argv[1]).blocking() as log:
    backend, _ = log.backend_and_admission()
    print("begun", flush=True)
    backend.archive(datetime.fromisoformat(sys.argv[2]), progress=lambda done, end: print(done, flush=True))
"""


def test_killed_midway_nothing_is_lost_or_doubled(path: Path) -> None:
    before, rng, kills = read_raw(path), Random(20261118), 0
    before_time = (START + timedelta(minutes=OLD)).isoformat()
    while True:
        process = subprocess.Popen([sys.executable, "-c", ARCHIVER, f"sqlite:{path}", before_time], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        for _ in range(rng.randrange(1, 8)):
            line = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if not line:
            break
        kills += 1
        assert read_raw(path) == before
    assert kills >= 5
    with opened(path) as log:
        log.erase([], "cleans up what was left")
        assert run_archive(log) == 0
    assert read_raw(path)[:COUNT] == before
    assert content_of(files_of(path)).count(b'"kind":') == OLD
    assert check_log(str(path)).problems == []
