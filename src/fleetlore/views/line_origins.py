"""Decides which recorded edit wrote each line of a file. Pure: the edits, the committed versions and the file are given.

Edits, reads and commits are replayed in the order of time on copies of the file, one for each work tree and one for its last commit,
in which every line has an origin. An edit gives its origin to the lines that it adds. A read or a commit shows what the file really
was: lines that nobody recorded have no origin, and lines that were moved, formatted, merged or committed later keep theirs. Nothing
is guessed.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, islice
from operator import eq
from typing import NamedTuple

MOST_COMPARED_LINES = 2000
"""The time to compare two texts grows with the product of their lines. Between longer ones only lines that occur once are recognised."""
MOST_REMEMBERED = 50
"""Lines of the same text that are remembered, the newest."""
MIN_DISTINCT_CHARS = 6
"""A line with fewer letters and digits, such as `}` or `else:`, is only recognised next to a line that fits, too."""
MIN_REFLOWED_CHARS = 10
MIN_SIMILAR = 0.5
"""How many lines must be the same, for a copy of another work tree to count as an earlier state."""
MIN_COVERED = 0.8
"""How much of a line must be in the lines that it was split or joined to."""
MIN_FIT = 2
"""How similar the neighbours of a line must be that is found elsewhere: one that can be recognised by itself, or two that cannot."""
MIN_MOVED_CHARS = 20
MIN_LATE_LINES = 2
MIN_LATE_CHARS = 60
"""How many distinct lines, and letters and digits in them, must be committed together if the file was committed without them before."""
DOUBTFUL = -1
"""The origin of a line whose text an agent wrote, but perhaps not here."""
MOST_TREES = 16
"""Work trees whose copies are kept, those that were used last."""
MOST_NEIGHBOURS = 3
MIN_CLOSER = 2
"""How many lines above and below a repeated line are compared, and how many more of them another edit must have to count instead."""
COMMITTED = ""
"""The copy of the last commit, and of edits whose work tree is not known."""

_spaces = re.compile(r"\s+")
_word_chars = re.compile(r"\w")
_brackets = re.compile(r"[,()\[\]{}]")


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
    tree: str = COMMITTED
    """The work tree."""


class FileVersion(NamedTuple):
    """The file at a commit, or as somebody read it in a work tree."""

    at: datetime
    text: str
    tree: str = COMMITTED
    commit: str = ""
    previous: datetime | None = None
    """When the versions before a commit were committed."""


class _Line(NamedTuple):
    text: str
    key: str
    origin: int | None


class _Remembered(NamedTuple):
    """A line that is not in the file at the moment: removed, not committed, or of another worktree."""

    number: int
    origin: int | None
    before: str
    after: str
    is_expected: bool = False
    """Whether an edit wrote it that found no place in the known copies."""


def find_origins(
    text: str, edits: Sequence[RecordedEdit], versions: Sequence[FileVersion] = (), blamed: Sequence[tuple[str, int]] = ()
) -> list[int | None]:
    """For each line of the file the index of the edit that wrote it; `None` if no edit did, or `DOUBTFUL`. `edits` are in order of time.

    `blamed` has the commit of each line and its number there. What was known when a line was committed decides: later the same text
    may be written elsewhere.
    """
    replay = _Replay()
    ordered = sorted(versions, key=lambda version: version.at)
    begun = bisect_right(ordered, edits[0].at, key=lambda version: version.at) if edits else len(ordered)
    if begun:
        replay.reconcile(ordered[begun - 1].text)
    steps: list[tuple[datetime, int, int]] = [(edit.at, 0, index) for index, edit in enumerate(edits)]
    steps += [(version.at, 1, index) for index, version in enumerate(ordered) if index >= begun]
    committed: dict[str, list[int | None]] = {version.commit: [] for version in ordered[:begun]}
    introduced: dict[str, list[int]] = defaultdict(list)
    for commit, number in blamed:
        introduced[commit].append(number - 1)
    for _, is_version, index in sorted(steps):
        if is_version:
            version = ordered[index]
            added = introduced.get(version.commit, ()) if version.commit else ()
            lines = replay.reconcile(version.text, version.tree, added, version.previous)
            committed[version.commit] = [line.origin for line in lines]
        else:
            replay.apply(index, edits[index])
    lines = replay.reconcile(text)
    replayed = [line.origin for line in lines]
    found = list(replayed)
    for place, (commit, number) in enumerate(blamed[: len(found)]):
        if commit and commit in committed:
            found[place] = next(iter(committed[commit][number - 1 : number]), None)
    latest = max((version.at for version in versions if version.commit), default=None)
    return _check_neighbours([line.key for line in lines], edits, found, replayed, latest)


def _check_neighbours(
    keys: Sequence[str], edits: Sequence[RecordedEdit], found: list[int | None], replayed: Sequence[int | None], latest: datetime | None
) -> list[int | None]:
    """The origins, corrected where a line is in the file several times, and git took one of them for another.

    If the replay names another edit, made before the `latest` commit, that one counts if it has more of the line's neighbours in the
    file. If no edit has a neighbour of the line, it is `DOUBTFUL`.
    """
    counts = Counter(keys)
    written = [_Written(edit) for edit in edits]
    checked = list(found)
    for place, (key, origin, other) in enumerate(zip(keys, found, replayed, strict=True)):
        if origin is None or origin == DOUBTFUL or counts[key] < 2 or not key:
            continue
        around = _find_around(keys, place)
        own = written[origin].rate(key, around)
        if own is None or not any(around):
            continue
        if other not in (None, DOUBTFUL, origin) and (latest is None or edits[other].at <= latest):
            if (written[other].rate(key, around) or 0) >= own + MIN_CLOSER:
                checked[place] = other
        elif own == 0 and not any(each.rate(key, around) for each in written):
            checked[place] = DOUBTFUL
    return checked


class _Written:
    """The new text of an edit."""

    def __init__(self, edit: RecordedEdit) -> None:
        self._edit = edit
        self._lines: list[str] = []
        self._places: dict[str, list[int]] = {}

    def rate(self, key: str, around: tuple[list[str], list[str]]) -> int | None:
        """How many neighbours of a line are next to it here; `None` if it is not here, or alone."""
        if not self._places:
            self._lines = [_normalise_line(line) for line in _split_lines(self._edit.new)] or [""]
            for place, line in enumerate(self._lines):
                self._places.setdefault(line, []).append(place)
        here = [each for place in self._places.get(key, ()) if any(each := _find_around(self._lines, place))]
        rates = [sum((Counter(own) & Counter(other)).total() for own, other in zip(each, around, strict=True)) for each in here]
        return max(rates, default=None)


def _find_around(keys: Sequence[str], place: int) -> tuple[list[str], list[str]]:
    """The nearest lines above and below that are not blank."""
    above = islice((keys[each] for each in range(place - 1, -1, -1) if keys[each]), MOST_NEIGHBOURS)
    below = islice((keys[each] for each in range(place + 1, len(keys)) if keys[each]), MOST_NEIGHBOURS)
    return list(above), list(below)


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


class _Replay:
    """The copies of the file, and the lines that left them."""

    def __init__(self) -> None:
        self._copies: dict[str, list[_Line]] = {}
        """By work tree, the one that was used last at the end."""
        self._texts: dict[str, str] = {}
        """The texts of copies that were changed by an edit."""
        self._left: dict[str, list[_Remembered]] = defaultdict(list)
        self._count = 0
        self._times: dict[int, datetime] = {}
        """When the edits were made."""

    def apply(self, index: int, edit: RecordedEdit) -> None:
        """Change the copy of the edit's work tree. If the edited text is in no copy, remember what was written."""
        self._times[index] = edit.at
        if edit.old is None:
            new = _split_lines(edit.new)
            [base, *_] = self._sort_copies([_normalise_line(text) for text in new], edit.tree)
            self._keep_copy(edit.tree, self._replace(base, 0, len(base), new, index))
            return
        own = self._copies.get(edit.tree, [])
        if not edit.old and not edit.path.endswith(".ipynb"):  # appended by a shell command
            self._keep_copy(
                edit.tree, [*(own or next(reversed(self._copies.values()), [])), *self._replace([], 0, 0, _split_lines(edit.new), index)]
            )
            return
        for tree in (edit.tree, *(tree for tree in reversed(self._copies) if tree != edit.tree)):
            changed = self._replace_text(tree, edit.old, edit.new, index)
            if changed is not None:
                if tree == edit.tree:
                    self._copies.pop(tree, None)  # what it lost is remembered already
                self._keep_copy(edit.tree, *changed)
                return
        self._remember_edit(index, edit)

    def reconcile(self, text: str, tree: str = COMMITTED, added: Sequence[int] = (), previous: datetime | None = None) -> list[_Line]:
        """Make a copy what the file is known to be. New lines keep the origin that they had before, under another form or elsewhere.

        `added`: places of lines that this version brought, as git says; `previous`: when the version before it was committed.
        """
        now = _split_lines(text)
        keys = [_normalise_line(line) for line in now]
        kept = self._find_same(keys, tree)
        if kept is None:
            [nearest, *others] = self._sort_copies(keys, tree)
            if nearest is not self._copies.get(tree) and _count_same(Counter(keys), nearest) < len(now) * MIN_SIMILAR:
                nearest, others = [], [nearest, *others]  # another file, or one that was written anew
            since = self._count
            kept = self._trace_lines(nearest, now, keys)
            kept |= self._recall_lines(keys, kept, others, since)
            for copy in others:
                kept = _find_reflowed(copy, now, keys, kept) | kept
        if previous is not None:
            late = {place: origin for place in added if (origin := kept.get(place)) is not None and self._is_before(origin, previous)}
            kept |= self._doubt_late_lines(now, keys, late)
        found = [_Line(line, keys[place], kept.get(place)) for place, line in enumerate(now)]
        self._keep_copy(tree, found)
        return found

    def _recall_lines(
        self, keys: Sequence[str], kept: Mapping[int, int | None], others: Sequence[Sequence[_Line]], since: int
    ) -> dict[int, int | None]:
        """The origins of lines that left the file before, or are in another work tree.

        Much code has the same lines in many places. So a line counts if it is there once, and its neighbours are the same, or it was
        moved just now (after `since`), or its edit was waiting for it; and then the lines next to it.
        """
        counts = Counter(keys)
        missing = [place for place in range(len(keys)) if place not in kept]
        known = {keys[place]: list(self._left.get(keys[place], ())) for place in missing}
        for copy in others if missing else ():
            for place, line in enumerate(copy):
                if line.key in known:
                    known[line.key].append(_Remembered(0, line.origin, *_find_neighbours(copy, place)))
        chosen: dict[int, _Remembered] = {}
        doubtful: dict[int, int | None] = {}
        for place in missing:
            key = keys[place]
            if counts[key] > 1 or not _is_distinct(key) or not known[key]:
                continue
            around = keys[place - 1] if place else "", keys[place + 1] if place + 1 < len(keys) else ""
            fit, _, best = max((_rate_fit(each, *around), each.number, each) for each in known[key])
            if fit >= MIN_FIT or best.number > since or best.is_expected:
                chosen[place] = best
            elif best.origin is not None:
                doubtful[place] = DOUBTFUL
        for step in (1, -1):
            for place in missing[::step]:
                near = chosen.get(place - step)
                if place in chosen or near is None or (near.after if step > 0 else near.before) != keys[place]:
                    continue
                linked = [each for each in known[keys[place]] if (each.before if step > 0 else each.after) == keys[place - step]]
                if linked:
                    chosen[place] = max(linked, key=lambda each: each.number)
        return doubtful | {place: each.origin for place, each in chosen.items()}

    def _find_same(self, keys: Sequence[str], tree: str) -> dict[int, int | None] | None:
        """The origins of the lines if a copy has just these."""
        for copy in (self._copies.get(tree, []), *reversed(self._copies.values())):
            if len(copy) == len(keys) and all(map(eq, (line.key for line in copy), keys)):
                return dict(enumerate(line.origin for line in copy))
        return None

    def _is_before(self, origin: int, at: datetime) -> bool:
        return origin != DOUBTFUL and self._times[origin] < at

    def _doubt_late_lines(self, now: Sequence[str], keys: Sequence[str], late: dict[int, int]) -> dict[int, int | None]:
        """Lines that are committed later than others of their time, and may be other lines with the same text.

        The file was committed after the edit without them. They count if they are where the edit put them in its work tree (they were
        staged later), if they were there in another form or place, or if several distinct lines of an edit come together. Copies of
        lines that are still there do not count.
        """
        if not late:
            return {}
        committed = self._copies.get(COMMITTED, [])
        there: set[tuple[str, int | None]] = set()
        gone: set[tuple[str, int | None]] = set()
        for gap in _align_lines([line.key for line in committed], keys):
            for low, place in gap.same:
                late.pop(place, None)
                there.add((committed[low].key, committed[low].origin))
            gone |= {(line.key, line.origin) for line in committed[gap.low : gap.high]}
        moved, known = gone - there, gone | there
        staged = {
            (line.key, line.origin, *_find_neighbours(copy, place))
            for tree, copy in self._copies.items()
            if tree != COMMITTED
            for place, line in enumerate(copy)
            if line.origin is not None and (line.key, line.origin) not in known
        }
        around = ["", *keys, ""]
        reflowed = _find_reflowed(committed, now, keys, {})
        counts = Counter(keys)
        doubtful: dict[int, int | None] = {place: DOUBTFUL for place, origin in late.items() if (keys[place], origin) in there}
        block: list[int] = []
        for place in [*sorted(late), len(keys)]:
            if block and (place == len(keys) or place > block[-1] + 1 or late[place] != late[block[-1]]):
                distinct = [keys[each] for each in block if counts[keys[each]] == 1 and _is_distinct(keys[each])]
                chars = sum(map(_count_chars, distinct))
                is_moved = all((keys[each], late[each]) in moved for each in block)
                if chars < (MIN_MOVED_CHARS if is_moved else MIN_LATE_CHARS) or len(distinct) < (1 if is_moved else MIN_LATE_LINES):
                    doubtful |= dict.fromkeys(block, DOUBTFUL)
                block = []
            if place == len(keys) or reflowed.get(place) == late[place]:
                continue
            if (keys[place], late[place], around[place], around[place + 2]) not in staged:
                block.append(place)
        return doubtful

    def _sort_copies(self, keys: Sequence[str], tree: str) -> list[list[_Line]]:
        """All copies, the most similar first; of similar ones that of the work tree."""
        if not self._copies:
            return [[]]
        wanted = Counter(keys)

        def rate(item: tuple[str, list[_Line]]) -> tuple[int, bool]:
            return 2 * _count_same(wanted, item[1]) - len(item[1]), item[0] == tree

        return [copy for _, copy in sorted(self._copies.items(), key=rate, reverse=True)]

    def _keep_copy(self, tree: str, lines: list[_Line], text: str = "") -> None:
        """Replace the copy of a work tree, and remember lines that only the old one has: they may be of another branch."""
        replaced = self._copies.pop(tree, [])
        known = {line.key for line in lines} if replaced else set[str]()
        for place, line in enumerate(replaced):
            if line.key not in known:
                self._remember_line(replaced, place)
        self._copies[tree], self._texts[tree] = lines, text
        if len(self._copies) > MOST_TREES:
            oldest = next(each for each in self._copies if each != COMMITTED)
            del self._copies[oldest], self._texts[oldest]

    def _trace_lines(self, old: list[_Line], now: Sequence[str], keys: Sequence[str]) -> dict[int, int | None]:
        """The origins of lines that were in a copy; those that are gone are remembered."""
        kept: dict[int, int | None] = {}
        for gap in _align_lines([line.key for line in old], keys):
            kept |= {place: old[low].origin for low, place in gap.same}
            gone = sorted(set(range(gap.low, gap.high)) - {low for low, _ in gap.same})
            added = sorted(set(range(gap.place, gap.until)) - {place for _, place in gap.same})
            for low in gone:
                self._remember_line(old, low)
            if gone and added:
                kept |= _match_reflowed([old[low] for low in gone], now, added)
        return kept

    def _replace_text(self, tree: str, old: str, new: str, index: int) -> tuple[list[_Line], str] | None:
        """The lines of a copy after an edit, and their text; `None` if the edited text is not there."""
        lines = self._copies.get(tree, [])
        text = self._texts.get(tree) or "".join(f"{line.text}\n" for line in lines)
        places = _find_all(text, old)
        for place in reversed(places):
            after = place + len(old)
            begin, end = text.rfind("\n", 0, place) + 1, text.find("\n", after)
            region = (text[begin:place] + new + text[after : end if end >= 0 else after]).split("\n")
            if end < 0 and region[-1] == "":
                region.pop()  # the end of the file
            first = text.count("\n", 0, begin)
            last = first + text.count("\n", begin, after) + 1
            lines = self._replace(lines, first, min(last, len(lines)), region, index)
            text = text[:place] + new + text[after:]
        return (lines, text if text.endswith("\n") or not text else f"{text}\n") if places else None

    def _replace(self, lines: list[_Line], first: int, last: int, new: list[str], origin: int) -> list[_Line]:
        """Replace lines by an edit: those that were there before, perhaps with other spaces, keep their origin."""
        old = lines[first:last]
        found = [_Line(text, _normalise_line(text), origin) for text in new]
        for gap in _align_lines([_spaces.sub("", line.text) for line in old], [_spaces.sub("", text) for text in new]):
            same = {low for low, _ in gap.same}
            for low, place in gap.same:
                found[place] = found[place]._replace(origin=old[low].origin)
            for low in range(gap.low, gap.high):
                if low not in same:
                    self._remember_line(old, low)
        return lines[:first] + found + lines[last:]

    def _remember_edit(self, index: int, edit: RecordedEdit) -> None:
        old, new = ([_normalise_line(line) for line in _split_lines(text)] for text in (edit.old or "", edit.new))
        for gap in _align_lines(old, new):
            for place in set(range(gap.place, gap.until)) - {place for _, place in gap.same}:
                self._remember(
                    new[place], index, new[place - 1] if place else "", new[place + 1] if place + 1 < len(new) else "", is_expected=True
                )

    def _remember_line(self, lines: Sequence[_Line], place: int) -> None:
        self._remember(lines[place].key, lines[place].origin, *_find_neighbours(lines, place))

    def _remember(self, key: str, origin: int | None, before: str, after: str, *, is_expected: bool = False) -> None:
        self._count += 1
        left = self._left[key]
        left.append(_Remembered(self._count, origin, before, after, is_expected))
        del left[:-MOST_REMEMBERED]


