"""A search through a folder, as a program of its own: a pattern that never comes to an end can be ended from outside.

    python -I -S tools_finder.py < {"root": …, "steps": […], "pattern": …, "fixed": …, "glob": …}

Standard library only; nothing of ours is on its path. Goes through no link. Prints one JSON array a match: path, line number, line.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

MAX_MATCHES = 200
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_LINE_CHARS = 4096
_MAX_SHOWN_CHARS = 300
_SKIPPED_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache"))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def main() -> None:
    """Reads what is looked for, prints what is found."""
    asked = json.load(sys.stdin)
    pattern = re.compile(re.escape(asked["pattern"]) if asked["fixed"] else asked["pattern"])
    for match in islice(_find_matches(asked, pattern), MAX_MATCHES):
        print(json.dumps(match), flush=True)  # noqa: T201 - it is what the program is for


def _find_matches(asked: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[tuple[str, int, str]]:
    for path, content in _read_files(asked["root"], asked["steps"], asked.get("glob")):
        for number, line in enumerate(content.split("\n"), 1):
            if pattern.search(line[:_MAX_LINE_CHARS]):
                yield path, number, line[:_MAX_SHOWN_CHARS]


def _read_files(root: str, steps: list[str], glob: str | None) -> Iterator[tuple[str, str]]:
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for step in steps[:-1]:
        here = os.open(step, _FOLDER, dir_fd=here)
    if not steps:
        yield from _walk_folder(".", here, "", glob)
        return
    found = os.stat(steps[-1], dir_fd=here, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        yield from _walk_folder(steps[-1], here, "/".join(steps), glob)
    elif (content := _read_text(steps[-1], here)) is not None:
        yield "/".join(steps), content


def _walk_folder(top: str, here: int, before: str, glob: str | None) -> Iterator[tuple[str, str]]:
    for folder, folders, names, inside in os.fwalk(top, dir_fd=here, follow_symlinks=False):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        within = "/".join(part for part in (before, os.path.relpath(folder, top)) if part not in ("", "."))
        for name in sorted(names):
            path = f"{within}/{name}" if within else name
            if glob and not (fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(path, glob)):
                continue
            if (content := _read_text(name, inside)) is not None:
                yield path, content


def _read_text(name: str, folder: int) -> str | None:
    """A text; `None` for whatever else it is."""
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
                return None
            content = file.read(_MAX_FILE_BYTES)
    except OSError:
        return None
    return None if b"\0" in content[:8192] else content.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
