"""Real agents in a terminal ask for a permission, and are answered from elsewhere.

`python -m torture.approvals [--claude FILE] [--codex FILE]`. The model is a stub on loopback. Claude Code, five ways: `lore decide` allows;
the page denies with a reason; the terminal answers first; time is up, and its own dialog decides; `lore decide` denies with a reason.
Codex (0.169.0 and later) shows its dialog only after the hook: while the user is away, `lore decide` allows or denies with a reason, or
time is up and its own dialog decides; otherwise the request is shown, and only its own dialog answers.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any, NamedTuple

from tests.model_stub import DONE, Api
from tests.programs.stubs.responses import Responses

LORE = str(Path(sys.executable).parent / "lore")
COMMAND, REASON = "touch marker.txt && rm -rf build", "Keep the build folder"
KEY = "sk-ant-stub-0123456789abcdef"
SECONDS = 180
WAIT = "15s"
"""How long a request can be answered from elsewhere where time is to be up."""
_QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER")
_OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}


class Terminal:
    """An agent in a pseudo-terminal, with a home of its own."""

    asks = "Do you want to proceed"
    """What its own dialog says."""
    yes = b"1"
    """The key that allows there."""

    def __init__(self, program: str, home: Path, address: str, wait: str) -> None:
        self.home, self.work = home, home / "work"
        self.work.mkdir(parents=True)
        dropped = ("CLAUDE", "ANTHROPIC", "CODEX", "OPENAI", "FLEETLORE_", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self.environ = kept | dict.fromkeys(_QUIET, "1") | _OFFLINE | {"HOME": str(home), "TERM": "xterm-256color"}
        self._screen = b""
        words = self.prepare(address, wait)
        self.process, self._file = pty.fork()
        if self.process == 0:
            os.chdir(self.work)
            os.execve(program, words, self.environ)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def prepare(self, address: str, wait: str) -> list[str]:
        """Write the settings; returns the words of the command."""
        self.environ |= {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY}
        trusted = {str(self.work): {"hasTrustDialogAccepted": True}}
        seen = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}, "projects": trusted}
        (self.home / ".claude.json").write_text(json.dumps(seen))
        self.lore("install", "claude-code", "--approvals", "--wait", wait)
        return ["claude", "--permission-mode", "default", "Make a marker"]

    def begin(self) -> None:
        """Answer what it asks before the first turn."""

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
                part = os.read(self._file, 65536)
                self._screen += part
                for asked, answer in _QUESTIONS_TO_TERMINALS.items():
                    if asked in part:
                        self.type(answer)
        return value

    def shows(self, words: str) -> bool:
        """Whether it was on the screen, in whatever cells."""
        return self._has_letters(words) or all(word in self._screen for word in words.encode().split())

    def _has_letters(self, words: str) -> bool:
        return b"".join(words.encode().split()) in b"".join(_CONTROLS.sub(b"", self._screen).split())

    def press_until(self, keys: bytes, words: str) -> None:
        """Press keys, now and every two seconds, until these words are on the screen, letter by letter."""
        pressed = 0.0

        def press() -> bool:
            nonlocal pressed
            if self._has_letters(words):
                return True
            if time.monotonic() - pressed > 2:
                pressed = time.monotonic()
                self.type(keys)
            return False

        self.wait_for(press)

    def open_requests(self) -> list[dict[str, Any]]:
        """What waits for an answer."""
        return [json.loads(line) for line in self.lore("decide", "--json").splitlines()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What is recorded."""
        return [json.loads(line) for line in self.lore("events", "--kind", kind, "--json").splitlines()]


class CodexTerminal(Terminal):
    """Codex without its background server, which would outlive it. It writes only the cells that change, so not every text is whole."""

    asks = "Yes, proceed (y)"
    yes = b"y"

    def prepare(self, address: str, wait: str) -> list[str]:
        """The same for Codex."""
        self.environ |= {"STUB_KEY": "dummy"}
        provider = f'[model_providers.stub]\nname = "stub"\nbase_url = "{address}"\nwire_api = "responses"\nenv_key = "STUB_KEY"\n'
        settings = 'model = "gpt-5"\nmodel_provider = "stub"\napproval_policy = "on-request"\nsandbox_mode = "workspace-write"\n'
        (self.home / ".codex").mkdir()
        (self.home / ".codex" / "config.toml").write_text(f'{settings}\n{provider}\n[projects."{self.work}"]\ntrust_level = "trusted"\n')
        self.lore("install", "codex", "--approvals", "--wait", wait)
        return ["codex", "--no-daemon", "Make a marker"]

    def begin(self) -> None:
        """Trust our hooks: the second choice. Keys that come too early are lost."""
        self.wait_for(lambda: self.shows("hooks are new or changed"))
        self.press_until(b"\x1b[B", "› 2. Trust all and continue")
        self.press_until(b"\r", "Trusting hooks")


