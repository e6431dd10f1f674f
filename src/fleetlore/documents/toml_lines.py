"""TOML as plain values, and the line of each key, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from fleetlore.documents.validation import KeyPath, to_plain_values

MAX_PLACES = 20_000
"""Places that are kept. A file can hold millions of values, and what has no line gets that of its table."""

_blank = re.compile(r"[ \t]*")
_between = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_bare_key = re.compile(r"[A-Za-z0-9_-]+")
_scalar = re.compile(r"[^,\]}\n#]*")
_string = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}' r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)


def parse_toml(text: str) -> tuple[Any, Callable[[], dict[KeyPath, int]]]:
    """The values, with dates as text; and a function that finds their lines, which only errors need. `ValueError` if it is no TOML."""
    values = to_plain_values(tomllib.loads(text))
    return values, lambda: _KeyScanner(text).scan_document()


class _KeyScanner:
    """Walks through a text that `tomllib` accepts, and notes where each key and item begins."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._counts: dict[KeyPath, int] = {}
        """Arrays of tables, with how many tables were seen."""

    def scan_document(self) -> dict[KeyPath, int]:
        """Path → line."""
        table: KeyPath = ()
        self._skip_pattern(_between)
        while self._at < len(self._text) and len(self._lines) < MAX_PLACES:
            if self._text.startswith("[[", self._at):
                table = self._scan_array_header()
            elif self._text[self._at] == "[":
                table = self._scan_table_header()
            else:
                self._scan_assignment(table)
            self._skip_pattern(_between)
        return self._lines

    def _scan_array_header(self) -> KeyPath:
        start = self._at
        self._at += len("[[")
        parts = self._scan_key()
        self._at += len("]]")
        array = (*self._resolve_header(parts[:-1]), parts[-1])
        index = self._counts.get(array, 0)
        self._counts[array] = index + 1
        self._note_path((*array, index), start)
        return (*array, index)

    def _scan_table_header(self) -> KeyPath:
        start = self._at
        self._at += len("[")
        table = self._resolve_header(self._scan_key())
        self._at += len("]")
        self._note_path(table, start)
        return table

    def _resolve_header(self, parts: list[str]) -> KeyPath:
        """The path of a header: the name of an array of tables means its last table."""
        path: KeyPath = ()
        for part in parts:
            path = (*path, part)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _scan_assignment(self, table: KeyPath) -> None:
        start = self._at
        path = (*table, *self._scan_key())
        self._note_path(path, start)
        self._at += len("=")
        self._scan_value(path)

    def _scan_key(self) -> list[str]:
        """A dotted key, up to what follows it."""
        parts = []
        while True:
            self._skip_pattern(_blank)
            if match := _bare_key.match(self._text, self._at):
                parts.append(match[0])
            elif match := _string.match(self._text, self._at):
                parts.append(tomllib.loads(f"key = {match[0]}")["key"])
            else:
                raise ValueError(f"no key at {self._at}")
            self._at = match.end()
            self._skip_pattern(_blank)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _scan_value(self, path: KeyPath) -> None:
        self._skip_pattern(_between)
        if self._text[self._at] == "[":
            self._scan_items("]", lambda index: self._scan_item((*path, index)))
        elif self._text[self._at] == "{":
            self._scan_items("}", lambda index: self._scan_assignment(path))
        elif not self._skip_pattern(_string):
            self._skip_pattern(_scalar)

    def _scan_item(self, path: KeyPath) -> None:
        self._note_path(path, self._at)
        self._scan_value(path)

    def _scan_items(self, end: str, scan_item: Callable[[int], None]) -> None:
        """What stands between brackets, with commas."""
        self._at += 1
        index = 0
        self._skip_pattern(_between)
        while self._text[self._at] != end:
            scan_item(index)
            index += 1
            self._skip_pattern(_between)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip_pattern(_between)
        self._at += 1

    def _skip_pattern(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match is not None

    def _note_path(self, path: KeyPath, start: int) -> None:
        """A path that begins at an offset, and the tables around it that were not seen so far."""
        if len(self._lines) >= MAX_PLACES:
            return
        line = bisect_right(self._newlines, start - 1) + 1
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)
