"""What the embedded log promises beyond the contract."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import apsw
import pytest

from fleetlore import Event, Expect, connect
from fleetlore.errors import Closed, Conflict, Damaged, InvalidEvent, InvalidUrl
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite import log as sqlite_log
from fleetlore.log.sqlite.log import LAG, SqliteLog
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from fleetlore.testing import counting_ids
from tests.contract.helpers import make_event
from tests.patience import PATIENCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


def opened(path: Path, **options: Any) -> BlockingRecorder:
    return connect(f"sqlite:{path}", **options).blocking()


def pages_per_commit(log: BlockingRecorder, path: Path, count: int) -> float:
    before = Path(f"{path}-wal").stat().st_size
    for _ in range(count):
        log.append([make_event("x" * 300, agent="ada", task="t7", mission="m1")])
    return (Path(f"{path}-wal").stat().st_size - before) / 4120 / count


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    with opened(path) as log:
        log.append([make_event()])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(f"{path}-wal").stat().st_mode) == 0o600


def test_a_commit_writes_few_pages_whatever_the_number_of_scopes(path: Path) -> None:
    """The indexes lag behind, so that one event costs little more than one page in the WAL."""
    with opened(path) as log:
        log.append([make_event(agent="ada", task="t7", mission="m1")])
        assert pages_per_commit(log, path, LAG - 10) < 1.5


def test_a_writer_that_has_waited_long_gets_the_lock_soon(path: Path) -> None:
    """SQLite's own wait asks less and less often, so that beside busy writers the one that has waited longest comes last."""

    def wait_behind_a_lock(wait: Callable[[], object]) -> float:
        """Seconds from the release of a lock to the end of `wait`, which was waiting for it."""
        holder.execute("BEGIN IMMEDIATE")
        ended: list[float] = []

        def note_end() -> None:
            wait()
            ended.append(perf_counter())

        thread = threading.Thread(target=note_end)
        thread.start()
        thread.join(0.4)
        assert thread.is_alive()
        released = perf_counter()
        holder.execute("COMMIT")
        thread.join(PATIENCE)
        return ended[0] - released

    with opened(path) as log, closing(apsw.Connection(str(path))) as holder, closing(apsw.Connection(str(path))) as plain:
        log.append([make_event()])
        plain.set_busy_timeout(int(PATIENCE * 1000))
        ours = [wait_behind_a_lock(lambda: log.append([make_event()])) for _ in range(5)]
        theirs = [wait_behind_a_lock(lambda: plain.execute("BEGIN IMMEDIATE; COMMIT")) for _ in range(5)]
    assert median(ours) < median(theirs) / 2


def test_threads_that_append_together_share_a_commit(path: Path) -> None:
    """One thread holds the lock; the others queue behind it, and the next one stores them all."""
    with opened(path) as log:
        commits: list[int] = []
        backend = log._require_backend()
        commit = backend.commit
        first_is_in, go_on = threading.Event(), threading.Event()

        def slow_commit(batches: Any) -> Any:
            commits.append(len(batches))
            if len(commits) == 1:
                first_is_in.set()
                go_on.wait(PATIENCE)
            return commit(batches)

        backend.commit = slow_commit  # type: ignore[method-assign]
        threads = [threading.Thread(target=log.append, args=([make_event(str(n))],)) for n in range(8)]
        threads[0].start()
        first_is_in.wait(PATIENCE)
        for thread in threads[1:]:
            thread.start()
        while len(log._pending) < 7:
            pass
        go_on.set()
        for thread in threads:
            thread.join()
        assert commits == [1, 7]
        assert len(list(log.read())) == 8


def test_a_waiting_follower_holds_no_read_transaction(path: Path) -> None:
    """If it did, the WAL could not be written back and cut."""
    with opened(path) as log:
        log.append([make_event("1")])
        follower = log.follow()
        assert next(follower).text == "1"
        waiting = threading.Thread(target=lambda: next(follower))
        waiting.start()
        other = apsw.Connection(str(path))
        [(busy, _, _)] = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert busy == 0
        log.append([make_event("2")])
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        other.close()


def test_a_follower_in_another_process_is_woken(path: Path) -> None:
    code = (
        "import sys; from fleetlore import connect\n"
        f"with connect('sqlite:{path}').blocking() as log:\n"
        "    print('ready', flush=True)\n"
        "    for event in log.follow('task:t7'):\n"
        "        print(event.text, flush=True)\n"
        "        if event.text == 'stop': break\n"
    )
    with opened(path) as log, subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for text in ("one", "two", "stop"):
            log.append([make_event(text, task="t7"), make_event("noise")])
            assert child.stdout.readline() == f"{text}\n"
        assert child.wait(PATIENCE) == 0


