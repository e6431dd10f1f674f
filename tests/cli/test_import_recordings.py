"""`lore import claude-code` and its like, and `lore watch`: whole folders, standard input, twice, live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import IO

import pytest
import zstandard

from tests.cli.running import Lore
from tests.patience import PATIENCE
from tests.programs import rollouts
from tests.transcripts import START, Transcript, a_day, bash, text


def projects(lore: Lore) -> Path:
    """Where Claude Code keeps the sessions of this home."""
    return Path(os.environ["HOME"]) / ".claude" / "projects" / "-home-ada-harbour"


def test_without_a_file_it_takes_in_every_session_at_home(lore: Lore) -> None:
    day = a_day()
    path = day.write(projects(lore))
    helper = Transcript(day.session, at=START + timedelta(seconds=4), agentId="a17c0de", isSidechain=True)
    helper.prompt("Look")
    helper.write(path.parent / day.session / "subagents", "agent-a17c0de")
    result = lore("import", "claude-code", "--json", code=0)
    assert sum(result.json.values()) == len(day.rows) + 1
    [start] = [event for event in lore("events", "--all", "--json").ndjson if event["kind"] == "session.started"]
    assert start["data"]["person"] == "grace"
    assert "agent:a17c0de" not in result.err
    assert lore("import", "claude-code", "--json", code=0).json["recorded"] == 0


def test_a_session_of_another_s_is_not_said_to_be_of_this_machine(lore: Lore) -> None:
    lore("import", "claude-code", str(a_day().write(lore.folder)), code=0)
    [start] = [event for event in lore("events", "--all", "--json").ndjson if event["kind"] == "session.started"]
    assert "person" not in start["data"]


def test_where_there_is_nothing_it_says_where_it_looked(lore: Lore) -> None:
    result = lore("import", "claude-code", code=2)
    assert ".claude/projects" in result.err
    assert not (Path(os.environ["XDG_DATA_HOME"]) / "fleetlore").exists()
    assert "name the files" in lore("import", "forge", code=2).err
    assert "name the files" in lore("import", "nexus", code=2).err


def test_a_file_that_is_not_there_leaves_no_log_behind(lore: Lore) -> None:
    lore("import", "claude-code", "nothing.jsonl", "--log", "sqlite:new.db", code=1)
    assert not (lore.folder / "new.db").exists()


def test_standard_input_and_the_name_with_an_underscore_do_as_well(lore: Lore) -> None:
    result = lore("import", "claude_code", "-", "--json", stdin=b"\n".join(a_day().lines()), code=0)
    assert result.json["recorded"] == 10


def test_what_another_program_pipes_in_under_a_name_is_read_once_and_whole(lore: Lore) -> None:
    pipe = lore.folder / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(b"\n".join(a_day().lines()),))
    writer.start()
    assert lore("import", "claude-code", str(pipe), "--json", code=0).json["recorded"] == 10
    writer.join()


def test_a_line_that_is_torn_is_kept_as_rejected_and_its_whole_goes_in_later(lore: Lore) -> None:
    path = a_day().write(lore.folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert lore("import", "claude-code", str(path), "--json", code=3).json["rejected"] == 1
    path.write_bytes(whole)
    assert lore("import", "claude-code", str(path), "--json", code=0).json["rejected"] == 0
    assert len(lore("events", "--all", "--json", "--kind", "session.turn_ended").ndjson) == 1


@pytest.mark.parametrize("branch", ["main", "fix/issue-7-tides"])
def test_a_finished_session_without_marks_is_idle_and_leaves_nothing_open(lore: Lore, branch: str) -> None:
    session = Transcript(gitBranch=branch)
    session.prompt("Run the tests", None)
    session.reply("m1", bash("t1", "pytest -q"), stop=None)
    session.result("t1", "Exit code 1\n1 failed", error=True)
    session.reply("m2", text("One test fails, as you expected."), stop=None)
    path = str(session.write(lore.folder))
    lore("import", "claude-code", path, code=0)
    assert [agent["state"] for agent in lore("status", "--all", "--json").json["agents"]] == ["idle"]
    story = lore("tell", "--all").out
    assert "One test fails, as you expected" in story
    assert "still running" not in story
    assert not lore("arcs", "--open", "--json").ndjson
    assert lore("import", "claude-code", path, "--json", code=0).json["recorded"] == 0


def test_a_commit_that_skips_its_checks_is_shown_as_such_everywhere(lore: Lore) -> None:
    session = Transcript()
    session.prompt("Commit it", None)
    session.reply("m1", bash("t1", "git add -A && git commit --no-verify -m 'fix: x'", description="Commit the fix"), stop="tool_use")
    path = str(session.write(lore.folder))
    lore("import", "claude-code", path, code=0)
    assert "Commit the fix (--no-verify)" in lore("status", "--all").out
    session.result("t1", "[main 1a2b3c4] fix: x")
    session.write(lore.folder)
    lore("import", "claude-code", path, code=0)
    assert lore("events", "--all").out.count("Bash: Commit the fix (--no-verify)") == 2
    for detail in ("headline", "story", "full"):
        assert "--no-verify" in lore("story", "--all", "--detail", detail).out


def test_hidden_words_are_hidden_in_what_is_taken_in(lore: Lore) -> None:
    lore("import", "claude-code", str(a_day().write(lore.folder)), "--redact", "prompts", code=0)
    stored = lore("events", "--all", "--json").out
    assert "tide table" not in stored
    assert "pytest tests/tide" in stored


def test_a_document_over_many_lines_is_one_record_of_a_forge(lore: Lore) -> None:
    body = {
        "ref": "refs/heads/main",
        "before": "0" * 40,
        "after": "1" * 40,
        "commits": [],
        "repository": {"full_name": "ada/harbour"},
        "pusher": {"login": "ada"},
    }
    path = lore.write("push.json", json.dumps(body, indent=2))
    assert lore("import", "forge", path, "--json", code=0).json["recorded"] == 1


def rollout(lore: Lore, *, folder: str = "sessions/2026/09/01") -> Path:
    """A rollout of Codex where it keeps those of this home."""
    path = Path(os.environ["HOME"]) / ".codex" / folder / f"rollout-2026-09-01T10-00-00-{rollouts.THREAD}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [rollouts.meta(), rollouts.context(), *rollouts.said(5, "The table is mended.")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compress(path: Path) -> Path:
    """What Codex does with a rollout that nobody has used for a week."""
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    os.utime(packed, ns=(path.stat().st_mtime_ns,) * 2)
    path.unlink()
    return packed


@pytest.mark.parametrize("folder", ["sessions/2026/09/01", "archived_sessions"])
@pytest.mark.parametrize("is_named", [False, True])
def test_compressed_rollouts_are_read_at_home_and_by_name_and_stored_once(lore: Lore, folder: str, is_named: bool) -> None:
    plain = rollout(lore, folder=folder)
    expected = lore("import", "codex", str(plain), "--json", "--log", "sqlite:plain.db", code=0).json
    packed = compress(plain)
    files = [str(packed)] if is_named else []
    assert lore("import", "codex", *files, "--json", code=0).json == expected
    before = lore("events", "--all", "--json").raw
    rollout(lore, folder=folder)
    assert lore("import", "codex", "--json", code=0).json["recorded"] == 0
    assert lore("events", "--all", "--json").raw == before


def test_a_compressed_transcript_of_claude_code_is_read_by_name_and_from_standard_input(lore: Lore) -> None:
    packed = compress(a_day().write(lore.folder))
    assert lore("import", "claude-code", str(packed), "--json", code=0).json["recorded"] == 10
    again = lore("import", "claude-code", "-", "--json", stdin=packed.read_bytes(), code=0).json
    assert (again["recorded"], again["already_there"]) == (0, 10)


def test_what_cannot_be_read_in_a_folder_is_named_and_the_rest_is_imported(lore: Lore) -> None:
    good = rollout(lore)
    bad = {
        good.with_name("cut.jsonl.zst"): "ends before it is complete",
        good.with_name("old.json"): "is no .jsonl",
        good.with_name("packed.jsonl.gz"): "zcat FILE | lore import",
        good.with_name("gone.jsonl"): "No such file or directory",
    }
    cut, old, packed, gone = bad
    cut.write_bytes(zstandard.compress(good.read_bytes())[:-5])
    old.write_text("{}")
    packed.write_bytes(b"\x1f\x8b")
    gone.symlink_to("nowhere")
    for files in ([], [str(good.parent)]):
        result = lore("import", "codex", *files, "--json", code=3)
        assert result.json["rejected"] == 1
        assert "3 files not read" in result.err
        for path, reason in bad.items():
            assert [line for line in result.err.splitlines() if line.startswith(f"lore: {path}: ") and reason in line], path
    assert "session.started" in lore("events", "--all").out


def test_watching_copes_with_a_rollout_that_is_compressed_and_resumed_meanwhile(lore: Lore) -> None:
    path = rollout(lore)
    watching = lore.start("watch", "codex", "--json", "--since", "1960-01-01", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watching.stdout is not None
    assert kinds(watching.stdout, 1) == ["session.started"]
    os.utime(path)  # so that a watcher takes the compressed file as new
    packed = compress(path)
    rows = [rollouts.event(60, "user_message", message="and now the other table")]
    path.write_bytes(zstandard.decompress(packed.read_bytes()) + json.dumps(rows[0]).encode() + b"\n")
    packed.unlink()
    seen = [json.loads(watching.stdout.readline())]
    while seen[-1]["kind"] != "prompt.submitted":
        seen.append(json.loads(watching.stdout.readline()))
    watching.send_signal(signal.SIGINT)
    out, err = watching.communicate(timeout=PATIENCE)
    assert (watching.returncode, out, b"rejected 0" in err) == (0, b"", True)
    ids = [event["id"] for event in lore("events", "--all", "--json").ndjson]
    assert len(ids) == len(set(ids)) == len(seen) + 1


def test_watching_reads_compressed_rollouts_and_names_what_it_cannot_read(lore: Lore) -> None:
    packed = compress(rollout(lore))
    assert lore("watch", "codex", "--once", "--json", code=0).ndjson[0]["kind"] == "session.started"
    assert lore("watch", "codex", "--once", "--json", code=0).raw == b""
    stray = packed.with_name("notes.txt")
    stray.write_text("x")
    assert f"lore: {stray}: is not read: it is no .jsonl" in lore("watch", "codex", "--once", code=3).err


def test_watching_once_reads_on_from_where_it_was_left(lore: Lore) -> None:
    day = a_day()
    day.write(projects(lore))
    first = lore("watch", "claude-code", "--once", "--json", code=0)
    assert len(first.ndjson) == 16
    day.prompt("go on", "p-7")
    day.write(projects(lore))
    assert [event["kind"] for event in lore("watch", "claude-code", "--once", "--json", code=0).ndjson] == ["prompt.submitted"]
    assert lore("watch", "claude-code", "--once", "--json", code=0).raw == b""


def test_old_sessions_are_left_alone_until_they_change(lore: Lore) -> None:
    path = a_day().write(projects(lore))
    os.utime(path, (0, 0))
    assert lore("watch", "claude-code", "--once", "--json", code=0).raw == b""
    assert len(lore("watch", "claude-code", "--once", "--json", "--since", "1960-01-01", code=0).ndjson) == 16


def test_watching_shows_what_a_session_writes_and_ends_cleanly(lore: Lore) -> None:
    day = Transcript()
    day.prompt("go")
    path = day.write(projects(lore))
    watching = lore.start("watch", "claude-code", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert watching.stdout is not None
    assert kinds(watching.stdout, 2) == ["session.started", "prompt.submitted"]
    with path.open("ab") as file:
        day.prompt("go on", "p-2")
        file.write(day.lines()[-1][:40])
        file.flush()
        file.write(day.lines()[-1][40:] + b"\n")
    other = Transcript("cccc0000-aaaa-4bbb-8ccc-0123456789ab")
    other.prompt("begin", "p-3")
    assert kinds(watching.stdout, 1) == ["prompt.submitted"]
    other.write(projects(lore))
    assert kinds(watching.stdout, 2) == ["session.started", "prompt.submitted"]
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE)
    assert (watching.returncode, b"recorded 3" in err) == (0, True)


def kinds(stream: IO[bytes], count: int) -> list[str]:
    return [json.loads(stream.readline())["kind"] for _ in range(count)]
