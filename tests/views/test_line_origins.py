"""Which edit wrote a line: files are edited by agents and people at random, committed, formatted and moved, and the author is known."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from fleetlore.views.line_origins import DOUBTFUL, FileVersion, RecordedEdit, find_origins

START = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
WORDS = tuple(f"{first}{last}" for first in ("order", "parcel", "token", "queue") for last in ("", "s", "_id", "_list"))
SMALL = ["", "}", "else:", "return None", "pass", ")", "try:"]


class Line(NamedTuple):
    text: str
    author: str


class History:
    """One file, changed at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.edits: list[RecordedEdit] = []
        self.lines = [Line(self.make_text(), "before") for _ in range(self.random.randint(5, 60))]
        self.versions = [FileVersion(self.now, self.text)]
        for _ in range(self.random.randint(3, 25)):
            self.now += timedelta(minutes=1)
            step = self.random.choices([self.edit, self.type_in, self.format, self.move, self.commit], [5, 2, 1, 1, 4])[0]
            step()

    @property
    def text(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)

    def make_text(self) -> str:
        pick = self.random.choice
        if self.random.random() < 0.15:
            return "    " * self.random.randint(0, 2) + pick(SMALL)
        indent = "    " * self.random.randint(0, 2)
        return f"{indent}{pick(WORDS)}_{pick(WORDS)} = {pick(WORDS)}('{pick(WORDS)}', {self.random.randint(0, 999)})"

    def commit(self) -> None:
        self.versions.append(FileVersion(self.now, self.text))

    def _choose(self) -> tuple[int, int, list[str]]:
        first = self.random.randrange(len(self.lines) + 1)
        last = min(len(self.lines), first + self.random.randint(0, 5))
        gone = {line.text for line in self.lines[max(0, first - 1) : last + 1]}
        new = [text for _ in range(self.random.randint(1, 8)) if (text := self.make_text()) not in gone]
        return first, last, new

    def edit(self) -> None:
        """The agent has read the file, and replaces some lines: by their text, or with the whole file."""
        self.versions.append(FileVersion(self.now - timedelta(seconds=1), self.text))
        first, last, new = self._choose()
        before, after = self.lines[max(0, first - 1) : first], self.lines[last : last + 1]
        old = "".join(f"{line.text}\n" for line in (*before, *self.lines[first:last], *after))
        put = "".join(f"{text}\n" for text in (*(line.text for line in before), *new, *(line.text for line in after)))
        name = f"edit {len(self.edits)}"
        is_whole = self.random.random() < 0.15 or self.text.count(old) != 1 or not old
        self.lines[first:last] = [Line(text, name) for text in new]
        self.edits.append(
            RecordedEdit(name, "run", "agent", self.now, "", "a.py", None, self.text)
            if is_whole
            else RecordedEdit(name, "run", "agent", self.now, "", "a.py", old, put)
        )

    def type_in(self) -> None:
        first, last, new = self._choose()
        self.lines[first:last] = [Line(text, "hand") for text in new]

    def format(self) -> None:
        self.lines = [Line(line.text.replace("'", '"').replace("    ", "  "), line.author) for line in self.lines]

    def move(self) -> None:
        first = self.random.randrange(len(self.lines) + 1)
        moved = self.lines[first : first + 4]
        del self.lines[first : first + 4]
        place = self.random.randrange(len(self.lines) + 1)
        self.lines[place:place] = moved


@pytest.fixture(scope="module")
def result() -> dict[str, int]:
    counts = {"lines": 0, "wrong": 0, "unknown": 0}
    for seed in range(300):
        history = History(seed)
        origins = find_origins(history.text, history.edits, history.versions)
        assert len(origins) == len(history.lines)
        for line, origin in zip(history.lines, origins, strict=True):
            found = None if origin is None else history.edits[origin].event
            counts["lines"] += 1
            counts["wrong"] += found is not None and found != line.author
            counts["unknown"] += found is None and line.author.startswith("edit")
    return counts


