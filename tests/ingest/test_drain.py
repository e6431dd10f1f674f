"""Draining the spool: each line once into the log that a command in its folder would have chosen."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import time
from typing import Any

import pytest

from fleetlore import Event, clock, connect
from fleetlore.cli.open_log import drain_spool
from fleetlore.cli.trust import approve_file
from fleetlore.ingest import open_transcripts, spool, transcript_file
from tests.faults.processes import running
from tests.transcripts import Transcript, text

SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FLEETLORE_LOG", "FLEETLORE_TOWN", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def troubles(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().err


def hook(folder: Path, session: str = SESSION, **more: Any) -> None:
    """One call of a hook, in a folder."""
    usual = {"session_id": session, "cwd": str(folder), "hook_event_name": "Notification", "message": "may I?"}
    record = usual | given if isinstance(given := more.pop("record", {}), dict) else given
    recorded = {"at": "2026-11-15T20:00:00.000001Z", "id": clock.uuid7(), "program": "claude-code", "cwd": str(folder), "record": record}
    spool.append_line(json.dumps(recorded | more).encode())


def events(url: str = "sqlite:", town: str | None = None) -> list[Event]:
    with connect(url, town=town).blocking() as log:
        return list(log.read())


def project(home: Path, name: str, settings: str) -> Path:
    folder = home / name
    folder.mkdir()
    (folder / "fleetlore.toml").write_text(settings)
    approve_file(str(folder / "fleetlore.toml"), settings.encode())
    return folder


def test_a_line_goes_into_the_users_log_with_the_id_and_the_time_of_the_hook(home: Path) -> None:
    hook(home)
    drain_spool()
    [event] = events()
    assert (event.kind, event.run, event.text) == ("session.waiting", SESSION, "may I?")
    assert event.at is not None
    assert event.at.isoformat() == "2026-11-15T20:00:00.000001+00:00"
    assert spool.is_spool_empty()


def test_each_line_goes_into_the_log_of_its_folder(home: Path) -> None:
    shop = project(home, "shop", 'log = "sqlite:shop.db"\ntown = "harbour"')
    hook(shop / "src")
    hook(home)
    drain_spool()
    assert len(events(f"sqlite:{shop}/shop.db", "harbour")) == 1
    assert len(events()) == 1


def test_projects_that_share_a_log_keep_their_own_patterns(home: Path) -> None:
    for name, pattern in (("one", "may"), ("two", "I")):
        hook(project(home, name, f"[redact]\npatterns = ['{pattern}']"))
    drain_spool()
    assert [event.text for event in events()] == ["[redacted] I?", "may [redacted]?"]


def test_a_folder_that_is_gone_still_belongs_to_its_project(home: Path) -> None:
    shop = project(home, "shop", 'log = "sqlite:shop.db"')
    hook(shop / "worktrees" / "gone")
    drain_spool()
    assert len(events(f"sqlite:{shop}/shop.db")) == 1


def test_the_environment_of_the_hook_decides_not_that_of_the_drainer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:/nonexistent/other.db")
    hook(home, log="sqlite:mine.db", town="harbour")
    drain_spool()
    assert len(events(f"sqlite:{home}/mine.db", "harbour")) == 1


def test_a_broken_setting_holds_up_only_its_own_lines_until_it_is_fixed(home: Path, troubles: Callable[[], str]) -> None:
    shop = project(home, "shop", "log = ")
    hook(shop)
    hook(home)
    drain_spool()
    assert "1 line of a hook waits in the spool" in troubles()
    assert len(events()) == 1
    (shop / "fleetlore.toml").write_text('log = "sqlite:shop.db"')
    _let_the_wait_be_over()
    drain_spool()
    assert len(events(f"sqlite:{shop}/shop.db")) == 1
    assert spool.is_spool_empty()
    assert troubles() == ""


def test_a_log_that_cannot_be_reached_keeps_its_lines_and_is_not_asked_at_every_command(home: Path, troubles: Callable[[], str]) -> None:
    hook(home, log="redis://127.0.0.1:1")
    drain_spool()
    assert "waits in the spool" in troubles()
    [waiting] = Path(spool.spool_folder()).glob("*.jsonl")
    os.utime(waiting, (clock.now().timestamp() + 60,) * 2)
    drain_spool()
    assert troubles() == ""
    assert b"redis://127.0.0.1:1" in waiting.read_bytes()


def test_a_log_with_a_password_waits_for_anybody_who_knows_it(
    home: Path, troubles: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(home, log="redis://[redacted]@127.0.0.1:1")
    drain_spool()
    assert "run a `lore` command with FLEETLORE_LOG as it was set there" in troubles()
    _let_the_wait_be_over()
    monkeypatch.setenv("FLEETLORE_LOG", "redis://ada:hunter2@127.0.0.1:1")
    drain_spool()
    said = troubles()
    assert "nobody answers there" in said
    assert "hunter2" not in said


def test_what_is_no_line_of_ours_is_kept_as_rejected(home: Path) -> None:
    spool.append_line(b"what is this? token=abcdef0123456789")
    spool.append_line(b'{"at": "2026-11-15T20:00:00Z"}')
    hook(home, record="hello")
    hook(home, program="emacs")
    drain_spool()
    kept = events()
    assert [event.kind for event in kept] == ["log.rejected"] * 4
    reasons = [event.data["reason"] for event in kept]
    assert sorted(reasons) == [
        "not a line of `lore hook`",
        "not a line of `lore hook`",
        "unknown program: 'emacs'; choose from claude-code, codex",
        "what the program handed over is no JSON object",
    ]
    assert "abcdef" not in str([event.data for event in kept])


def test_a_damaged_line_is_rejected_into_the_log_that_it_names(home: Path) -> None:
    """Not into the default log, which such a line would create."""
    hook(home, log="sqlite:mine.db")
    current = Path(spool.spool_folder(), spool.CURRENT_FILE)
    current.write_bytes(current.read_bytes().replace(b"hook_event_name", b"hook_event\x00name"))
    drain_spool()
    assert [event.kind for event in events(f"sqlite:{home}/mine.db")] == ["log.rejected"]
    assert [path.name for path in home.rglob("*.db")] == ["mine.db"]


def test_a_record_from_another_world_is_kept_and_holds_up_nobody(home: Path) -> None:
    hook(home, record={"hook_event_name": "PreToolUse", "tool_use_id": "t1", "tool_name": ["no", "name"], "tool_input": 7})
    hook(home)
    drain_spool()
    assert {"session.waiting"} <= {event.kind for event in events()}
    assert spool.is_spool_empty()


def test_a_torn_last_line_waits_and_the_lines_before_it_do_not(home: Path) -> None:
    hook(home)
    current = Path(spool.spool_folder(), spool.CURRENT_FILE)
    current.write_bytes(current.read_bytes() + b'{"at": "2026-')
    drain_spool()
    assert [event.kind for event in events()] == ["session.waiting"]
    assert not spool.is_spool_empty()
    drain_spool()
    assert [event.kind for event in events()] == ["session.waiting", "log.rejected"]
    assert spool.is_spool_empty()


def test_draining_the_same_lines_again_changes_nothing(home: Path) -> None:
    for n in range(5):
        hook(home, record={"message": f"{n}"})
    spool.append_line(b"not ours")
    shutil.copytree(spool.spool_folder(), home / "copy")
    drain_spool()
    before = events()
    for path in (home / "copy").glob("*.jsonl"):
        shutil.copy(path, spool.spool_folder())
    drain_spool()
    assert events() == before
    assert len(before) == 6


def test_the_transcript_that_a_line_names_is_read_on_and_shows_each_thing_once(home: Path) -> None:
    row = {
        "type": "user", "uuid": "aaaaaaaa-0000-4000-8000-000000000001", "sessionId": SESSION, "promptId": "p-1", "cwd": str(home),
        "timestamp": "2026-11-15T19:59:00.000Z", "message": {"role": "user", "content": "fix the parser"}, "gitBranch": "main",
    }  # fmt: skip
    transcript = home / f"{SESSION}.jsonl"
    transcript.write_text(json.dumps(row) + '\n{"type": "assis')
    record = {"hook_event_name": "UserPromptSubmit", "prompt": "fix the parser", "prompt_id": "p-1", "transcript_path": str(transcript)}
    hook(home, record=record)
    drain_spool()
    [prompt] = [event for event in events() if event.kind == "prompt.submitted"]
    assert prompt.text == "fix the parser"
    answer = {
        "type": "assistant", "uuid": "aaaaaaaa-0000-4000-8000-000000000002", "sessionId": SESSION, "timestamp": "2026-11-15T20:00:30.000Z",
        "requestId": "req_1", "message": {"id": "msg_1", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "done"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 5}},
    }  # fmt: skip
    transcript.write_text(json.dumps(row) + "\n" + json.dumps(answer) + "\n")
    hook(home, record={"hook_event_name": "Stop", "prompt_id": "p-1", "transcript_path": str(transcript)})
    drain_spool()
    kinds = [event.kind for event in events()]
    assert kinds.count("prompt.submitted") == kinds.count("model.replied") == kinds.count("session.turn_ended") == 1
    assert "log.rejected" not in kinds


def test_a_session_that_only_a_hook_mentions_yet_is_known_by_its_branch(home: Path) -> None:
    git = home / "shop" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feat/issue-42\n")
    hook(home / "shop", record={"hook_event_name": "SessionStart", "source": "startup"})
    hook(home / "shop", record={"hook_event_name": "UserPromptSubmit", "prompt": "go on", "prompt_id": "p-1"})
    drain_spool()
    start, prompt = events()
    assert start.data["branch"] == "feat/issue-42"
    assert (start.task, prompt.task) == ("#42", "#42")


def test_a_helper_s_launch_is_reported_by_its_transcript_if_that_comes_in_time_and_else_by_the_hook(home: Path) -> None:
    session = Transcript(SESSION)
    session.prompt("go")
    path = session.write(home)
    launch = {"hook_event_name": "SubagentStart", "agent_id": "a17c0de", "agent_type": "Explore", "transcript_path": str(path)}
    now = clock.now().isoformat().replace("+00:00", "Z")
    hook(home, record=launch, at=now)
    hook(home, record=launch | {"agent_id": "a2"})  # long ago
    drain_spool()
    assert [event.child for event in events() if event.kind == "agent.launched"] == ["a2"]
    helper = Transcript(SESSION, agentId="a17c0de", isSidechain=True)
    helper.prompt("Look into the tide tables")
    helper.write(home / SESSION / "subagents", "agent-a17c0de")
    drain_spool()
    [own] = [event for event in events() if event.child == "a17c0de"]
    assert own.text == "Look into the tide tables"
    assert spool.is_spool_empty()


def test_a_transcript_that_cannot_be_read_does_not_hold_up_the_lines_that_name_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Transcript(SESSION)
    path.prompt("go")
    transcript = path.write(home)
    _refuse(monkeypatch, str(transcript))
    for _ in range(2):
        hook(home, record={"transcript_path": str(transcript)})
        drain_spool()
    assert [event.kind for event in events()] == ["log.rejected", "session.waiting", "session.waiting"]
    assert spool.is_spool_empty()


def test_a_step_at_which_two_settings_call_us_is_reported_once_and_the_next_like_it_again(home: Path) -> None:
    for second, project in (("00.450", False), ("00.467", True), ("09.000", True), ("09.001", False), ("09.002", False)):
        hook(home, at=f"2026-11-15T20:00:{second}000Z", record={"hook_event_name": "SessionEnd", "reason": "other"}, project=project)
    drain_spool()
    assert [event.at.second for event in events() if event.at] == [0, 9, 9]


def test_what_an_older_program_s_hook_shows_without_the_prompt_s_id_is_reported_once_by_its_transcript(home: Path) -> None:
    session = Transcript(SESSION, at=datetime(2026, 11, 15, 20, 0, tzinfo=UTC), version="2.1.39")
    session.prompt("fix the parser", None)
    session.add("system", subtype="turn_duration", durationMs=5)
    path = str(session.write(home))
    for name, second in (("UserPromptSubmit", 1), ("Stop", 2), ("UserPromptSubmit", 40), ("Stop", 50)):
        record = {"hook_event_name": name, "prompt": "fix the parser", "transcript_path": path}
        hook(home, record=record, at=f"2026-11-15T20:00:{second:02}.000000Z")
    drain_spool()
    kinds = [event.kind for event in events()]
    assert kinds == ["session.started", *["prompt.submitted", "session.turn_ended"] * 2]
    assert spool.is_spool_empty()


def test_while_another_process_drains_nobody_waits_and_nothing_is_said(home: Path, troubles: Callable[[], str]) -> None:
    hook(home)
    lock = spool.lock_for_draining(spool.spool_folder())
    assert lock is not None
    drain_spool()
    assert troubles() == ""
    assert not spool.is_spool_empty()
    os.close(lock)
    drain_spool()
    assert spool.is_spool_empty()


def test_a_file_that_cannot_be_opened_loses_no_line_of_others(home: Path, troubles: Callable[[], str]) -> None:
    Path(spool.spool_folder(), spool.CURRENT_FILE).mkdir(parents=True)
    hook(home)
    drain_spool()
    assert "current.jsonl: what hooks have written there cannot be read" in troubles()
    assert len(events()) == 1


def test_a_spool_that_cannot_be_read_is_one_line_and_no_failure(home: Path, troubles: Callable[[], str]) -> None:
    folder = Path(spool.spool_folder())
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where a folder should be")
    drain_spool()
    assert troubles().count("\n") == 1


def test_drainers_that_are_killed_lose_nothing_and_double_nothing(home: Path) -> None:
    chance, writers, count = Random(5), ("w1", "w2", "w3"), 400
    with ExitStack() as stack:
        hooks = [stack.enter_context(running("tests.faults.drainer", "write", name, str(count))) for name in writers]
        for _ in range(5):
            with running("tests.faults.drainer", "drain") as drainer:
                assert drainer.line() == "ready"
                list(drainer.lines(chance.uniform(0.0, 0.15)))
                drainer.kill()
        assert [[each.line(), each.line()] for each in hooks] == [["ready", "done"]] * len(writers)
    drain_spool()
    texts = [(event.run, event.text) for event in events()]
    assert len(texts) == len(set(texts)) == len(writers) * count
    assert spool.is_spool_empty()


def _refuse(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    """As if the file were somebody else's; root may read everything, so that taking the right away proves nothing."""
    read = transcript_file._read_at

    def _read_at(path: str, offset: int, size: int) -> bytes:
        if path == refused:
            raise PermissionError(13, "Permission denied", path)
        return read(path, offset, size)

    monkeypatch.setattr(transcript_file, "_read_at", _read_at)


