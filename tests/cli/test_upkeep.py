"""`lore verify`, `backup`, `restore`, `doctor`: looking after a log."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fleetlore.cli import doctor
from fleetlore.cli.doctor import format_bytes
from tests.cli.running import Lore
from tests.servers import Nats, Valkey


@pytest.fixture
def filled(lore: Lore) -> Lore:
    for n in range(3):
        lore("emit", "fleet.commit", "--agent", "ada", "--text", str(n))
    return lore


def test_a_sound_log_verifies(filled: Lore) -> None:
    assert filled("verify", code=0).out.endswith("3 events in 1 town, no problems\n")
    assert filled("verify", "--json", code=0).json["problems"] == []


@pytest.mark.parametrize("server", ["valkey", "nats_server"])
def test_a_log_on_a_server_verifies(lore: Lore, request: pytest.FixtureRequest, server: str) -> None:
    running: Valkey | Nats = request.getfixturevalue(server)
    running.wipe()
    lore("--log", running.url, "emit", "fleet.commit", "--agent", "ada", code=0)
    assert lore("--log", running.url, "verify", code=0).out == f"{running.url}: 1 events in 1 town, no problems\n"


def test_a_damaged_log_does_not(filled: Lore) -> None:
    filled("backup", "copy.db")
    content = bytearray((filled.folder / "copy.db").read_bytes())
    at = content.index(b'"kind":"fleet.commit"')
    content[at : at + 6] = b"'kind'"
    filled.write("copy.db", bytes(content))
    result = filled("verify", "--log", "sqlite:copy.db", code=1)
    assert "1 problems" in result.out
    assert "the log is damaged" in result.err
    assert filled("verify", "--log", "sqlite:copy.db", "--json", code=1).json["problems"]


def test_salvage_says_what_was_saved_and_what_is_missing(lore: Lore) -> None:
    lore("emit", "-", stdin=b"".join(b'{"kind":"fleet.commit","agent":"ada","text":"%0300d"}\n' % n for n in range(100)))
    lore("backup", "copy.db")
    lore("backup", "sound.db")
    content = bytearray((lore.folder / "copy.db").read_bytes())
    at = content.index(b"%0300d" % 50)
    content[at] ^= 1
    lore.write("copy.db", bytes(content))
    assert "`lore salvage`" in lore("--log", "sqlite:copy.db", "verify", code=1).err
    result = lore("salvage", "copy.db", "saved.db", code=3).out
    assert "no event at 0000000000000051 (1)" in result
    assert "saved.db: 99 events saved, 1 positions without an event" in result
    assert lore("salvage", "sound.db", "whole.db", "--json", code=0).json["events"] == 100
    lore("--log", "sqlite:saved.db", "verify", code=0)


def test_a_backup_is_a_log_and_comes_back(filled: Lore) -> None:
    before = filled("events", "--json").raw
    assert filled("backup", "copy.db", code=0).out == "copy.db: 3 events\n"
    assert filled("events", "--json", "--log", "sqlite:copy.db").raw == before
    filled("emit", "fleet.push", "--agent", "ada")
    assert filled("restore", "copy.db", code=1).err.startswith("lore: ")
    filled("restore", "--force", "copy.db", code=0)
    assert filled("events", "--json").raw == before
    assert filled("restore", "copy.db", "--log", "sqlite:fresh.db", "--json", code=0).json["events"] == 3


def test_a_backup_replaces_nothing_unless_asked_to(filled: Lore) -> None:
    filled.write("copy.db", "something dear")
    assert "--force" in filled("backup", "copy.db", code=1).err
    assert (filled.folder / "copy.db").read_text() == "something dear"
    assert filled("backup", "--force", "copy.db", "--json", code=0).json["events"] == 3


def test_the_doctor_shows_paths_versions_and_growth(filled: Lore) -> None:
    recorded = filled("doctor", code=0).out
    for word in ("python", "sqlite", "apsw", "msgspec", "fleet.db", "anyone who can write this file is trusted", "bytes an event"):
        assert word in recorded
    assert re.search(r"growth +about 3 events a day", recorded)
    report = filled("doctor", "--json", code=0).json
    assert report["log"]["events"] == 3
    assert report["log"]["events_per_day"] == 3
    assert report["log"]["towns"] == ["default"]
    assert report["log"]["writable"] is True
    assert report["problems"] == []


def test_the_doctor_works_where_there_is_no_log_yet(lore: Lore) -> None:
    assert "not there yet" in lore("doctor", code=0).out
    assert lore("doctor", "--json", "--log", "memory:", code=0).json["log"]["events"] == 0
    assert not os.path.exists(os.environ["XDG_DATA_HOME"])
    assert "cannot be written" in lore("doctor", "--log", "sqlite:no/such/folder.db", code=1).err


def test_the_doctor_says_when_all_is_well_and_only_then(lore: Lore) -> None:
    recorded = lore("doctor", code=0).out
    assert recorded.endswith("All is well.\n")
    assert re.search(r"^pages +(inside|not built)", recorded, re.MULTILINE)
    assert re.search(r"^extras +.*\bredis\b", recorded, re.MULTILINE)
    assert "well" not in lore("doctor", "--log", "sqlite:no/such/folder.db", code=1).out


def test_the_doctor_finds_a_file_that_is_no_log(lore: Lore) -> None:
    lore.write("x.db", "this is no database, and long enough to be looked at " * 20)
    result = lore("doctor", "--log", "sqlite:x.db", code=1)
    assert "x.db" in result.err
    assert lore("doctor", "--json", "--log", "sqlite:x.db", code=1).json["problems"]


def test_the_doctor_asks_a_server_what_it_keeps_and_how(lore: Lore, valkey: Valkey) -> None:
    valkey.wipe()
    lore("emit", "fleet.commit", "--agent", "ada", "--log", valkey.url, code=0)
    recorded = lore("doctor", "--log", valkey.url, code=0).out
    for word in ("redis", "server", "memory", "same id", "anyone who can write to this server is trusted", "All is well."):
        assert word in recorded
    assert re.search(r"^events +1$", recorded, re.MULTILINE)
    assert "writable" not in recorded
    assert "only the newest 1,000 events" not in recorded
    small = f"{valkey.url}?keep=tinytown"
    assert "only the newest 1,000 events of the town" in lore("doctor", "--log", small, code=0).out


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 bytes"), (1023, "1,023 bytes"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5,120.0 GiB")],
)
def test_sizes_are_reported_as_people_read_them(count: int, said: str) -> None:
    assert format_bytes(count) == said


@pytest.mark.parametrize(
    ("content", "is_foreign"),
    [
        ("#!/usr/bin/python3\nfrom fleetlore.cli.main import entry\n", False),
        ('#!/bin/sh\nexec /opt/fleetlore/bin/lore "$@"\n', False),
        ("#!/home/me/fleetlore/bin/python\nfrom folklore import main\n", True),
        ("#!/usr/bin/env node\nrequire('lore')\n", True),
    ],
)
def test_the_doctor_reports_another_program_called_lore(
    lore: Lore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, is_foreign: bool
) -> None:
    other = tmp_path / "elsewhere" / "lore"
    other.parent.mkdir()
    other.write_text(content)
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    assert lore("doctor", "--json", code=0).json["commands"]["foreign_lore"] is is_foreign
    recorded = lore("doctor", code=0).out
    assert (f"another program: {other}" in recorded) is is_foreign
    assert ("Type `fleetlore`" in recorded) is is_foreign


def test_the_doctor_says_how_a_large_log_is_made_smaller(filled: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "advice" not in filled("doctor", code=0).out
    monkeypatch.setattr(doctor, "LARGE_BYTES", 1)
    result = filled("doctor", code=0).out
    assert "a year" in result
    assert "`lore archive --before 90d` keeps everything" in result
    assert 'keep = "1y" under [retention]' in result
    assert filled("doctor", "--json", code=0).json["log"]["advice"]


def test_the_doctor_warns_of_a_network_drive_and_a_disk_that_fills_up(filled: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_find_network_file_system", lambda _: "nfs4")
    monkeypatch.setattr(doctor, "_free_bytes", lambda _: 1)
    result = filled("doctor", code=0).out
    assert "is on a network drive (nfs4)" in result
    assert "enough for 0 days" in result


def test_the_doctor_tells_replicas_and_sync_of_a_nats_server(lore: Lore, nats_server: Nats) -> None:
    nats_server.wipe()
    lore("--log", nats_server.url, "emit", "fleet.commit", "--agent", "ada", code=0)
    result = lore("--log", nats_server.url, "doctor", code=0)
    assert "replicas     1, leader" in result.out
    assert "sync_interval unknown" in result.out
    assert "a power cut may take acknowledged events" in result.out
