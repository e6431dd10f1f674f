"""A session can be read, searched, compared and handed over, by HTTP, MCP and command line alike."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.errors import AmbiguousName, UnknownName
from fleetlore.operations import transcripts
from fleetlore.operations.context import OperationContext, open_context
from fleetlore.operations.sessions import GetSession, get_session
from fleetlore.operations.sources import resolve_scope
from fleetlore.operations.transcripts import ReadDiff, ReadTranscript, SearchTranscript, TranscriptSubject
from fleetlore.views.transcripts import TranscriptRow

RUN = "0b5e1111-2222-4333-8444-555566667777"
AGENT = "claude-code/0b5e1111"
START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperationContext]:
    monkeypatch.chdir(tmp_path)
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="mira", now=lambda: START + timedelta(minutes=30)) as made:
        yield made


def make_event(kind: str, second: int, *, run: str = RUN, agent: str = AGENT, **fields: Any) -> Event:
    fields.setdefault("actor", agent)
    return Event(kind=kind, agent=agent, run=run, at=START + timedelta(seconds=second), **fields)


def make_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def make_session(run: str = RUN, prompt: str = "Cap the retry delay") -> list[Event]:
    data = {"cwd": "/w/api", "project": "api", "program": "claude-code", "person": "mira", "branch": "cap"}
    edit = {"file_path": "/w/api/a.py", "old_string": "x = 1", "new_string": "x = 2\ny = 3"}
    usage = {"model": "m", "input": 10, "output": 5}
    events = [
        make_event("session.started", 0, data=data),
        make_event("prompt.submitted", 1, text=prompt, data={"prompt": f"{prompt}, please"}),
        make_event("agent.thought", 2, text="Hm", visibility="private", data={"thought": "Nobody else may read this"}),
        make_event("tool.called", 3, id=make_id(1), data={"tool": "Bash", "input": {"command": "pytest"}}),
        make_event("model.replied", 4, text="I run it", data={**usage, "said": "I run it", "usd": 0.5}),
        make_event("tool.failed", 5, cause=make_id(1), data={"tool": "Bash", "error": "1 failed in 2s", "exit_code": 1}),
        make_event("tool.called", 6, id=make_id(2), data={"tool": "Edit", "input": edit}),
        make_event("tool.returned", 7, cause=make_id(2), data={"tool": "Edit", "output": "ok"}),
        make_event("agent.launched", 8, child="a17c0de", data={"role": "reviewer", "prompt": "Review"}),
        make_event("tool.called", 9, agent="a17c0de", id=make_id(3), parent=AGENT, data={"tool": "Bash", "input": {"command": "git diff"}}),
        make_event("tool.returned", 10, agent="a17c0de", cause=make_id(3), data={"tool": "Bash", "output": "+y = 3"}),
        make_event("model.replied", 11, text="Done", data={**usage, "said": "Done", "usd": 0.25}),
        make_event("session.turn_ended", 12, text="Done"),
    ]
    return (
        events
        if run == RUN
        else [make_event(event.kind, 100, run=run, agent="claude-code/other", text=event.text, data=event.data) for event in events[:2]]
    )


def read_rows(context: OperationContext, **more: Any) -> list[TranscriptRow]:
    return transcripts.read_transcript(context, ReadTranscript(id=RUN, **more)).rows


def test_a_call_and_its_result_are_one_row_and_a_reply_stands_before_its_calls(context: OperationContext) -> None:
    context.log.append(make_session())
    rows = read_rows(context)
    assert [row.kind for row in rows] == ["note", "prompt", "thinking", "answer", "command", "edit", "launch", "command", "answer"]
    command = rows[4]
    assert (command.command, command.state, command.exit_code, command.output, command.seconds) == (
        "pytest",
        "failed",
        1,
        "1 failed in 2s",
        2.0,
    )
    assert rows[3].usd == 0.5
    assert rows[7].agent == "a17c0de"
    assert rows[6].child == "a17c0de"
    assert rows[5].edits[0].diff.splitlines() == ["-x = 1", "+x = 2", "+y = 3"]


def test_a_reply_that_was_never_completed_costs_what_its_longest_part_says(context: OperationContext) -> None:
    def part(second: int, whole: int, usd: float, output: int) -> Event:
        usage = {"model": "m", "input": 10, "output": output, "usd": usd, "partial": True, "whole": make_id(whole)}
        return make_event("model.replied", second, text=f"part {second}", data=usage)

    whole = make_event("model.replied", 16, id=make_id(8), text="whole", data={"model": "m", "input": 10, "output": 9, "usd": 0.5})
    context.log.append([*make_session(), part(13, 8, 0.25, 5), part(14, 9, 0.125, 5), part(15, 9, 0.0625, 1), whole])
    costs = {row.text: row.usd for row in read_rows(context) if row.kind == "answer"}
    assert costs == {"I run it": 0.5, "Done": 0.25, "part 13": None, "part 14": 0.125, "part 15": None, "whole": 0.5}
    session = get_session(context, GetSession(id=RUN)).session
    assert session.usd == sum(usd or 0 for usd in costs.values())


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_any_size_give_the_same_rows(context: OperationContext, limit: int) -> None:
    context.log.append(make_session())
    after, found = None, list[str]()
    while True:
        page = transcripts.read_transcript(context, ReadTranscript(id=RUN, after=after, limit=limit))
        found += [row.id for row in page.rows]
        after = page.next
        if after is None:
            break
    assert sorted(found) == sorted(row.id for row in read_rows(context))


def test_another_agent_does_not_see_thoughts(context: OperationContext) -> None:
    context.log.append(make_session())
    other = OperationContext(context.source, actor="finn", is_agent=True)
    assert "thinking" not in [row.kind for row in read_rows(other)]
    assert transcripts.search_transcript(other, SearchTranscript(id=RUN, q="nobody else")).ids == []
    assert transcripts.search_transcript(context, SearchTranscript(id=RUN, q="NOBODY else")).ids == [read_rows(context)[2].id]
    assert "Nobody else" not in transcripts.hand_over(other, TranscriptSubject(id=RUN)).answer


def test_changes_are_listed_by_file_without_edits_that_failed(context: OperationContext) -> None:
    denied = make_event(
        "tool.called", 20, id=make_id(9), data={"tool": "Edit", "input": {"file_path": "/w/api/b.py", "old_string": "a", "new_string": "b"}}
    )
    context.log.append([*make_session(), denied, make_event("tool.denied", 21, cause=make_id(9), data={"tool": "Edit"})])
    files = transcripts.read_diff(context, ReadDiff(id=RUN)).files
    assert [(file.path, file.added, file.removed) for file in files] == [("a.py", 2, 1)]


def test_a_hand_over_says_what_was_asked_done_and_open(context: OperationContext) -> None:
    context.log.append(make_session())
    handed = transcripts.hand_over(context, TranscriptSubject(id=RUN[:8]))
    assert "Cap the retry delay, please" in handed.answer
    assert "a.py (+2 -1)" in handed.answer
    assert "not committed" in handed.answer
    assert handed.resume == f"cd /w/api && claude --resume {RUN}"


def test_the_name_that_is_shown_finds_the_session(context: OperationContext) -> None:
    context.log.append(make_session())
    name = get_session(context, GetSession(id=RUN)).session.name
    assert get_session(context, GetSession(id=name.upper())).session.session == RUN
    assert resolve_scope(context.source, f"agent:{name}") == f"agent:{AGENT}"
    with pytest.raises(UnknownName):
        get_session(context, GetSession(id="another name"))
    with pytest.raises(UnknownName) as typed:
        resolve_scope(context.source, f"agent:{name[:-3]}")
    assert typed.value.suggestions[0] == f"agent:{name}"
    context.log.append(make_session("1c5e1111-2222-4333-8444-555566667777"))
    with pytest.raises(AmbiguousName):
        get_session(context, GetSession(id=name))


def test_as_of_hides_what_came_later(context: OperationContext) -> None:
    positions = context.log.append(make_session())
    reader = transcripts._SessionReader(context, TranscriptSubject(id=RUN))
    reader._end = positions[3]
    rows = [row for chunk in reader.read_chunks(None, 100) for row in reader.make_rows(chunk)]
    assert rows[-1].kind == "command"
    assert rows[-1].state == "unknown"


def test_a_session_that_runs_on_this_machine_names_the_command_that_ends_it(
    context: OperationContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    context.log.append(make_session()[:4])
    assert get_session(context, GetSession(id=RUN)).stop == ""
    (tmp_path / "sessions").mkdir()
    state = {"sessionId": RUN, "pid": os.getpid(), "status": "busy"}
    (tmp_path / "sessions" / "1.json").write_text(json.dumps(state))
    assert get_session(context, GetSession(id=RUN)).stop == f"kill {os.getpid()}"
    (tmp_path / "sessions" / "1.json").write_text(json.dumps(state | {"pid": 2**22 + 1}))
    assert get_session(context, GetSession(id=RUN)).stop == ""
