"""What goes wrong around a log: a clear error that says what to do, nothing lost, nothing stored by half."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from shutil import copyfile, rmtree
from typing import Any

import apsw
import pytest

from fleetlore import Event, connect
from fleetlore.errors import Busy, Damaged, DiskFull, Unwritable
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite import maintenance
from fleetlore.log.sqlite.log import SqliteLog
from tests.faults.processes import running

NOBODY = 65534
_names = count()


def make_event(text: str = "a commit") -> Event:
    return Event(kind="fleet.commit", agent="ada", text=text)


def texts(path: Path) -> list[str | None]:
    with connect(f"sqlite:{path}").blocking() as log:
        return [event.text for event in log.read()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with three events, closed."""
    path = tmp_path / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event("one"), make_event("two"), make_event("three")])
    return path


# --- no room


class _SmallDisk(apsw.VFS):
    """Takes writes until its room is used up."""

    def __init__(self, room: int) -> None:
        self.name, self.room = f"small-{next(_names)}", room
        super().__init__(self.name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _SmallFile(self, name, flags)


class _SmallFile(apsw.VFSFile):
    def __init__(self, disk: _SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        growth = max(0, offset + len(data) - self.xFileSize())
        if growth > self._disk.room:
            raise apsw.FullError("no room")
        self._disk.room -= growth
        super().xWrite(data, offset)


def fill(log: BlockingRecorder) -> list[str]:
    """Append until there is no room; the texts that were acknowledged."""
    acknowledged: list[str] = []
    for number in count():
        batch = [f"{number}/{nth}".ljust(900, ".") for nth in range(number % 7 + 1)]
        try:
            log.append([make_event(text) for text in batch])
        except DiskFull:
            break
        acknowledged += batch
    with pytest.raises(DiskFull, match="make room and try again"):
        log.append([make_event(text) for text in batch])
    return acknowledged


@pytest.mark.parametrize("room", [150_000, 153_000, 160_000, 1_000_000])
def test_a_full_disk_loses_nothing_and_appends_go_on_once_there_is_room(room: int, tmp_path: Path) -> None:
    disk = _SmallDisk(room)
    path = tmp_path / "fleet.db"
    try:
        with BlockingRecorder(lambda: SqliteLog(str(path), town="default", vfs=disk.name), Admission()) as log:
            acknowledged = fill(log)
            assert [event.text for event in log.read()] == acknowledged
            disk.room += 1_000_000
            log.append([make_event("there is room again")])
            assert [event.text for event in log.read()] == [*acknowledged, "there is room again"]
    finally:
        disk.unregister()
    assert maintenance.check_log(str(path)).problems == []


@contextmanager
def small_mount(folder: Path, size: str) -> Iterator[Path]:
    """A real file system of a few hundred kilobytes."""
    place = folder / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs more rights than this user has")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(not os.path.exists("/proc/mounts"), reason="tmpfs is of Linux")
def test_a_really_full_disk_loses_nothing_either(tmp_path: Path) -> None:
    with small_mount(tmp_path, "700k") as place:
        ballast, path = place / "ballast", place / "fleet.db"
        ballast.write_bytes(bytes(200_000))
        with connect(f"sqlite:{path}").blocking() as log:
            acknowledged = fill(log)
            assert [event.text for event in log.read()] == acknowledged
            with pytest.raises(DiskFull, match="make room"):
                maintenance.backup_log(str(path), str(place / "backup.db"))
            ballast.unlink()
            log.append([make_event("there is room again")])
        assert texts(path) == [*acknowledged, "there is room again"]
        assert [name for name in os.listdir(place) if "backup" in name] == [], "the failed backup left something behind"


@contextmanager
def read_only_mount(place: Path) -> Iterator[None]:
    """The mounted file system, read-only for a while."""
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)


@pytest.mark.skipif(not os.path.exists("/proc/mounts"), reason="tmpfs is of Linux")
def test_a_log_on_a_read_only_disk_can_be_read_and_says_why_it_cannot_be_written(tmp_path: Path) -> None:
    with small_mount(tmp_path, "2m") as place:
        path = place / "fleet.db"
        with connect(f"sqlite:{path}").blocking() as log:
            log.append([make_event("one"), make_event("two")])
        with read_only_mount(place):
            with connect(f"sqlite:{path}").blocking() as log:
                assert [event.text for event in log.read("agent:ada")] == ["one", "two"]
                assert next(log.follow()).text == "one"
                assert log.info().details["read_only"]
                with pytest.raises(Unwritable, match="is on a read-only file system, so it can be read but not written"):
                    log.append([make_event("three")])
            assert maintenance.check_log(str(path)).problems == []
            assert maintenance.backup_log(str(path), str(tmp_path / "copy.db")) == 2
            with pytest.raises(Unwritable, match="Read-only file system"):
                connect(f"sqlite:{place / 'new.db'}").blocking().__enter__()
        with connect(f"sqlite:{path}").blocking() as log:
            log.append([make_event("three")])


@pytest.mark.skipif(not os.path.exists("/proc/mounts"), reason="tmpfs is of Linux")
def test_a_log_that_was_not_closed_on_a_read_only_disk_says_what_to_do(tmp_path: Path) -> None:
    with small_mount(tmp_path, "2m") as place:
        path = tmp_path / "fleet.db"
        with connect(f"sqlite:{path}").blocking() as log:
            log.append([make_event("one")])
            for end in ("", "-wal"):
                copyfile(f"{path}{end}", place / f"fleet.db{end}")
        with read_only_mount(place), pytest.raises(Unwritable, match="-wal has events that it lacks; copy both files"):
            connect(f"sqlite:{place / 'fleet.db'}").blocking().__enter__()


def test_a_process_without_file_descriptors_says_so_and_recovers(path: Path) -> None:
    with connect(f"sqlite:{path}").blocking() as log:
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        try:
            with pytest.raises(Unwritable, match="no file descriptor is left"):
                list(log.read())
        finally:
            for descriptor in taken:
                os.close(descriptor)
        assert len(list(log.read())) == 3


# --- no right


@contextmanager
def without_rights() -> Iterator[None]:
    """Permissions do not bind root, so be nobody for a while."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for their owner only."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    rmtree(folder)


def test_a_directory_that_cannot_be_written_is_said_and_stays_empty(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with without_rights(), pytest.raises(Unwritable, match="check that the directory exists and can be written"):
        connect(f"sqlite:{open_folder / 'fleet.db'}").blocking().__enter__()
    assert os.listdir(open_folder) == []


def test_a_log_in_a_directory_that_cannot_be_written_is_said_and_unchanged(open_folder: Path) -> None:
    path = open_folder / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event()])
    path.chmod(0o444)
    before = path.read_bytes()
    open_folder.chmod(0o555)
    with without_rights(), pytest.raises(Unwritable, match=r"check .*directory"), connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event()])
    assert os.listdir(open_folder) == ["fleet.db"]
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_said_and_unchanged(open_folder: Path) -> None:
    path = open_folder / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event()])
    before = path.read_bytes()
    path.chmod(0o444)
    open_folder.chmod(0o777)
    with without_rights(), pytest.raises(Unwritable, match=r"check .*permissions"), connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event()])
    assert path.read_bytes() == before


def test_a_backup_is_checked_and_restored_from_where_nothing_can_be_written(path: Path, open_folder: Path, tmp_path: Path) -> None:
    """It is not in WAL mode, which would need a second file next to it."""
    kept = open_folder / "kept.db"
    maintenance.backup_log(str(path), str(kept))
    kept.chmod(0o444)
    open_folder.chmod(0o555)
    with without_rights():
        report = maintenance.check_log(str(kept))
    assert (report.events, report.problems) == (3, [])
    assert maintenance.restore_log(str(kept), str(tmp_path / "new.db")) == 3
    assert os.listdir(open_folder) == ["kept.db"]


# --- not a log


def test_a_missing_directory_is_said_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match="check that the directory exists"):
        connect(f"sqlite:{tmp_path / 'nowhere' / 'fleet.db'}").blocking().__enter__()
    assert os.listdir(tmp_path) == []


def test_a_directory_in_place_of_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match="cannot be opened"):
        connect(f"sqlite:{tmp_path}").blocking().__enter__()


def test_a_file_that_is_not_sqlite_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 500)
    with pytest.raises(Damaged, match="is not a SQLite file; give another path"):
        connect(f"sqlite:{path}").blocking().__enter__()
    assert path.read_text() == "dear diary, " * 500
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_another_programs_sqlite_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "recipes.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(Damaged, match="another program; give another path"):
        connect(f"sqlite:{path}").blocking().__enter__()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["recipes.db"]


def test_a_log_that_another_process_makes_at_the_same_moment_is_not_taken_for_a_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is through between the first question that is asked of the new file and the second."""
    path, ask = tmp_path / "fleet.db", sqlite_file.fetch_rows

    def ask_slowly(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        monkeypatch.undo()
        answer = ask(connection, sql, values)
        SqliteLog(str(path), town="default").close()
        return answer

    monkeypatch.setattr(sqlite_file, "fetch_rows", ask_slowly)
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([make_event()])
    assert texts(path) == ["a commit"]


def test_a_log_of_a_newer_fleetlore_is_refused_and_unchanged(path: Path) -> None:
    newer = apsw.Connection(str(path))
    newer.execute("INSERT INTO migrations VALUES (?, 'tomorrow')", (len(sqlite_file.MIGRATIONS) + 1,))
    newer.close()
    with pytest.raises(Damaged, match=r"newer Fleetlore .* upgrade fleetlore"):
        connect(f"sqlite:{path}").blocking().__enter__()
    with pytest.raises(Damaged, match="upgrade fleetlore"):
        maintenance.check_log(str(path))


# --- held by others


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_log_that_another_process_holds_is_busy_and_then_works(begin: str, path: Path) -> None:
    with running("tests.faults.holder", str(path), begin) as holder:
        assert holder.line() == "held"
        with connect(f"sqlite:{path}?timeout=0.2").blocking() as log:
            with pytest.raises(Busy, match=r"try again, or raise \?timeout="):
                log.append([make_event("four")])
            assert [event.text for event in log.read()] == ["one", "two", "three"], "readers do not wait for a writer"
            holder.say("let go")
            holder.wait()
            log.append([make_event("five")])
    assert texts(path) == ["one", "two", "three", "five"]


def test_a_log_that_another_process_keeps_for_itself_cannot_be_opened(path: Path) -> None:
    with running("tests.faults.holder", str(path), "PRAGMA locking_mode=EXCLUSIVE", "BEGIN IMMEDIATE", "COMMIT") as holder:
        assert holder.line() == "held"
        with pytest.raises(Busy, match="try again"):
            connect(f"sqlite:{path}?timeout=0.2").blocking().__enter__()
    assert texts(path) == ["one", "two", "three"]


# --- damaged


@pytest.mark.parametrize("garbage", ["", "not json", "[]", '{"kind":5}', '{"id":"x","kind":"a.b","v":99}', "\ufffd" * 40, '{"a":' * 50])
def test_a_damaged_record_is_reported_where_it_stands_and_hides_no_other(garbage: str, path: Path) -> None:
    _tamper(path, "UPDATE events_1 SET raw = ? WHERE seq = 2", garbage)
    with connect(f"sqlite:{path}").blocking() as log:
        events = list(log.read())
        follower = log.follow()
        followed = [next(follower) for _ in range(3)]
        of_scope = list(log.read("agent:ada"))
    assert [(event.kind, event.text) for event in (events[0], events[2])] == [("fleet.commit", "one"), ("fleet.commit", "three")]
    assert events[1].kind == "log.rejected"
    assert [event.position for event in events] == [f"{seq:016d}" for seq in (1, 2, 3)]
    assert [event.kind for event in followed] == [event.kind for event in of_scope] == [event.kind for event in events]
    report = maintenance.check_log(str(path))
    assert len(report.problems) == 1
    assert "0000000000000002: the record cannot be read" in report.problems[0]


def test_a_record_of_bytes_that_are_not_text_is_reported_too(path: Path) -> None:
    _tamper(path, "UPDATE events_1 SET raw = CAST(? AS TEXT) WHERE seq = 2", b'{"kind":"\xff\xfe"}')
    with connect(f"sqlite:{path}").blocking() as log:
        assert [event.kind for event in log.read()] == ["fleet.commit", "log.rejected", "fleet.commit"]
    assert any("0000000000000002: the record cannot be read" in problem for problem in maintenance.check_log(str(path)).problems)


def _tamper(path: Path, sql: str, value: str | bytes) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql, (value,))
    connection.close()


def test_a_page_of_garbage_is_found_and_never_read_as_something_else(tmp_path: Path) -> None:
    """Each page in turn is overwritten. Reading gives the events, or an error, or a `log.rejected`: never another event."""
    path, chance = tmp_path / "fleet.db", Random(3)
    with connect(f"sqlite:{path}").blocking() as log:
        for number in range(40):
            log.append([make_event(f"{number}/{nth}".ljust(300, ".")) for nth in range(20)])
        right = {event.position: event.text for event in log.read()}
    sound = path.read_bytes()
    recorded = 0
    for start in range(0, len(sound), 4096):
        path.write_bytes(sound[:start] + chance.randbytes(4096) + sound[start + 4096 :])
        recorded += _check_damaged(path, right)
    assert recorded == len(sound) // 4096, "a damaged page was not told"


def _check_damaged(path: Path, right: dict[str | None, str | None]) -> bool:
    """Whether the check tells of the damage; what can be read has to be right in any case."""
    try:
        with connect(f"sqlite:{path}").blocking() as log:
            for event in log.read():
                assert event.kind == "log.rejected" or right[event.position] == event.text
    except Damaged:
        pass
    try:
        return bool(maintenance.check_log(str(path)).problems)
    except Damaged:
        return True
