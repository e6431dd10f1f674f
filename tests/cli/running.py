"""Running `lore`: in this process where that is enough, as a real one where it is not."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from fleetlore.cli.main import main
from fleetlore.cli.trust import approve_file
from fleetlore.settings import FILE_NAME

START = "import sys; from fleetlore.cli.entry import run_command_line; sys.exit(run_command_line())"


class Result(NamedTuple):
    """What a command line came to."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def ndjson(self) -> list[Any]:
        return [json.loads(line) for line in self.raw.splitlines()]


class Lore:
    """A folder and a home of their own, and `lore` run in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *argv: str, stdin: bytes = b"", code: int | None = None) -> Result:
        """Run it in this process; `code` is what it has to leave with."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        try:
            with redirect_stdout(out), redirect_stderr(err):
                left_with = main(argv)
                out.flush()
        finally:
            sys.stdin = before
        result = Result(left_with, out.buffer.getvalue(), err.getvalue())
        assert code is None or result.code == code, result
        return result

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start it as a process of its own."""
        return subprocess.Popen(command(argv), cwd=self.folder, **options)

    def on_terminal(self, *argv: str, columns: int = 100) -> Result:
        """Run it as a process whose output is a terminal."""
        ours, theirs = pty.openpty()
        environ = os.environ | {"TERM": "xterm-256color"}
        os.set_blocking(ours, True)
        _set_width(theirs, columns)
        process = subprocess.Popen(command(argv), cwd=self.folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # Linux's way of saying that the other side is closed
            pass
        finally:
            os.close(ours)
        return Result(process.wait(), shown.replace(b"\r\n", b"\n"), "")

    def write(self, name: str, content: str | bytes, *, approve: bool = True) -> str:
        """Write a file; answers its path. A project's settings are approved, as `lore trust` does."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if approve and path.name == FILE_NAME:
            approve_file(str(path), path.read_bytes())
        return str(path)


def command(argv: Sequence[str]) -> list[str]:
    """The command line of a real process."""
    return [sys.executable, "-c", START, *argv]


def _set_width(terminal: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))


def nexus(kind: str = "commit", agent: str = "ada", detail: str = "x", at: float | None = 1_700_000_000.0, **more: Any) -> str:
    """One line of a nexus chronicle."""
    record = {"kind": kind, "agent": agent, "detail": detail, "timestamp": at, "metadata": more}
    return json.dumps({key: value for key, value in record.items() if value is not None})
