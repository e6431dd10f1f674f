"""The real Claude Code asks for permission in a terminal, and is answered from elsewhere. Its model is a stub on loopback.

Needs `claude` on PATH or in FLEETLORE_CLAUDE; `make test` does not install it.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from threading import Thread
from time import monotonic
from typing import Any

import pytest

from fleetlore.log.sqlite.file import default_path
from tests.cli.running import Lore
from tests.models.stubs.turns import OFFLINE, serving
from tests.models.test_claude_code_harness import CLAUDE, QUIET, Hearing, needs_claude
from tests.patience import PATIENCE
from tests.server.serving import serve

pytestmark = [pytest.mark.slow, needs_claude]
COMMAND = "touch made.txt && rm -rf build"
STEPS = [{"name": "Bash", "input": {"command": COMMAND, "description": "Rebuild"}}]
KEY = "dummy-dummy-dummy-dummy-dummy"


class Terminal:
    """Claude Code in a pseudo-terminal: what it shows, and keys for it."""

    def __init__(self, lore: Lore, api: Hearing) -> None:
        home = lore.folder.parent / "home"
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(lore.folder): project},
        }
        (home / ".claude.json").write_text(json.dumps(known))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
        environ |= OFFLINE | QUIET | {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}"}
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [str(CLAUDE), "--permission-mode", "default", "Please rebuild"],
            cwd=lore.folder,
            env=environ | {"TERM": "xterm-256color", "IS_SANDBOX": "1"},
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
        self.process.kill()
        self.process.wait()


@contextmanager
def at_work(lore: Lore, *options: str) -> Iterator[tuple[Terminal, Hearing]]:
    (lore.folder.parent / "home" / ".claude").mkdir(parents=True, exist_ok=True)
    lore("install", "claude-code", "--approvals", *options, code=0)
    api = Hearing(STEPS)
    with serving(api):
        terminal = Terminal(lore, api)
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


def result_of(api: Hearing) -> str:
    """What the model was told about its call; empty if it was told nothing yet."""
    messages = [message["content"] for asked in api.asked for message in asked["messages"] if isinstance(message["content"], list)]
    blocks = [block for content in messages for block in content]
    return next((json.dumps(block["content"]) for block in blocks if block.get("type") == "tool_result"), "")


def test_a_dialog_is_answered_by_lore_decide(lore: Lore) -> None:
    with at_work(lore) as (terminal, api):
        asked = request(lore, terminal)
        assert asked["input"]["command"] == COMMAND
        assert not (lore.folder / "made.txt").exists()
        lore("decide", asked["id"], "allow", code=0)
        wait_until(lambda: result_of(api), terminal)
        assert (lore.folder / "made.txt").exists()


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


def test_after_the_time_out_its_own_dialog_decides(lore: Lore) -> None:
    with at_work(lore, "--wait", "1s") as (terminal, api):
        wait_until(lambda: lore("events", "--all", "--json", "--kind", "approval.closed").ndjson, terminal)
        assert result_of(api) == ""
        assert b"proceed?" in terminal.shown.replace(b"\x1b[1C", b" ")
        terminal.type("1")
        wait_until(lambda: result_of(api), terminal)
        assert (lore.folder / "made.txt").exists()


@pytest.mark.parametrize("key", ["1", "\x1b"])
def test_an_answer_in_the_terminal_closes_the_card(lore: Lore, key: str) -> None:
    with at_work(lore) as (terminal, _):
        request(lore, terminal)
        wait_until(lambda: b"proceed?" in terminal.shown.replace(b"\x1b[1C", b" "), terminal)
        terminal.type(key)
        wait_until(lambda: not lore("decide", "--json").ndjson, terminal)
        [closed] = lore("events", "--all", "--json", "--kind", "approval.closed").ndjson
        assert closed["data"]["reason"] == "terminal"
        assert (lore.folder / "made.txt").exists() == (key == "1")
