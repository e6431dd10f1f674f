"""Which paths are ignored: asked of git, in a folder of ours that holds nothing but the rules.

So git never looks at what an agent made, rules of an earlier moment can be asked about, and a rule that the agent adds later hides nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import TypeAlias

from fleetlore.runtime.driver.workspace import git
from fleetlore.runtime.driver.workspace.apart import apart
from fleetlore.runtime.driver.workspace.files import RULES, joined

RulesOf: TypeAlias = Callable[[str], bytes | None]
"""Of a folder, what its `.gitignore` says, if it has one."""

# What git is told at once must fit into a pipe, whatever it answers meanwhile.
_MOST_ASKED = 8 * 1024
_PIECE = 64 * 1024


@contextmanager
def rules(git_dir: str, rules_of: RulesOf, *, base: bytes) -> Iterator[Rules]:
    """The rules of one moment, and those that hold everywhere."""
    with ExitStack() as held:
        yield Rules(git_dir, rules_of, held, base)


class Rules:
    """Answers which names are ignored, folder by folder from the root on."""

    def __init__(self, git_dir: str, rules_of: RulesOf, held: ExitStack, base: bytes) -> None:
        self._git_dir, self._rules_of, self._held, self._base = git_dir, rules_of, held, base
        self._place = ""
        self._git: git.Running | None = None
        self._is_ruled: dict[str, bool] = {}
        self._has_base = bool(base.strip())

    def __call__(self, folder: str, names: Sequence[str], folders: Collection[str]) -> set[str]:
        """Those of the names that are ignored."""
        own = self._rules_of(folder)
        above = self._is_ruled.get(os.path.dirname(folder), self._has_base) if folder else self._has_base
        self._is_ruled[folder] = above or bool(own)
        if not self._is_ruled[folder] or not names:
            return set()
        asked = self._asked()
        place = os.path.join(self._place, folder)
        os.makedirs(place, exist_ok=True)
        if own:
            with open(os.path.join(place, RULES), "wb") as file:
                file.write(own)
        for name in folders:
            os.mkdir(os.path.join(place, name))
        return {name for few in _portions(folder, names) for name in self._ask(asked, folder, few)}

    def _asked(self) -> git.Running:
        if self._git is None:
            self._place = self._held.enter_context(TemporaryDirectory(prefix="rules-", dir=os.path.dirname(self._git_dir)))
            command = ("-c", "core.bare=false", f"--work-tree={self._place}", "check-ignore", "--stdin", "-z", "-v", "-n", "--no-index")
            clean = self._held.enter_context(apart(self._git_dir, exclude=self._base, form="sha1"))
            self._git = self._held.enter_context(git.running(*command, git_dir=clean, cwd=self._place, timeout=git.LONG))
            # It says by its exit code whether anything was ignored.
            self._git.is_stopped = True
        return self._git

    def _ask(self, asked: git.Running, folder: str, names: Sequence[str]) -> Iterator[str]:
        asked.stdin.write(b"".join(b"./" + os.fsencode(joined(folder, name)) + b"\0" for name in names))
        asked.stdin.flush()
        # Of each: where the rule stands, its line, the rule, the path.
        told = self._fields(asked, 4 * len(names))
        for name, rule in zip(names, told[2::4], strict=True):
            if rule and not rule.startswith(b"!"):
                yield name

    def _fields(self, asked: git.Running, wanted: int) -> list[bytes]:
        told = b""
        while told.count(b"\0") < wanted:
            piece = asked.stdout.read1(_PIECE)
            if not piece:
                raise git.GitFailed("check-ignore", "it ended before it had answered")
            told += piece
        return told.split(b"\0")[:wanted]


def _portions(folder: str, names: Sequence[str]) -> Iterator[list[str]]:
    few: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(joined(folder, name))) + 4
        if few and size > _MOST_ASKED:
            yield few
            few, size = [], len(os.fsencode(joined(folder, name))) + 4
        few.append(name)
    if few:
        yield few
