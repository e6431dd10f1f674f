"""A log file that is deleted, moved or replaced while it is open: nothing is acknowledged any more, and every call says why."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from fleetlore import Event, connect
from fleetlore.errors import LogError
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from tests.contract.helpers import make_event
from tests.patience import PATIENCE

SIDE_FILES = ("-wal", "-shm")

Lose = Callable[[Path], None]


def delete(path: Path) -> None:
    path.unlink()


def delete_with_side_files(path: Path) -> None:
    for end in ("", *SIDE_FILES):
        Path(f"{path}{end}").unlink()


def move_away(path: Path) -> None:
    path.rename(path.with_name("old.db"))


def replace_by_another_log(path: Path) -> None:
    other = path.with_name("other.db")
    with opened(other) as log:
        log.append([make_event("of the other log")])
    other.replace(path)


def replace_by_its_backup(path: Path) -> None:
    copy = path.with_name("backup.db")
    backup_log(str(path), str(copy))
    copy.replace(path)


def replace_by_an_empty_file(path: Path) -> None:
    empty = path.with_name("empty.db")
    empty.touch()
    empty.replace(path)


def remove_the_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def rename_the_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("renamed"))


def replace_the_directory_by_a_file(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.touch()


GONE = "was deleted or moved away while the log was open; nothing appended since then is acknowledged"
REPLACED = "was replaced by another file while the log was open; nothing appended since then is acknowledged"
WAYS = [
    (delete, GONE),
    (delete_with_side_files, GONE),
    (move_away, GONE),
    (replace_by_another_log, REPLACED),
    (replace_by_its_backup, REPLACED),
    (replace_by_an_empty_file, REPLACED),
    (remove_the_directory, GONE),
    (rename_the_directory, GONE),
    (replace_the_directory_by_a_file, GONE),
]
every_way = pytest.mark.parametrize(("lose", "reason"), WAYS, ids=[lose.__name__ for lose, _ in WAYS])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "fleet.db"


def opened(path: Path, options: str = "") -> BlockingRecorder:
    return connect(f"sqlite:{path}{options}").blocking()


def some(count: int) -> list[Event]:
    return [make_event(str(n)) for n in range(count)]


@every_way
@pytest.mark.parametrize("sync", ["full", "normal"])
def test_nothing_is_acknowledged(lose: Lose, reason: str, sync: str, path: Path) -> None:
    with opened(path, f"?sync={sync}") as log:
        log.append(some(1))
        log.append(some(3))
        lose(path)
        for _ in range(2):
            for count in (1, 3):
                with pytest.raises(LogError, match=f"{path}: {reason}.*`lore restore`"):
                    log.append(some(count))
            with pytest.raises(LogError, match=reason):
                log.append_all(some(3000))


@every_way
def test_reading_says_so_too(lose: Lose, reason: str, path: Path) -> None:
    with opened(path) as log:
        log.append(some(3))
        reading = log.read()
        next(reading)
        lose(path)
        attempts: list[Callable[[], object]] = [
            log.head,
            log.info,
            lambda: list(log.read()),
            lambda: log.get(["0190f3a0-0000-7000-8000-000000000001"]),
            lambda: log.trim("0000000000000002"),
            lambda: log.erase(["0190f3a0-0000-7000-8000-000000000001"], "asked to"),
            lambda: next(log.follow()),
        ]
        for attempt in attempts:
            with pytest.raises(LogError, match=reason):
                attempt()


def test_no_new_log_is_made_in_place_of_a_deleted_one(path: Path) -> None:
    with opened(path) as log:
        log.append(some(1))
        delete_with_side_files(path)
        for attempt in (log.head, lambda: next(log.follow()), lambda: log.append(some(1))):
            with pytest.raises(LogError, match=GONE):
                attempt()
    assert os.listdir(path.parent) == []


@every_way
def test_anybody_who_waits_for_events_is_informed(lose: Lose, reason: str, path: Path) -> None:
    with opened(path) as log, ThreadPoolExecutor(3) as threads:
        [position] = log.append(some(1))
        waiting = [threads.submit(next, log.follow(after=position)) for _ in range(3)]
        while log._require_backend().changes.polling_tail is None:  # type: ignore[attr-defined]
            pass
        lose(path)
        for follower in waiting:
            with pytest.raises(LogError, match=reason):
                follower.result(PATIENCE)


@every_way
def test_tasks_of_an_event_loop_are_informed(lose: Lose, reason: str, path: Path) -> None:
    async def run() -> None:
        async with connect(f"sqlite:{path}") as log:
            await log.append(some(1))
            follower = log.follow(after=await log.head())
            waiting = asyncio.ensure_future(anext(follower))
            lose(path)
            for answer in await asyncio.gather(
                *(log.append(some(1)) for _ in range(3)), log.append_all(some(2000)), return_exceptions=True
            ):
                assert isinstance(answer, LogError), answer
            for attempt in (log.append(some(1)), log.head(), asyncio.wait_for(waiting, PATIENCE)):
                with pytest.raises(LogError, match=reason):
                    await attempt
            await follower.aclose()

    asyncio.run(run())


@every_way
@pytest.mark.parametrize("count", [1, 3])
def test_a_file_that_goes_during_the_commit_is_noticed_after_it(lose: Lose, reason: str, count: int, path: Path) -> None:
    """It was there when the commit began, and SQLite itself stores the events without a word."""
    with opened(path) as log, closing(apsw.Connection(str(path))) as other:
        log.append(some(1))
        log.append(some(1))
        writer = log._require_backend()._writer  # type: ignore[attr-defined]

        def on_busy(_: int) -> bool:
            if other.in_transaction:
                lose(path)
                other.execute("ROLLBACK")
            return True

        writer.set_busy_handler(on_busy)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match=reason):
            log.append(some(count))
        assert not other.in_transaction
        with pytest.raises(LogError, match=reason):
            log.append(some(count))


@every_way
def test_no_lease_cursor_or_token_is_kept_there(lose: Lose, reason: str, path: Path) -> None:
    with open_shared(f"sqlite:{path}") as shared:
        lease = shared.acquire("goal:1", "ada", 60)
        assert lease is not None
        shared.commit_cursor("shipper", "0000000000000001")
        lose(path)
        attempts: list[Callable[[], object]] = [
            lambda: shared.acquire("goal:2", "ada", 60),
            lambda: shared.renew(lease),
            lambda: shared.release(lease),
            lambda: shared.commit_cursor("shipper", "0000000000000002"),
            lambda: shared.load_cursor("shipper"),
            lambda: shared.find_lease("goal:1"),
            shared.list_tokens,
        ]
        for attempt in attempts:
            with pytest.raises(LogError, match=reason):
                attempt()


def test_a_lease_is_not_given_if_the_file_goes_meanwhile(path: Path) -> None:
    with open_shared(f"sqlite:{path}") as shared, closing(apsw.Connection(str(path))) as other:
        shared.commit_cursor("shipper", "0000000000000001")

        def on_busy(_: int) -> bool:
            if other.in_transaction:
                delete(path)
                other.execute("ROLLBACK")
            return True

        shared._require_store()._connection.set_busy_handler(on_busy)  # type: ignore[attr-defined]
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogError, match=GONE):
            shared.acquire("goal:1", "ada", 60)


@pytest.mark.parametrize("end", SIDE_FILES)
def test_a_side_file_that_is_deleted_is_noticed(end: str, path: Path) -> None:
    """Other processes would make another one, and neither would see what the other stores."""
    with opened(path) as log:
        log.append(some(1))
        Path(f"{path}{end}").unlink()
        with pytest.raises(LogError, match=f"{path}{end}: was deleted"):
            log.head()
        for count in (1, 3):
            with pytest.raises(LogError, match=f"{path}{end}: was deleted"):
                log.append(some(count))


def test_a_symbolic_link_that_leads_to_another_log_is_noticed(path: Path) -> None:
    first, second = path.with_name("first.db"), path.with_name("second.db")
    with opened(second) as log:
        log.append(some(1))
    path.symlink_to(first)
    first.touch()
    with opened(path) as log:
        log.append(some(1))
        path.unlink()
        path.symlink_to(second)
        with pytest.raises(LogError, match=REPLACED):
            log.head()
        with pytest.raises(LogError, match=REPLACED):
            log.append(some(1))


def test_a_log_behind_a_symbolic_link_is_used_as_ever(path: Path) -> None:
    real = path.with_name("real.db")
    real.touch()
    path.symlink_to(real)
    with opened(path) as log:
        log.append(some(2))
        assert len(list(log.read())) == 2
        delete(real)
        with pytest.raises(LogError, match=GONE):
            log.append(some(1))


def test_a_file_that_was_moved_back_is_used_again(path: Path) -> None:
    with opened(path) as log:
        log.append(some(1))
        away = path.with_name("old.db")
        path.rename(away)
        with pytest.raises(LogError, match=GONE):
            log.append(some(1))
        away.rename(path)
        log.append([make_event("back")])
        assert [event.text for event in log.read()] == ["0", "back"]
    assert check_log(str(path)).problems == []


def test_a_restore_into_a_log_in_use_is_not_taken_for_a_loss(path: Path) -> None:
    copy = path.with_name("backup.db")
    with opened(path) as log, open_shared(f"sqlite:{path}") as shared:
        log.append([make_event("kept")])
        backup_log(str(path), str(copy))
        [last] = log.append([make_event("lost by the restore")])
        following = log.follow(after=last)
        restore_log(str(copy), str(path), overwrite=True)
        shared.commit_cursor("shipper", last)
        [position] = log.append([make_event("after")])
        assert next(following).text == "after"
        assert position > last
        assert [event.text for event in log.read()] == ["kept", "after"]
    assert check_log(str(path)).problems == []


def test_a_restore_in_place_of_a_damaged_log_ends_those_who_use_it(path: Path) -> None:
    """The damaged file is moved aside; a process that has it open must not continue with it."""
    copy = path.with_name("backup.db")
    with opened(path) as log:
        log.append([make_event("kept")])
        backup_log(str(path), str(copy))
    with opened(path) as log:
        log.append(some(1))
        path.write_bytes(b"not a log " * 1000)
        restore_log(str(copy), str(path), overwrite=True)
        with pytest.raises(LogError, match=REPLACED):
            log.append(some(1))


def test_a_log_that_was_put_in_place_is_not_harmed_when_the_old_one_is_closed(path: Path) -> None:
    with opened(path) as old:
        old.append(some(1))
        delete_with_side_files(path)
        with opened(path) as new:
            new.append([make_event("of the new log")])
            old.close()
            new.append([make_event("one more")])
            assert [event.text for event in new.read()] == ["of the new log", "one more"]
    assert check_log(str(path)).events == 2


def test_each_town_in_a_file_is_informed(path: Path) -> None:
    with connect(f"sqlite:{path}", town="one").blocking() as one, connect(f"sqlite:{path}", town="two").blocking() as two:
        one.append(some(1))
        delete(path)
        for log in (one, two):
            with pytest.raises(LogError, match=GONE):
                log.append(some(1))
