"""`lore brief` and `lore story`: the newest day by default, only this period, in every format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.running import Lore

ONE, TWO = {"agent": "claude-code/11111111", "run": "11111111-aaaa"}, {"agent": "claude-code/22222222", "run": "22222222-bbbb"}


def event(kind: str, at: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": f"2026-03-{at}:00Z", **fields}


def call(at: str, number: int, command: str, output: str, **who: Any) -> list[dict[str, Any]]:
    own = f"00000000-0000-7000-8000-{number:012}"
    called = event("tool.called", at, id=own, data={"tool": "Bash", "call_id": f"c{number}", "input": {"command": command}}, **who)
    return [called, event("tool.returned", at, cause=own, data={"tool": "Bash", "call_id": f"c{number}", "output": output}, **who)]


def turn(at: str, number: int, prompt: str, answer: str, *calls: dict[str, Any], **who: Any) -> list[dict[str, Any]]:
    return [
        event("prompt.submitted", at, **who, text=prompt, data={"prompt": prompt}),
        *calls,
        event("model.replied", at, **who, data={"model": "claude-opus-4-8", "input": 100_000, "output": 1000, "said": answer}),
        event("session.turn_ended", at, **who, text=answer),
    ]


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """A session that commits on the 14th and asks on the 15th, one that answers on the 15th, and tasks of the 13th and 15th."""
    commit = call("14T22:50", 1, "git commit -m 'Accept tabs'", "[main 1234567] Accept tabs\n 1 file changed", **ONE)
    events = [
        event("session.started", "14T22:45", **ONE, data={"cwd": "/home/mira/app", "project": "app", "program": "claude-code"}),
        *turn("14T22:46", 1, "Fix the parser", "The parser accepts tabs now.", *commit, **ONE),
        *turn("15T08:00", 2, "And the lexer", "The lexer has two bugs. Should I fix both?", **ONE),
        *turn("15T09:00", 3, "What does the cache do?", "It keeps parsed files for an hour.", **TWO),
        event("town.task_completed", "13T10:00", agent="ada", task="t1", data={"result": "Duplicate of t9", "title": "Old task"}),
        event("fleet.dispatch", "15T10:00", agent="finn", task="t2", data={"title": "Write the manual"}),
        event("town.task_completed", "15T11:00", agent="finn", task="t2", data={"result": "Written"}),
    ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in events).encode(), code=0)
    return lore


def test_without_arguments_it_is_the_newest_day(recorded: Lore) -> None:
    out = recorded("brief", code=0).out
    assert out.startswith("Sunday 2026-03-15\n")
    assert "1 task closed: Write the manual (finn)" in out
    assert '"What does the cache do?"' in out
    assert "Should I fix both?" in out
    assert "Accept tabs" not in out


def test_a_session_that_reaches_into_the_next_day_is_split_with_its_costs(recorded: Lore) -> None:
    first, second, both = (
        recorded("brief", *args, "--json", code=0).json for args in (["--day", "2026-03-14"], ["--day", "2026-03-15"], ["--all"])
    )
    assert [line["text"] for line in first["committed"]] == [f"Accept tabs; continued later (${first['bill']['usd']:.2f})"]
    assert first["needs_you"] == []
    assert first["bill"]["usd"] > 0
    assert first["bill"]["usd"] + second["bill"]["usd"] == pytest.approx(both["bill"]["usd"])
    assert (first["bill"]["sessions"], second["bill"]["sessions"], both["bill"]["sessions"]) == (1, 2, 2)


def test_a_scope_takes_its_sessions_and_tasks(recorded: Lore) -> None:
    found = recorded("brief", "--all", "--scope", "task:t2", "--json", code=0).json
    assert found["bill"]["text"] == "1 task closed."
    assert recorded("brief", "--all", "--agent", "claude-code/22222222", "--json", code=0).json["bill"]["sessions"] == 1


def test_an_empty_day_says_so(recorded: Lore) -> None:
    assert recorded("brief", "--day", "2026-03-01", code=0).out == "Sunday 2026-03-01\n\nNo sessions in this period.\n"


@pytest.mark.parametrize(
    ("format", "start"), [("text", "Sunday"), ("markdown", "# Sunday"), ("html", "<!DOCTYPE html>"), ("json", "{"), ("chat", "Sunday")]
)
def test_it_is_written_in_every_format(recorded: Lore, format: str, start: str) -> None:
    assert recorded("brief", "--format", format, code=0).out.startswith(start)


def test_every_line_cites_events_of_the_log(recorded: Lore) -> None:
    found = recorded("brief", "--all", "--json", code=0).json
    stored = {each["id"] for each in recorded("events", "--all", "--json").ndjson}
    sections = ("delivered", "committed", "in_progress", "answered", "went_wrong", "check_this", "needs_you")
    lines = [line for name in sections for line in found[name]]
    assert lines
    for line in lines:
        assert line["evidence"]
        assert {source["event"] for source in line["evidence"]} <= stored


def test_hostile_words_do_not_reach_the_terminal(lore: Lore) -> None:
    rows = turn("15T08:00", 1, "\x1b]0;owned\x07 mend it", "Which \x1b[31mone?", **ONE)
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in rows).encode(), code=0)
    assert "\x1b" not in lore("brief", code=0).out


def test_private_text_never_appears(lore: Lore) -> None:
    rows = turn("15T08:00", 1, "Fix it", "Fixed the parser for good.", **ONE)
    rows.insert(
        1, event("model.replied", "15T08:00", **ONE, visibility="private", data={"said": "private thought", "model": "m", "output": 1})
    )
    rows.append(event("town.task_completed", "15T09:00", agent="ada", task="t1", visibility="private", data={"title": "private task"}))
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in rows).encode(), code=0)
    assert "private" not in lore("brief", "--json", code=0).out


# --- the story


def test_the_story_has_a_paragraph_for_each_session_of_the_newest_day(recorded: Lore) -> None:
    out = " ".join(recorded("story", code=0).out.split())
    assert out.startswith("Sunday 2026-03-15 ")
    assert 'It asks: "Should I fix both?"' in out
    assert "It keeps parsed files for an hour" in out
    assert 'Closed: "Written"; finn had the task.' in out
    assert "Accept tabs" not in out


def test_every_sentence_of_the_story_cites_events_of_the_log(recorded: Lore) -> None:
    story = recorded("story", "--all", "--json", code=0).json
    stored = {each["id"] for each in recorded("events", "--all", "--json").ndjson}
    sentences = [sentence for paragraph in story["paragraphs"] for sentence in paragraph["sentences"]]
    assert len(sentences) > 4
    for sentence in sentences:
        assert sentence["evidence"]
        assert {source["event"] for source in sentence["evidence"]} <= stored


@pytest.mark.parametrize(("format", "start"), [("markdown", "# Sunday"), ("html", "<!DOCTYPE html>"), ("json", "{")])
def test_the_story_is_written_in_every_format(recorded: Lore, format: str, start: str) -> None:
    assert recorded("story", "--format", format, code=0).out.startswith(start)