def _count_same(wanted: Counter[str], lines: Sequence[_Line]) -> int:
    return (wanted & Counter(line.key for line in lines)).total()


def _find_neighbours(lines: Sequence[_Line], place: int) -> tuple[str, str]:
    return lines[place - 1].key if place else "", lines[place + 1].key if place + 1 < len(lines) else ""


def _find_reflowed(
    copy: Sequence[_Line], now: Sequence[str], keys: Sequence[str], known: Mapping[int, int | None]
) -> dict[int, int | None]:
    """Lines that are not known yet, but are in another copy in another form."""
    found: dict[int, int | None] = {}
    for gap in _align_lines([line.key for line in copy], keys) if len(known) < len(now) else ():
        gone = sorted(set(range(gap.low, gap.high)) - {low for low, _ in gap.same})
        added = [place for place in range(gap.place, gap.until) if place not in known]
        if gone and added:
            found |= _match_reflowed([copy[low] for low in gone], now, added)
    return found


def _find_all(text: str, part: str) -> list[int]:
    """Where a part of a text is; of several places those of whole lines, because patches name whole lines."""
    places: list[int] = []
    if part:
        place = text.find(part)
        while place >= 0:
            places.append(place)
            place = text.find(part, place + len(part))
    whole = [place for place in places if text[place - 1 : place] in ("", "\n") and (part[-1] == "\n" or text[place + len(part)] == "\n")]
    return whole or places


