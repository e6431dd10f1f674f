"""Cursors and epochs outlive what happens to a log: its server's death, a backup, a restore."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.errors import Closed, LeaseLost, Unsuitable
from fleetlore.log.coordination import open_shared
from fleetlore.log.sqlite import file as sqlite_file
from fleetlore.log.sqlite.maintenance import backup_log, check_log, restore_log
from fleetlore.testing import FrozenClock
from tests.log.conftest import wait_for
from tests.servers import Nats, Valkey

LONG = 600
HERE, THERE = "00000000000000000001", "00000000000000000002"


# --- servers


@pytest.fixture(params=["redis", "nats"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Valkey | Nats]:
    """One that syncs every write, and may be killed."""
    folder = tmp_path / "server"
    made: Valkey | Nats = Valkey(folder, fsync="always") if request.param == "redis" else Nats(folder, sync="always")
    with made as running:
        yield running


def test_a_killed_server_keeps_cursors_and_epochs(server: Valkey | Nats) -> None:
    with open_shared(server.url) as shared:
        shared.commit_cursor("ship", HERE)
        shared.commit_cursor("ship", THERE)
        released = shared.acquire("released", "ada", LONG)
        over = shared.acquire("over", "ada", 0.05)
        kept = shared.acquire("kept", "ada", LONG)
        assert released
        assert over
        assert kept
        shared.renew(kept)
        shared.release(released)
        wait_for(lambda: shared.find_lease("over") is None)
        server.kill()
        server.start()
        assert shared.load_cursor("ship") == THERE
        for lost in (released, over):
            again = shared.acquire(lost.name, "bob", LONG)
            assert again is not None
            assert again.epoch > lost.epoch
        assert shared.acquire("kept", "bob", LONG) is None
        assert shared.renew(kept).epoch == kept.epoch


def test_epochs_grow_even_when_nothing_was_left_on_a_killed_server(server: Valkey | Nats) -> None:
    epochs: list[int] = []
    for _ in range(3):
        with open_shared(server.url) as shared:
            lease = shared.acquire("work", "ada", LONG)
            assert lease is not None
            epochs.append(lease.epoch)
            shared.release(lease)
        server.kill()
        server.start()
    assert epochs == sorted(set(epochs))


def test_a_lease_ends_while_its_server_is_down(server: Valkey | Nats) -> None:
    with open_shared(server.url) as shared:
        lease = shared.acquire("work", "ada", 0.05)
        assert lease is not None
        server.kill()
        server.start()
        wait_for(lambda: shared.find_lease("work") is None)
        with pytest.raises(LeaseLost):
            shared.renew(lease)


def test_a_server_that_throws_keys_away_is_refused(tmp_path: Path) -> None:
    with Valkey(tmp_path / "server", "--maxmemory-policy", "allkeys-lru") as server, pytest.raises(Unsuitable, match="noeviction"):
        open_shared(server.url).__enter__()


def test_epochs_grow_even_if_a_server_has_lost_everything(server: Valkey | Nats) -> None:
    with open_shared(server.url) as shared:
        before = shared.acquire("work", "ada", LONG)
        server.wipe()
        assert shared.find_lease("work") is None
        assert shared.list_cursors() == {}
        after = shared.acquire("work", "bob", LONG)
        assert before is not None
        assert after is not None
        assert after.epoch > before.epoch
        shared.commit_cursor("ship", HERE)
        assert shared.load_cursor("ship") == HERE


def test_epochs_grow_and_leases_end_though_a_server_was_set_back_to_an_older_copy_of_its_data(
    server: Valkey | Nats, tmp_path: Path
) -> None:
    with open_shared(server.url) as shared:
        old = shared.acquire("work", "ada", 0.05)
        kept = shared.acquire("kept", "ada", LONG)
        assert old is not None
        assert kept is not None
        server.stop()
        shutil.copytree(server.folder, tmp_path / "copy")
        server.start()
        wait_for(lambda: shared.find_lease("work") is None)
        newest = old
        for _ in range(5):
            again = shared.acquire("work", "bob", LONG)
            assert again is not None
            assert again.epoch > newest.epoch
            newest = again
        server.stop()
        shutil.rmtree(server.folder)
        shutil.copytree(tmp_path / "copy", server.folder)
        server.start()
        assert shared.find_lease("work") is None
        assert shared.renew(kept).epoch == kept.epoch
        after = shared.acquire("work", "cy", LONG)
        assert after is not None
        assert after.epoch > newest.epoch


# --- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


def url(path: Path) -> str:
    return f"sqlite:{path}"


def test_a_backup_carries_cursors_and_epochs(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with open_shared(url(path)) as shared:
        shared.commit_cursor("ship", HERE)
        lease = shared.acquire("work", "ada", LONG)
        assert lease is not None
        backup_log(str(path), str(copy))
    with open_shared(url(copy)) as shared:
        assert shared.list_cursors() == {"ship": HERE}
        assert shared.acquire("work", "bob", LONG) is None
        assert shared.renew(lease).epoch == lease.epoch
    assert check_log(str(copy)).problems == []


def test_a_restore_brings_back_each_towns_own_under_an_open_handle(path: Path, tmp_path: Path) -> None:
    """A restore gives towns new numbers; their cursors are kept by name."""
    copy = tmp_path / "copy.db"
    for town, position in (("here", HERE), ("there", THERE)):
        with connect(url(path), town=town).blocking() as log:
            log.append([Event(kind="fleet.idle", agent="ada")])
        with open_shared(url(path), town=town) as shared:
            shared.commit_cursor("ship", position)
    backup_log(str(path), str(copy))
    with open_shared(url(path), town="here") as here, open_shared(url(path), town="there") as there:
        here.commit_cursor("ship", THERE)
        there.delete_cursor("ship")
        restore_log(str(copy), str(path), overwrite=True)
        assert here.load_cursor("ship") == HERE
        assert there.load_cursor("ship") == THERE
    assert check_log(str(path)).problems == []


def test_epochs_grow_over_the_restore_of_an_older_backup(path: Path, tmp_path: Path) -> None:
    copy, clock = tmp_path / "copy.db", FrozenClock()
    with open_shared(url(path), now=clock) as shared:
        old = shared.acquire("work", "ada", 10)
        backup_log(str(path), str(copy))
        clock.advance(60)
        newest = shared.acquire("work", "bob", LONG)
        restore_log(str(copy), str(path), overwrite=True)
        assert old is not None
        assert newest is not None
        for lost in (old, newest):
            with pytest.raises(LeaseLost):
                shared.renew(lost)
        clock.advance(1)
        after = shared.acquire("work", "cid", LONG)
        assert after is not None
        assert after.epoch > newest.epoch


def test_a_log_of_the_first_schema_gets_the_tables(path: Path) -> None:
    connection = sqlite_file.open_file(str(path))
    sqlite_file.migrate_schema(connection, str(path), sqlite_file.MIGRATIONS[:1])
    connection.close()
    assert check_log(str(path)).problems == []
    with open_shared(url(path)) as shared:
        shared.commit_cursor("ship", HERE)
    with open_shared(url(path)) as shared:
        assert shared.load_cursor("ship") == HERE


def test_the_blocking_door_to_a_file_needs_no_asyncio(path: Path) -> None:
    code = (
        "import sys\n"
        "from fleetlore.log.coordination import open_shared\n"
        "with open_shared(sys.argv[1]) as shared: shared.acquire('work', 'ada', 1)\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code, url(path)], check=True)


def test_a_handle_does_not_outlive_a_fork(path: Path) -> None:
    with open_shared(url(path)) as shared:
        child = os.fork()
        if child == 0:
            try:
                shared.load_cursor("ship")
            except Closed:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