def _let_the_wait_be_over() -> None:
    for path in Path(spool.spool_folder()).glob("*.jsonl"):
        os.utime(path, (0, 0))


def test_a_call_without_a_key_is_reported_if_its_transcript_is_not_there(home: Path) -> None:
    step = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    hook(home, record=step | {"transcript_path": str(home / "gone.jsonl")})
    drain_spool()
    assert [event.kind for event in events()] == ["tool.called"]


def test_codex_hooks_mention_themselves_what_a_rollout_that_is_not_there_cannot(home: Path) -> None:
    steps = [
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "call_0123456789012345678901", "tool_response": "done"},
    ]
    for step in steps:
        hook(home, program="codex", record=step | {"transcript_path": str(home / "gone.jsonl")})
    drain_spool()
    assert [event.kind for event in events()] == ["session.started", "tool.returned"]


def test_the_start_of_a_codex_session_waits_a_moment_for_its_rollout(home: Path) -> None:
    step = {"hook_event_name": "SessionStart", "source": "startup", "transcript_path": str(home / "soon.jsonl")}
    hook(home, program="codex", record=step, at=clock.now().isoformat())
    drain_spool()
    assert events() == []
    assert not spool.is_spool_empty()


def test_a_prompt_without_a_key_is_known_by_its_words_whatever_the_clocks_say(home: Path) -> None:
    recorded = Transcript(SESSION, at=datetime(2025, 1, 1, tzinfo=UTC))
    recorded.prompt("Mend it", None)
    path = home / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in recorded.lines()))
    for words in ("Mend it\n", "Something else"):
        hook(home, record={"hook_event_name": "UserPromptSubmit", "prompt": words, "transcript_path": str(path)})
    drain_spool()
    assert [event.text for event in events() if event.kind == "prompt.submitted"] == ["Mend it", "Something else"]