class _Gap(NamedTuple):
    """A part of two texts, between lines that both have once."""

    low: int
    high: int
    """`old[low:high]`"""
    place: int
    until: int
    """`new[place:until]`"""
    same: list[tuple[int, int]]
    """Places with the same line."""


def _align_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[_Gap]:
    """Compare two texts in parts. Lines that occur once in each come first: small lines such as `}` must not pull others to their place."""
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    end = next((place for place in range(most - start) if old[-1 - place] != new[-1 - place]), most - start)
    yield _Gap(0, start, 0, start, [(place, place) for place in range(start)])
    low, place = start, start
    high, until = len(old) - end, len(new) - end
    for anchor, at in (*_find_anchors(old, new, start, high, until), (high, until)):
        same: list[tuple[int, int]] = []
        if low < anchor and place < at and max(anchor - low, at - place) <= MOST_COMPARED_LINES:
            for block in SequenceMatcher(None, old[low:anchor], new[place:at], autojunk=False).get_matching_blocks():
                is_at_edge = block.a == block.b == 0 or (low + block.a + block.size, place + block.b + block.size) == (anchor, at)
                if is_at_edge or any(map(_is_distinct, old[low + block.a : low + block.a + block.size])):  # a lone `}` proves nothing
                    same += [(low + block.a + offset, place + block.b + offset) for offset in range(block.size)]
        yield _Gap(low, anchor, place, at, same)
        if anchor < high:
            yield _Gap(anchor, anchor + 1, at, at + 1, [(anchor, at)])
        low, place = anchor + 1, at + 1
    yield _Gap(high, len(old), until, len(new), [(high + offset, until + offset) for offset in range(end)])


