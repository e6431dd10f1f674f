"""`lore install` and `lore uninstall`: our hooks in somebody else's settings, and out again without a trace."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from fleetlore.programs.claude_code import settings as claude_code_settings
from fleetlore.programs.codex import settings as codex_settings
from fleetlore.programs.hook_settings import HookFile, is_our_hook
from tests.cli.running import Lore

FOREIGN = """{
\t"model": "opus",
\t"permissions": {"allow": ["Bash(ls:*)"]},
\t"hooks": {
\t\t"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say 'fertig \u00fc'", "timeout": 5}]}],
\t\t"FutureEvent": []
\t},
\t"unknown": 1.5
}"""


@pytest.fixture
def settings(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's settings of this user; `lore` is started from a place with a blank in it."""
    folder = lore.folder.parent / "some where"
    folder.mkdir()
    for name in ("lore", "fleetlore"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(folder / "lore")])
    path = lore.folder.parent / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    return path


def commands(settings: Path, event: str) -> list[str]:
    groups = json.loads(settings.read_text())["hooks"].get(event, [])
    return [hook["command"] for group in groups for hook in group["hooks"]]


def test_every_hook_that_can_be_listened_to_calls_this_very_installation(lore: Lore, settings: Path) -> None:
    lore("install", "claude-code", code=0)
    calls = f"'{lore.folder.parent}/some where/fleetlore' hook claude-code"
    assert {event: commands(settings, event) for event in claude_code_settings.HOOK_EVENTS} == {
        event: [calls] for event in claude_code_settings.HOOK_EVENTS
    }


def test_hooks_that_would_change_what_the_program_does_or_shows_are_left_alone(lore: Lore, settings: Path) -> None:
    lore("install", "claude-code", code=0)
    assert not set(json.loads(settings.read_text())["hooks"]) & set(claude_code_settings.SKIPPED_HOOKS)
    assert not set(claude_code_settings.HOOK_EVENTS) & set(claude_code_settings.SKIPPED_HOOKS)


def test_what_is_there_stays_in_its_order_and_indentation(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    before, after = json.loads(FOREIGN), json.loads(settings.read_text())
    assert list(after) == list(before)
    assert list(after["hooks"])[:2] == ["Stop", "FutureEvent"]
    assert after["hooks"]["Stop"][0] == before["hooks"]["Stop"][0]
    assert {key: value for key, value in after.items() if key != "hooks"} == {key: value for key, value in before.items() if key != "hooks"}
    assert settings.read_text().startswith('{\n\t"model": "opus",\n\t"permissions": {\n\t\t"allow"')
    assert "fertig ü" in settings.read_text()


def test_installing_again_changes_nothing_and_says_so(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    before = settings.read_bytes(), settings.stat().st_mtime_ns
    assert "Nothing to do" in lore("install", "claude-code", code=0).out
    assert (settings.read_bytes(), settings.stat().st_mtime_ns) == before


def test_a_call_of_an_older_lore_is_brought_up_to_date(lore: Lore, settings: Path) -> None:
    old = {"type": "command", "command": "/old/place/lore hook claude-code", "timeout": 7}
    group = {"matcher": "Bash", "hooks": [old, {"type": "command", "command": "mine"}]}
    settings.write_text(json.dumps({"hooks": {"SubagentStart": [group], "PreCompact": [{"hooks": [old]}]}}))
    lore("install", "claude-code", code=0)
    found = json.loads(settings.read_text())["hooks"]
    assert [hook["command"].startswith("'") for hook in found["SubagentStart"][0]["hooks"]] == [True, False]
    assert found["SubagentStart"][0]["hooks"][0]["timeout"] == 7
    assert len(found["SubagentStart"]) == 1
    assert "PreCompact" not in found


def installed_by_0_1(settings: Path, *, command: str) -> None:
    hooks = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in claude_code_settings.HOOK_EVENTS}
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"model": "opus", "hooks": hooks}, indent=2))