def test_a_transcript_that_a_hook_named_is_read_as_it_grows_without_further_hooks(home: Path) -> None:
    path = home / f"{SESSION}.jsonl"
    hook(home, record={"hook_event_name": "UserPromptSubmit", "prompt": "go", "prompt_id": "p-1", "transcript_path": str(path)})
    drain_spool()  # the program has not written its transcript yet
    assert kinds() == ["prompt.submitted"]
    session = Transcript(SESSION)
    session.prompt("go")
    session.reply("m1", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make test"}}, stop="tool_use")
    session.write(home)
    drain_spool()
    assert "tool.called" in kinds()
    session.result("t1", "12 passed")
    session.write(home)
    drain_spool()
    assert "tool.returned" in kinds()
    assert spool.is_spool_empty()


def test_the_transcript_of_a_sub_agent_is_read_as_it_grows(home: Path) -> None:
    session = Transcript(SESSION)
    session.prompt("go")
    hook(home, record={"hook_event_name": "UserPromptSubmit", "transcript_path": str(session.write(home))})
    drain_spool()
    helper = Transcript(SESSION, agentId="a17c0de", isSidechain=True)
    helper.prompt("Look into the tide tables")
    helper.reply("m1", text("The tables end in May."))
    helper.write(home / SESSION / "subagents", "agent-a17c0de")
    drain_spool()
    assert "The tables end in May." in texts()


@pytest.mark.parametrize("how", ["ended", "quiet"])
def test_the_transcript_of_a_session_that_is_over_is_not_looked_at_again(home: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Transcript(SESSION)
    session.prompt("go")
    path = str(session.write(home))
    hook(home, record={"hook_event_name": "UserPromptSubmit", "transcript_path": path})
    if how == "ended":
        hook(home, record={"hook_event_name": "SessionEnd", "transcript_path": path})
    drain_spool()
    if how == "quiet":
        later = time() + open_transcripts.KEPT_SECONDS + 60
        monkeypatch.setattr(open_transcripts, "time", lambda: later)
        drain_spool()
    session.reply("m1", text("Written much later."))
    session.write(home)
    drain_spool()
    assert texts() == ["go"]


def test_what_a_growing_transcript_adds_goes_into_the_log_of_its_folder(home: Path) -> None:
    shop = project(home, "shop", 'log = "sqlite:shop.db"\ntown = "harbour"')
    session = Transcript(SESSION)
    session.prompt("go")
    hook(shop, record={"hook_event_name": "UserPromptSubmit", "transcript_path": str(session.write(home))})
    drain_spool()
    session.reply("m1", text("Done."))
    session.write(home)
    drain_spool()
    assert "Done." in [event.text for event in events(f"sqlite:{shop}/shop.db", "harbour")]


def texts() -> list[str | None]:
    """What the events of prompts and replies say."""
    return [event.text for event in events() if event.kind in ("prompt.submitted", "model.replied")]


def kinds() -> list[str]:
    """The kinds of all events, in the order of the log."""
    return [event.kind for event in events()]
