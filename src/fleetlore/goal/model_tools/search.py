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

MOST_MATCHES = 200
_LARGEST = 4 * 1024 * 1024
_LONGEST_LINE = 4096
_SHOWN = 300
_PASSED_BY = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache"))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def main() -> None:
    """Reads what is looked for, prints what is found."""
    asked = json.load(sys.stdin)
    pattern = re.compile(re.escape(asked["pattern"]) if asked["fixed"] else asked["pattern"])
    for match in islice(_matches(asked, pattern), MOST_MATCHES):
        print(json.dumps(match), flush=True)  # noqa: T201 - it is what the program is for


def _matches(asked: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[tuple[str, int, str]]:
    for path, content in _files(asked["root"], asked["steps"], asked.get("glob")):
        for number, line in enumerate(content.split("\n"), 1):
            if pattern.search(line[:_LONGEST_LINE]):
                yield path, number, line[:_SHOWN]


def _files(root: str, steps: list[str], glob: str | None) -> Iterator[tuple[str, str]]:
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for step in steps[:-1]:
        here = os.open(step, _FOLDER, dir_fd=here)
    if not steps:
        yield from _walked(".", here, "", glob)
        return
    found = os.stat(steps[-1], dir_fd=here, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        yield from _walked(steps[-1], here, "/".join(steps), glob)
    elif (content := _content(steps[-1], here)) is not None:
        yield "/".join(steps), content


def _walked(top: str, here: int, before: str, glob: str | None) -> Iterator[tuple[str, str]]:
    for folder, folders, names, inside in os.fwalk(top, dir_fd=here, follow_symlinks=False):
        folders[:] = sorted(set(folders) - _PASSED_BY)
        within = "/".join(part for part in (before, os.path.relpath(folder, top)) if part not in ("", "."))
        for name in sorted(names):
            path = f"{within}/{name}" if within else name
            if glob and not (fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(path, glob)):
                continue
            if (content := _content(name, inside)) is not None:
                yield path, content


def _content(name: str, folder: int) -> str | None:
    """A text; `None` for whatever else it is."""
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
                return None
            content = file.read(_LARGEST)
    except OSError:
        return None
    return None if b"\0" in content[:8192] else content.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
