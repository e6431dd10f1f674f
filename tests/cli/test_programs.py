"""Programs that are only recorded: from what they record to sessions, costs and outcomes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fleetlore.events.envelope import Event
from fleetlore.programs import registry
from fleetlore.programs.tool_calls import normalise_input
from fleetlore.testing import check_program
from tests.cli.running import Lore
from tests.programs import recordings
from tests.programs.recordings import RECORDED, Recorded

every_program = pytest.mark.parametrize("recorded", RECORDED, ids=[each.program for each in RECORDED])
_WITH_HELPER = [each for each in RECORDED if each.has_helper]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs keep their recordings."""
    folder = Path(os.environ["HOME"])
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / ".local" / "share"))
    return folder


def read(program: str, rows: list[recordings.Row]) -> list[Event]:
    reader = registry.find_recording(program).open(None)
    return [*(event for row in rows for event in reader.read(json.dumps(row).encode())), *reader.end()]


@every_program
def test_a_session_is_imported_with_its_tokens_its_check_and_its_edit(lore: Lore, home: Path, recorded: Recorded) -> None:
    recorded.write(home)
    lore("import", recorded.program, code=0)
    [session] = [each for each in lore("sessions", "--all", "--json").ndjson if each["session"] == recorded.session]
    assert (session["program"], session["asked"], session["status"]) == (recorded.program, "Fix add", "finished")
    assert [file["path"] for file in session["files"]] == ["calc.py"]
    tests = session["checks"]["tests"]
    assert (tests["result"], tests["earlier"]) == ("pass", "fail")
    assert session["tokens"] == 1050 * recorded.replies
    assert {claim["verdict"] for claim in session["claims"]} == {"supported"}
    assert [helper["answer"] for helper in session["helpers"]] == ["One function."] * recorded.has_helper
    total, replies = lore("costs", "--json").json["total"], 4 + recorded.has_helper
    expected = {"input": (1000 - recorded.cached) * replies, "output": 50 * replies, "cache_read": recorded.cached * replies}
    assert {key: total[key] for key in expected} == expected
    assert lore("import", recorded.program, "--json", code=0).json["recorded"] == 0
    assert {agent["state"] for agent in lore("status", "--all", "--json").json["agents"]} <= {"idle", "ended"}


@every_program
def test_setup_and_watch_find_it(lore: Lore, home: Path, recorded: Recorded) -> None:
    recorded.write(home)
    found = lore("setup", "--yes", "--no-hooks", code=0)
    assert registry.require_program(recorded.program).title in found.out
    before = len(lore("events", "--all", "--json").ndjson)
    lore("watch", recorded.program, "--once", "--quiet", "--since", "2000-01-01", code=0)
    assert len(lore("events", "--all", "--json").ndjson) == before


@every_program
def test_calls_fail_and_return_and_name_their_cause(recorded: Recorded) -> None:
    events = read(recorded.program, recorded.rows())
    by_id = {event.id: event for event in events}
    calls = [event for event in events if event.kind == "tool.called" and event.run == recorded.session]
    outcomes = {event.cause: event for event in events if event.kind in ("tool.returned", "tool.failed")}
    first, edit, missing, last = (outcomes[call.id] for call in calls if call.data["deed"] != "launch" and call.agent == calls[0].agent)
    assert (first.kind, first.data["exit_code"], first.data["deed"]) == ("tool.failed", 1, "test")
    assert (edit.kind, edit.data["paths"]) == ("tool.returned", [recordings.FILE])
    assert (missing.kind, missing.data["error"]) == ("tool.failed", recordings.MISSING)
    assert (last.kind, last.data["exit_code"]) == ("tool.returned", 0)
    assert all(event.cause in by_id for event in events if event.kind in ("model.replied", "session.turn_ended") and event.cause)
    [ended] = [event for event in events if event.kind == "session.turn_ended"]
    assert ended.text == recordings.DONE


@pytest.mark.parametrize("recorded", _WITH_HELPER, ids=[each.program for each in _WITH_HELPER])
def test_a_sub_agent_is_launched_works_and_returns(lore: Lore, home: Path, recorded: Recorded) -> None:
    recorded.write(home)
    lore("import", recorded.program, code=0)
    events = lore("events", "--all", "--json").ndjson
    [launched], [returned] = ([event for event in events if event["kind"] == f"agent.{step}"] for step in ("launched", "returned"))
    assert launched["child"] == returned["child"]
    replies = [event for event in events if event["kind"] == "model.replied" and event["agent"] == launched["child"]]
    assert [said for reply in replies if (said := reply["data"].get("said"))] == ["One function."]
    assert replies[0]["parent"] == launched["agent"]


@every_program
def test_it_is_read_whole_or_in_pieces_and_never_fails(recorded: Recorded) -> None:
    program = registry.require_program(recorded.program)
    check_program(program, [json.dumps(row).encode() for row in recorded.rows()])


