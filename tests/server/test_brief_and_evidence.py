"""The brief, the story and their evidence over HTTP: every sentence leads to what was run, written or said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.testing import FrozenClock
from tests.server.serving import Served, serve

MONDAY = datetime(2026, 11, 16, 9, tzinfo=UTC)
FIRST, SECOND = "0b5e1111-2222-4333-8444-555555555555", "1c6f2222-3333-4444-8555-666666666666"


def call(run: str, number: int, tool: str, given: dict[str, Any], output: str, *, start: datetime, failed: bool = False) -> list[Event]:
    """A tool call and its result."""
    fields: dict[str, Any] = {"actor": f"agent-{run[:4]}", "agent": f"agent-{run[:4]}", "run": run}
    id = f"{run[:-2]}{number:02d}"
    when = start + timedelta(minutes=number)
    result = {"tool": tool, "call_id": id, "output": output, "exit_code": 1 if failed else 0}
    return [
        Event(id=id, kind="tool.called", at=when, data={"tool": tool, "call_id": id, "input": given}, **fields),
        Event(kind="tool.failed" if failed else "tool.returned", at=when + timedelta(seconds=2), cause=id, data=result, **fields),
    ]


def session(run: str, start: datetime, subject: str) -> list[Event]:
    fields: dict[str, Any] = {"actor": f"agent-{run[:4]}", "agent": f"agent-{run[:4]}", "run": run}
    edit = {
        "file_path": "src/parser.py",
        "old_string": "def parse(line):\n    return line\n",
        "new_string": "def parse(line):\n    return line.expandtabs()\n",
    }
    return [
        Event(kind="session.started", at=start, data={"project": "/w/shop", "branch": "main"}, **fields),
        Event(kind="prompt.submitted", at=start, text=subject.lower(), data={"prompt": f"{subject.lower()}, please"}, **fields),
        *call(run, 1, "Edit", edit, "updated", start=start),
        *call(
            run,
            2,
            "Bash",
            {"command": "pytest -q"},
            "Exit code 1\nFAILED test_tabs.py::test_tab\n1 failed, 3 passed",
            start=start,
            failed=True,
        ),
        *call(run, 3, "Bash", {"command": "pytest -q"}, "4 passed in 0.10s", start=start),
        *call(run, 4, "Bash", {"command": f'git commit -am "{subject}"'}, f"[main 1a2b3c4] {subject}\n 1 file changed", start=start),
        Event(kind="session.turn_ended", at=start + timedelta(minutes=5), text="Done.", **fields),
    ]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two sessions, three days apart."""
    with serve(tmp_path_factory.mktemp("brief"), now=FrozenClock(MONDAY + timedelta(days=4))) as running:
        running.log.append(session(FIRST, MONDAY, "Accept tabs"))
        running.log.append(session(SECOND, MONDAY + timedelta(days=3), "Speed up the import"))
        yield running


def cited(answer: Any) -> list[str]:
    return [
        source["event"] for paragraph in answer["story"]["paragraphs"] for each in paragraph["sentences"] for source in each["evidence"]
    ]


def test_the_newest_day_is_shown_and_the_days_next_to_it_are_named(served: Served) -> None:
    newest = served.view("brief")
    assert newest["days"] == {"shown": "2026-11-19", "previous": "2026-11-16", "next": None}
    assert [line["sessions"] for line in newest["brief"]["committed"]] == [[SECOND]]
    first = served.view("brief", day="2026-11-16")
    assert first["days"] == {"shown": "2026-11-16", "previous": None, "next": "2026-11-19"}
    assert first["brief"]["committed"][0]["text"].startswith("Accept tabs")
    between = served.view("brief", day="2026-11-17")
    assert between["days"] == {"shown": "2026-11-17", "previous": "2026-11-16", "next": "2026-11-19"}
    assert between["brief"]["bill"]["sessions"] == 0


def test_a_day_is_one_of_the_time_zone_that_is_asked_for(served: Served) -> None:
    there = served.view("brief", day="2026-11-16", tz="Pacific/Kiritimati")  # 14 hours ahead
    assert there["days"] == {"shown": "2026-11-16", "previous": None, "next": "2026-11-19"}
    assert there["brief"]["since"] == "2026-11-15T10:00:00Z"


