"""A stretch of work: edits, builds, tests and checks in a row, told in one sentence of a story."""

from __future__ import annotations

from collections.abc import Mapping

from fleetlore.chronicle.grammar import listed, number, plural, words
from fleetlore.chronicle.telling_deeds import words_of
from fleetlore.events.envelope import Event

KEY = "tool.returned/work"
"""Under which words a stretch is told."""
_NOUNS: Mapping[str, str] = {
    "tool.returned/edit": "edit",
    "tool.returned/build": "build",
    "tool.returned/test": "test run",
    "tool.returned/check": "check",
}
KEYS = frozenset((*_NOUNS, KEY))
"""The words of what makes up a stretch, and of a stretch."""
MOST_FILES = 3


class Work:
    """What a stretch holds: how much of each, which files first, and how the last tests went."""

    __slots__ = ("_counts", "_edited", "_files", "_tested")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._files: dict[str, None] = {}
        self._edited: set[str] = set()
        self._tested = ""

    def add(self, event: Event, key: str) -> None:
        """One more deed."""
        noun = _NOUNS[key]
        self._counts[noun] = self._counts.get(noun, 0) + 1
        if noun == "edit":
            file = words_of(event)
            self._edited.add(file)
            if len(self._files) < MOST_FILES:
                self._files[file] = None
        elif noun == "test run":
            self._tested = words_of(event)

    def told(self) -> str:
        """`eight edits (“mix.exs”, “otel.ex” and six more files), two builds and a test run (“mix test: 297 passed”)`."""
        return listed([f"{plural(count, noun)}{self._detail(noun, count)}" for noun, count in self._counts.items()])

    def _detail(self, noun: str, count: int) -> str:
        if noun == "test run" and self._tested:
            return f" ({'the last one ' if count > 1 else ''}“{words(self._tested)}”)"
        if noun != "edit":
            return ""
        files = [f"“{words(file)}”" for file in self._files if words(file)]
        rest = len(self._edited) - len(files)
        if not files:
            return ""
        return f" ({listed(files)})" if rest < 1 else f" ({', '.join(files)} and {number(rest)} more {'file' if rest == 1 else 'files'})"
