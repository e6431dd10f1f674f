"""A log is checked, backed up and restored while others use it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from threading import Thread
from typing import Any

import apsw
import pytest

from fleetlore import Event, connect
from fleetlore.errors import Busy, Damaged, Forgotten, LogError, Unwritable
from fleetlore.log.check_report import MAX_PROBLEMS
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite import maintenance
from fleetlore.log.sqlite.file import checksum_record
from fleetlore.log.sqlite.log import LAG
from fleetlore.log.sqlite.maintenance import SEQUENCE_SKIP, backup_log, check_log, restore_log
from tests.faults.processes import running

MANY = 5000


def make_event(text: str = "a commit", **fields: Any) -> Event:
    return Event(**({"kind": "fleet.commit", "agent": "ada", "text": text} | fields))


def open_log(path: Path, town: str = "default") -> BlockingRecorder:
    return connect(f"sqlite:{path}", town=town).blocking()


def texts(path: Path, town: str = "default", scope: str = "town") -> list[str | None]:
    with open_log(path, town) as log:
        return [event.text for event in log.read(scope)]


def fill(path: Path, *words: str, town: str = "default") -> list[str]:
    with open_log(path, town) as log:
        return log.append_all(make_event(word) for word in words)


def tamper(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "fleet.db"
    with open_log(path) as log:
        log.append_all(make_event(f"{n}", agent=f"a{n % 5}", task=f"t{n}", kind=f"x.k{n % 3}") for n in range(MANY))
        log.append([make_event("late"), make_event("later")])
    fill(path, "elsewhere", town="other")
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """A log with many events of one town, the last two not indexed yet, and one of another."""
    return Path(copyfile(original, tmp_path / "fleet.db"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.db"
    fill(path, "one", "two", "three")
    return path


class Recorded:
    """The reported progress: it grows, and ends at 100 %."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def is_good(self) -> bool:
        done = [step for step, _ in self.steps]
        return done == sorted(done) and self.steps[-1][0] == self.steps[-1][1]


# --- check


def test_a_sound_log_has_no_problems(path: Path) -> None:
    recorded = Recorded()
    report = check_log(str(path), progress=recorded)
    assert (report.events, report.towns, report.problems) == (MANY + 3, 2, [])
    assert recorded.is_good()


def test_a_check_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    check_log(str(path))
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == ["fleet.db"]


TAMPERINGS = [
    ("UPDATE events_1 SET raw = 'x' WHERE seq = 7", "0000000000000007: the record cannot be read"),
    ("UPDATE events_1 SET id = zeroblob(16) WHERE seq = 5002", "0000000000005002: the row's id is not the event's"),
    ("UPDATE events_1 SET at = at + 1 WHERE seq = 7", "0000000000000007: the row's time is not the event's"),
    ("UPDATE events_1 SET kind = 99 WHERE seq = 7", "0000000000000007: the row's kind is not the event's"),
    ("UPDATE kinds_1 SET name = 'x.other' WHERE id = 1", "the row's kind is not the event's"),
    ("UPDATE events_1 SET scopes = ' 1 ' WHERE seq = 7", "0000000000000007: the row's scopes are not the event's"),
    ("UPDATE events_1 SET scopes = '1 2' WHERE seq = 5002", "0000000000005002: the row's scopes are not the event's"),
    ("UPDATE events_1 SET scopes = ' x ' WHERE seq = 5002", "0000000000005002: the row's scopes are not the event's"),
    ("DELETE FROM events_1 WHERE seq = 7", "0000000000000007: the index of ids has no such event"),
    ("DELETE FROM events_1 WHERE seq = 7", "0000000000000007: a scope lists an event that is not there"),
    ("DELETE FROM ids_1 WHERE seq = 7", "0000000000000007: the id is not in its index"),
    ("UPDATE ids_1 SET seq = 8 WHERE seq = 7", "0000000000000007: the id is not in its index"),
    ("INSERT INTO ids_1 VALUES (zeroblob(16), 7)", "0000000000000007: the index of ids has no such event"),
    ("INSERT INTO ids_1 SELECT id, seq FROM events_1 WHERE seq = 5002", "0000000000005002: the same id is stored before"),
    ("UPDATE events_1 SET id = (SELECT id FROM events_1 WHERE seq = 5001) WHERE seq = 5002", "the same id is stored before"),
    ("DELETE FROM members_1 WHERE seq = 7", "0000000000000007: a scope does not list the event"),
    ("INSERT INTO members_1 VALUES (4000, 7)", "0000000000000007: a scope lists an event that is not there, or not in it"),
    ("INSERT INTO members_1 VALUES (1, 5002)", "0000000000005002: a scope lists an event"),
    ("UPDATE zones_1 SET newest = newest - 1 WHERE zone = 0", "a time index does not cover the event"),
    ("UPDATE zones_1 SET newest = newest + 1 WHERE zone = 0", "a time index is newer than its events"),
    ("INSERT INTO zones_1 VALUES (1, 0)", "a time index does not cover the event"),
    (
        "UPDATE events_1 SET raw = replace(raw, 'text\":\"7', 'text\":\"6') WHERE seq = 8",
        "0000000000000008: the record is not what was written",
    ),
    ("UPDATE events_1 SET checksum = checksum + 1 WHERE seq = 5002", "0000000000005002: the record is not what was written"),
    ("UPDATE towns SET trimmed = 3, highest = 3 WHERE n = 1", "0000000000000001: an event before the trimmed"),
    ("UPDATE towns SET trimmed = 9000 WHERE n = 2", "`highest` is too low"),
    ("UPDATE towns SET indexed = 9000 WHERE n = 1", "`indexed` is ahead of every event"),
    ("DROP TABLE members_2", "no such table: members_2"),
]