def test_a_longer_period_and_one_agent(served: Served) -> None:
    week = {"since": "2026-11-16T00:00:00Z", "until": "2026-11-23T00:00:00Z"}
    both = served.view("story", **week)["story"]["paragraphs"]
    assert [paragraph["session"] for paragraph in both] == [FIRST, SECOND]
    assert [one["session"] for one in served.view("story", **week, agent=f"agent-{SECOND[:4]}")["story"]["paragraphs"]] == [SECOND]
    assert [one["session"] for one in served.view("story", **week, limit=1)["story"]["paragraphs"]] == [SECOND]
    alone = served.view("brief", agent=f"agent-{FIRST[:4]}")
    assert alone["days"] == {"shown": "2026-11-16", "previous": None, "next": None}
    headlines = served.view("story", **week, detail="headline")["story"]["paragraphs"]
    assert [len(paragraph["sentences"]) for paragraph in headlines] == [1, 1]


@pytest.mark.parametrize(
    ("path", "format", "media_type", "beginning"),
    [
        ("brief", "text", "text/plain; charset=utf-8", "Monday 2026-11-16\n"),
        ("brief", "chat", "text/plain; charset=utf-8", "Monday 2026-11-16: "),
        ("brief", "markdown", "text/markdown; charset=utf-8", "# Monday 2026-11-16\n"),
        ("story", "markdown", "text/markdown; charset=utf-8", "# Monday 2026-11-16\n"),
        ("story", "html", "text/html; charset=utf-8", '<article class="story">'),
    ],
)
def test_text_formats_are_served_as_such(served: Served, path: str, format: str, media_type: str, beginning: str) -> None:
    answer = served.get(f"/api/{path}", day="2026-11-16", format=format)
    assert (answer.status, answer.headers["content-type"]) == (200, media_type)
    assert answer.body.decode().startswith(beginning)
    assert "Accept tabs" in answer.body.decode()


def test_every_sentence_cites_events_and_they_show_what_happened(served: Served) -> None:
    story = served.view("story", day="2026-11-16")
    assert all(each["evidence"] for paragraph in story["story"]["paragraphs"] for each in paragraph["sentences"])
    shown = served.view("evidence", id=cited(story))
    assert (shown["missing"], shown["hidden"]) == ([], 0)
    commit = next(item for item in shown["items"] if item["command"].startswith("git commit"))
    assert (commit["what"], commit["state"], commit["exit_code"]) == ("command", "ok", 0)
    assert commit["output"] == "[main 1a2b3c4] Accept tabs\n 1 file changed"
    assert (commit["session"], commit["kind"]) == (FIRST, "tool.called")


def test_either_event_of_a_call_shows_the_whole_call_once(served: Served) -> None:
    called, result = (event for event in served.log.read(f"run:{FIRST}") if event.data.get("call_id") == f"{FIRST[:-2]}02")
    [from_call] = served.view("evidence", id=[called.id])["items"]
    assert served.view("evidence", id=[result.id, called.id])["items"] == [from_call]
    assert (from_call["command"], from_call["state"], from_call["exit_code"]) == ("pytest -q", "failed", 1)
    assert "1 failed, 3 passed" in from_call["output"]


def test_an_edit_is_shown_as_a_diff(served: Served) -> None:
    [item] = served.view("evidence", id=[f"{FIRST[:-2]}01"])["items"]
    [edit] = item["edits"]
    assert (item["what"], edit["path"], edit["is_new"]) == ("edit", "src/parser.py", False)
    assert edit["diff"].splitlines() == [" def parse(line):", "-    return line", "+    return line.expandtabs()"]


def test_a_prompt_is_shown_in_full(served: Served) -> None:
    [prompt] = (event for event in served.log.read(f"run:{FIRST}") if event.kind == "prompt.submitted")
    [item] = served.view("evidence", id=[prompt.id])["items"]
    assert (item["what"], item["text"]) == ("text", "accept tabs, please")


def test_private_events_and_what_is_gone_are_counted_and_not_shown(tmp_path: Path) -> None:
    with serve(tmp_path) as own:
        thought = Event(kind="agent.thought", agent="ada", actor="ada", text="SECRET one")
        marked = Event(
            kind="tool.called", agent="ada", actor="ada", visibility="private", data={"tool": "Bash", "input": {"command": "SECRET two"}}
        )
        called = Event(id=FIRST, kind="tool.called", agent="ada", actor="ada", data={"tool": "Bash", "input": {"command": "ls"}})
        result = Event(
            kind="tool.returned",
            agent="ada",
            actor="ada",
            cause=FIRST,
            visibility="private",
            data={"tool": "Bash", "output": "SECRET three"},
        )
        own.log.append([thought, marked, called, result])
        ids = [event.id for event in own.log.read()]
        shown = own.view("evidence", id=[*ids, SECOND])
    assert "SECRET" not in str(shown)
    assert [(item["command"], item["state"], item["output"]) for item in shown["items"]] == [("ls", "unknown", "")]
    assert (shown["hidden"], shown["missing"]) == (3, [SECOND])
