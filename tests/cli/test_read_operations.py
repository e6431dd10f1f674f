"""Each read operation gives the same answer on the command line, over HTTP and over MCP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from fleetlore import Event
from fleetlore.cli.decide import JSON_FIELDS
from fleetlore.errors import Invalid
from fleetlore.operations.table import OPERATIONS
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.sanitise import clean_text
from fleetlore.server.mcp.tools import BY_NAME, call_tool
from fleetlore.town import events as town_events
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


def an_approval_request() -> Event:
    """A session asks a person; without an end, for the command line does not take the server's clock."""
    data = {"tool": "Bash", "input": {"command": "git push"}, "program": "claude-code", "call_id": "toolu_1"}
    return Event(kind="approval.requested", at=AT + timedelta(hours=2), agent=f"claude-code/{RUN}", run=RUN, data=data)


def a_town() -> list[Event]:
    """An agent with a task of a mission, and a message."""
    made = [
        town_events.agent_spawned("ada", by="ines"),
        town_events.mission_state_changed("reader", None, "running", by="ines"),
        town_events.task_created("t-parse", title="Write the parser", by="ines", mission="reader"),
        town_events.message_sent("conductor", "ada", "Which port?", type="query"),
    ]
    return [msgspec.structs.replace(event, at=AT + timedelta(hours=2)) for event in made]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "served").mkdir()
    with serve(tmp_path / "served", now=lambda: AT + timedelta(hours=3)) as running:
        running.log.append(a_session(RUN, AT, "Fixed; the tests pass."))
        running.log.append(a_session("22222222-bbbb", AT + timedelta(hours=1), "Shall I push it?"))
        running.log.append(
            [Event(kind=kind, at=AT + timedelta(hours=2), agent="cy", task="t3") for kind in ("fleet.error", "fleet.recovery")]
        )
        running.log.append(a_town())
        running.log.append([an_approval_request()])
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


BRIEF = ("delivered", "committed", "in_progress", "answered", "went_wrong", "check_this", "needs_you")


def brief_of(brief: dict[str, Any]) -> list[Any]:
    return [brief["title"], *([line["text"] for line in brief[name]] for name in BRIEF), brief["bill"]["text"]]


def story_of(story: dict[str, Any]) -> list[Any]:
    return [[each["title"], *(sentence["text"] for sentence in each["sentences"])] for each in story["paragraphs"]]