@every_program
def test_its_tools_are_normalised(recorded: Recorded) -> None:
    calls = [event for event in read(recorded.program, recorded.rows()) if event.kind == "tool.called"]
    dialect = registry.require_program(recorded.program).dialect
    given = [normalise_input(dialect, call.data["tool"], call.data.get("input")) for call in calls]
    [edit] = [each for each in given if each.kind == "edit"]
    assert edit.edits == ((recordings.FILE, "return a - b", "return a + b"),)
    assert [each.command for each in given if each.kind == "command"] == [recordings.TEST] * 2
    assert any(each.kind == "read" for each in given)


def test_totals_of_an_older_copilot_are_those_of_its_last_event() -> None:
    replies = [event for event in read("copilot-cli", recordings.copilot(records_usage=False)) if event.kind == "model.replied"]
    assert sum(reply.data["input"] + reply.data["cache_read"] for reply in replies) == 5000
    assert sum(reply.data["output"] for reply in replies) == 250
    assert replies[-1].data["source"] == "session totals"


def test_a_fork_of_pi_adds_only_what_is_new_and_keeps_what_it_copied(lore: Lore, home: Path) -> None:
    folder = home / ".pi" / "agent" / "sessions" / "--home-ada-shop--"
    folder.mkdir(parents=True)
    fork = folder / f"2026-11-10T09-01-00-000Z_{recordings.HELPER}.jsonl"
    fork.write_text("".join(json.dumps(row) + "\n" for row in recordings.pi_fork()))
    lore("import", "pi", str(fork), code=0)
    prompts = {event["run"]: event["text"] for event in lore("events", "--all", "--json", "--kind", "prompt.submitted").ndjson}
    assert prompts == {recordings.SESSION: "Fix add", recordings.HELPER: "Now subtract"}
    next(each for each in RECORDED if each.program == "pi").write(home)
    lore("import", "pi", code=0)
    assert len(lore("events", "--all", "--json", "--kind", "prompt.submitted").ndjson) == 2
    assert lore("costs", "--json").json["total"]["output"] == 5 * 50


def test_rows_that_opencode_adds_are_read_from_where_the_last_import_ended(lore: Lore, home: Path) -> None:
    path, rows = home / ".local" / "share" / "opencode" / "opencode.db", recordings.opencode()
    recordings.write_opencode(path, rows[:9])
    lore("watch", "opencode", "--once", "--quiet", "--since", "2000-01-01", code=0)
    assert not lore("events", "--all", "--json", "--kind", "session.turn_ended").ndjson
    recordings.write_opencode(path, rows[9:])
    lore("watch", "opencode", "--once", "--quiet", "--since", "2000-01-01", code=0)
    events = lore("events", "--all", "--json").ndjson
    assert sum(event["kind"] == "session.turn_ended" for event in events) == 1
    assert sum(event["data"]["input"] for event in events if event["kind"] == "model.replied") == 4000


def test_events_that_openhands_adds_are_read_from_where_the_last_import_ended(lore: Lore, home: Path) -> None:
    folder, rows = home / ".openhands" / "conversations" / recordings.SESSION, recordings.openhands()
    recordings.write_openhands(folder, rows[:6])
    torn = folder / "events" / "event-00005-ffffffff-aaaa-4bbb-8ccc-0123456789ab.json"
    torn.write_text('{"id": "torn", "kind": "Obs')
    lore("watch", "openhands", "--once", "--quiet", "--since", "2000-01-01", code=0)
    before = lore("events", "--all", "--json").ndjson
    assert sum(event["kind"] == "tool.called" for event in before) == 2
    torn.unlink()
    recordings.write_openhands(folder, rows)
    lore("watch", "openhands", "--once", "--quiet", "--since", "2000-01-01", code=0)
    events = lore("events", "--all", "--json").ndjson
    assert events[: len(before)] == before
    assert [event["kind"] for event in events].count("tool.returned") == 3
    assert sum(event["data"]["output"] for event in events if event["kind"] == "model.replied") == 4 * 50
    assert not [event for event in events if event["kind"] == "log.rejected"]


def test_a_damaged_database_is_reported_and_imports_nothing(lore: Lore) -> None:
    path = lore.folder / "opencode.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    result = lore("import", "opencode", str(path), "--json", code=3)
    assert "opencode.db" in result.err
    assert result.json["recorded"] == 0


def test_doctor_lists_programs_with_their_version_their_files_and_what_they_delete(
    lore: Lore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RECORDED[1].write(home)
    bin = home / "bin"
    bin.mkdir()
    (bin / "qwen").write_text("#!/bin/sh\necho Qwen Code 0.15.10.\n")
    (bin / "qwen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    [found] = [each for each in lore("doctor", "--json").json["programs"] if each["name"] == "qwen-code"]
    assert (found["version"], found["files"], found["hooks"]) == ("0.15.10", 1, None)
    assert "Qwen Code 0.15.10 · 1 file in" in lore("doctor").out