def test_events_of_an_older_version_need_no_checksum(path: Path) -> None:
    tamper(path, "UPDATE events_1 SET checksum = NULL WHERE seq < 8")
    report = check_log(str(path))
    assert (report.problems, report.without_checksum) == ([], 7)


def test_an_event_of_a_newer_version_is_not_taken_for_damage(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("checksum_record", lambda *row: checksum_record(row[0], row[1]), 2)
    connection.execute("UPDATE events_1 SET raw = replace(raw, '\"v\":1', '\"v\":2') WHERE seq = 7")
    connection.execute("UPDATE events_1 SET checksum = checksum_record(seq, CAST(raw AS BLOB)) WHERE seq = 7")
    connection.close()
    report = check_log(str(path))
    assert (report.problems, report.newer) == ([], 1)


@pytest.mark.parametrize(("sql", "problem"), TAMPERINGS)
def test_a_check_finds_what_does_not_agree(sql: str, problem: str, path: Path) -> None:
    tamper(path, sql)
    assert any(problem in recorded for recorded in check_log(str(path)).problems), check_log(str(path)).problems[:5]


def test_a_check_finds_an_event_that_was_forgotten(small: Path) -> None:
    with open_log(small) as log:
        [one] = [str(event.id) for event in log.read(limit=1)]
    with open_log(small, "other") as log:
        log.erase([one], "so that its hash is known")
    tamper(small, "INSERT INTO forgotten_1 SELECT hash FROM forgotten_2")
    assert check_log(str(small)).problems == ["town default, 0000000000000001: the event was erased for good, and is here"]


def test_a_check_shows_many_problems_in_few_words(path: Path) -> None:
    tamper(path, "UPDATE events_1 SET at = 0")
    problems = check_log(str(path)).problems
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].startswith("and 4")


def test_a_log_can_be_checked_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with running("tests.faults.writer", "batch", f"sqlite:{path}", "w") as writer:
        counts = []
        for _ in range(5):
            for _ in range(30):
                writer.line()
            report = check_log(str(path))
            assert report.problems == []
            counts.append(report.events)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_what_is_not_a_log_is_not_checked_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="file not found; check the path"):
        check_log(str(tmp_path / "nowhere.db"))
    (tmp_path / "empty.db").touch()
    with pytest.raises(Damaged, match="not a log of Fleetlore; give another path"):
        check_log(str(tmp_path / "empty.db"))
    (tmp_path / "notes.txt").write_text("dear diary " * 100)
    with pytest.raises(Damaged, match="not a SQLite file"):
        check_log(str(tmp_path / "notes.txt"))
    assert sorted(os.listdir(tmp_path)) == ["empty.db", "notes.txt"]


# --- backup