@pytest.mark.parametrize("command", ["/old/venv/bin/lore hook claude-code", "lore hook claude-code --project 2>/dev/null || true"])
@pytest.mark.parametrize("project", [False, True])
def test_hooks_of_0_1_that_call_lore_are_updated_and_removed(lore: Lore, settings: Path, command: str, project: bool) -> None:
    file = lore.folder / ".claude" / "settings.json" if project else settings
    options = ("--project",) if project else ()
    installed_by_0_1(file, command=command)
    [state] = [row["state"] for row in lore("install", "--json").json if row["program"] == "claude-code" and row["project"] is project]
    assert state == "calls `lore`"
    lore("install", "claude-code", *options, code=0)
    name = "fleetlore" if project else f"'{lore.folder.parent}/some where/fleetlore'"
    for event in claude_code_settings.HOOK_EVENTS:
        [now] = commands(file, event)
        assert now.startswith(f"{name} hook claude-code")
    installed_by_0_1(file, command=command)
    lore("uninstall", "claude-code", *options, code=0)
    assert "hooks" not in json.loads(file.read_text())


def test_where_only_lore_was_linked_the_interpreters_folder_is_searched(
    lore: Lore, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (settings.parents[2] / "some where" / "fleetlore").unlink()
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "fleetlore").write_text("#!/bin/sh\n")
    (venv / "fleetlore").chmod(0o755)
    monkeypatch.setattr("sys.executable", str(venv / "python"))
    lore("install", "claude-code", code=0)
    assert commands(settings, "Stop") == [f"{venv}/fleetlore hook claude-code"]


@pytest.mark.parametrize("content", [FOREIGN, "{}", '{"hooks": {}}\n', '{"hooks":{"Stop":[]},"a":[1,2]}', '\ufeff{"a": 1}', " "])
def test_uninstalling_leaves_the_file_as_it_was_to_the_byte(lore: Lore, settings: Path, content: str) -> None:
    settings.write_text(content)
    lore("install", "claude-code", code=0)
    assert settings.read_text() != content
    lore("uninstall", "claude-code", code=0)
    assert settings.read_text() == content
    assert os.listdir(settings.parent) == ["settings.json"]


def test_half_a_character_in_the_file_stays_an_escape_that_the_program_can_read(lore: Lore, settings: Path) -> None:
    settings.write_text('{"title": "\\ud83d é"}')
    lore("install", "claude-code", code=0)
    assert '"\\ud83d \\u00e9"' in settings.read_text(encoding="utf-8")
    lore("uninstall", "claude-code", code=0)
    assert settings.read_text() == '{"title": "\\ud83d é"}'


def test_where_there_was_no_file_there_is_none_afterwards(lore: Lore, settings: Path) -> None:
    lore("install", "claude-code", code=0)
    lore("uninstall", "claude-code", code=0)
    assert os.listdir(settings.parent) == []


def test_uninstalling_keeps_what_was_added_since(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    changed = json.loads(settings.read_text()) | {"model": "sonnet"}
    changed["hooks"]["SubagentStart"].append({"hooks": [{"type": "command", "command": "later"}]})
    settings.write_text(json.dumps(changed, indent=2))
    lore("uninstall", "claude-code", code=0)
    left = json.loads(settings.read_text())
    assert left["model"] == "sonnet"
    assert {event: commands(settings, event) for event in left["hooks"]} == {
        "Stop": ["say 'fertig ü'"],
        "FutureEvent": [],
        "SubagentStart": ["later"],
    }


def test_uninstalling_what_is_not_there_changes_nothing(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    assert "Nothing to do" in lore("uninstall", "claude-code", code=0).out
    assert settings.read_text() == FOREIGN


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"a": 1,\n  oops}', "line 2, column 3"),
        ("[]", "a JSON object is needed"),
        ('{"hooks": []}', "hooks: an object is needed"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop: a list is needed"),
    ],
)
def test_a_broken_file_is_refused_with_the_place_and_left_alone(lore: Lore, settings: Path, content: str, reason: str) -> None:
    settings.write_text(content)
    for word in ("install", "uninstall"):
        assert reason in lore(word, "claude-code", code=1).err
    assert settings.read_text() == content
    assert os.listdir(settings.parent) == ["settings.json"]


