"""Repositories to work in, and what an agent does to them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from fleetlore import clock
from fleetlore.events.goal_plan import Plan
from fleetlore.goal.workspace.workspace import Workspace, open_workspace

SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))},
}


def git(folder: Path | str, *arguments: str) -> str:
    """As an agent or a user runs it, with the settings of the repository."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=SETTINGS, capture_output=True, check=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()


def repository(path: Path, files: dict[str, str] | None = None) -> Path:
    """One with a commit."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    write(path, files or {"README.md": "Hello.\n", "src/app.py": "print('hello')\n", ".gitignore": "*.log\nbuild/\n"})
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "Begin")
    return path


def write(root: Path | str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def plan(**said: object) -> Plan:
    return Plan(harness="command", agent="ada", command=("true",), **said)  # type: ignore[arg-type]  # a test names what it needs


def opened(source: Path | str, home: Path, *, goal: str | None = None, **said: object) -> Workspace:
    return open_workspace(goal or clock.uuid7(), plan(**said), str(source), str(home))


def listing(root: Path | str, *, passed_over: tuple[str, ...] = ()) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder but `.git` at its top: what it is, its permissions, its content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, root)
            if shown.split("/")[0] == ".git" or shown.startswith(passed_over or ("\0",)):
                continue
            found[shown] = _told(path)
    return found


def _told(path: str) -> tuple[str, int, bytes]:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "link", 0, os.fsencode(os.readlink(path))
    return (stat.filemode(mode)[0], stat.S_IMODE(mode), Path(path).read_bytes() if stat.S_ISREG(mode) else b"")
