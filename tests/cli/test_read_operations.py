"""Each read operation gives the same answer on the command line, over HTTP and over MCP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleetlore import Event
from fleetlore.operations.table import OPERATIONS
from fleetlore.server.mcp.sources import Caller, ServerSource
from fleetlore.server.mcp.tools import BY_NAME, call_tool
from tests.cli.running import Lore
from tests.server.serving import Served, serve

AT = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)
RUN = "11111111-aaaa"


def a_session(run: str, at: datetime, answer: str) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{run[:8]}", "run": run}
    cost = {"model": "claude-sonnet-4-5", "input": 100, "output": 20, "usd": 0.25}
    return [
        Event(kind="session.started", at=at, actor="ada", data={"person": "ada"}, **who),
        Event(kind="prompt.submitted", at=at, actor="ada", data={"prompt": f"Fix test {run[:1]}"}, **who),
        Event(kind="model.replied", at=at + timedelta(seconds=5), data={**cost, "said": answer}, **who),
        Event(kind="session.turn_ended", at=at + timedelta(seconds=6), text=answer, **who),
    ]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serve(tmp_path / "served", now=lambda: AT + timedelta(hours=3)) as running:
        running.log.append(a_session(RUN, AT, "Fixed; the tests pass."))
        running.log.append(a_session("22222222-bbbb", AT + timedelta(hours=1), "Shall I push it?"))
        yield running


class Read(NamedTuple):
    """How one operation is asked for, and what of its answer all three show."""

    argv: list[str]
    path: str
    query: dict[str, str]
    tool: str
    arguments: dict[str, Any]
    of_cli: Callable[[list[Any]], Any]
    of_http: Callable[[Any], Any]
    of_mcp: Callable[[Any], Any]


def outcome_of(row: dict[str, Any]) -> list[Any]:
    return [row["session"], row["status"], row["headline"], row.get("waiting_for"), row["usd"]]


BRIEF = ("delivered", "in_progress", "went_wrong", "check_this", "needs_you")


def brief_of(brief: dict[str, Any]) -> list[Any]:
    return [brief["title"], *([line["text"] for line in brief[name]] for name in BRIEF), brief["bill"]["text"]]


def story_of(story: dict[str, Any]) -> list[Any]:
    return [[each["title"], *(sentence["text"] for sentence in each["sentences"])] for each in story["paragraphs"]]


READS = {
    "sessions": Read(
        ["sessions", "--all", "--json"],
        "sessions",
        {},
        "sessions",
        {},
        lambda rows: [outcome_of(row) for row in rows],
        lambda page: [outcome_of(row) for row in page["sessions"]],
        lambda page: [outcome_of(row) for row in page["sessions"]],
    ),
    "session": Read(
        ["show", RUN[:8], "--json"],
        f"sessions/{RUN[:8]}",
        {},
        "session",
        {"id": RUN[:8]},
        lambda rows: outcome_of(rows[0]),
        lambda page: outcome_of(page["session"]),
        lambda page: outcome_of(page["session"]),
    ),
    "brief": Read(
        ["brief", "--json"],
        "brief",
        {},
        "brief",
        {},
        lambda rows: brief_of(rows[0]),
        lambda page: brief_of(page["brief"]),
        lambda page: [page["title"], *(page.get(name, []) for name in BRIEF), page["bill"]],
    ),
    "story": Read(
        ["story", "--json"],
        "story",
        {},
        "story",
        {},
        lambda rows: story_of(rows[0]),
        lambda page: story_of(page["story"]),
        lambda page: [[each["title"], *each["sentences"]] for each in page["chapters"]],
    ),
    "costs": Read(
        ["costs", "--by", "person", "--json"],
        "costs",
        {"by": "person"},
        "costs",
        {"by": "person"},
        lambda rows: [[row["person"], row["usd"]] for row in rows[0]["by"]],
        lambda page: [[row["person"], row["usd"]] for row in page["by"]],
        lambda page: [[row["key"], row["usd"]] for row in page["rows"]],
    ),
}


def test_every_read_with_three_edges_is_compared() -> None:
    assert {operation.name for operation in OPERATIONS if not operation.changes and operation.http and operation.mcp} <= set(READS)


@pytest.mark.parametrize("name", READS)
def test_a_read_gives_the_same_answer_everywhere(name: str, served: Served, lore: Lore) -> None:
    read = READS[name]
    printed = lore(*read.argv, "--log", served.house.url, code=0).out
    answer = served.view(read.path, **read.query)
    tool = call_tool(BY_NAME[read.tool], ServerSource(served.house), Caller("ada"), read.arguments)
    rows = [json.loads(line) for line in printed.splitlines()] if "\n{" in printed else [json.loads(printed)]
    assert read.of_cli(rows) == read.of_http(answer) == read.of_mcp(json.loads(json.dumps(tool.structured, default=str)))
    assert read.of_http(answer)
