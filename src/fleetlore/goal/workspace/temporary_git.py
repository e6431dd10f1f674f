"""A git directory for a moment: others' objects, and nobody's settings, attributes or rules but those that are given.

Our own lies where an agent can write, and what git finds beside the objects there would hide changes from whoever checks the work.
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
    """It, gone afterwards. `exclude` says what is ignored everywhere, `form` how objects are named."""
    form = form or git.run_git_line("rev-parse", "--show-object-format", git_dir=our_git)
    with TemporaryDirectory(prefix="apart-", dir=os.path.dirname(our_git)) as place:
        os.makedirs(os.path.join(place, "objects", "info"))
        for folder in ("refs", "info"):
            os.mkdir(os.path.join(place, folder))
        alternates = os.fsencode(os.path.join(our_git, "objects")) + b"\n"
        given = {"HEAD": b"ref: refs/heads/none\n", "config": _SETTINGS.format(form).encode(), EXCLUDE: exclude}
        for name, content in (given | {os.path.join("objects", "info", "alternates"): alternates}).items():
            with open(os.path.join(place, name), "wb") as file:
                file.write(content)
        yield place


def read_exclude_file(our_git: str) -> bytes:
    """What is ignored everywhere, as it is kept in our own."""
    with open(os.path.join(our_git, EXCLUDE), "rb") as file:
        return file.read()