_CONTROLS = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>]")
_QUESTIONS_TO_TERMINALS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c", b"]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\"}
"""What a program asks the terminal → the answer: the place of the cursor, what it is, and its background."""


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
    terminal.wait_for(lambda: terminal.shows(terminal.asks))
    terminal.type(terminal.yes)


def let_time_pass(terminal: Terminal, request: str) -> None:
    terminal.wait_for(lambda: not terminal.open_requests())
    assert not (terminal.work / "marker.txt").exists(), "allowed by silence"
    answer_in_the_terminal(terminal, request)


class Way(NamedTuple):
    """How a request is answered."""

    answer: Callable[[Terminal, str], None]
    runs: bool
    """Whether the command runs then."""
    wait: str = "1h"
    """How long the hook waits."""
    is_away: bool = False


WAYS: dict[str, Way] = {
    "lore decide allow": Way(allow, True),
    "lore decide deny": Way(deny, False),
    "denied on the page": Way(deny_on_the_page, False),
    "answered in the terminal": Way(answer_in_the_terminal, True),
    "time is up": Way(let_time_pass, True, WAIT),
}
CODEX_WAYS: dict[str, Way] = {
    "away, lore decide allow": Way(allow, True, is_away=True),
    "away, lore decide deny": Way(deny, False, is_away=True),
    "away, time is up": Way(let_time_pass, True, WAIT, is_away=True),
    "not away, answered in the terminal": Way(answer_in_the_terminal, True),
}


@contextmanager
def _stub_claude() -> Iterator[str]:
    with Api([{"name": "Bash", "input": {"command": COMMAND, "description": "Make a marker"}}]) as api:
        Thread(target=api.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{api.server_port}"
        api.shutdown()


@contextmanager
def _stub_codex() -> Iterator[str]:
    given = {"cmd": COMMAND, "sandbox_permissions": "require_escalated", "justification": "Make a marker"}
    with Responses({"name": "exec_command", "arguments": json.dumps(given)}) as api:
        Thread(target=api.serve_forever, daemon=True).start()
        yield api.url
        api.shutdown()


def run_claude(program: str, way: Way) -> None:
    """Ask, answer, and check what happened."""
    with tempfile.TemporaryDirectory(prefix="fleetlore-approvals-", ignore_cleanup_errors=True) as folder, _stub_claude() as address:
        _run_way(Terminal(program, Path(folder), address, way.wait), way)


def run_codex(program: str, way: Way) -> None:
    """The same with Codex."""
    with tempfile.TemporaryDirectory(prefix="fleetlore-approvals-", ignore_cleanup_errors=True) as folder, _stub_codex() as address:
        _run_way(CodexTerminal(program, Path(folder), address, way.wait), way)


def _run_way(terminal: Terminal, way: Way) -> None:
    try:
        if way.is_away:
            terminal.lore("away", "on", "--for", "1h")
        terminal.begin()
        [request] = terminal.wait_for(terminal.open_requests)
        is_codex = isinstance(terminal, CodexTerminal)
        assert (request["input"]["command"], request["can_answer"]) == (COMMAND, way.is_away or not is_codex)
        if not is_codex:
            terminal.wait_for(lambda: terminal.shows(terminal.asks))
        elif way.is_away:
            assert not terminal.shows(terminal.asks), "its dialog is there while the hook waits: it need not wait only for who is away"
        way.answer(terminal, request["id"])
        terminal.wait_for(lambda: terminal.shows(DONE))
        assert (terminal.work / "marker.txt").exists() is way.runs
        assert terminal.open_requests() == []
        if not way.runs:
            kinds = ("tool.failed", "tool.denied", "tool.returned")
            terminal.wait_for(lambda: any(REASON in json.dumps(event) for kind in kinds for event in terminal.events(kind)))
    finally:
        os.kill(terminal.process, 9)
        os.waitpid(terminal.process, 0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torture.approvals", description="Answer permission requests of real agents.")
    parser.add_argument("--claude", metavar="FILE", default=which("claude"), help="Claude Code (else `claude` on PATH)")
    parser.add_argument("--codex", metavar="FILE", default=which("codex"), help="Codex (else `codex` on PATH)")
    options = parser.parse_args(argv)
    for name, program, ways, run in (
        ("Claude Code", options.claude, WAYS, run_claude),
        ("Codex", options.codex, CODEX_WAYS, run_codex),
    ):
        if program is None:
            print(f"{name} is not installed: nothing is tried")
            continue
        for way in ways:
            run(os.path.abspath(program), ways[way])
            print(f"{name}, {way}: holds", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
