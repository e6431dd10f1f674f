"""What a goal's file says, TOML or YAML, and everything that is wrong with it: each complaint with its place and what to write instead."""

from __future__ import annotations

import tomllib
from typing import Any

from fleetlore.errors import InvalidGoal, InvalidScenario
from fleetlore.runtime.sheet import MOST_PROBLEMS, Path, plain
from fleetlore.runtime.tree import Tree

MOST_BYTES = 128 * 1024
"""A goal goes into the log as one event, which holds 256 KiB."""


class Sheet(Tree):
    """A file, read. TOML tells no lines, so that its places are told by their paths alone."""

    def __init__(self, source: str, text: str, *, is_toml: bool) -> None:
        self._is_toml = is_toml
        try:
            super().__init__(source, text)
        except InvalidScenario as error:
            raise InvalidGoal(error.problems) from error

    def at(self, path: Path, problem: str) -> str:
        """A problem with its place."""
        return f"{self.source}: {problem}" if self._is_toml else super().at(path, problem)

    def stop_if_wrong(self) -> None:
        """`InvalidGoal` with everything that was found so far."""
        if self.problems:
            more = len(self.problems) - MOST_PROBLEMS
            raise InvalidGoal([*self.problems[:MOST_PROBLEMS], *([f"{self.source}: and {more} more"] if more > 0 else ())])

    def _read(self, text: str) -> Any:
        if len(text.encode(errors="replace")) > MOST_BYTES:
            raise InvalidGoal([f"{self.source}: over {MOST_BYTES // 1024} KiB; let the goal name files that tell the rest"])
        if not self._is_toml:
            return super()._read(text)
        try:
            return plain(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise InvalidGoal([f"{self.source}: not TOML: {error}"]) from error
