"""`fleetlore approve-hook`: a program asks, a person answers from elsewhere; nothing is allowed by silence."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from tests.cli.running import Lore
from tests.patience import PATIENCE

SESSION = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"
COMMAND = "rm -rf build && npm run build"
ATTENDED = {"CLAUDE_CODE_ENTRYPOINT": "cli"}


def payload(folder: Path, tool: str = "Bash", **given: Any) -> bytes:
    record = {
        "session_id": SESSION,
        "transcript_path": str(folder / "session.jsonl"),
        "cwd": str(folder),
        "hook_event_name": "PermissionRequest",
        "tool_name": tool,
        "tool_input": given or {"command": COMMAND, "description": "Rebuild"},
    }
    return json.dumps(record).encode()


@contextmanager
def asking(lore: Lore, *options: str, raw: bytes | None = None, environ: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """The hook, as the program runs it."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "LORE_"))} | (environ or ATTENDED)
    process = lore.start("approve-hook", "claude-code", *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=given)
    assert process.stdin is not None
    process.stdin.write(payload(lore.folder) if raw is None else raw)
    process.stdin.close()
    process.stdin = None
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(found: Callable[[], Any]) -> Any:
    deadline = monotonic() + PATIENCE
    while not (value := found()):
        assert monotonic() < deadline
        sleep(0.05)
    return value


def waiting(lore: Lore) -> list[Any]:
    return lore("decide", "--json").ndjson


def events(lore: Lore, kind: str) -> list[Any]:
    return lore("events", "--all", "--json", "--kind", kind, code=0).ndjson


def answer_of(process: subprocess.Popen[bytes]) -> Any:
    out = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0
    return json.loads(out)["hookSpecificOutput"] if out else None


