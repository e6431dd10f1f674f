"""A project's `fleetlore.toml` comes with a repository that others wrote: it does not choose where prompts go."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import settings as config
from fleetlore.ingest import spool
from tests.cli.running import Lore, command

USER_FILE = "../home/.config/fleetlore/fleetlore.toml"
SERVERS = ["nats://{}", "redis://{}", "rediss://{}", "tls://{}", "unix:/run/redis.sock", "NATS://{}"]
OUTSIDE = [
    "sqlite:/outside.db",
    "sqlite:///outside.db",
    "sqlite:////outside.db",
    "sqlite:~/outside.db",
    "sqlite:../outside.db",
    "sqlite:inside/../../outside.db",
    "sqlite:%2e%2e/outside.db",
    "sqlite:..%2Foutside.db?sync=normal",
    "sqlite:inside/%2e%2e/%2e%2e/outside.db",
    "sqlite:link.db",
    "sqlite:linked/fleet.db",
    "sqlite:linked%2Ffleet.db",
    "sqlite:beside.db",
    "sqlite:null%00byte.db",
    "memory:",
    "SQLITE:/outside.db",
    "file:///outside.db",
    "fleet.db",
]
INSIDE = ["sqlite:fleet.db", "sqlite://fleet.db", "sqlite:inside/../fleet.db?sync=normal", "sqlite:%66leet.db", "sqlite:near.db"]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A server that somebody else runs; nobody is to call it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening
        with pytest.raises(BlockingIOError):
            listening.accept()


def address_of(server: socket.socket) -> str:
    return "{}:{}".format(*server.getsockname())


def clone(lore: Lore, log: str) -> str:
    """A repository in the current folder, with links that lead out of it."""
    (lore.folder / "inside").mkdir()
    elsewhere = lore.folder.parent / "elsewhere"
    elsewhere.mkdir()
    (lore.folder / "link.db").symlink_to(elsewhere / "fleet.db")
    (lore.folder / "linked").symlink_to(elsewhere)
    (lore.folder / "beside.db-wal").symlink_to(elsewhere / "overwritten")
    (lore.folder / "near.db").symlink_to("fleet.db")
    return lore.write("fleetlore.toml", f'log = "{log}"\n', approve=False)


def call_hook(folder: Path, text: str) -> None:
    record = {"hook_event_name": "UserPromptSubmit", "session_id": "5e55", "cwd": str(folder), "prompt": text}
    done = subprocess.run(command(["hook", "claude-code"]), input=json.dumps(record).encode(), cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("log", [*SERVERS, *OUTSIDE])
def test_a_log_outside_of_the_project_is_ignored_with_one_warning(lore: Lore, server: socket.socket, log: str) -> None:
    path = clone(lore, log.format(address_of(server)))
    before = sorted(lore.folder.parent.rglob("*"))
    result = lore("emit", "fleet.idle", "--text", "a prompt", code=0)
    assert result.err.startswith(f"lore: {path}: ignored, because you have not approved this file: log = ")
    assert "`lore trust`" in result.err
    assert result.err.count("\n") == 1
    assert lore("events", "--json", "--log", "sqlite:", code=0).json["text"] == "a prompt"
    made = [path for path in sorted(lore.folder.parent.rglob("*")) if path not in before]
    assert all(path.is_relative_to(lore.folder.parent / "data") for path in made)


@pytest.mark.parametrize("log", [*SERVERS, *OUTSIDE])
def test_a_hook_there_records_in_the_users_own_log(lore: Lore, server: socket.socket, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clone(lore, log.format(address_of(server)))
    below = lore.folder / "sub" / "deep"
    below.mkdir(parents=True)
    call_hook(below, "the plan")
    monkeypatch.chdir("/")
    result = lore("events", "--json", code=0)
    assert any(event["text"] == "the plan" for event in result.ndjson)
    assert result.err.count(f"lore: {path}: ignored") == 1
    assert spool.is_spool_empty()


@pytest.mark.parametrize("log", INSIDE)
def test_a_file_inside_the_project_is_its_log(lore: Lore, log: str) -> None:
    clone(lore, log)
    assert lore("emit", "fleet.idle", code=0).err == ""
    assert lore("config", "show", "--json").json["ignored"] == []
    call_hook(lore.folder / "inside", "the plan")
    assert len(lore("events", "--json", "--log", "sqlite:fleet.db", code=0).ndjson) >= 2
    assert not Path(os.environ["XDG_DATA_HOME"]).exists()


def test_a_project_may_name_the_users_own_log(lore: Lore) -> None:
    lore.write(USER_FILE, 'log = "sqlite:/nonexistent/user.db"\n')
    clone(lore, "sqlite:")
    assert lore("emit", "fleet.idle", code=0).err == ""


def test_the_users_log_takes_its_place_and_the_other_keys_do_not_count(lore: Lore, server: socket.socket) -> None:
    lore.write(USER_FILE, 'log = "sqlite:user.db"\n')
    clone(lore, f'nats://{address_of(server)}?town=theirs"\n[redact]\npatterns = ["EMP-[0-9]+"]\n#')
    settings = lore("config", "show", "--json").json
    assert settings["log"]["from"] == config.user_file()
    assert settings["log"]["value"] == f"sqlite:{os.path.dirname(config.user_file())}/user.db"
    assert settings["town"]["value"] == "default"
    assert settings["redact.patterns"]["value"] == []
    assert len(settings["ignored"]) == 1


@pytest.mark.parametrize("by", ["flag", "environment", "user file"])
def test_the_user_may_name_any_log_and_is_not_warned(lore: Lore, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:{tmp_path}/outside.db"
    clone(lore, url)
    if by == "environment":
        monkeypatch.setenv("FLEETLORE_LOG", url)
    if by == "user file":
        lore.write(USER_FILE, f'log = "{url}"\n')
    assert lore("emit", "fleet.idle", *(["--log", url] if by == "flag" else []), code=0).err == ""
    assert (tmp_path / "outside.db").exists()


def test_config_and_doctor_show_what_is_ignored_without_its_password(lore: Lore) -> None:
    path = clone(lore, "redis://ada:hunter2@example.org")
    shown = [lore("config", "show"), lore("config", "show", "--json"), lore("doctor", "--json")]
    for result in shown:
        assert f"{path}: ignored, because you have not approved" in result.out
        assert "hunter2" not in result.out + result.err


@pytest.mark.parametrize("log", ["nats://127.0.0.1:1", "sqlite:../town.db", "sqlite:/outside.db"])
def test_town_init_does_not_write_what_would_be_ignored(lore: Lore, log: str) -> None:
    result = lore("town", "init", "harbour", "--log", log, code=2)
    assert "FLEETLORE_LOG" in result.err
    assert list(lore.folder.iterdir()) == []


# --- files of other users


def give_away(path: str) -> None:
    """Make a file another user's; who is not root can only link to one."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        os.unlink(path)
        os.symlink("/etc/passwd", path)


