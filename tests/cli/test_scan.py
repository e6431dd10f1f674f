"""`lore scan` finds secrets in events that older rules stored, and in files; it names kinds and places, never the secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.redact import Redactor
from tests.cli.running import Lore

SECRET = "ghp_" + "Ab1" * 12


class Blind(Redactor):
    """A version that knew no rules."""

    def may_contain_secret(self, raw: bytes) -> bool:
        return False


@pytest.fixture
def old(lore: Lore) -> Lore:
    with connect(f"sqlite:{lore.folder}/old.db", redactor=Blind()).blocking() as log:
        log.append([Event(kind="tool.used", agent="ada", text="fine", data={"tool": "Bash", "input": {"command": f"export T={SECRET}"}})])
        log.append([Event(kind="fleet.idle", agent="bob", text="nothing here")])
        log.append([Event(kind="tool.used", agent="bob", text=f"https://ada:{SECRET}@example.org/x.git", data={"tool": "Bash"})])
    return lore


def test_events_with_secrets_are_named_and_erased_if_asked_for(old: Lore) -> None:
    assert SECRET.encode() in b"".join(path.read_bytes() for path in Path(old.folder).glob("old.db*"))
    found = old("scan", "--log", "sqlite:old.db", "--dry-run", code=1)
    assert (found.out.count("tool.used"), SECRET in found.out) == (2, False)
    assert "GitHub" in found.out
    assert "erased 2 events" in old("scan", "--log", "sqlite:old.db", "--yes", code=0).out
    assert old("scan", "--log", "sqlite:old.db", code=0).out == "no secrets found\n"
    stored = b"".join(path.read_bytes() for path in Path(old.folder).glob("old.db*"))
    assert SECRET.encode() not in stored


def test_without_a_terminal_and_without_yes_nothing_is_erased(old: Lore) -> None:
    assert "--yes" in old("scan", "--log", "sqlite:old.db", code=2).err
    assert old("scan", "--log", "sqlite:old.db", "--dry-run", "--json", code=1).json["found"][0]["agent"] == "ada"


def test_your_own_patterns_count(old: Lore) -> None:
    old.write("../home/.config/fleetlore/fleetlore.toml", "[redact]\npatterns = ['nothing h[a-z]+']\n")
    assert len(old("scan", "--log", "sqlite:old.db", "--dry-run", "--json", code=1).json["found"]) == 3


def test_files_are_reported_by_line(lore: Lore) -> None:
    lore.write("a/one.jsonl", f'{{"x": "fine"}}\n{{"x": "{SECRET}"}}\n')
    lore.write("a/two.txt", "nothing\n")
    result = lore("scan", "a", code=1)
    assert result.out.startswith("a/one.jsonl:2  ")
    assert SECRET not in result.out
    assert lore("scan", "a/two.txt", code=0).out == "no secrets found\n"
    assert "no such file" in lore("scan", "missing", code=2).err


def test_a_secret_in_the_cut_part_of_a_long_text_is_found_and_erased(lore: Lore) -> None:
    with connect(f"sqlite:{lore.folder}/old.db", redactor=Blind()).blocking() as log:
        log.append([Event(kind="fleet.prompt", agent="ada", data={"prompt": "a long text\n" * 4000 + SECRET})])
    assert "GitHub" in lore("scan", "--log", "sqlite:old.db", "--dry-run", code=1).out
    lore("scan", "--log", "sqlite:old.db", "--yes", code=0)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in Path(lore.folder).glob("old.db*"))


def test_events_that_could_not_be_erased_are_reported(old: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.ingest.forget.erase_events", lambda log, ids, reason: len(ids) - 1)
    result = old("scan", "--log", "sqlite:old.db", "--yes", code=1)
    assert "1 event could not be erased" in result.err


def test_a_file_that_cannot_be_read_is_no_success(lore: Lore) -> None:
    Path(lore.folder, "a").mkdir()
    Path(lore.folder, "a/one.txt").symlink_to("/proc/self/mem")  # root may open it, and reading fails
    lore.write("a/two.txt", SECRET)
    result = lore("scan", "a", code=1)
    assert "a/two.txt:1" in result.out
    assert "a/one.txt: cannot be read" in result.err
    result = lore("scan", "a/one.txt", code=1)
    assert "no secrets found" not in result.out


def test_a_folder_that_cannot_be_read_is_no_success(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    lore.write("a/closed/one.txt", "nothing")
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert "a/closed: cannot be read (Permission denied)" in lore("scan", "a", code=1).err


def test_a_wrong_path_is_refused_before_anything_is_read(lore: Lore) -> None:
    lore.write("a.txt", SECRET)
    result = lore("scan", "a.txt", "missing", code=2)
    assert "no such file" in result.err