def test_the_file_keeps_its_mode_and_a_link_stays_a_link(lore: Lore, settings: Path) -> None:
    real = lore.folder.parent / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    settings.symlink_to(real)
    lore("install", "claude-code", code=0)
    assert settings.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert json.loads(real.read_text())["hooks"]
    lore("uninstall", "claude-code", code=0)
    assert settings.is_symlink()
    assert real.read_text() == "{}"


def test_the_copy_from_before_is_made_once(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    settings.write_text(settings.read_text().replace("opus", "sonnet").replace("some where", "elsewhere"))
    lore("install", "claude-code", code=0)
    assert (settings.parent / "settings.json.before-fleetlore").read_text() == FOREIGN


def test_after_the_hooks_were_removed_by_hand_the_copy_is_made_anew(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    settings.write_text('{"model":   "sonnet"}')
    lore("install", "claude-code", code=0)
    lore("uninstall", "claude-code", code=0)
    assert settings.read_text() == '{"model":   "sonnet"}'

    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    settings.unlink()
    lore("install", "claude-code", code=0)
    lore("uninstall", "claude-code", code=0)
    assert list(settings.parent.iterdir()) == []


def test_uninstalling_removes_a_copy_that_was_left_behind(lore: Lore, settings: Path) -> None:
    settings.write_text(FOREIGN)
    lore("install", "claude-code", code=0)
    settings.write_text("{}")
    lore("uninstall", "claude-code")
    assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]


def test_another_folder_for_claude_codes_settings_is_respected(lore: Lore, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(lore.folder / "elsewhere"))
    lore("install", "claude-code", code=0)
    assert (lore.folder / "elsewhere" / "settings.json").exists()
    assert not settings.exists()


def test_a_projects_file_names_no_machine_and_disturbs_nobody_without_lore(
    lore: Lore, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lore.folder / ".git").mkdir()
    (lore.folder / "src").mkdir()
    monkeypatch.chdir(lore.folder / "src")
    lore("install", "claude-code", "--project", code=0)
    shared = lore.folder / ".claude" / "settings.json"
    assert commands(shared, "Stop") == ["fleetlore hook claude-code --project 2>/dev/null || true"]
    assert str(lore.folder.parent) not in shared.read_text()
    assert not settings.exists()
    lore("uninstall", "claude-code", "--project", code=0)
    assert not shared.exists()


def test_codex_gets_its_own_file_and_its_user_a_word_about_trust(lore: Lore, settings: Path) -> None:
    assert "Trust all and continue" in lore("install", "codex", code=0).out
    hooks = lore.folder.parent / "home" / ".codex" / "hooks.json"
    assert list(json.loads(hooks.read_text())["hooks"]) == list(codex_settings.HOOK_EVENTS)
    assert commands(hooks, "Stop")[0].endswith("hook codex")
    lore("uninstall", "codex", code=0)
    assert not hooks.exists()


def test_without_a_program_it_lists_what_can_be_and_what_is(lore: Lore, settings: Path) -> None:
    lore("install", "claude-code", code=0)
    rows: list[dict[str, Any]] = lore("install", "--json", code=0).json
    states = {(row["program"], row["project"]): row["state"] for row in rows}
    assert states[("claude-code", False)] == "installed"
    assert set(states.values()) == {"installed", "not installed"}
    assert lore("install", code=0).out.count("not installed") == 3
    assert lore("uninstall", code=2).err


def test_settings_that_turn_all_hooks_off_are_pointed_at(lore: Lore, settings: Path) -> None:
    settings.write_text('{"disableAllHooks": true}')
    assert "disableAllHooks" in lore("install", "claude-code", code=0).err


@pytest.mark.parametrize("event", [*claude_code_settings.HOOK_EVENTS, *claude_code_settings.SKIPPED_HOOKS, *codex_settings.SKIPPED_HOOKS])
def test_every_hook_is_accounted_for_in_the_documents(event: str) -> None:
    assert event in (Path(__file__).parents[2] / "docs" / "recording.md").read_text()


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_left_behind(lore: Lore, settings: Path) -> None:
    settings.parent.rmdir()
    settings.parent.write_text("a file where a folder should be")
    assert "cannot be changed" in lore("install", "claude-code", code=1).err


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("lore hook claude-code", True),
        ("'/a b/lore' hook claude-code", True),
        ("lore hook claude-code 2>/dev/null || true", True),
        ("/usr/bin/fleetlore hook claude-code", True),
        ("lore hook codex", False),
        ("explore hook claude-code", False),
        ("echo lore hook claude-code", False),
        ("it's unfinished", False),
        (7, False),
    ],
)
def test_ours_are_known_by_their_words(command: object, ours: bool) -> None:
    assert is_our_hook(command, "claude-code") is ours


