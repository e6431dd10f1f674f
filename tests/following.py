"""Follows a page of the documentation as a newcomer does: its commands run as they stand, and what they print is what the page shows.

A fence says how it is run: `sh` in the first terminal, `sh aside` in one of its own where it stays, `sh again` until what is shown comes.
A fence of `text` behind it shows what came; `[…]` stands for what is left out, and of a `text sample` only the headings are looked for.
`<!-- Ctrl-C: COMMAND -->` ends what stays.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple

from tests.patience import PATIENCE

BIN = Path(sys.executable).parent
_part = re.compile(r"^```(?P<kind>sh|text)(?P<how>[^\n]*)\n(?P<body>.*?)^```$|^<!-- Ctrl-C: (?P<end>.+?) -->$", re.DOTALL | re.MULTILINE)
_changing = (
    (r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day \d{4}-\d\d-\d\d", "DAY"),
    (r"\bAt \d\d:\d\d,", "At TIME,"),
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
    (r"\b\d+ (?:s|min) ago|just now", "AGO"),
    (r"\s+", " "),
)
"""Parts of an output that differ from run to run."""


class Step(NamedTuple):
    """What is typed, where, and what is shown behind it."""

    how: str
    commands: str
    shown: str = ""
    is_sample: bool = False


def steps_of(page: str) -> list[Step]:
    """A page in its order."""
    steps: list[Step] = []
    for part in _part.finditer(page):
        if part["kind"] == "text":
            steps[-1] = steps[-1]._replace(shown=part["body"], is_sample=part["how"].strip() == "sample")
        else:
            steps.append(Step("ctrl-c", part["end"]) if part["end"] else Step(part["how"].strip(), part["body"]))
    return steps


class Newcomer:
    """A home with nothing in it, a folder, and terminals."""

    def __init__(self, home: Path, *, swap: Mapping[str, str] | None = None) -> None:
        self.home = self._folder = home
        self._swap = dict(swap or {})
        """What stands on the page, and what is typed in its place: ports, which others may have."""
        self._place = home / ".place"
        self._asides: dict[str, subprocess.Popen[bytes]] = {}
        self.env = _environment(home)

    def follow(self, step: Step) -> None:
        """Take one step; it must come to what the page shows."""
        match step.how:
            case "aside":
                self._open(step)
            case "ctrl-c":
                self.interrupt(step.commands)
            case _:
                self._type(step)

    def run(self, commands: str) -> str:
        """Type commands in the first terminal; each must end well."""
        code, said = self._answer(commands)
        assert code == 0, f"{commands}\n{said}"
        return said

    def _answer(self, commands: str) -> tuple[int, str]:
        script = f"trap 'pwd -P > {self._place}' EXIT\n{self._typed(commands)}"
        answer = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self._folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
        self._folder = Path(self._place.read_text().strip())
        return answer.returncode, answer.stdout.decode()

    def ended(self, command: str) -> int:
        """How what was opened by a command came to its end."""
        return self._asides.pop(command).wait(PATIENCE)

    def interrupt(self, command: str) -> None:
        """Ctrl-C, where the command stays; it has to end well."""
        process = self._asides[command]
        os.killpg(process.pid, signal.SIGINT)
        assert self.ended(command) in (0, 1 if command == "nats-server" else 0), self._out(command).read_text()

    def _type(self, step: Step) -> None:
        deadline = monotonic() + PATIENCE
        while True:
            code, said = self._answer(step.commands)
            missing = self.missing(step, said)
            if code == 0 and not missing:
                return
            assert step.how == "again", (step.commands, code, missing, said)
            assert monotonic() < deadline, (step.commands, code, missing, said)

    def _open(self, step: Step) -> None:
        command = " ".join(step.commands.split()[: 1 if step.commands.startswith("nats") else 2])
        with self._out(command).open("wb") as out:
            self._asides[command] = process = subprocess.Popen(
                ["bash", "-c", f"exec {self._typed(step.commands)}"],
                cwd=self._folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        Thread(target=process.wait, daemon=True).start()  # as a shell does: who is dead is seen to be
        deadline = monotonic() + PATIENCE
        while missing := self.missing(step, said := self._out(command).read_text()):
            assert process.poll() is None, said
            assert monotonic() < deadline, (missing, said)
            sleep(0.05)  # what another process prints can only be looked at again

    def _out(self, command: str) -> Path:
        return self.home / f".{command.replace(' ', '-')}.out"

    def _typed(self, commands: str) -> str:
        for written, typed in self._swap.items():
            commands = commands.replace(written, typed)
        return commands

    def missing(self, step: Step, said: str) -> list[str]:
        """What the page shows and the commands did not print, in this order."""
        rest, gone = self._plain(said), []
        for piece in _headings(step.shown) if step.is_sample else step.shown.split("[…]"):
            wanted = self._plain(piece).strip()
            before, found, after = rest.partition(wanted) if wanted else (rest, " ", rest)
            gone += [] if found else [wanted]
            rest = after if found else before
        return gone

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.home), "/home/you")
        for written, typed in self._swap.items():
            text = text.replace(typed, written)
        for pattern, word in _changing:
            text = re.sub(pattern, word, text)
        return text

    def left_running(self) -> dict[int, str]:
        """Processes that still live in this home, and their commands."""
        mark = f"HOME={self.home}".encode()
        places = [place for place in Path("/proc").glob("[0-9]*") if mark in _read(place / "environ").split(b"\0")]
        return {int(place.name): _read(place / "cmdline").replace(b"\0", b" ").decode(errors="replace") for place in places}

    def close(self) -> None:
        """End whatever was left open, at once."""
        for pid in self.left_running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._asides.values():
            process.wait(PATIENCE)


@contextmanager
def newcomer(home: Path, *, swap: Mapping[str, str] | None = None) -> Iterator[Newcomer]:
    """Somebody who sits down, and at the end leaves nothing open."""
    home.mkdir(parents=True, exist_ok=True)
    one = Newcomer(home, swap=swap)
    try:
        yield one
    finally:
        one.close()


def _environment(home: Path) -> dict[str, str]:
    browser = home / ".browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {home}/.opened\n')
    browser.chmod(0o755)
    path = f"{BIN}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "TZ": "UTC", "LANG": "C.UTF-8", "LOGNAME": "grace", "BROWSER": f"{browser} %s"}


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith((" ", "[…]")) and not line.endswith(".")]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or is another user's
        return b""
