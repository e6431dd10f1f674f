"""`lore hook`: one line in the spool, no word, no failure, and next to nothing loaded."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import settings
from fleetlore.cli.hook import MAX_PAYLOAD_BYTES, SETTINGS, _settings_files
from fleetlore.redact import Redactor
from fleetlore.redact_needles import is_surely_clean
from tests.cli.running import Lore, command
from tests.test_redact import HIDDEN_VALUES, SECRETS

PAYLOAD = {"session_id": "5e55", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
# What `entry` does, without the end of the process.
LIST_MODULES = """
import sys
before = set(sys.modules)
import fleetlore.cli.entry
from fleetlore.cli import hook
hook.spool_payload("claude-code")
found = sorted(set(sys.modules) - before)
import json
print(json.dumps(found))
"""


def hook(payload: bytes | dict[str, Any] = PAYLOAD, *, program: str = "claude-code", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A real call; it always ends well, and without a word."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    done = subprocess.run(command(["hook", program]), input=raw, capture_output=True, check=False, **options)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return done


def spool(lore: Lore) -> Path:
    return lore.folder.parent / "home" / ".local" / "state" / "fleetlore" / "spool"


def lines(lore: Lore) -> list[Any]:
    return [json.loads(line) for path in sorted(spool(lore).glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def test_a_call_becomes_one_line_with_time_id_program_and_folder(lore: Lore) -> None:
    hook()
    [line] = lines(lore)
    assert sorted(line) == ["at", "cwd", "id", "program", "record"]
    assert (line["program"], line["cwd"], line["record"]) == ("claude-code", str(lore.folder), PAYLOAD)
    assert line["at"].endswith("Z")
    assert len(line["at"]) == len("2026-11-15T20:00:00.000001Z")
    assert line["id"][14] == "7"


def test_the_log_and_the_town_of_the_environment_are_remembered(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:here.db")
    monkeypatch.setenv("FLEETLORE_TOWN", "harbour")
    hook()
    [line] = lines(lore)
    assert (line["log"], line["town"]) == ("sqlite:here.db", "harbour")


def test_a_password_in_the_logs_address_reaches_no_disk(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_LOG", "redis://ada:hunter2@127.0.0.1:1")
    hook()
    [line] = lines(lore)
    assert line["log"] == "redis://[redacted]@127.0.0.1:1"


def test_a_payload_over_many_lines_becomes_one(lore: Lore) -> None:
    hook(json.dumps(PAYLOAD, indent=2).encode() + b"\n")
    hook(PAYLOAD)
    assert [line["record"] for line in lines(lore)] == [PAYLOAD, PAYLOAD]


def test_secrets_do_not_reach_the_spool(lore: Lore) -> None:
    hook(PAYLOAD | {"tool_input": {"command": "curl -H 'Authorization: Bearer abcdefghij0123456789'"}, "password": "hunter2"})
    hook(b"not json, but token=abcdefghij0123456789")
    stored = b"".join(path.read_bytes() for path in spool(lore).iterdir())
    assert b"0123456789" not in stored
    assert b"hunter2" not in stored
    assert b"[redacted]" in stored


@pytest.mark.parametrize("place", ["project", "user"])
def test_secrets_of_the_users_own_do_not_reach_it_either(lore: Lore, place: str) -> None:
    name = "fleetlore.toml" if place == "project" else "../home/.config/fleetlore/fleetlore.toml"
    lore.write(name, "[redact]\npatterns = ['EMP-[0-9]{6}']\n")
    hook(PAYLOAD | {"tool_input": {"command": "badge EMP-123456"}})
    [line] = lines(lore)
    assert line["record"]["tool_input"]["command"] == "badge [redacted]"


def test_it_looks_for_settings_where_every_command_does(lore: Lore) -> None:
    below = lore.folder / "a" / "b"
    below.mkdir(parents=True)
    project = lore.write("fleetlore.toml", "")
    assert SETTINGS == settings.FILE_NAME
    looked_in = list(_settings_files(str(below)))
    assert {project, settings.user_file()} <= set(looked_in)
    assert settings.project_file(str(below)) == project


def test_a_broken_settings_file_stops_nothing(lore: Lore) -> None:
    lore.write("fleetlore.toml", "[redact\n")
    hook()
    assert len(lines(lore)) == 1


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uD83D"])
def test_half_of_a_character_spoils_no_line(lore: Lore, half: bytes) -> None:
    hook(b'{"session_id": "5e55", "hook_event_name": "Stop", "last_assistant_message": "cut ' + half + b'"}')
    [line] = lines(lore)
    json.dumps(line, ensure_ascii=False).encode()
    lore("events", code=0)
    assert lore("events", "--kind", "log.rejected", "--json").raw == b""


@pytest.mark.parametrize("name", [b"NaN", b"-Infinity", b"1e999", b'NaN, "password": "' + b"x" * 12 + b'"'])
def test_numbers_that_json_does_not_have_become_null(lore: Lore, name: bytes) -> None:
    hook(b'{"session_id": "5e55", "hook_event_name": "Stop", "cost": ' + name + b"}")
    [line] = lines(lore)
    assert {"session_id": "5e55", "hook_event_name": "Stop", "cost": None}.items() <= line["record"].items()
    assert line["record"].get("password") in (None, "[redacted]")


@pytest.mark.parametrize("payload", [b"garbage \x00\xff", b"[1, 2]", b"{" * 100_000, b'{"a": NaN', b"\xef\xbb\xbf"])
def test_what_is_no_object_is_kept_as_far_as_it_goes(lore: Lore, payload: bytes) -> None:
    hook(payload)
    [line] = lines(lore)
    assert line["bytes"] == len(payload)
    assert len(line["raw"].encode()) <= 2048
    assert lore("events", "--kind", "log.rejected", "--json", code=0).ndjson[0]["data"]["reason"].startswith("what the program handed over")


def test_of_too_much_only_the_beginning_is_kept(lore: Lore) -> None:
    hook(b'{"a": "' + b"x" * MAX_PAYLOAD_BYTES + b'"}')
    [line] = lines(lore)
    assert line["bytes"] > MAX_PAYLOAD_BYTES
    assert len(line["raw"]) == 2048


def test_nothing_at_all_leaves_nothing(lore: Lore) -> None:
    hook(b"")
    assert lines(lore) == []


def test_closed_streams_are_no_trouble(lore: Lore) -> None:
    shell = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command(["hook", "claude-code"])]
    assert subprocess.run(shell, check=False).returncode == 0


def test_a_home_that_cannot_be_written_is_no_trouble(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    hook()


def test_a_folder_that_was_removed_is_no_trouble(lore: Lore) -> None:
    gone = lore.folder / "gone"
    gone.mkdir()
    shell = ["sh", "-c", 'rmdir "$PWD"; "$@"', "sh", *command(["hook", "claude-code"])]
    done = subprocess.run(shell, cwd=gone, input=json.dumps(PAYLOAD).encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [line] = lines(lore)
    assert "cwd" not in line


def test_a_full_disk_leaves_no_half_of_a_line(lore: Lore) -> None:
    hook()
    size = (spool(lore) / "current.jsonl").stat().st_size
    hook(PAYLOAD | {"more": "x" * 5000}, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, size + 1000)))
    assert len(lines(lore)) == 1


def test_a_key_pressed_for_the_program_does_not_end_the_hook(lore: Lore) -> None:
    with subprocess.Popen(command(["hook", "claude-code"]), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        while not _ignores(process.pid, signal.SIGINT):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.stdin.write(json.dumps(PAYLOAD).encode())
        process.stdin.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")
    assert len(lines(lore)) == 1


def _ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    [mask] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigIgn")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_the_next_command_takes_the_lines_into_the_log(lore: Lore) -> None:
    hook()
    hook(PAYLOAD | {"hook_event_name": "Notification", "message": "may I?"})
    shown = lore("events", "--json", code=0).ndjson
    assert [event["kind"] for event in shown] == ["tool.called", "session.waiting"]
    assert lines(lore) == []


@pytest.mark.parametrize("argv", [("status",), ("costs",), ("tell",), ("find", "may")])
def test_a_first_command_of_any_kind_does(lore: Lore, argv: tuple[str, ...]) -> None:
    hook(PAYLOAD | {"hook_event_name": "Notification", "message": "may I?"})
    lore(*argv, code=0)
    assert lines(lore) == []


@pytest.mark.parametrize(
    "argv",
    [
        ("events", "--follow", "--json"),
        ("tell", "--follow", "--all", "--format", "json", "--detail", "full"),
        ("status", "--watch", "--json"),
    ],
)
def test_anybody_who_watches_sees_it_at_once(lore: Lore, argv: tuple[str, ...]) -> None:
    lore("emit", "fleet.idle", "--agent", "before", code=0)
    with lore.start(*argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"before" in process.stdout.readline()
        hook(PAYLOAD | {"hook_event_name": "Notification", "message": "may I?"})
        shown = next(line for line in process.stdout if b"5e55" in line)
        process.send_signal(signal.SIGINT)
        process.stdout.close()
    assert shown
    assert lines(lore) == []


def test_emit_leaves_the_spool_to_others(lore: Lore) -> None:
    hook()
    lore("emit", "fleet.idle", code=0)
    assert len(lines(lore)) == 1


def test_a_hook_in_a_project_goes_into_the_projects_log(lore: Lore) -> None:
    lore.write("shop/fleetlore.toml", 'log = "sqlite:shop.db"\n')
    hook(cwd=lore.folder / "shop")
    assert [event["kind"] for event in lore("events", "--json", "--log", "sqlite:shop/shop.db").ndjson] == ["tool.called"]


def test_somebody_who_asks_for_help_gets_it(lore: Lore) -> None:
    shown = subprocess.run(command(["hook", "--help"]), capture_output=True, check=True).stdout.decode()
    assert "lore install claude-code" in shown
    assert lines(lore) == []


def modules(lore: Lore, payload: bytes) -> set[str]:
    done = subprocess.run([sys.executable, "-I", "-c", LIST_MODULES], input=payload, capture_output=True, check=True, cwd=lore.folder)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("secret", [False, True])
def test_it_loads_the_standard_library_and_a_handful_of_ours(lore: Lore, secret: bool) -> None:
    found = modules(lore, json.dumps(PAYLOAD | ({"token": "abcdefghij0123456789"} if secret else {})).encode())
    outside = {name.partition(".")[0] for name in found} - set(sys.stdlib_module_names)
    assert outside == {"fleetlore"}
    ours = {name.removeprefix("fleetlore.") for name in found if name.startswith("fleetlore.")}
    needed = {"cli", "cli.entry", "cli.hook", "ingest", "ingest.spool", "redact_needles"}
    assert ours - {"_quick"} == (needed | {"redact"} if secret else needed)


@pytest.mark.parametrize(
    "heavy",
    [
        "argparse",
        "asyncio",
        "enum",
        "json",
        "re",
        "signal",
        "typing",
        "tomllib",
        "pathlib",
        "shutil",
        "tempfile",
        "subprocess",
        "threading",
        "logging",
        "dataclasses",
        "uuid",
        "urllib",
    ],
)
def test_it_does_without_the_heavy_parts(lore: Lore, heavy: str) -> None:
    assert heavy not in modules(lore, json.dumps(PAYLOAD).encode())


def test_a_secret_is_masked_without_the_json_module(lore: Lore) -> None:
    """It would compile six expressions before the first of ours."""
    loaded = modules(lore, json.dumps(PAYLOAD | {"password": "x" * 12}).encode())
    assert "json" not in loaded
    assert lines(lore)[-1]["record"]["password"] == "[redacted]"


FRAGMENTS = (
    *SECRETS.values(), *HIDDEN_VALUES, "SG." + "a" * 22 + "." + "b" * 22, "GOCSPX-" + "a" * 24, "pypi-" + "a" * 45, "whsec_" + "a" * 20,
    "dckr_pat_" + "a" * 20, "AGE-SECRET-KEY-1" + "A" * 30, "ASIA" + "A" * 16, "rk_test_" + "a" * 12, "Credentials: x", "secret-key",
)  # fmt: skip


@given(st.sampled_from(FRAGMENTS), st.text(max_size=5), st.text(max_size=5))
def test_what_the_redactor_would_find_never_seems_clean(fragment: str, before: str, after: str) -> None:
    raw = json.dumps({"text": f"{before}{fragment}{after}"}, ensure_ascii=False).encode(errors="replace")
    assert not is_surely_clean(raw)
    assert not (Redactor().may_contain_secret(after.encode(errors="replace")) and is_surely_clean(after.encode(errors="replace")))


def test_most_calls_seem_clean() -> None:
    assert is_surely_clean(json.dumps(PAYLOAD | {"transcript_path": "/home/ada/.claude/x.jsonl", "effort": {"level": "high"}}).encode())
