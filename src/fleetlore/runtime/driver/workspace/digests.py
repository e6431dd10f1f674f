"""What a file holds, read again only when it may have changed."""

from __future__ import annotations

import os
from typing import TypeAlias

from fleetlore import clock
from fleetlore.runtime.driver.workspace.files import Found, opened
from fleetlore.runtime.driver.workspace.snapshots import Changed, Kept, Store

# Two changes in one tick of a file system's clock look like one: what was changed so lately is read again.
_LATELY = 2 * 10**9

Look: TypeAlias = tuple[int, int, int, int]
"""Inode, size, and the times of change; the last one nobody can set."""


class Digests:
    """Of the files below a root."""

    def __init__(self, root: str, store: Store) -> None:
        self._root, self._store = root, store
        self._known: dict[str, tuple[Look, str]] = {}

    def kept(self, path: str, found: Found, *, read: bool) -> Kept:
        """What lies there, by the name of its content, unless it is not to be read."""
        if found.kind == "link":
            return Kept(
                "link", 0o777, self._store.name_of("blob", os.fsencode(os.readlink(os.path.join(self._root, path)))) if read else ""
            )
        if found.kind == "file":
            return Kept("file", found.mode, self._name(path, found) if read else "")
        return Kept(found.kind, found.mode if found.kind == "folder" else 0)

    def _name(self, path: str, found: Found) -> str:
        look = found.stat.st_ino, found.stat.st_size, found.stat.st_mtime_ns, found.stat.st_ctime_ns
        before = self._known.get(path)
        if before is not None and before[0] == look:
            return before[1]
        name = self._read(path)
        if clock.now().timestamp() * 10**9 - look[3] > _LATELY:
            self._known[path] = look, name
        return name

    def _read(self, path: str) -> str:
        try:
            with opened(self._root, path) as file:
                return self._store.name_of_file(file, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise Changed(f"{path}: cannot be read: {error.strerror}") from error
