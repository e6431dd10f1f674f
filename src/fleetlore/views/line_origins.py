"""Decides which recorded edit wrote each line of a file. Pure: the edits, the committed versions and the file are given.

Edits and commits are replayed in the order of time on one copy of the file, in which every line has an origin. An edit gives
its origin to the lines that it adds. A commit shows what the file really was: lines that nobody recorded have no origin, and
lines that were moved, formatted or committed later keep theirs. Nothing is guessed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import NamedTuple

MOST_COMPARED_LINES = 3000
"""The time to compare two texts grows with the product of their lines. Longer ones are replaced whole."""
MOST_REMEMBERED = 50
"""Lines of the same text that are remembered, the newest."""
MIN_DISTINCT_CHARS = 4
"""A line with fewer letters and digits, such as `}`, is only recognised next to a line that fits, too."""
MIN_REFLOWED_CHARS = 10

_spaces = re.compile(r"\s+")
_word_chars = re.compile(r"\w")


class RecordedEdit(NamedTuple):
    """One replacement in one file, by one tool call."""

    event: str
    """The id of the call."""
    run: str
    agent: str
    at: datetime
    position: str
    path: str
    """The file, as the agent named it."""
    old: str | None
    """`None`: the file was written whole."""
    new: str
    tool: str = ""


class FileVersion(NamedTuple):
    """The file at a commit."""

    at: datetime
    text: str


class _Line(NamedTuple):
    text: str
    origin: int | None


class _Remembered(NamedTuple):
    """A line that is not in the file at the moment: removed, not committed, or of another worktree."""

    number: int
    origin: int | None
    before: str
    after: str


def find_origins(text: str, edits: Sequence[RecordedEdit], versions: Sequence[FileVersion] = ()) -> list[int | None]:
    """For each line of the file the index of the edit that wrote it; `None` if no edit did. `edits` are in the order of time."""
    replay = _Replay()
    ordered = sorted(versions, key=lambda version: version.at)
    begun = bisect_right(ordered, edits[0].at, key=lambda version: version.at) if edits else len(ordered)
    if begun:
        replay.lines = [_Line(line, None) for line in _split_lines(ordered[begun - 1].text)]
    steps: list[tuple[datetime, int, int]] = [(edit.at, 0, index) for index, edit in enumerate(edits)]
    steps += [(version.at, 1, index) for index, version in enumerate(ordered) if index >= begun]
    for _, is_version, index in sorted(steps):
        if is_version:
            replay.reconcile(_split_lines(ordered[index].text))
        else:
            replay.apply(index, edits[index])
    replay.reconcile(_split_lines(text))
    return [line.origin for line in replay.lines]


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


class _Replay:
    """One copy of the file, and the lines that left it."""

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self._left: dict[str, list[_Remembered]] = defaultdict(list)
        self._count = 0

    def apply(self, index: int, edit: RecordedEdit) -> None:
        """Change the file as the edit did. If its place is not there, remember what it wrote."""
        if edit.old is None:
            self._replace(0, len(self.lines), _split_lines(edit.new), index)
            return
        text = "\n".join(line.text for line in self.lines)
        places = _find_all(text, edit.old)
        if not places:
            self._remember_edit(index, edit)
        for place in reversed(places):
            first, last = text.count("\n", 0, place), text.count("\n", 0, place + len(edit.old))
            begin = text.rfind("\n", 0, place) + 1
            end = text.find("\n", place + len(edit.old))
            region = text[begin:place] + edit.new + text[place + len(edit.old) : len(text) if end < 0 else end]
            self._replace(first, min(last + 1, len(self.lines)), region.split("\n") if region else [], index)

    def reconcile(self, now: list[str]) -> None:
        """Make the file what it is known to be. New lines keep the origin that they had before, under another form or elsewhere."""
        start, end = _common_ends([line.text for line in self.lines], now)
        old, new = self.lines[start : len(self.lines) - end], now[start : len(now) - end]
        if not old and not new:
            return
        blocks = _compare_lines([line.text for line in old], new)
        kept: dict[int, int | None] = {}
        for tag, low, high, place, until in blocks:
            if tag == "equal":
                kept |= {place + offset: old[low + offset].origin for offset in range(until - place)}
            elif high > low:
                for offset in range(low, high):
                    self._remember(old[offset].text, old[offset].origin, _text_at(old, offset - 1), _text_at(old, offset + 1))
        for tag, low, high, place, until in blocks:
            if tag == "replace":
                kept |= _match_formatted(old[low:high], new, place, until)
        found = [_Line(text, kept.get(place)) for place, text in enumerate(new)]
        for place, text in enumerate(new):
            if place not in kept:
                before = new[place - 1] if place else (self.lines[start - 1].text if start else "")
                after = new[place + 1] if place + 1 < len(new) else (now[len(now) - end] if end else "")
                found[place] = _Line(text, self._recall(text, before, after))
        self.lines[start : len(self.lines) - end] = found

    def _replace(self, first: int, last: int, new: list[str], origin: int) -> None:
        """Replace lines by an edit: those that were there before keep their origin."""
        old = self.lines[first:last]
        start, end = _common_ends([line.text for line in old], new)
        middle = old[start : len(old) - end]
        found: list[_Line] = []
        for tag, low, high, place, until in _compare_lines([line.text for line in middle], new[start : len(new) - end]):
            if tag == "equal":
                found += middle[low:high]
                continue
            for offset in range(low, high):
                self._remember(middle[offset].text, middle[offset].origin, _text_at(middle, offset - 1), _text_at(middle, offset + 1))
            found += [_Line(text, origin) for text in new[start + place : start + until]]
        self.lines[first + start : last - end] = found

    def _remember_edit(self, index: int, edit: RecordedEdit) -> None:
        old, new = _split_lines(edit.old or ""), _split_lines(edit.new)
        for tag, _, _, place, until in _compare_lines(old, new):
            if tag != "equal":
                for offset in range(place, until):
                    self._remember(new[offset], index, new[offset - 1] if offset else "", new[offset + 1] if offset + 1 < len(new) else "")

    def _remember(self, text: str, origin: int | None, before: str, after: str) -> None:
        self._count += 1
        left = self._left[_normalise_line(text)]
        left.append(_Remembered(self._count, origin, _normalise_line(before), _normalise_line(after)))
        del left[:-MOST_REMEMBERED]

    def _recall(self, text: str, before: str, after: str) -> int | None:
        """The origin of a line that was in the file before, or in another worktree."""
        key = _normalise_line(text)
        before, after = _normalise_line(before), _normalise_line(after)
        best: tuple[int, int, int | None] | None = None
        for each in self._left.get(key, ()):
            fit = _rate_match(each.before, before) + _rate_match(each.after, after)
            if (fit or _is_distinct(key)) and (best is None or (fit, each.number) > best[:2]):
                best = fit, each.number, each.origin
        return None if best is None else best[2]


def _find_all(text: str, part: str) -> list[int]:
    places: list[int] = []
    if part:
        place = text.find(part)
        while place >= 0:
            places.append(place)
            place = text.find(part, place + len(part))
    return places


def _text_at(lines: Sequence[_Line], place: int) -> str:
    return lines[place].text if 0 <= place < len(lines) else ""


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning and at the end."""
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    most -= start
    return start, next((place for place in range(most) if old[-1 - place] != new[-1 - place]), most)


