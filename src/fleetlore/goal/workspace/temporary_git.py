"""A temporary git directory that borrows another one's objects, but has none of its settings, attributes or ignore rules.

The git directory of our snapshots is at a path where an agent can write. Settings there could hide changes from the checks, so git never
reads them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from fleetlore.goal.workspace import git

EXCLUDE = os.path.join("info", "exclude")
_SETTINGS = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = {}\n"


@contextmanager
def temporary_git_dir(source: str, *, exclude: bytes = b"", object_format: str | None = None) -> Iterator[str]:
    """Path of the temporary git directory, deleted on exit.

    `source` is the git directory whose objects it uses, `exclude` the content of its `info/exclude`. `object_format` is that of
    `source` if it is not given.
    """
    object_format = object_format or git.run_git_line("rev-parse", "--show-object-format", git_dir=source)
    with TemporaryDirectory(prefix="apart-", dir=os.path.dirname(source)) as path:
        os.makedirs(os.path.join(path, "objects", "info"))
        for folder in ("refs", "info"):
            os.mkdir(os.path.join(path, folder))
        alternates = os.fsencode(os.path.join(source, "objects")) + b"\n"
        contents = {"HEAD": b"ref: refs/heads/none\n", "config": _SETTINGS.format(object_format).encode(), EXCLUDE: exclude}
        for name, content in (contents | {os.path.join("objects", "info", "alternates"): alternates}).items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        yield path


def read_exclude_file(git_dir: str) -> bytes:
    """The ignore rules in the `info/exclude` of a git directory."""
    with open(os.path.join(git_dir, EXCLUDE), "rb") as file:
        return file.read()
