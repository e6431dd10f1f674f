"""The disposable file: it may be lost, damaged, locked or forbidden, and nothing but time is lost with it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.events.installed_kinds import combine_version
from fleetlore.log.base import LogInfo
from fleetlore.projections import store as module
from fleetlore.projections.store import (
    MAX_CHECKPOINTS,
    EventAnchor,
    ProjectionStore,
    ViewCheckpoint,
    open_store,
    select_kept_counts,
    store_file_name,
)

LOG_ID = "01a1e1bf-2e12-70bf-89ed-88b84d17777f"


def info_of(**changes: object) -> LogInfo:
    info = LogInfo(
        backend="sqlite",
        town="default",
        log_id=LOG_ID,
        events=0,
        first=None,
        head=None,
        trimmed_before=None,
        bytes=0,
        dedup="",
        durability="",
        details={"path": "/somewhere/fleet.db"},
    )
    return replace(info, **changes)


def checkpoint(n: int, *, view: str = "fleet", version: int = 1) -> ViewCheckpoint:
    return ViewCheckpoint(view=view, version=version, place=EventAnchor(f"{n:016d}", f"{n - 1:016d}", f"id{n}"), events=n, state=b"%d" % n)


def opened(folder: Path) -> ProjectionStore:
    store = open_store(info_of(), folder=str(folder))
    assert store is not None
    return store


def holds_something(store: ProjectionStore) -> bool:
    store.save_checkpoint(checkpoint(5), heeded=None)
    return store.newest_checkpoint("fleet", 1) == checkpoint(5)


def test_it_is_the_users_own_and_nobody_elses(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    with opened(folder) as store:
        assert holds_something(store)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_it_is_in_the_cache_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert module.cache_folder() == f"{tmp_path}/.cache/fleetlore"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert module.cache_folder() == "/elsewhere/fleetlore"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert module.cache_folder() == f"{tmp_path}/Library/Caches/fleetlore"


def test_each_log_town_and_place_has_a_file_of_its_own() -> None:
    variants = [
        info_of(),
        info_of(town="harbour"),
        info_of(log_id=LOG_ID.replace("0", "1")),
        info_of(details={"path": "/a/backup.db"}),
        info_of(log_id="../../etc/passwd"),
    ]
    names = {store_file_name(info) for info in variants}
    assert len(names) == len(variants)
    assert all("/" not in name for name in names)


@pytest.mark.parametrize("info", [info_of(backend="memory"), info_of(log_id="")])
def test_a_log_that_is_not_kept_has_none(info: LogInfo, tmp_path: Path) -> None:
    assert open_store(info, folder=str(tmp_path / "cache")) is None
    assert not (tmp_path / "cache").exists()


def test_where_no_folder_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert open_store(info_of(), folder=str(tmp_path / "file" / "cache")) is None
    (tmp_path / store_file_name(info_of())).mkdir()
    assert open_store(info_of(), folder=str(tmp_path)) is None


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")
def test_where_the_folder_cannot_be_written_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    assert open_store(info_of(), folder=str(tmp_path / "cache" / "fleetlore")) is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_where_no_file_can_be_made_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    real = os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number), path)
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    assert open_store(info_of(), folder=str(tmp_path)) is None


def test_one_who_was_stopped_while_opening_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert open_store(info_of(), folder=str(tmp_path)) is None
    os.close(handle)
    with opened(tmp_path) as store:
        assert holds_something(store)


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 500)


def _cut_in_half(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _of_another_program(path: Path) -> None:
    path.unlink()
    with apsw.Connection(str(path)) as connection:
        connection.execute("CREATE TABLE theirs (x); PRAGMA application_id=7")
    connection.close()


def _newer(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=99")
    connection.close()


def _without_a_table(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE checkpoints")
    connection.close()


def _scrawled_over(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\xa5" * (len(whole) - 4096)
    path.write_bytes(whole)


@pytest.mark.parametrize("harm", [_garbage, _cut_in_half, _of_another_program, _newer, _without_a_table, _scrawled_over])
def test_a_file_that_is_of_no_use_is_made_anew(tmp_path: Path, harm: object, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as store:
        assert holds_something(store)
    harm(Path(store.path))  # type: ignore[operator]
    with opened(tmp_path) as again:
        assert again.newest_checkpoint("fleet", 1) is None
        assert holds_something(again)
    with opened(tmp_path) as later:
        assert later.newest_checkpoint("fleet", 1) == checkpoint(5)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_deleted_or_damaged_in_use_costs_only_what_was_in_it(tmp_path: Path) -> None:
    with opened(tmp_path) as first, opened(tmp_path) as second:
        assert holds_something(first)
        os.unlink(first.path)
        assert first.newest_checkpoint("fleet", 1) == checkpoint(5)
        second.run_write(lambda connection: connection.execute("DROP TABLE checkpoints"), None)
        assert second.newest_checkpoint("fleet", 1) is None
        assert holds_something(second)
        with opened(tmp_path) as third:
            assert third.newest_checkpoint("fleet", 1) == checkpoint(5)


def test_who_finds_the_damage_second_does_not_throw_away_the_new_file(tmp_path: Path) -> None:
    with opened(tmp_path) as first, opened(tmp_path) as second:
        first.run_write(lambda connection: connection.execute("DROP TABLE checkpoints"), None)
        first.newest_checkpoint("fleet", 1)
        assert holds_something(first)
        second.newest_checkpoint("fleet", 1)
        assert second.newest_checkpoint("fleet", 1) == checkpoint(5)


def test_a_file_that_is_held_locked_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    with opened(tmp_path) as store:
        other = apsw.Connection(store.path)
        other.execute("BEGIN IMMEDIATE")
        store.save_checkpoint(checkpoint(5), heeded=None)
        assert store.newest_checkpoint("fleet", 1) is None
        other.execute("ROLLBACK")
        other.close()
        assert holds_something(store)


def test_a_forked_child_leaves_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        assert holds_something(store)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(os, "getpid", lambda: -1)
            assert store.newest_checkpoint("fleet", 1) is None
        assert store.newest_checkpoint("fleet", 1) == checkpoint(5)
    assert store.newest_checkpoint("fleet", 1) is None  # closed


def test_the_nearest_checkpoint_not_behind_a_position_is_given(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for n in (10, 20, 30):
            store.save_checkpoint(checkpoint(n), heeded=None)
        store.save_checkpoint(checkpoint(25, view="costs"), heeded=None)
        assert store.newest_checkpoint("fleet", 1) == checkpoint(30)
        assert store.newest_checkpoint("fleet", 1, upto=f"{29:016d}") == checkpoint(20)
        assert store.newest_checkpoint("fleet", 1, upto=f"{9:016d}") is None
        assert store.newest_checkpoint("fleet", 2) is None


def test_a_newer_version_of_a_view_clears_the_older_away(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.save_checkpoint(checkpoint(10), heeded=None)
        store.save_checkpoint(checkpoint(10, view="costs"), heeded=None)
        store.save_checkpoint(checkpoint(20, version=2), heeded=None)
        assert store.newest_checkpoint("fleet", 1) is None
        assert store.newest_checkpoint("fleet", 2) == checkpoint(20, version=2)
        assert store.newest_checkpoint("costs", 1) == checkpoint(10, view="costs")


def test_what_other_packages_made_of_a_view_is_cleared_away_with_the_older(tmp_path: Path) -> None:
    ones, others, gone = (combine_version(1, {"kanban.moved": beat}) for beat in ("claim", "rest", "progress"))
    with opened(tmp_path) as store:
        for n, version in enumerate((gone, ones, others, 1), 10):
            store.save_checkpoint(checkpoint(n, version=version), heeded=None)
        kept = [version for version in (gone, ones, others, 1) if store.newest_checkpoint("fleet", version)]
        assert kept == [others, 1], "two that are in use side by side are not in each other's way"
        store.save_checkpoint(checkpoint(20, version=2), heeded=None)
        assert [version for version in (others, 1, 2) if store.newest_checkpoint("fleet", version)] == [2]
        store.save_checkpoint(checkpoint(30, version=ones), heeded=None)
        assert store.newest_checkpoint("fleet", 2) == checkpoint(20, version=2), "an older release leaves those of a newer one alone"


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=400))
def test_checkpoints_are_never_many(steps: list[int]) -> None:
    counts: list[int] = []
    newest = 0
    for step in steps:
        newest += step
        counts = sorted(select_kept_counts([*counts, newest]))
        assert counts[-1] == newest
        assert len(counts) <= MAX_CHECKPOINTS


def test_what_is_kept_is_near_to_every_place_in_the_past() -> None:
    counts: list[int] = []
    for newest in range(10_000, 5_000_000, 10_000):
        counts = sorted(select_kept_counts([*counts, newest]))
    for place in range(100_000, 4_990_000, 70_000):
        nearest = max(count for count in counts if count <= place)
        assert place - nearest <= newest / 20


WORKER = """
import sys
from fleetlore import Event, connect
from fleetlore.projections import search
from fleetlore.projections.runner import Runner, make_view
from fleetlore.projections.store import open_store
from fleetlore.views import fleet

url, folder = sys.argv[1:]
with connect(url).blocking() as log:
    for turn in range(8):
        with open_store(log.info(), folder=folder) as store:
            assert store.is_usable
            log.append([Event(kind="fleet.commit", agent="ada", text="needle") for _ in range(40)])
            folded = Runner(log, make_view(fleet, "fleet"), store).catch_up()
            assert folded.events == folded.state.events >= (turn + 1) * 40
            found = search.find_events(log, "needle", limit=100_000, store=store)
            assert len(found) == len({event.position for event in found}) >= (turn + 1) * 40
"""


def test_several_processes_share_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'fleet.db'}?sync=off"
    with connect(url).blocking() as log:
        log.append_all(Event(kind="fleet.commit", agent="ada", text="needle") for _ in range(3000))
    argv = [sys.executable, "-c", WORKER, url, str(tmp_path / "cache")]
    workers = [subprocess.Popen(argv, stderr=subprocess.PIPE) for _ in range(3)]
    errors = [worker.communicate(timeout=100)[1].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0], errors
