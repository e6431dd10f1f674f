"""The `search` tool as a separate program, so that a regular expression that never ends can be killed.

python -I -S search.py < {"root": …, "steps": […], "pattern": …, "fixed": …, "glob": …}

Standard library only, as nothing of ours is on its path. Follows no links. Prints one JSON array per match: path, line
number, line. Started by `commands.py`.
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
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def main() -> None:
    """Read the request from stdin and print the matches."""
    request = json.load(sys.stdin)
    pattern = re.compile(re.escape(request["pattern"]) if request["fixed"] else request["pattern"])
    for match in islice(_find_matches(request, pattern), MAX_MATCHES):
        print(json.dumps(match), flush=True)  # noqa: T201 - the program's output


def _find_matches(request: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[tuple[str, int, str]]:
    for path, content in _read_files(request["root"], request["steps"], request.get("glob")):
        for number, line in enumerate(content.split("\n"), 1):
            if pattern.search(line[:_MAX_LINE_CHARS]):
                yield path, number, line[:_MAX_SHOWN_CHARS]


def _read_files(root: str, parts: list[str], glob: str | None) -> Iterator[tuple[str, str]]:
    folder_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts[:-1]:
        folder_fd = os.open(part, _FOLDER_FLAGS, dir_fd=folder_fd)
    if not parts:
        yield from _walk_folder(".", folder_fd, "", glob)
        return
    status = os.stat(parts[-1], dir_fd=folder_fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        yield from _walk_folder(parts[-1], folder_fd, "/".join(parts), glob)
    elif (content := _read_text(parts[-1], folder_fd)) is not None:
        yield "/".join(parts), content


def _walk_folder(top: str, parent_fd: int, prefix: str, glob: str | None) -> Iterator[tuple[str, str]]:
    for folder, folders, names, folder_fd in os.fwalk(top, dir_fd=parent_fd, follow_symlinks=False):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        relative = "/".join(part for part in (prefix, os.path.relpath(folder, top)) if part not in ("", "."))
        for name in sorted(names):
            path = f"{relative}/{name}" if relative else name
            if glob and not (fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(path, glob)):
                continue
            if (content := _read_text(name, folder_fd)) is not None:
                yield path, content


def _read_text(name: str, folder_fd: int) -> str | None:
    """The text of a regular file; `None` if it is binary, too large or unreadable."""
    try:
        with open(os.open(name, _FILE_FLAGS, dir_fd=folder_fd), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_FILE_BYTES:
                return None
            content = file.read(_MAX_FILE_BYTES)
    except OSError:
        return None
    return None if b"\0" in content[:8192] else content.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