def test_what_is_asked_is_the_exact_command_and_an_answer_is_printed_for_the_program(lore: Lore) -> None:
    with asking(lore) as hook:
        [asked] = wait_until(lambda: waiting(lore))
        assert (asked["tool"], asked["input"]["command"], asked["session"], asked["agent"]) == ("Bash", COMMAND, SESSION, AGENT)
        assert f"| command: {COMMAND}" in lore("decide", code=0).out
        [agent] = lore("status", "--json", code=0).json["agents"]
        assert (agent["state"], agent["doing"]) == ("needs you", f"Bash: {COMMAND}")

        lore("decide", asked["id"], "allow", code=0)
        assert answer_of(hook) == {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    [answered] = events(lore, "control.requested")
    assert (answered["actor"], answered["data"]["via"], answered["run"]) == ("grace", "terminal", SESSION)
    assert waiting(lore) == []
    assert lore("status", "--json").json["agents"][0]["state"] == "working"
    assert lore("decide", asked["id"], "deny").err.startswith("lore: question")


def test_a_denial_has_its_reason(lore: Lore) -> None:
    with asking(lore) as hook:
        [asked] = wait_until(lambda: waiting(lore))
        lore("decide", asked["id"][:12], "deny", "--reason", "not on a Friday", code=0)
        assert answer_of(hook)["decision"] == {"behavior": "deny", "message": "not on a Friday"}


def test_without_an_answer_in_time_nothing_is_printed_and_the_agent_still_waits_in_its_own_window(lore: Lore) -> None:
    with asking(lore, "--wait", "0.2") as hook:
        assert answer_of(hook) is None
    assert waiting(lore) == []
    [closed] = events(lore, "approval.closed")
    assert closed["data"]["reason"] == "timed_out"
    assert lore("status", "--json").json["agents"][0]["state"] == "needs you"


@pytest.mark.parametrize("result", ["", "The user doesn't want to proceed with this tool use. The tool use was rejected"])
def test_an_answer_in_the_terminal_closes_the_card(lore: Lore, result: str) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": COMMAND, "description": "Rebuild"}}
    done = {"type": "tool_result", "tool_use_id": "toolu_1", "content": result, "is_error": bool(result)}
    path = lore.folder / "session.jsonl"

    def write(role: str, block: dict[str, Any], n: int) -> None:
        row = {"type": role, "uuid": f"{n}0000000-0000-4000-8000-000000000000", "sessionId": SESSION, "cwd": str(lore.folder)}
        message = {"role": role, "content": [block], "id": "msg_1", "model": "claude-opus-4-8"}
        with path.open("a") as file:
            file.write(json.dumps(row | {"timestamp": "2026-11-18T12:00:00Z", "message": message}) + "\n")

    with asking(lore) as hook:
        wait_until(lambda: waiting(lore))
        write("assistant", call, 1)
        assert len(waiting(lore)) == 1
        write("user", done, 2)
        if result:  # the program writes this after a no
            write("user", {"type": "text", "text": "[Request interrupted by user for tool use]"}, 3)
        assert answer_of(hook) is None
    assert waiting(lore) == []
    assert events(lore, "approval.closed")[0]["data"]["reason"] == "terminal"


def test_a_hook_that_the_program_ends_closes_the_card(lore: Lore) -> None:
    with asking(lore) as hook:
        wait_until(lambda: waiting(lore))
        hook.terminate()
        assert answer_of(hook) is None
    assert waiting(lore) == []


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_questions_and_plans_are_shown_and_not_answered(lore: Lore, tool: str) -> None:
    with asking(lore, raw=payload(lore.folder, tool, plan="1. Rename the column")) as hook:
        assert answer_of(hook) is None
    [asked] = waiting(lore)
    assert asked["can_answer"] is False
    assert "Answer it in Claude Code itself." in lore("decide").out
    assert "can only be answered in Claude Code itself" in lore("decide", asked["id"], "allow").err


@pytest.mark.parametrize("environ", [{"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, {**ATTENDED, "CLAUDE_CODE_SESSION_ATTENDED": "0"}])
def test_a_program_without_a_dialog_of_its_own_is_held_up_only_while_the_user_is_away(lore: Lore, environ: dict[str, str]) -> None:
    with asking(lore, environ=environ) as hook:
        assert answer_of(hook) is None
    lore("away", "on", "--for", "1h", code=0)
    with asking(lore, environ=environ) as hook:
        asked = wait_until(lambda: [one for one in waiting(lore) if one["can_answer"]])
        lore("decide", asked[0]["id"], "deny", code=0)
        assert answer_of(hook)["decision"] == {"behavior": "deny", "message": "Denied by grace."}
    lore("away", "off", code=0)
    assert lore("away", "--json").json == {"away": False, "until": None}


def test_a_goal_asks_at_its_own_gate(lore: Lore) -> None:
    with asking(lore, environ={**ATTENDED, "LORE_TURN": "m-1"}) as hook:
        assert answer_of(hook) is None
    assert waiting(lore) == []


def test_on_a_sealed_log_it_is_shown_and_answered_in_the_program(lore: Lore) -> None:
    lore("emit", "fleet.idle", "--agent", "ada", code=0)
    seal, _ = make_seal("correct horse battery", cost=2)
    with open_shared("sqlite:") as shared:
        shared.set_seal(seal, None)
    with asking(lore) as hook:
        assert answer_of(hook) is None
    assert [one["can_answer"] for one in waiting(lore)] == [False]


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"hook_event_name": "Stop"}', b"\xff"])
def test_what_is_no_request_gets_no_answer(lore: Lore, raw: bytes) -> None:
    with asking(lore, raw=raw) as hook:
        assert answer_of(hook) is None


def test_it_is_installed_only_when_asked_for_and_recording_leaves_it_the_request(lore: Lore) -> None:
    path = lore.folder.parent / "home" / ".claude" / "settings.json"
    lore("install", "claude-code", code=0)
    assert "approve-hook" not in path.read_text()
    lore("install", "claude-code", "--approvals", "--wait", "2h", code=0)
    [group] = json.loads(path.read_text())["hooks"]["PermissionRequest"]
    [hook] = group["hooks"]
    assert hook["command"].endswith("approve-hook claude-code --wait 7200")
    assert hook["timeout"] == 7230
    assert "installed" in lore("install").lines[0]
    lore("install", "claude-code", code=0)  # again, without the option: it stays
    assert json.loads(path.read_text())["hooks"]["PermissionRequest"] == [group]
    lore("uninstall", "claude-code", code=0)
    assert not path.exists()
    assert lore("install", "claude-code", "--approvals", "--project").code == 2
