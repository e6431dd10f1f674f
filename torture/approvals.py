"""The real Claude Code in a terminal asks for a permission, and is answered from elsewhere: `python -m torture.approvals [--claude FILE]`.

Its model is a stub on loopback. Five ways: `lore decide` allows; the page denies with a reason; the terminal answers first; time is up, and
its own dialog decides; `lore decide` denies with a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any

from tests.model_stub import DONE, Api

LORE = str(Path(sys.executable).parent / "lore")
COMMAND, REASON = "touch marker.txt && rm -rf build", "Keep the build folder"
KEY = "sk-ant-stub-0123456789abcdef"
SECONDS = 120
WAIT = "15s"
"""How long a request can be answered from elsewhere where time is to be up."""
_QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")
_OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}


class Terminal:
    """Claude Code in a pseudo-terminal, with a home of its own."""

    def __init__(self, claude: str, home: Path, port: int, wait: str) -> None:
        self.home, self.work = home, home / "work"
        self.work.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC", "FLEETLORE_", "XDG_"))}
        model = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": KEY, "HOME": str(home), "TERM": "xterm-256color"}
        self.environ = kept | dict.fromkeys(_QUIET, "1") | _OFFLINE | model
        trusted = {str(self.work): {"hasTrustDialogAccepted": True}}
        seen = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}, "projects": trusted}
        (home / ".claude.json").write_text(json.dumps(seen))
        self.lore("install", "claude-code", "--approvals", "--wait", wait)
        self.process, self._file = pty.fork()
        if self.process == 0:
            os.chdir(self.work)
            os.execve(claude, ["claude", "--permission-mode", "default", "Make a marker"], self.environ)
        self._screen = b""

    def lore(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run([LORE, *arguments], env=self.environ, cwd=self.work, check=False, capture_output=True, text=True)
        return done.stdout

    def type(self, keys: bytes) -> None:
        """Press keys in the terminal."""
        os.write(self._file, keys)

    def wait_for(self, found: Callable[[], Any]) -> Any:
        """Read what the program shows until something is so."""
        until = time.monotonic() + SECONDS
        while not (value := found()):
            assert time.monotonic() < until, self._screen[-3000:].decode(errors="replace")
            if select.select([self._file], [], [], 0.2)[0]:
                self._screen += os.read(self._file, 65536)
        return value

    def shows(self, words: str) -> bool:
        """Whether it was on the screen, in whatever cells."""
        letters = b"".join(words.encode().split())
        return letters in b"".join(self._screen.split()) or all(word in self._screen for word in words.encode().split())

    def open_requests(self) -> list[dict[str, Any]]:
        """What waits for an answer."""
        return [json.loads(line) for line in self.lore("decide", "--json").splitlines()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What is recorded."""
        return [json.loads(line) for line in self.lore("events", "--kind", kind, "--json").splitlines()]


def allow(terminal: Terminal, request: str) -> None:
    terminal.lore("decide", request, "allow")


def deny(terminal: Terminal, request: str) -> None:
    terminal.lore("decide", request, "deny", "--reason", REASON)


def deny_on_the_page(terminal: Terminal, request: str) -> None:
    """Through the same route as the card's button."""
    up = subprocess.Popen([LORE, "up", "--port", "0"], env=terminal.environ, cwd=terminal.work, stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    try:
        line = up.stdout.readline()
        address, token = line.split("at ", 1)[1].split(";", 1)[0], Path(line.rpartition(" is in ")[2].strip()).read_text().strip()
        sent = ("-d", json.dumps({"choice": "deny", "reason": REASON}), f"{address}api/approvals/{request}")
        headers = ("-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json")
        subprocess.run(["curl", "-sSf", *headers, *sent], check=True, stdout=subprocess.DEVNULL, env=terminal.environ)
    finally:
        up.terminate()
        up.wait()


def answer_in_the_terminal(terminal: Terminal, request: str) -> None:
    terminal.type(b"1")


def let_time_pass(terminal: Terminal, request: str) -> None:
    terminal.wait_for(lambda: not terminal.open_requests())
    assert not (terminal.work / "marker.txt").exists(), "allowed by silence"
    answer_in_the_terminal(terminal, request)


WAYS: dict[str, tuple[Callable[[Terminal, str], None], str, bool]] = {
    "lore decide allow": (allow, "1h", True),
    "lore decide deny": (deny, "1h", False),
    "denied on the page": (deny_on_the_page, "1h", False),
    "answered in the terminal": (answer_in_the_terminal, "1h", True),
    "time is up": (let_time_pass, WAIT, True),
}
"""Name → how it is answered, how long the hook waits, and whether the command runs then."""


@contextmanager
def _stub() -> Iterator[Api]:
    with Api([{"name": "Bash", "input": {"command": COMMAND, "description": "Make a marker"}}]) as api:
        Thread(target=api.serve_forever, daemon=True).start()
        yield api
        api.shutdown()


def run_way(claude: str, name: str) -> None:
    """Ask, answer, and check what happened."""
    answer, wait, runs = WAYS[name]
    with tempfile.TemporaryDirectory(prefix="fleetlore-approvals-", ignore_cleanup_errors=True) as folder, _stub() as api:
        terminal = Terminal(claude, Path(folder), api.server_port, wait)
        try:
            [request] = terminal.wait_for(terminal.open_requests)
            assert (request["input"]["command"], request["can_answer"]) == (COMMAND, True)
            terminal.wait_for(lambda: terminal.shows("Do you want to proceed"))
            answer(terminal, request["id"])
            terminal.wait_for(lambda: terminal.shows(DONE))
            assert (terminal.work / "marker.txt").exists() is runs
            assert terminal.open_requests() == []
            if not runs:
                terminal.wait_for(lambda: any(REASON in (event.get("text") or "") for event in terminal.events("tool.failed")))
        finally:
            os.kill(terminal.process, 9)
            os.waitpid(terminal.process, 0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torture.approvals", description="Answer permission requests of the real Claude Code.")
    parser.add_argument("--claude", metavar="FILE", default=which("claude"), help="Claude Code (else `claude` on PATH)")
    options = parser.parse_args(argv)
    if options.claude is None:
        print("Claude Code is not installed: nothing is tried")
        return 0
    for name in WAYS:
        run_way(os.path.abspath(options.claude), name)
        print(f"{name}: holds", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