def test_what_was_put_in_is_reported_to_programs_and_a_program_that_is_not_known_is_refused(lore: Lore) -> None:
    recorded = lore("install", "claude-code", "--json", code=0).json
    assert (recorded["program"], recorded["changed"]) == ("claude-code", True)
    assert lore("install", "claude-code", "--json", code=0).json["changed"] is False
    assert "vim" in lore("install", "vim", code=2).err


def test_hooks_of_every_tool_call_are_installed_only_if_asked_for_and_removed_by_installing_again(lore: Lore, settings: Path) -> None:
    lore("install", "claude-code", code=0)
    assert not set(claude_code_settings.TOOL_CALL_EVENTS) & set(json.loads(settings.read_text())["hooks"])
    lore("install", "claude-code", "--tool-calls", code=0)
    hooks = json.loads(settings.read_text())["hooks"]
    assert all(hooks[event][0]["hooks"][0]["async"] is True for event in claude_code_settings.TOOL_CALL_EVENTS)
    lore("install", "claude-code", code=0)
    assert not set(claude_code_settings.TOOL_CALL_EVENTS) & set(json.loads(settings.read_text())["hooks"])


def make_file(path: Path) -> HookFile:
    return HookFile(str(path), "claude-code", ("Stop", "PermissionRequest"), async_events=frozenset({"PermissionRequest"}))


def change_hook(path: Path, event: str, **options: object) -> None:
    content = json.loads(path.read_text())
    content["hooks"][event][0]["hooks"][0] |= options
    path.write_text(json.dumps(content))


def test_a_hook_with_wrong_options_is_not_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    file = make_file(path)
    file.install(command="fleetlore hook claude-code")
    assert file.find_missing_events() == []
    change_hook(path, "Stop", **{"async": True})
    assert file.find_missing_events() == ["Stop"]
    file.install(command="fleetlore hook claude-code")
    assert file.find_missing_events() == []
    asking = file.asking_for_approval("PermissionRequest", wait=60)
    asking.install(command="fleetlore approve-hook claude-code")
    assert asking.find_missing_events() == []
    change_hook(path, "PermissionRequest", timeout=5)
    assert asking.find_missing_events() == ["PermissionRequest"]


def test_the_approval_hook_replaces_the_hook_that_records_the_request(tmp_path: Path) -> None:
    file = make_file(tmp_path / "settings.json")
    file.install(command="fleetlore hook claude-code")
    file.asking_for_approval("PermissionRequest", wait=60).install(command="fleetlore approve-hook claude-code")
    assert commands(tmp_path / "settings.json", "PermissionRequest") == ["fleetlore approve-hook claude-code"]
    assert commands(tmp_path / "settings.json", "Stop") == ["fleetlore hook claude-code"]