def test_hardly_a_line_has_a_wrong_author(result: dict[str, int]) -> None:
    assert result["lines"] > 10_000
    assert result["wrong"] <= 0.003 * result["lines"], result


def test_few_lines_of_agents_are_unknown(result: dict[str, int]) -> None:
    assert result["unknown"] <= 0.03 * result["lines"], result


def test_without_edits_nothing_has_an_author() -> None:
    assert find_origins("a\nb\n", [], [FileVersion(START, "a\n")]) == [None, None]


def test_a_part_of_a_line_that_is_replaced_makes_it_the_agents() -> None:
    edit = RecordedEdit("e", "r", "a", START + timedelta(minutes=1), "", "a.py", "sleep(1)", "sleep(backoff)")
    assert find_origins("import time\ntime.sleep(backoff)\n", [edit], [FileVersion(START, "import time\ntime.sleep(1)\n")]) == [None, 0]


def test_what_replaces_every_occurrence_wrote_all_of_them() -> None:
    edit = RecordedEdit("e", "r", "a", START + timedelta(minutes=1), "", "a.py", "old_name", "new_name")
    assert find_origins("new_name()\nx\nnew_name()\n", [edit], [FileVersion(START, "old_name()\nx\nold_name()\n")]) == [0, None, 0]


def test_lines_that_much_code_has_are_not_taken_from_a_branch_that_was_never_merged() -> None:
    """An agent adds a test on a branch; later somebody else adds tests with the same common lines to the main branch."""
    common = "\tt.Parallel()\n\trepo, err := openRepository(t)\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n"
    base = "package shop\n\nimport testing\n"
    ours = f"\nfunc TestPauses(t *testing.T) {{\n{common}\trequire(t, repo.Pauses)\n}}\n"
    edit = RecordedEdit(
        "e", "r", "a", START + timedelta(minutes=1), "", "a.go", "import testing\n", f"import testing\n{ours}", tree="/side"
    )
    theirs = "".join(f"\nfunc Test{name}(t *testing.T) {{\n{common}\tcheck{name}(repo)\n}}\n" for name in ("Reads", "Writes"))
    origins = find_origins(base + theirs, [edit], [FileVersion(START, base), FileVersion(START + timedelta(hours=1), base + theirs)])
    assert set(origins) == {None}


def test_another_file_with_the_same_name_is_no_earlier_state() -> None:
    edit = RecordedEdit("e", "r", "a", START, "", "a.py", None, "import os\n\n\ndef first_name():\n    return os.name\n", tree="/side")
    other = "import os\n\n\n" + "".join(f"def make_part_{number}():\n    return {number}\n\n\n" for number in range(9))
    assert find_origins(other, [edit], [FileVersion(START + timedelta(hours=1), other)])[3:] == [None] * (other.count("\n") - 3)


def test_what_was_known_when_a_line_was_committed_decides() -> None:
    """A person committed the line; later an agent writes the same one in a work tree whose file is more like the final one."""
    base = "".join(f"part_{number} = load({number})\n" for number in range(4))
    ours = base + "limit = load('limit')\n"
    side = ours + "".join(f"route_{number} = load('route', {number})\n" for number in range(8))
    versions = [
        FileVersion(START, base, commit="c0"),
        FileVersion(START + timedelta(hours=1), ours, commit="c1"),
        FileVersion(START + timedelta(hours=3), side, commit="c2"),
    ]
    edit = RecordedEdit("e", "r", "a", START + timedelta(hours=2), "", "a.py", None, side, tree="/side")
    blamed = [("c0", number) for number in range(1, 5)] + [("c1", 5)] + [("c2", number) for number in range(6, 14)]
    assert find_origins(side, [edit], versions, blamed) == [None] * 5 + [0] * 8