def _compare_lines(old: Sequence[str], new: Sequence[str]) -> Iterable[tuple[str, int, int, int, int]]:
    if not old or not new or len(old) > MOST_COMPARED_LINES or len(new) > MOST_COMPARED_LINES:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _match_formatted(old: Sequence[_Line], new: Sequence[str], place: int, until: int) -> dict[int, int | None]:
    """New lines that are old ones in another layout: same characters, or joined and split lines."""
    by_key: dict[str, list[int | None]] = defaultdict(list)
    for line in old:
        by_key[_normalise_line(line.text)].append(line.origin)
    found: dict[int, int | None] = {}
    for at in range(place, until):
        key = _normalise_line(new[at])
        if by_key.get(key):
            found[at] = by_key[key].pop(0)
    joined = "".join(_normalise_reflowed(line.text) for line in old)
    ends: list[int] = []
    for line in old:
        ends.append((ends[-1] if ends else 0) + len(_normalise_reflowed(line.text)))
    for at in range(place, until):
        key = _normalise_reflowed(new[at])
        if at not in found and len(key) >= MIN_REFLOWED_CHARS and (begin := joined.find(key)) >= 0:
            found[at] = old[bisect_right(ends, begin)].origin
    return found


def _normalise_line(text: str) -> str:
    """A line without what formatters change: spaces, kinds of quotes, a comma or semicolon at the end."""
    return _spaces.sub("", text).replace("'", '"').rstrip(",;")


def _normalise_reflowed(text: str) -> str:
    return _normalise_line(text).replace(",", "").replace("(", "").replace(")", "")


def _is_distinct(key: str) -> bool:
    return len(_word_chars.findall(key)) >= MIN_DISTINCT_CHARS


def _rate_match(remembered: str, found: str) -> int:
    if remembered != found or not found:
        return 0
    return 2 if _is_distinct(found) else 1