def list_requests(rows: list[dict[str, Any]]) -> list[Any]:
    """All that `lore decide` prints of each request."""
    return [[row[name] for name in JSON_FIELDS] for row in rows]


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
    "session transcript": Read(
        ["show", RUN[:8], "--transcript", "--json"],
        f"sessions/{RUN[:8]}/transcript",
        {},
        "session_transcript",
        {"id": RUN[:8]},
        lambda rows: [row["id"] for row in rows],
        lambda page: [row["id"] for row in page["rows"]],
        lambda page: [row["id"] for row in page["rows"]],
    ),
    "hand over": Read(
        ["show", RUN[:8], "--hand-over", "--json"],
        f"sessions/{RUN[:8]}/hand-over",
        {},
        "hand_over",
        {"id": RUN[:8]},
        # MCP escapes headings in every text that it passes on.
        lambda rows: clean_text(rows[0]["answer"]),
        lambda page: clean_text(page["answer"]),
        lambda page: page["answer"],
    ),
    "brief": Read(
        ["brief", "--json", "--since", "2000-01-01"],  # up to now, so that both clocks are in it
        "brief",
        {"since": "2000-01-01T00:00:00Z"},
        "brief",
        {"since": "2000-01-01T00:00:00Z"},
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
    "fleet": Read(
        ["status", "--all", "--json"],
        "fleet",
        {},
        "fleet",
        {"everybody": True},
        lambda rows: sorted([row["name"], row["doing"], row["task"]] for row in rows[0]["agents"]),
        lambda page: sorted([row["name"], row["doing"], row["task"]] for row in page["agents"]),
        lambda page: sorted([row["name"], row.get("doing", ""), row.get("task")] for row in page["agents"]),
    ),
    "arcs": Read(
        ["arcs", "--json"],
        "arcs",
        {},
        "arcs",
        {"state": "all"},
        lambda rows: sorted([row["kind"], row["thread"], row["state"], row["count"]] for row in rows),
        lambda page: sorted([row["kind"], row["thread"], row["state"], row["count"]] for row in page["arcs"]),
        lambda page: sorted([row["kind"], row["thread"], row["state"], row["count"]] for row in page["arcs"]),
    ),
    "events": Read(
        ["events", "--last", "100", "--kind", "session.*", "--json"],
        "events",
        {"kind": "session.*"},
        "events",
        {"kind": ["session.*"]},
        lambda rows: [row["id"] for row in reversed(rows)],
        lambda page: [row["id"] for row in page["events"]],
        lambda page: [row["id"] for row in page["events"]],
    ),
    "approvals": Read(
        ["decide", "--json"],
        "approvals",
        {},
        "approvals",
        {},
        list_requests,
        lambda page: list_requests(page["approvals"]),
        lambda page: list_requests(page["approvals"]),
    ),
    "search": Read(
        ["find", "Shall I push", "--json"],
        "search",
        {"q": "Shall I push"},
        "search",
        {"q": "Shall I push"},
        lambda rows: sorted(row["id"] for row in rows),
        lambda page: sorted(row["id"] for row in page["events"]),
        lambda page: sorted(row["id"] for row in page["events"]),
    ),
    "town tasks": Read(
        ["town", "task", "--json"],
        "town",
        {},
        "tasks",
        {},
        lambda rows: [[row["id"], row["state"], row["title"], row["mission"]] for row in rows[0]["tasks"]],
        lambda page: [[row["id"], row["state"], row["title"], row["mission"]] for each in page["board"] for row in each["tasks"]],
        lambda page: [[row["id"], row["state"], row["title"], row["mission"]] for row in page["tasks"]],
    ),
    "town task": Read(
        ["town", "task", "show", "t-parse", "--json"],
        "town",
        {"task": "t-parse"},
        "task",
        {"id": "t-parse"},
        lambda rows: [rows[0]["id"], rows[0]["title"], rows[0]["by"]],
        lambda page: [page["task"]["id"], page["task"]["title"], page["task"]["by"]],
        lambda page: [page["task"]["id"], page["task"]["title"], page["by"]],
    ),
    "town missions": Read(
        ["town", "mission", "--json"],
        "town",
        {},
        "missions",
        {},
        lambda rows: [[row["id"], row["state"]] for row in rows[0]["missions"]],
        lambda page: [[row["id"], row["state"]] for row in page["missions"]],
        lambda page: [[row["id"], row["state"]] for row in page["missions"]],
    ),
    "town mission": Read(
        ["town", "mission", "show", "reader", "--json"],
        "town",
        {"mission": "reader"},
        "mission",
        {"id": "reader"},
        lambda rows: [rows[0]["id"], rows[0]["state"]],
        lambda page: [page["mission"]["id"], page["mission"]["state"]],
        lambda page: [page["mission"]["id"], page["mission"]["state"]],
    ),
    "why": Read(
        ["why", "retry.py:1", "--json"],
        "why",
        {"place": "retry.py:1"},
        "why",
        {"place": "retry.py:1"},
        lambda rows: [[part["text"], part["author"], part["commit"]["subject"]] for part in rows[0]["lines"]],
        lambda page: [[part["text"], part["author"], part["commit"]["subject"]] for part in page["lines"]],
        lambda page: [[part["text"], part["author"], part["commit"]["subject"]] for part in page["lines"]],
    ),
    "review": Read(
        ["review", "HEAD", "--json"],
        "review",
        {"range": "HEAD"},
        "review",
        {"range": "HEAD"},
        lambda rows: [rows[0]["head"], rows[0]["authors"]],
        lambda page: [page["head"], page["authors"]],
        lambda page: [page["head"], page["authors"]],
    ),
    "town inbox": Read(
        ["town", "inbox", "ada", "--json"],
        "town",
        {"agent": "ada"},
        "inbox",
        {"agent": "ada"},
        lambda rows: [[row["id"], row["sender"], row["body"]] for row in rows[0]["messages"]],
        lambda page: [[row["id"], row["sender"], row["body"]] for row in page["agent"]["messages"]],
        lambda page: [[row["id"], row["sender"], row["body"]] for row in page["messages"]],
    ),
}


def test_every_read_with_a_tool_is_compared() -> None:
    assert {operation.name for operation in OPERATIONS if not operation.changes and operation.mcp} == {
        *READS,
        "session diff",  # compared in tests/operations/test_transcripts.py
    }


@pytest.fixture
def repository(lore: Lore) -> Path:
    """A repository in the current folder: what the server was started in."""
    (lore.folder / "retry.py").write_text("LIMIT = 5\n")
    (lore.folder / "secret.txt").write_text("not tracked\n")
    names = ["-c", "user.name=grace", "-c", "user.email=grace"]
    for command in (["init", "-q"], ["add", "retry.py"], [*names, "commit", "-qm", "Add the limit"]):
        subprocess.run(["git", *command], cwd=lore.folder, check=True)
    return lore.folder


@pytest.mark.parametrize("place", ["secret.txt", "../outside.txt", "/etc/passwd", "link.txt", ".git/config"])
def test_only_tracked_files_of_the_servers_repository_are_shown(place: str, served: Served, lore: Lore, repository: Path) -> None:
    (repository.parent / "outside.txt").write_text("outside\n")
    (repository / "link.txt").symlink_to("../outside.txt")
    subprocess.run(["git", "add", "link.txt"], cwd=repository, check=True)
    refused = served.get("/api/why", place=place)
    assert (refused.status, "no file that git tracks" in refused.json["detail"]) == (422, True)
    with pytest.raises(Invalid, match="no file that git tracks"):
        call_tool(BY_NAME["why"], served.context.view_cache, Caller("ada"), {"place": place})


@pytest.mark.parametrize("name", READS)
def test_a_read_gives_the_same_answer_everywhere(name: str, served: Served, lore: Lore, repository: Path) -> None:
    read = READS[name]
    printed = lore(*read.argv, "--log", served.context.url, code=0).out
    answer = served.view(read.path, **read.query)
    tool = call_tool(BY_NAME[read.tool], served.context.view_cache, Caller("ada"), read.arguments)
    rows = [json.loads(line) for line in printed.splitlines()] if "\n{" in printed else [json.loads(printed)]
    assert read.of_cli(rows) == read.of_http(answer) == read.of_mcp(json.loads(json.dumps(tool.structured, default=str)))
    assert read.of_http(answer)