def test_erased_text_is_gone_from_the_files(path: Path) -> None:
    with opened(path) as log:
        log.append([make_event("plain sight")])
        log.append([make_event("a very private thought", id="0190f3a0-0000-7000-8000-000000000001")])
        log.append_all(make_event(str(n)) for n in range(400))
        assert b"very private" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        log.erase(["0190f3a0-0000-7000-8000-000000000001"], "asked to")
        left = path.read_bytes() + Path(f"{path}-wal").read_bytes()
        assert b"very private" not in left
        assert b"plain sight" in left


def test_a_stored_record_that_cannot_be_read_is_given_as_rejected(path: Path) -> None:
    with opened(path) as log:
        positions = log.append([make_event("1"), make_event("2"), make_event("3")])
        other = apsw.Connection(str(path))
        other.execute("UPDATE events_1 SET raw = '{\"kind\":' WHERE seq = 2")
        other.close()
        events = list(log.read())
        assert [event.kind for event in events] == ["fleet.commit", "log.rejected", "fleet.commit"]
        assert [event.position for event in events] == positions
        assert events[1].data["sample"] == '{"kind":'
        assert log.erase([events[1].id or ""], "cannot be read") == 0


def test_a_migration_and_its_record_are_one_step(path: Path) -> None:
    with opened(path) as log:
        log.append([make_event("kept")])
    connection = sqlite_file.open_file(str(path))
    broken = (*sqlite_file.MIGRATIONS, ("CREATE TABLE extra (n INTEGER)", "this is no SQL"))
    with pytest.raises(Exception, match="syntax error"):
        sqlite_file.migrate_schema(connection, str(path), broken)
    assert not sqlite_file.fetch_rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'extra'")
    good = (*sqlite_file.MIGRATIONS, ("CREATE TABLE extra (n INTEGER)",))
    sqlite_file.migrate_schema(connection, str(path), good)
    sqlite_file.migrate_schema(connection, str(path), good)
    assert sqlite_file.fetch_rows(connection, "SELECT n FROM migrations") == [(n,) for n in range(1, len(good) + 1)]
    connection.close()
    with pytest.raises(Damaged, match="newer Fleetlore"):
        SqliteLog(str(path), town="default")


def test_many_may_open_a_new_log_at_the_same_moment(path: Path) -> None:
    code = (
        "from fleetlore import connect, Event\n"
        f"with connect('sqlite:{path}').blocking() as log: log.append([Event(kind='fleet.idle', agent='a')])"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
    assert [child.wait(60) for child in children] == [0] * 6
    with opened(path) as log:
        assert log.info().events == 6


def test_reading_a_town_that_is_not_there_makes_nothing(path: Path) -> None:
    with opened(path, town="ghost") as log:
        assert list(log.read()) == []
        assert log.head() is None
        assert log.info().details["towns"] == []


def test_the_address_says_how_safe_the_log_is(path: Path) -> None:
    with connect(f"sqlite:{path}?sync=normal&town=east").blocking() as log:
        info = log.info()
        assert (info.town, info.details["sync"]) == ("east", "normal")
        log.append([make_event()])
    with connect(f"sqlite://{path}").blocking() as log:
        assert log.info().details["sync"] == "full"
        assert log.info().details["towns"] == ["east"]


@pytest.mark.parametrize(
    "url", ["fleet.db", "carrier-pigeon:x", "sqlite:x.db?sync=maybe", "sqlite:x.db?colour=red", "memory:?sync=off", "sqlite::memory:"]
)
def test_an_address_that_nobody_understands_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl), connect(url).blocking():
        pass


def test_a_town_needs_a_proper_name(path: Path) -> None:
    with pytest.raises(InvalidUrl):
        connect(f"sqlite:{path}", town="a\nb")


def test_without_a_path_the_log_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    with connect("sqlite:").blocking() as log:
        log.append([Event(kind="fleet.idle", agent="ada")])
    assert (tmp_path / "fleetlore" / "fleet.db").exists()


