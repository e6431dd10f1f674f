"""Repositories and workspaces for tests, and what an agent does in them."""

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
    """Run git as an agent or a user does, with the repository's settings."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, env=SETTINGS, capture_output=True, check=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()


def repository(path: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with one commit."""
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


def plan(**fields: object) -> Plan:
    return Plan(harness="command", agent="ada", command=("true",), **fields)  # type: ignore[arg-type]  # a test names what it needs


def opened(source: Path | str, home: Path, *, goal: str | None = None, **fields: object) -> Workspace:
    return open_workspace(goal or clock.uuid7(), plan(**fields), str(source), str(home))


def listing(root: Path | str, *, skipped: tuple[str, ...] = ()) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder except `.git` at its top: type, permissions and content."""
    entries: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if relative.split("/")[0] == ".git" or relative.startswith(skipped or ("\0",)):
                continue
            entries[relative] = _describe_entry(path)
    return entries


def _describe_entry(path: str) -> tuple[str, int, bytes]:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "link", 0, os.fsencode(os.readlink(path))
    return (stat.filemode(mode)[0], stat.S_IMODE(mode), Path(path).read_bytes() if stat.S_ISREG(mode) else b"")
