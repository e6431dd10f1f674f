"""The real Claude Code and the real Codex ask for permission in a terminal, and are answered from elsewhere. Models are stubs on loopback.

Needs `claude` and `codex` on PATH, or in FLEETLORE_CLAUDE and FLEETLORE_CODEX; `make test` does not install them.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from threading import Thread
from time import monotonic
from typing import Any

import pytest

from fleetlore.log.sqlite.file import default_path
from tests.cli.running import Lore
from tests.patience import PATIENCE
from tests.programs.stubs.responses import Responses
from tests.programs.stubs.turns import OFFLINE, serving
from tests.programs.test_claude_code_harness import CLAUDE, QUIET, HeaderApi, needs_claude
from tests.programs.test_codex_harness import CODEX, CONFIG, needs_codex
from tests.server.serving import serve

pytestmark = pytest.mark.slow
COMMAND = "touch made.txt && rm -rf build"
STEPS = [{"name": "Bash", "input": {"command": COMMAND, "description": "Rebuild"}}]
KEY = "dummy-dummy-dummy-dummy-dummy"


class Terminal:
    """A program in a pseudo-terminal: what it shows, and keys for it."""

    def __init__(self, lore: Lore, command: list[str], environ: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC", "CODEX", "OPENAI"))}
        self._ours, theirs = pty.openpty()
        _set_size(theirs)
        self.process = subprocess.Popen(
            command,
            cwd=lore.folder,
            env=kept | OFFLINE | environ | {"TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while select([self._ours], [], [])[0]:
                self.shown += os.read(self._ours, 65536)
        except (OSError, ValueError):
            return

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> None:
        """End the program with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _set_size(terminal: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))


def start_claude(lore: Lore, api: HeaderApi) -> Terminal:
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(lore.folder): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (lore.folder.parent / "home" / ".claude.json").write_text(json.dumps(known))
    environ = QUIET | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}", "IS_SANDBOX": "1"}
    return Terminal(lore, [str(CLAUDE), "--permission-mode", "default", "Please rebuild"], environ)


@contextmanager
def at_work(lore: Lore, *options: str) -> Iterator[tuple[Terminal, HeaderApi]]:
    (lore.folder.parent / "home" / ".claude").mkdir(parents=True, exist_ok=True)
    lore("install", "claude-code", "--approvals", *options, code=0)
    api = HeaderApi(STEPS)
    with serving(api):
        terminal = start_claude(lore, api)
        try:
            yield terminal, api
        finally:
            terminal.close()


def wait_until(found: Callable[[], Any], terminal: Terminal) -> Any:
    deadline = monotonic() + PATIENCE
    while not (value := found()):
        assert monotonic() < deadline, terminal.shown[-3000:]
        terminal.process.poll()
    return value


def request(lore: Lore, terminal: Terminal) -> Any:
    return wait_until(lambda: lore("decide", "--json").ndjson, terminal)[0]


def result_of(api: HeaderApi) -> str:
    """The result that the model got for its call; empty if it got none yet."""
    messages = [message["content"] for asked in api.asked for message in asked["messages"] if isinstance(message["content"], list)]
    blocks = [block for content in messages for block in content]
    return next((json.dumps(block["content"]) for block in blocks if block.get("type") == "tool_result"), "")


@needs_claude
def test_a_dialog_is_answered_by_lore_decide(lore: Lore) -> None:
    with at_work(lore) as (terminal, api):
        asked = request(lore, terminal)
        assert asked["input"]["command"] == COMMAND
        assert not (lore.folder / "made.txt").exists()
        lore("decide", asked["id"], "allow", code=0)
        wait_until(lambda: result_of(api), terminal)
        assert (lore.folder / "made.txt").exists()


