"""More attacks by a file that somebody gives you to restore: paths in it, links, pipes and devices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import apsw
import pytest

from tests.cli.running import Lore, command

SECONDS = 60


@pytest.fixture
def backup(lore: Lore) -> Path:
    """A backup in a folder that came from elsewhere."""
    lore("emit", "fleet.idle", "--log", "sqlite:own.db", "--at", "2020-01-01T00:00:00Z", code=0)
    lore("emit", "fleet.idle", "--log", "sqlite:own.db", code=0)
    lore("archive", "--log", "sqlite:own.db", "--before", "100d", code=0)
    folder = lore.folder / "got" / "a" / "b"
    folder.mkdir(parents=True)
    lore("backup", "--log", "sqlite:own.db", str(folder / "copy.db"), code=0)
    assert len(list((folder / "copy.db.archive").iterdir())) == 1
    return folder / "copy.db"


def change(backup: Path, *statements: str) -> None:
    connection = apsw.Connection(str(backup))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def restore(lore: Lore, backup: Path, log: str = "home/data/new.db") -> subprocess.CompletedProcess[bytes]:
    (lore.folder / "home" / "data").mkdir(parents=True, exist_ok=True)
    argv = ["restore", "--log", f"sqlite:{lore.folder / log}", str(backup)]
    return subprocess.run(command(argv), cwd=lore.folder, capture_output=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("name", ["../../.bashrc", "../.bashrc", "/.bashrc", "x/../../../.bashrc", "", ".", "1-0-1-0.flar\n", "a\0b"])
def test_the_name_of_an_archive_leads_nowhere_else(lore: Lore, backup: Path, name: str) -> None:
    """It was joined to the folders of backup and log, so that a backup could write to any file of the user."""
    for place in (backup.parent, backup.parent.parent, backup.parent.parent.parent):
        (place / ".bashrc").write_text("touch ran\n")
    target = lore.folder / "home" / ".bashrc"
    target.parent.mkdir()
    target.write_text("mine\n")
    connection = apsw.Connection(str(backup))
    connection.execute("UPDATE archive_1 SET file = ?", (str(lore.folder) + name if name == "/.bashrc" else name,))
    connection.close()
    done = restore(lore, backup)
    assert done.returncode == 1
    assert b"is no name of an archive" in done.stderr
    assert target.read_text() == "mine\n"
    assert not list((lore.folder / "home" / "data").rglob(".bashrc"))


def test_no_file_outside_is_deleted_when_events_of_such_a_log_are_forgotten(lore: Lore, backup: Path) -> None:
    precious = lore.folder / "got" / "a" / "x-y-0-z"
    precious.write_text("mine\n")
    change(backup, "UPDATE archive_1 SET file = '../../x-y-0-z'")
    [old, *_] = lore("events", "--json", "--all", "--log", f"sqlite:{backup}").ndjson or [{}]
    lore("forget", "--log", f"sqlite:{backup}", old.get("id", "0" * 32), "--yes", "--reason", "x")
    lore("trim", "--log", f"sqlite:{backup}", "--before", "1d", "--yes")
    lore("archive", "--log", f"sqlite:{backup}", "--before", "0d")
    assert precious.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["pipe", "link to a secret", "endless", "folder"])
def test_an_archive_that_is_no_plain_file_is_not_copied(lore: Lore, backup: Path, kind: str) -> None:
    [file] = (backup.parent / "copy.db.archive").iterdir()
    secret = lore.folder / "secret"
    secret.write_text("KEY=1\n")
    file.unlink()
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case _:
            file.symlink_to(secret if kind == "link to a secret" else "/dev/zero")
    assert restore(lore, backup).returncode == 1
    assert not [path for path in (lore.folder / "home").rglob("*") if path.is_file() and b"KEY=1" in path.read_bytes()]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to /dev/zero", "empty", "text"])
def test_a_backup_that_is_no_database_is_refused_at_once(lore: Lore, kind: str) -> None:
    path = lore.folder / "copy.db"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to /dev/zero":
            path.symlink_to("/dev/zero")
        case _:
            path.write_text("" if kind == "empty" else "SQLite format 4")
    done = restore(lore, path)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
