"""Attacks by a `fleetlore.toml` that the user has not approved: on the machine, on approvals, on what was approved above it."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleetlore import settings as config
from tests.cli.running import Lore, command

INSIDE = 'log = "sqlite:fleet.db"\n'


def settings_of(lore: Lore) -> dict[str, Any]:
    shown = lore("config", "show", "--json", code=0).json
    return {name: value["value"] for name, value in shown.items() if isinstance(value, dict)}


def emit_by_process(lore: Lore) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(["emit", "fleet.idle"]), cwd=lore.folder, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_a_pipe_in_place_of_the_log_blocks_nobody(lore: Lore, suffix: str) -> None:
    lore.write("fleetlore.toml", INSIDE, approve=False)
    os.mkfifo(f"fleet.db{suffix}")
    done = emit_by_process(lore)
    assert done.returncode == 0
    assert b"`lore trust`" in done.stderr
    assert lore("events", "--json", "--log", "sqlite:", code=0).ndjson


def test_a_folder_in_place_of_the_log_does_not_stop_recording(lore: Lore) -> None:
    lore.write("fleetlore.toml", INSIDE, approve=False)
    (lore.folder / "fleet.db").mkdir()
    assert emit_by_process(lore).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["fleet.db", "fleet.db-wal"])
def test_a_log_file_that_another_user_put_there_gets_no_event(lore: Lore, name: str) -> None:
    lore.write("fleetlore.toml", INSIDE, approve=False)
    (lore.folder / name).touch(mode=0o666)
    os.chown(name, 65534, 65534)
    lore("emit", "fleet.idle", "--text", "private", code=0)
    assert (lore.folder / name).stat().st_size == 0
    assert settings_of(lore)["log"] == "sqlite:"


@pytest.mark.parametrize("by", ["world-writable", "owner"])
def test_a_log_in_a_folder_where_others_can_put_files_is_not_used(lore: Lore, by: str) -> None:
    lore.write("shared/fleetlore.toml", INSIDE, approve=False)
    if by == "world-writable":
        (lore.folder / "shared").chmod(0o1777)
    elif os.geteuid() == 0:
        os.chown("shared", 65534, 65534)
    else:
        pytest.skip("only root can give folders away")
    os.chdir("shared")
    lore("emit", "fleet.idle", code=0)
    assert not Path("fleet.db").exists()


@pytest.mark.parametrize(
    "content",
    [
        "a" + ".a" * 30_000 + " = 1\n",
        "x = [\n" + "1,\n" * 400_000 + "]\n",
        INSIDE + "#" * 40_000_000,
        "[a]\n" * 5_000,
    ],
    ids=["dotted", "array", "comment", "tables"],
)
def test_a_file_that_is_slow_to_read_is_not_read(lore: Lore, content: str) -> None:
    lore.write("fleetlore.toml", content, approve=False)
    result = lore("emit", "fleet.idle", code=0)
    assert "ignored, because you have not approved this file: everything (it is too large)" in result.err
    assert not (lore.folder / "fleet.db").exists()


def test_a_file_larger_than_what_is_read_of_it_cannot_be_approved(lore: Lore) -> None:
    """Otherwise its end could change under the approval."""
    lore.write("fleetlore.toml", 'town = "ours"\n' + "#" * config.MAX_PROJECT_BYTES, approve=False)
    assert "is larger than" in lore("trust", "--yes", code=2).err
    assert settings_of(lore)["town"] == "default"


def test_an_older_content_that_was_approved_does_not_come_back(lore: Lore) -> None:
    path = Path(lore.write("fleetlore.toml", 'town = "old"\n', approve=False))
    lore("trust", "--yes", code=0)
    path.write_text('town = "new"\n')
    lore("trust", "--yes", code=0)
    path.write_text('town = "old"\n')
    assert settings_of(lore)["town"] == "default"


@pytest.mark.parametrize("content", ['town = "ours"\r\n', '\ufefftown = "ours"\n', 'town = "ours" \n', 'town = "ours"', "town = 'ours'\n"])
def test_an_approval_is_for_bytes_not_for_meaning(lore: Lore, content: str) -> None:
    path = Path(lore.write("fleetlore.toml", 'town = "ours"\n', approve=False))
    lore("trust", "--yes", code=0)
    path.write_bytes(content.encode())
    assert settings_of(lore)["town"] == "default"


def test_a_link_to_an_approved_file_is_not_approved(lore: Lore) -> None:
    """Relative paths of the approved file, such as that of a command, would lead to files of the other folder."""
    approved = lore.write("mine/fleetlore.toml", "[[notify]]\nname = 'n'\nwhen = 'needs-you'\ncommand = ['./notify.sh']\n")
    clone = lore.folder / "clone"
    clone.mkdir()
    (clone / "fleetlore.toml").symlink_to(approved)
    os.chdir("mine")
    assert settings_of(lore)["notify"] == ["n"]
    os.chdir(clone)
    assert settings_of(lore)["notify"] == []


def test_a_link_to_the_folder_of_an_approved_file_leads_to_the_same_place(lore: Lore) -> None:
    lore.write("mine/fleetlore.toml", 'town = "ours"\n')
    (lore.folder / "way").symlink_to("mine")
    os.chdir("way")
    assert settings_of(lore)["town"] == "ours"


@pytest.mark.parametrize("content", ["", INSIDE, "[redact]\npatterns = []\n", "broken = [", "#" * 20_000])
def test_a_file_of_a_dependency_does_not_switch_off_what_was_approved_above(lore: Lore, content: str) -> None:
    lore.write("fleetlore.toml", "town = 'ours'\nlog = 'sqlite:own.db'\n[redact]\npatterns = ['EMP-[0-9]+']\n")
    lore.write("vendor/fleetlore.toml", content, approve=False)
    os.chdir("vendor")
    shown = settings_of(lore)
    assert (shown["town"], shown["redact.patterns"], shown["log"]) == ("ours", ["EMP-[0-9]+"], f"sqlite:{lore.folder}/own.db")
    lore("emit", "fleet.idle", "--text", "for EMP-1234", code=0)
    assert not Path("fleet.db").exists()
    assert "EMP-1234" not in lore("events", "--json", code=0).out


def test_two_files_of_dependencies_do_not_either_but_an_unapproved_project_gets_nothing(lore: Lore) -> None:
    lore.write("fleetlore.toml", "town = 'ours'\n")
    lore.write("a/fleetlore.toml", "town = 'theirs'\n", approve=False)
    lore.write("a/b/fleetlore.toml", INSIDE, approve=False)
    os.chdir("a/b")
    assert settings_of(lore)["town"] == "ours"
    lore("trust", "--revoke", "../../fleetlore.toml", code=0)
    assert (settings_of(lore)["town"], settings_of(lore)["log"]) == ("default", f"sqlite:{lore.folder}/a/b/fleet.db")


@pytest.mark.parametrize(
    "key",
    ['"log"', "'log'", '"l\\u006fg"', '"\\U0000006cog"', "log      "],
)
@pytest.mark.parametrize("url", ["nats://127.0.0.1:1", "n\\u0061ts://127.0.0.1:1", "sqlite:\\u002e./x.db", "sqlite:$HOME/x.db"])
def test_no_spelling_of_toml_names_a_log_elsewhere(lore: Lore, key: str, url: str) -> None:
    lore.write("fleetlore.toml", f'{key} = "{url}"\n', approve=False)
    before = {path for path in lore.folder.parent.rglob("*") if "work" not in path.relative_to(lore.folder.parent).parts}
    lore("emit", "fleet.idle", code=0)
    made = {path for path in lore.folder.parent.rglob("*") if "work" not in path.relative_to(lore.folder.parent).parts} - before
    assert all(path.is_relative_to(lore.folder.parent / "data") for path in made)
    assert settings_of(lore)["log"] in ("sqlite:", f"sqlite:{lore.folder}/$HOME/x.db")


def test_a_folder_with_the_name_of_the_file_hides_nothing(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'town = "ours"\n')
    (lore.folder / "sub" / "fleetlore.toml").mkdir(parents=True)
    os.chdir("sub")
    assert settings_of(lore)["town"] == "ours"


@pytest.mark.parametrize("name", ["\x1b[2J\x1b]0;x\x07", "a\nlore: approved", "\u202egnp"])
def test_the_warning_about_a_folder_with_a_hostile_name_is_one_harmless_line(lore: Lore, name: str) -> None:
    lore.write(f"{name}/fleetlore.toml", 'town = "theirs"\n"k\\u001b[2J\\nlore: fine" = 1\n', approve=False)
    os.chdir(name)
    result = lore("emit", "fleet.idle", code=0)
    assert result.err.count("\n") == 1
    assert all(letter.isprintable() for letter in result.err.rstrip("\n"))


@pytest.mark.parametrize(
    "name", [".fleetlore.toml", "fleetlore.toml.local", "FLEETLORE.TOML", "fleetlore.json", ".config/fleetlore/fleetlore.toml"]
)
def test_no_other_file_of_a_project_is_read(lore: Lore, name: str) -> None:
    lore.write(name, 'town = "theirs"\nlog = "sqlite:fleet.db"\n', approve=False)
    assert (settings_of(lore)["town"], settings_of(lore)["log"]) == ("default", "sqlite:")


def test_approvals_that_come_with_the_project_do_not_count(lore: Lore) -> None:
    path = lore.write("fleetlore.toml", 'town = "theirs"\n', approve=False)
    digest = config.trust_digest(path, Path(path).read_bytes())
    for place in ("trusted", ".config/fleetlore/trusted", "fleetlore/trusted"):
        lore.write(f"{place}/{digest}", path, approve=False)
    assert settings_of(lore)["town"] == "default"
    own = Path(config.trust_folder())
    own.mkdir(parents=True)
    (own / digest).mkdir()
    assert settings_of(lore)["town"] == "default"
    (own / digest).rmdir()
    (own / digest.upper()).touch()
    assert settings_of(lore)["town"] == "default"
    shutil.rmtree(own)


def test_a_file_that_is_replaced_while_the_person_reads_it_is_not_approved(lore: Lore) -> None:
    path = Path(lore.write("fleetlore.toml", 'town = "ours"\n', approve=False))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(["trust"]), cwd=lore.folder, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while not (asked := os.read(process.stderr.fileno(), 4096)).endswith(b"[y/N] "):
        assert asked
    path.write_text('town = "theirs"\n')
    os.write(ours, b"y\n")
    shown, _ = process.communicate(timeout=60)
    assert b"ours" in shown
    assert settings_of(lore)["town"] == "default"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "link to itself"])
def test_what_takes_the_place_of_an_approved_file_is_listed_as_gone(lore: Lore, kind: str) -> None:
    path = Path(lore.write("fleetlore.toml", 'town = "ours"\n'))
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/dev/zero" if kind == "endless" else path)
    done = subprocess.run(command(["trust", "--list"]), cwd=lore.folder, capture_output=True, timeout=60, check=True)
    assert done.stdout.endswith(b"  gone\n")


def test_text_that_hides_from_the_person_is_shown(lore: Lore) -> None:
    """A line that runs backwards, one that overwrites itself, and what comes behind many empty columns."""
    hidden = f'town = "a" # \u202e\u2066\ntown2 = "b"\rtown = "fine"\n#{" " * 5000}[ship]\n'
    lore.write("fleetlore.toml", hidden.encode(), approve=False)
    shown = lore("trust", "--yes", code=0).out
    assert "[ship]" in shown
    assert not set(shown) & set("\u202e\u2066\r")
    assert "town2" in shown