def test_a_backup_is_one_private_file_that_opens_as_the_log(path: Path, tmp_path: Path) -> None:
    target, recorded = tmp_path / "backup.db", Recorded()
    with open_log(path) as log:
        assert backup_log(str(path), str(target), progress=recorded) == MANY + 3
        assert [event.id for event in log.read()] == [event.id for event in _events(target)]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert check_log(str(target)).problems == []
    assert sorted(os.listdir(tmp_path)) == ["backup.db", "fleet.db"]
    assert recorded.is_good()


def _events(path: Path) -> Iterator[Event]:
    with open_log(path) as log:
        yield from log.read()


def test_a_backup_is_made_while_another_process_never_stops_writing(tmp_path: Path) -> None:
    path, target = tmp_path / "fleet.db", tmp_path / "backup.db"
    with running("tests.faults.writer", "batch", f"sqlite:{path}", "w") as writer:
        assert writer.line() == "ready"
        acknowledged = [position for _ in range(100) for position in writer.line().split()[1:]]
        count = backup_log(str(path), str(target))
    report = check_log(str(target))
    assert (report.events, report.problems) == (count, [])
    positions = [str(event.position) for event in _events(target)]
    assert positions[: len(acknowledged)] == acknowledged
    assert positions == sorted(positions)