@needs_claude
def test_a_dialog_is_answered_from_the_page_and_a_denial_reaches_the_model_with_its_reason(lore: Lore, tmp_path: Path) -> None:
    with at_work(lore) as (terminal, api):
        asked = request(lore, terminal)
        with serve(tmp_path / "server", f"sqlite:{default_path()}") as served:
            assert [one["id"] for one in served.view("approvals")["approvals"]] == [asked["id"]]
            assert served.post(f"/api/approvals/{asked['id']}", {"choice": "deny", "reason": "not on a Friday"}).status == 200
        assert "not on a Friday" in wait_until(lambda: result_of(api), terminal)
        assert not (lore.folder / "made.txt").exists()
    [answered] = lore("events", "--all", "--json", "--kind", "control.requested").ndjson
    assert answered["data"]["via"] == "page"


@needs_claude
def test_after_the_time_out_its_own_dialog_decides(lore: Lore) -> None:
    with at_work(lore, "--wait", "1s") as (terminal, api):
        wait_until(lambda: lore("events", "--all", "--json", "--kind", "approval.closed").ndjson, terminal)
        assert result_of(api) == ""
        assert b"proceed?" in terminal.shown.replace(b"\x1b[1C", b" ")
        terminal.type("1")
        wait_until(lambda: result_of(api), terminal)
        assert (lore.folder / "made.txt").exists()


@needs_claude
@pytest.mark.parametrize("key", ["1", "\x1b"])
def test_an_answer_in_the_terminal_closes_the_card(lore: Lore, key: str) -> None:
    with at_work(lore) as (terminal, _):
        request(lore, terminal)
        wait_until(lambda: b"proceed?" in terminal.shown.replace(b"\x1b[1C", b" "), terminal)
        terminal.type(key)
        wait_until(lambda: not lore("decide", "--json").ndjson, terminal)
        [closed] = wait_until(lambda: lore("events", "--all", "--json", "--kind", "approval.closed").ndjson, terminal)
        assert closed["data"]["reason"] == "terminal"
        assert (lore.folder / "made.txt").exists() == (key == "1")


# --- Codex


@contextmanager
def codex_at_work(lore: Lore) -> Iterator[tuple[Terminal, Responses]]:
    home = lore.folder.parent / "home" / ".codex"
    home.mkdir(parents=True)
    lore("install", "codex", "--approvals", code=0)
    asked = {"cmd": "touch made.txt", "sandbox_permissions": "require_escalated", "justification": "needed"}
    api = Responses({"name": "exec_command", "arguments": json.dumps(asked)})
    (home / "config.toml").write_text(f'{CONFIG.format(url=api.url)}\n[projects."{lore.folder}"]\ntrust_level = "trusted"\n')
    options = ["--ask-for-approval", "on-request", "--sandbox", "workspace-write", "--dangerously-bypass-hook-trust"]
    with serving(api):
        terminal = Terminal(lore, [str(CODEX), *options, "Please do it"], {"OPENAI_API_KEY": "dummy"})
        try:
            yield terminal, api
        finally:
            terminal.close()


def output_of(api: Responses) -> str:
    outputs = [item for asked in api.asked for item in asked.get("input", []) if str(item.get("type")).endswith("_output")]
    # Side conversations of the program get the same call from the stub, and have no such tool.
    found = [text for item in outputs if "unsupported call" not in (text := json.dumps(item))]
    return found[0] if found else ""


@needs_codex
def test_codex_waits_for_an_answer_while_the_user_is_away(lore: Lore) -> None:
    lore("away", "on", code=0)
    with codex_at_work(lore) as (terminal, api):
        asked = wait_until(lambda: lore("decide", "--json").ndjson, terminal)[0]
        assert (asked["program"], asked["input"]["command"]) == ("Codex", "touch made.txt")
        lore("decide", asked["id"], "deny", "--reason", "not on a Friday", code=0)
        assert "not on a Friday" in wait_until(lambda: output_of(api), terminal)
        assert not (lore.folder / "made.txt").exists()


@needs_codex
def test_codex_asks_in_its_own_window_unless_the_user_is_away(lore: Lore) -> None:
    with codex_at_work(lore) as (terminal, api):
        wait_until(lambda: lore("events", "--all", "--json", "--kind", "approval.requested").ndjson, terminal)
        assert [one["can_answer"] for one in lore("decide", "--json").ndjson] == [False]
        wait_until(lambda: b"Would you like to run" in terminal.shown, terminal)
        assert output_of(api) == ""