def test_a_repeated_line_belongs_to_the_edit_of_the_block_around_it_although_git_took_it_for_another() -> None:
    """Git says that the closing lines of the second block are those of the first one, which was committed before."""
    first, second = (
        "".join(f"{line}\n" for line in (f"{name} = load(", f'    "{name}",', "    [1, 2],", ")")) for name in ("ports", "ships")
    )
    edits = [
        RecordedEdit("e0", "r", "a", START, "", "a.py", None, first),
        RecordedEdit("e1", "r", "a", START + timedelta(hours=2), "", "a.py", first, first + second),
    ]
    versions = [
        FileVersion(START + timedelta(hours=1), first, commit="c0"),
        FileVersion(START + timedelta(hours=3), first + second, commit="c1"),
    ]
    blamed = [("c0", 1), ("c0", 2), ("c1", 3), ("c1", 4), ("c1", 5), ("c1", 6), ("c0", 3), ("c0", 4)]
    assert find_origins(first + second, edits, versions, blamed) == [0] * 4 + [1] * 4


def test_a_repeated_line_that_stands_next_to_no_line_of_its_edit_any_more_is_doubtful() -> None:
    edit = RecordedEdit("e", "r", "a", START + timedelta(minutes=1), "", "a.py", None, "one = 1\nretry_later(\ntwo = 2\n")
    by_hand = "three = 3\nretry_later(\nfour = 4\n\nfive = 5\nretry_later(\nsix = 6\n"
    last = FileVersion(START + timedelta(hours=1), by_hand, commit="c0")
    assert 0 not in find_origins(by_hand, [edit], [FileVersion(START, "\n"), last])


def test_a_line_that_was_left_out_of_a_commit_and_comes_elsewhere_with_a_later_one_is_doubtful() -> None:
    """An agent's line did not get into the commit after it. Days later somebody commits the same text in another place."""
    base = "for part in parts:\n    load(part)\nsave(parts)\n"
    edit = RecordedEdit(
        "e", "r", "a", START + timedelta(minutes=1), "", "a.py", "save(parts)\n", "attempt = 1\nsave(parts)\n", tree="/main"
    )
    between, last = base + "report(parts)\n", "attempt = 1\nfor part in parts:\n    load(part)\nsave(parts)\nreport(parts)\n"
    versions = [
        FileVersion(START, base, commit="c0"),
        FileVersion(START + timedelta(hours=1), between, commit="c1", previous=START),
        FileVersion(START + timedelta(days=3), last, commit="c2", previous=START + timedelta(hours=1)),
    ]
    blamed = [("c2", 1), ("c0", 1), ("c0", 2), ("c0", 3), ("c1", 4)]
    assert find_origins(last, [edit], versions, blamed) == [DOUBTFUL, None, None, None, None]


def test_lines_that_are_committed_later_elsewhere_are_the_agents_if_several_come_together() -> None:
    base = "for part in parts:\n    load(part)\nsave(parts)\n"
    new = "attempts_of_each_part = count_attempts(parts, limit=5)\nreport_attempts_to_the_queue(attempts_of_each_part)\n"
    edit = RecordedEdit("e", "r", "a", START + timedelta(minutes=1), "", "a.py", "save(parts)\n", f"{new}save(parts)\n", tree="/main")
    between, last = base + "report(parts)\n", f"for part in parts:\n    load(part)\nsave(parts)\nreport(parts)\n{new}"
    versions = [
        FileVersion(START, base, commit="c0"),
        FileVersion(START + timedelta(hours=1), between, commit="c1", previous=START),
        FileVersion(START + timedelta(hours=2), last, commit="c2", previous=START + timedelta(hours=1)),
    ]
    blamed = [("c0", 1), ("c0", 2), ("c0", 3), ("c1", 4), ("c2", 5), ("c2", 6)]
    assert find_origins(last, [edit], versions, blamed) == [None, None, None, None, 0, 0]