def _find_anchors(old: Sequence[str], new: Sequence[str], start: int, high: int, until: int) -> list[tuple[int, int]]:
    """The places of lines that occur once in each text: as many as are in the same order."""
    before, after = Counter(old[start:high]), Counter(new[start:until])
    places = {old[place]: place for place in range(start, high)}
    pairs = [
        (places[new[place]], place)
        for place in range(start, until)
        if after[new[place]] == 1 and before[new[place]] == 1 and _is_distinct(new[place])
    ]
    lasts: list[int] = []  # of each length the chain whose last old place is lowest, as an index of pairs
    previous: list[int] = []
    ends: list[int] = []
    for index, (low, _) in enumerate(pairs):
        length = bisect_left(ends, low)
        previous.append(lasts[length - 1] if length else -1)
        lasts[length:] = [index, *lasts[length + 1 :]]
        ends[length:] = [low, *ends[length + 1 :]]
    chain: list[tuple[int, int]] = []
    index = lasts[-1] if lasts else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _match_reflowed(old: Sequence[_Line], new: Sequence[str], places: Sequence[int]) -> dict[int, int | None]:
    """New lines that are old ones, joined or split: nearly all of the old ones must be there."""
    parts = [_normalise_reflowed(line.text) for line in old]
    joined, ends = "".join(parts), list(accumulate(map(len, parts)))
    found: dict[int, int] = {}
    covered = [0] * len(old)
    last = -1
    for place in places:
        key = _normalise_reflowed(new[place])
        begin = joined.find(key) if len(key) >= MIN_REFLOWED_CHARS else -1
        if place - 1 in found and joined.startswith(key, last):
            begin = last  # it goes on where the line before ended; brackets alone belong to it
        if begin < 0:
            continue
        last = begin + len(key)
        index = bisect_right(ends, begin)
        found[place] = index if key else found[place - 1]
        while begin < last:
            part = min(last, ends[index])
            covered[index] += part - begin
            begin, index = part, index + 1
    return {place: old[index].origin for place, index in found.items() if covered[index] >= MIN_COVERED * len(parts[index])}