def test_a_backup_replaces_another_file_only_if_it_may(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_text("precious")
    with pytest.raises(Unwritable, match="the file exists; name another one"):
        backup_log(str(small), str(target))
    assert target.read_text() == "precious"
    assert backup_log(str(small), str(target), overwrite=True) == 3
    assert texts(target) == ["one", "two", "three"]


def test_a_backup_never_replaces_a_log_in_use(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with open_log(other) as log:
        log.append([make_event("mine")])
        with pytest.raises(Unwritable, match="a log in use"):
            backup_log(str(small), str(other), overwrite=True)
    with pytest.raises(Unwritable, match="is the log itself"):
        backup_log(str(small), str(small), overwrite=True)
    assert texts(other) == ["mine"]


def test_a_backup_that_cannot_be_made_says_why_and_leaves_nothing(small: Path, tmp_path: Path) -> None:
    with pytest.raises(Unwritable, match="check that the directory exists"):
        backup_log(str(small), str(tmp_path / "nowhere" / "backup.db"))
    with pytest.raises(Unwritable, match="is not a plain file"):
        backup_log(str(small), str(tmp_path), overwrite=True)
    with pytest.raises(LogError, match="file not found"):
        backup_log(str(tmp_path / "nothing.db"), str(tmp_path / "backup.db"))
    assert os.listdir(tmp_path) == ["small.db"]


# --- restore


@pytest.fixture
def kept(small: Path, tmp_path: Path) -> Path:
    """A backup of the small log."""
    backup_log(str(small), str(tmp_path / "kept.db"))
    return tmp_path / "kept.db"


def test_a_backup_is_restored_where_no_log_is(path: Path, tmp_path: Path) -> None:
    kept, new, recorded = tmp_path / "kept.db", tmp_path / "new.db", Recorded()
    backup_log(str(path), str(kept))
    assert restore_log(str(kept), str(new), progress=recorded) == MANY + 3
    assert check_log(str(new)).problems == []
    assert list(_events(new)) == list(_events(path))
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["fleet.db", "kept.db", "new.db"]
    assert recorded.is_good()


def test_a_log_with_events_is_replaced_only_if_it_may_be(small: Path, kept: Path) -> None:
    fill(small, "four")
    with pytest.raises(Unwritable, match="has events already"):
        restore_log(str(kept), str(small))
    assert texts(small) == ["one", "two", "three", "four"]
    assert restore_log(str(kept), str(small), overwrite=True) == 3
    assert texts(small) == ["one", "two", "three"]


def test_numbers_of_the_replaced_log_are_never_given_again(small: Path, kept: Path) -> None:
    [four, five] = fill(small, "four", "five")
    [elsewhere] = fill(small, "elsewhere", town="founded after the backup")
    restore_log(str(kept), str(small), overwrite=True)
    assert fill(small, "six") > [five]
    assert fill(small, "back again", town="founded after the backup") > [elsewhere]
    restore_log(str(kept), str(small), overwrite=True)
    assert fill(small, "seven") > [f"{int(five) + 1:016d}"]
    assert check_log(str(small)).problems == []
    assert four < five


def test_nobody_is_given_a_number_between_the_reading_of_the_old_ones_and_the_restore(
    small: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_over = maintenance._carry_over

    def try_to_append(*arguments: Any) -> None:
        with connect(f"sqlite:{small}?timeout=0").blocking() as log, pytest.raises(Busy):
            log.append([make_event("in between")])
        carry_over(*arguments)

    monkeypatch.setattr(maintenance, "_carry_over", try_to_append)
    restore_log(str(kept), str(small), overwrite=True)
    assert texts(small) == ["one", "two", "three"]


def test_what_was_forgotten_after_the_backup_stays_forgotten(small: Path, kept: Path) -> None:
    with open_log(small) as log:
        two = next(event for event in log.read() if event.text == "two")
        assert two.id is not None
        log.erase([two.id], "a name was in it")
    restore_log(str(kept), str(small), overwrite=True)
    assert texts(small) == texts(small, scope="agent:ada") == ["one", "three"]
    with open_log(small) as log, pytest.raises(Forgotten):
        log.append([make_event("two", id=two.id)])
    assert check_log(str(small)).problems == []
    assert b"two" not in small.read_bytes(), "its bytes are still in the file"


def test_handles_that_are_open_go_on_after_a_restore(small: Path, kept: Path) -> None:
    """They know the numbers of the old log's towns, kinds and scopes, and must not use them in the new one."""
    with open_log(small) as writer, open_log(small) as other, open_log(small) as reader:
        follower = reader.follow()
        assert [next(follower).text for _ in range(3)] == ["one", "two", "three"]
        writer.append([make_event("four", kind="x.learnt", agent="bea")])
        assert next(follower).text == "four"
        restore_log(str(kept), str(small), overwrite=True)
        other.append([make_event("five", kind="x.another", agent="cid")])
        assert [event.text for event in writer.read(newest_first=True, limit=1)] == ["five"], "a reader notices first"
        writer.append([make_event("six", kind="x.learnt", agent="bea")])
        assert [next(follower).text for _ in range(2)] == ["five", "six"]
        assert [event.text for event in reader.read("agent:bea")] == ["six"]
        assert [event.text for event in other.read(kinds=["x.another"])] == ["five"]
        assert reader.trim(str(next(reader.read("agent:cid")).position)) == 3
    assert texts(small) == ["five", "six"]
    assert check_log(str(small)).problems == []


def test_a_handle_that_erases_after_a_restore_uses_no_old_numbers(small: Path, kept: Path) -> None:
    with open_log(small) as log, open_log(small) as other:
        [one, two, three] = [str(event.id) for event in log.read()]
        log.erase([one], "learns the number of log.forgotten")
        restore_log(str(kept), str(small), overwrite=True)
        other.append([make_event("four", kind="x.another")])
        assert log.erase([three], "must learn it again") == 1
        assert [event.kind for event in log.read()] == ["fleet.commit", "x.another", "log.forgotten"]
        assert [event.id for event in log.get([one, two, three])] == [two]
    assert check_log(str(small)).problems == []


def test_another_process_goes_on_writing_through_a_restore(tmp_path: Path) -> None:
    path, kept = tmp_path / "fleet.db", tmp_path / "kept.db"
    with running("tests.faults.writer", "single", f"sqlite:{path}", "w") as writer:
        assert writer.line() == "ready"
        for _ in range(20):
            writer.line()
        backup_log(str(path), str(kept))
        for _ in range(20):
            writer.line()
        restore_log(str(kept), str(path), overwrite=True)
        highest = _highest(path)
        positions: list[str] = []
        while not positions or positions[-100:][0] <= highest:
            positions.append(writer.line().split()[1])
        writer.kill()
    assert positions == sorted(set(positions)), "a number was given twice"
    stored = [event.position for event in _events(path)]
    assert [position for position in positions if position > highest] == [
        position for position in stored if highest < str(position) <= positions[-1]
    ]
    assert check_log(str(path)).problems == []


def _highest(path: Path) -> str:
    """The last number that the replaced log gave."""
    connection = apsw.Connection(str(path))
    [[highest]] = connection.execute("SELECT highest FROM towns").fetchall()
    connection.close()
    return f"{highest:016d}"


class _Enough(Exception):
    """Somebody lost patience."""


def test_what_is_broken_off_changes_nothing(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "PAGES_PER_STEP", 50)
    kept = tmp_path / "kept.db"
    backup_log(str(path), str(kept))
    fill(path, "newest")

    def lose_patience(done: int, total: int) -> None:
        if done > total * 0.8:
            raise _Enough

    with pytest.raises(_Enough):
        restore_log(str(kept), str(path), overwrite=True, progress=lose_patience)
    with pytest.raises(_Enough):
        backup_log(str(path), str(kept), overwrite=True, progress=lose_patience)
    assert texts(path)[-1] == "newest"
    assert check_log(str(path)).problems == []
    assert check_log(str(kept)).events == MANY + 3
    assert sorted(os.listdir(tmp_path)) == ["fleet.db", "kept.db"]


def test_a_restore_waits_its_turn_and_says_when_it_took_too_long(small: Path, kept: Path) -> None:
    with running("tests.faults.holder", str(small), "BEGIN IMMEDIATE") as holder:
        assert holder.line() == "held"
        with pytest.raises(Busy, match="try again"):
            restore_log(str(kept), str(small), overwrite=True, timeout=0.2)
        restoring = Thread(target=restore_log, args=(str(kept), str(small)), kwargs={"overwrite": True})
        restoring.start()
        holder.say("let go")
        restoring.join()
    assert texts(small) == ["one", "two", "three"]


@pytest.mark.parametrize("sql", ["UPDATE events_1 SET raw = 'x' WHERE seq = 2", "DELETE FROM ids_1", "UPDATE events_1 SET kind = 9"])
def test_a_damaged_backup_is_not_restored(sql: str, small: Path, kept: Path, tmp_path: Path) -> None:
    fill(small, *(f"{n}" for n in range(LAG)))
    backup_log(str(small), str(kept), overwrite=True)
    tamper(kept, sql)
    with pytest.raises(Damaged, match=r"is damaged and was not restored.* take another backup"):
        restore_log(str(kept), str(tmp_path / "new.db"))
    with pytest.raises(Damaged, match="not restored"):
        restore_log(str(kept), str(small), overwrite=True)
    assert len(texts(small)) == LAG + 3
    assert sorted(os.listdir(tmp_path)) == ["kept.db", "small.db"]


def test_foreign_files_are_neither_restored_nor_replaced(small: Path, kept: Path, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes.db"
    tamper(recipes, "CREATE TABLE recipes (name TEXT)")
    before = recipes.read_bytes()
    with pytest.raises(Damaged, match="not a log of Fleetlore"):
        restore_log(str(recipes), str(small), overwrite=True)
    with pytest.raises(Damaged, match="another program"):
        restore_log(str(kept), str(recipes), overwrite=True)
    with pytest.raises(Unwritable, match="is the backup itself"):
        restore_log(str(kept), str(kept), overwrite=True)
    assert recipes.read_bytes() == before
    assert texts(small) == ["one", "two", "three"]


def test_a_backup_with_another_page_size_is_restored(small: Path, kept: Path) -> None:
    tamper(kept, "PRAGMA page_size=8192", "VACUUM")
    assert restore_log(str(kept), str(small), overwrite=True) == 3
    assert check_log(str(small)).problems == []


def test_a_log_that_cannot_be_read_any_more_is_moved_aside(small: Path, kept: Path, tmp_path: Path) -> None:
    [three] = fill(small, "four")
    wreck = b"wreck" + small.read_bytes()[5:]
    small.write_bytes(wreck)
    with pytest.raises(Damaged, match="is not a SQLite file"):
        restore_log(str(kept), str(small))
    assert small.read_bytes() == wreck
    assert restore_log(str(kept), str(small), overwrite=True) == 3
    assert texts(small) == ["one", "two", "three"]
    assert (tmp_path / "small.db.damaged").read_bytes() == wreck
    assert fill(small, "five") > [f"{int(three) + SEQUENCE_SKIP // 2:016d}"], "how far the numbers went could not be read"


def test_a_log_whose_events_cannot_be_read_is_restored_all_the_same(small: Path, kept: Path) -> None:
    with open_log(small) as log:
        log.append_all(make_event("x" * 500, agent=f"a{n}") for n in range(2000))
    raw = bytearray(small.read_bytes())
    for start in range(4096 * 12, len(raw), 4096):
        raw[start : start + 100] = bytes(100)
    small.write_bytes(raw)
    assert check_log(str(small)).problems
    assert restore_log(str(kept), str(small), overwrite=True) == 3
    assert texts(small) == ["one", "two", "three"]
    assert fill(small, "four") > ["0000000000002003"]
    assert check_log(str(small)).problems == []
