"""A temporary git directory that borrows another one's objects, but has none of its settings, attributes or ignore rules.

Our own git directory lies where an agent can write. Settings there could hide changes from the checks, so git never
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
def temporary_git_dir(our_git: str, *, exclude: bytes = b"", form: str | None = None) -> Iterator[str]:
    """Path of the temporary git directory, deleted on exit.

    `exclude` is the content of its `info/exclude`, `form` its object format (default: that of `our_git`).
    """
    form = form or git.run_git_line("rev-parse", "--show-object-format", git_dir=our_git)
    with TemporaryDirectory(prefix="apart-", dir=os.path.dirname(our_git)) as path:
        os.makedirs(os.path.join(path, "objects", "info"))
        for folder in ("refs", "info"):
            os.mkdir(os.path.join(path, folder))
        alternates = os.fsencode(os.path.join(our_git, "objects")) + b"\n"
        contents = {"HEAD": b"ref: refs/heads/none\n", "config": _SETTINGS.format(form).encode(), EXCLUDE: exclude}
        for name, content in (contents | {os.path.join("objects", "info", "alternates"): alternates}).items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        yield path


def read_exclude_file(our_git: str) -> bytes:
    """The ignore rules that are stored in our git directory."""
    with open(os.path.join(our_git, EXCLUDE), "rb") as file:
        return file.read()