def test_the_blocking_door_never_imports_asyncio(path: Path) -> None:
    code = (
        "import sys; from fleetlore import Event, connect\n"
        f"with connect('sqlite:{path}').blocking() as log:\n"
        "    log.append([Event(kind='fleet.idle', agent='ada')]); list(log.read()); next(log.follow())\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_child_is_asked_to_open_the_log_again(path: Path) -> None:
    """Its parent holds the locks; what it wrote on the old handle could be lost."""
    with opened(path) as log:
        log.append([make_event("parent")])
        child = os.fork()
        if child == 0:
            try:
                log.append([make_event("child")])
            except Closed:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert [event.text for event in log.read()] == ["parent"]


def test_no_position_is_given_twice_though_everything_was_trimmed_meanwhile(path: Path) -> None:
    with opened(path) as one, opened(path) as other:
        with pytest.raises(Conflict):
            one.append([make_event()], expect=Expect("town", "0000000000000007"))
        positions = other.append([make_event(), make_event()])
        other.trim("9" * 16)
        assert one.append([make_event()]) > positions[-1:]


def test_the_first_append_after_a_restore_goes_in(path: Path, tmp_path: Path) -> None:
    with opened(path) as log:
        log.append([make_event("1")])
        log.append([make_event("2")])
        backup_log(str(path), str(tmp_path / "kept.db"))
        log.append([make_event("3")])
        restore_log(str(tmp_path / "kept.db"), str(path), overwrite=True)
        log.append([make_event("4")])
        assert [event.text for event in log.read()] == ["1", "2", "4"]


def test_ids_of_somebody_elses_making_may_come_twice(path: Path) -> None:
    for _ in range(2):
        with opened(path, new_id=counting_ids()) as log:
            for n in range(3):
                log.append([make_event(str(n))])
    with opened(path) as log:
        assert log.info().events == 3
        with pytest.raises(InvalidEvent), connect(f"sqlite:{path}", new_id=lambda: "abc").blocking() as odd:
            odd.append([make_event()])


def test_erased_bytes_go_as_soon_as_nobody_reads_them_any_more(path: Path) -> None:
    with connect(f"sqlite:{path}?timeout=0.1").blocking() as log:
        log.append([make_event("a very private thought", id="0190f3a0-0000-7000-8000-000000000001")])
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM towns").fetchall()
        log.erase(["0190f3a0-0000-7000-8000-000000000001"], "asked to")
        assert log.info().details["unscrubbed"]
        reader.close()
        log.append([make_event("and on")])
        assert not log.info().details["unscrubbed"]
        assert b"very private" not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_trimmed_text_is_gone_from_the_file(path: Path) -> None:
    with opened(path) as log:
        positions = log.append_all(make_event(f"a very private thought {n}") for n in range(300))
        log.trim(positions[-1])
    assert path.read_bytes().count(b"very private") == 1


def test_the_log_stays_the_same_when_the_directory_changes(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with connect("sqlite:fleet.db").blocking() as log:
        log.append([make_event("here")])
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert [event.text for event in log.read()] == ["here"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_trigger_that_somebody_hid_in_the_file_is_not_run(path: Path) -> None:
    with opened(path) as log:
        log.append([make_event("1")])
    evil = apsw.Connection(str(path))
    evil.execute("CREATE TRIGGER eat AFTER INSERT ON events_1 BEGIN DELETE FROM events_1 WHERE seq = new.seq; END")
    evil.close()
    with opened(path) as log:
        log.append([make_event("2")])
        assert [event.text for event in log.read()] == ["1", "2"]
    assert any("eat" in problem for problem in check_log(str(path)).problems)


def test_an_id_in_capitals_is_found(path: Path) -> None:
    with opened(path) as log:
        log.append([make_event("x", id="0190F3A0-0000-7000-8000-00000000000A")])
        assert [event.text for event in log.get(["0190F3A0-0000-7000-8000-00000000000A"])] == ["x"]
        assert log.erase(["0190F3A0-0000-7000-8000-00000000000A"] * 2, "asked to") == 1
        assert log.erase([], "nothing") == 0
        assert [event.data["count"] for event in log.read(kinds=["log.forgotten"])] == [1]


def test_scopes_without_end_are_each_found_though_few_are_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_log, "MOST_NUMBERS", 5)
    with opened(path) as log:
        for number in range(0, 60, 3):
            log.append([make_event(agent="ada", task=f"t{each}") for each in range(number, number + 3)])
        assert all(len(list(log.read(f"task:t{number}"))) == 1 for number in range(60))
        assert len(list(log.read("agent:ada"))) == 60
        backend: Any = log._require_backend()
        assert len(backend._scopes) <= 6 >= len(backend._scope_texts)


def test_who_has_waited_long_for_the_lock_asks_as_often_as_who_comes_new(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own wait asks less and less often, so that the one who has waited longest gets the lock last."""
    pauses: list[float] = []
    with opened(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append([make_event("first")])
        other.execute("BEGIN IMMEDIATE")

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 200:
                other.execute("ROLLBACK")

        monkeypatch.setattr(sqlite_file, "sleep", pause)
        log.append([make_event("second")])
    assert len(pauses) == 200
    assert max(pauses) <= 0.001