@lru_cache(maxsize=100_000)
def _normalise_line(text: str) -> str:
    """A line without what formatters change: spaces, kinds of quotes, a comma or semicolon at the end."""
    return _spaces.sub("", text).replace("'", '"').rstrip(",;")


def _normalise_reflowed(text: str) -> str:
    return _brackets.sub("", _normalise_line(text))


def is_distinct_line(text: str) -> bool:
    """Whether a line can be recognised by itself; `}` and `else:` cannot."""
    return _is_distinct(_normalise_line(text))


def encode_notebook_lines(source: str) -> str:
    """The lines of a cell as the file of the notebook has them; the last one may end the cell or not."""
    lines = source.split("\n")
    last = [json.dumps(lines[-1], ensure_ascii=False)] if lines[-1] else []
    return "\n".join([json.dumps(f"{line}\n", ensure_ascii=False) for line in (lines if last else lines[:-1])] + last)


def _is_distinct(key: str) -> bool:
    return _count_chars(key) >= MIN_DISTINCT_CHARS


@lru_cache(maxsize=100_000)
def _count_chars(key: str) -> int:
    return len(_word_chars.findall(key))


def _rate_fit(each: _Remembered, before: str, after: str) -> int:
    pairs = ((each.before, before), (each.after, after))
    return sum(2 if _is_distinct(found) else 1 for remembered, found in pairs if found and remembered == found)