def test_a_file_of_another_user_is_ignored_with_a_warning(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'town = "ours"\n')
    path = lore.write("a/fleetlore.toml", 'town = "theirs"\nlog = "sqlite:fleet.db"\n')
    give_away(path)
    os.chdir("a")
    result = lore("config", "show", "--json", code=0)
    assert result.err == f"lore: {result.json['ignored'][0]}\n"
    assert result.err.startswith(f"lore: {path} is ignored: it belongs to another user.")
    assert (result.json["town"]["value"], result.json["log"]["from"]) == ("ours", "default")
    call_hook(lore.folder / "a", "the plan")
    assert lore("events", "--json", "--log", "sqlite:", "--town", "ours", code=0).ndjson
    assert not (lore.folder / "a" / "fleet.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_of_another_user_is_ignored_although_its_target_is_ours(lore: Lore) -> None:
    os.symlink(lore.write("ours.toml", 'town = "theirs"\n'), "fleetlore.toml")
    os.lchown("fleetlore.toml", 65534, 65534)
    assert lore("config", "show", "--json", code=0).json["town"]["value"] == "default"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("caller", "town"), [("65534", "harbour"), ("1000", "default"), ("", "default"), ("-2", "default")])
def test_under_sudo_a_file_of_the_caller_counts(lore: Lore, monkeypatch: pytest.MonkeyPatch, caller: str, town: str) -> None:
    give_away(lore.write("fleetlore.toml", 'town = "harbour"\n'))
    monkeypatch.setenv("SUDO_UID", caller)
    assert lore("config", "show", "--json", code=0).json["town"]["value"] == town
