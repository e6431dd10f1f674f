"""In whatever order files are imported, the story, the arcs and the costs are the same: even of files that share name, times and lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import count
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.running import Lore, nexus

NOON = 1_700_049_600
NEXUS = ("dispatch", "commit", "error", "recovery", "pr_open", "pr_merge", "collab", "abandon", "milestone")
TOWN = ("task_assigned", "task_started", "task_completed", "task_failed", "task_cancelled", "agent_stopped")
ANSWERS = (
    ("tell", "--all", "--detail", "full", "--format", "json"),
    ("tell", "--all", "--detail", "story"),
    ("arcs", "--json"),
    ("costs", "--by", "day", "--json"),
    ("costs", "--by", "agent", "--json"),
)

File = tuple[str, str, list[str]]
"""Dialect, name, lines."""


def tinytown(kind: str, agent: str, task: str, words: str, second: int) -> str:
    record = {"event_type": kind, "agent_id": agent, "task_id": task, "message": words, "timestamp": f"2023-11-15T12:00:0{second}Z"}
    return json.dumps(record)


def reply(agent: str, words: str, second: int) -> str:
    """A CloudEvent of a model's answer."""
    head = {"specversion": "1.0", "type": "model.replied", "source": agent, "id": words, "time": f"2023-11-15T12:00:0{second}Z"}
    return json.dumps(head | {"data": {"model": "m", "input": len(words), "output": 7, "usd": 0.001}})


@st.composite
def files(draw: st.DrawFn) -> list[File]:
    """Two to four files under two names; no line stands in two of them, but for whole copies."""
    number = count()
    agents, seconds = st.sampled_from(["ada", "bo"]), st.integers(0, 1)
    tasks = st.sampled_from(["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"])

    def line(dialect: str) -> str:
        agent, second, words = draw(agents), draw(seconds), f"deed {next(number)}"
        if draw(st.integers(0, 9)) == 0:
            return f"no record {words}"
        if dialect == "nexus":
            return nexus(draw(st.sampled_from(NEXUS)), agent, words, draw(st.sampled_from([None, NOON + second])))
        if dialect == "tinytown":
            return tinytown(draw(st.sampled_from(TOWN)), agent, draw(tasks), words, second)
        return reply(agent, words, second)

    def file() -> File:
        dialect = draw(st.sampled_from(["nexus", "tinytown", "cloudevents"]))
        return dialect, draw(st.sampled_from(["a.jsonl", "b.jsonl"])), [line(dialect) for _ in range(draw(st.integers(1, 6)))]

    made = [file() for _ in range(draw(st.integers(2, 4)))]
    return [*made, made[0]] if draw(st.booleans()) else made


def answers(lore: Lore, log: str, imports: Sequence[tuple[str, str]]) -> Iterator[bytes]:
    for dialect, path in imports:
        assert lore("import", dialect, path, "--log", log).code in (0, 3)
    for argv in ANSWERS:
        yield lore(*argv, "--log", log, code=0).raw


def assert_the_order_does_not_matter(lore: Lore, files: Sequence[File]) -> None:
    with TemporaryDirectory(dir=lore.folder) as folder:
        imports = [
            (dialect, lore.write(f"{folder}/{number}/{name}", "\n".join(lines))) for number, (dialect, name, lines) in enumerate(files)
        ]
        for _, path in imports:
            os.utime(path, (NOON, NOON))  # a record without a time takes its file's
        first, second = (list(answers(lore, f"sqlite:{folder}/{name}.db", order)) for name, order in (("1", imports), ("2", imports[::-1])))
        assert first == second


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(files())
def test_the_order_of_importing_changes_no_story_arc_or_cost(lore: Lore, files: list[File]) -> None:
    assert_the_order_does_not_matter(lore, files)


def test_actions_of_one_moment_on_one_line_of_two_files_of_one_name_have_one_order(lore: Lore) -> None:
    assert_the_order_does_not_matter(lore, [("nexus", "a.jsonl", [nexus("commit", "ada", f"deed {number}", NOON)]) for number in range(5)])


def test_so_have_lines_that_are_no_records(lore: Lore) -> None:
    assert_the_order_does_not_matter(lore, [("nexus", name, ["no record"]) for name in ("a.jsonl", "b.jsonl", "c.jsonl")])


@pytest.mark.parametrize("most_in_memory", [20_000, 3])
def test_an_arc_of_two_files_is_the_same_whichever_was_first(lore: Lore, monkeypatch: pytest.MonkeyPatch, most_in_memory: int) -> None:
    monkeypatch.setattr("fleetlore.projections.chronology.MOST_IN_MEMORY", most_in_memory)
    beats = ("error", "recovery", "dispatch", "abandon", "commit", "pr_merge")
    lines = [[nexus(beats[(step + number) % 6], "ada", f"{number} {step}", NOON) for step in range(6)] for number in range(4)]
    assert_the_order_does_not_matter(lore, [("nexus", "a.jsonl", each) for each in lines])
