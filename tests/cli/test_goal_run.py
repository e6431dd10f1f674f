"""`lore goal run` and `resume`, from a file to the exit code: a program is really driven, and what it does is really checked."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.cli.person import seated
from tests.cli.running import Lore, command
from tests.patience import PATIENCE

URL = "sqlite:goals.db"


def goal(lore: Lore, *argv: str, code: int | None = None) -> Any:
    return lore("--log", URL, "goal", *argv, code=code)


def write(lore: Lore, name: str, script: str, *, more: str = "", check: str = "test -e ok") -> str:
    """A goal whose agent is a shell script; answers its path."""
    program = lore.write(f"bin/{name}.sh", f"#!/bin/sh\n{script}\n")
    os.chmod(program, 0o755)
    (lore.folder / f"place-{name}").mkdir(exist_ok=True)
    head = f"description = 'Reach {name}'\nharness = 'command'\ncommand = ['{program}']\nworkspace = 'place-{name}'\n"
    return lore.write(f"{name}.toml", f"{head}{more}\n[[acceptance]]\ncommand = '{check}'\n")


def kinds(lines: list[Any], *wanted: str) -> list[str]:
    return [line["kind"] for line in lines if line["kind"].startswith(wanted)]


# --- to the end


def test_a_goal_is_done_when_its_criteria_are_met(lore: Lore) -> None:
    path = write(lore, "two", "cat >/dev/null; echo x >> tries; test $(wc -l < tries) -lt 2 || touch ok; echo I tried")
    result = goal(lore, "run", path, code=0)
    assert result.lines[0].startswith("Reach two  goal ")
    assert result.lines[1:] == [
        "turn 1 starts",
        "  ✗ shell:test -e ok  exit code 1 instead of 0",
        "turn 1: checks failed  I tried",
        "turn 2 starts",
        "  ✓ all criteria are met",
        "turn 2: done  I tried",
        result.lines[7],
        f"the work: {lore.folder / 'place-two'}",
    ]
    assert result.lines[7].startswith("done  2 turns, ")
    assert "✓ done" in goal(lore, "list").out


def test_a_goal_that_ends_otherwise_leaves_with_one(lore: Lore) -> None:
    path = write(lore, "never", "cat >/dev/null; echo $$ > changed; echo no", more="[budget]\nmax_turns = 1")
    result = goal(lore, "run", path, code=1)
    assert "budget spent: turns" in result.out
    id = goal(lore, "show", "--json").json["id"][:8]
    assert f"lore goal raise {id} --turns" in goal(lore, "resume", id, code=2).err
    goal(lore, "raise", id, "--turns", "2", code=0)
    again = goal(lore, "resume", id, code=1)
    assert again.lines[:2] == ["  grace: resume", "turn 2 starts"], "what was printed before is not printed again"


def test_every_event_is_a_line_of_json_if_that_is_asked_for(lore: Lore) -> None:
    path = write(lore, "one", "cat >/dev/null; touch ok; echo done")
    lines = goal(lore, "run", "--json", path, code=0).ndjson
    assert kinds(lines, "driver.", "goal.attempt_ended") == [
        "driver.goal_started",
        "driver.attempt_started",
        "goal.attempt_ended",
        "driver.acceptance",
        "driver.attempt_completed",
        "driver.goal_completed",
    ]
    positions = [line["position"] for line in lines]
    assert positions == sorted(positions)


def test_what_befalls_one_goal_does_not_touch_the_others(lore: Lore) -> None:
    good = write(lore, "good", "cat >/dev/null; touch ok")
    bad = lore.write("bad.toml", "description = 'x'\nharness = 'command'\ncommand = ['/no/such/agent']\nworkspace = 'place-good'")
    result = goal(lore, "run", good, bad, "--parallel", "2", code=1)
    assert "good  done  1 turn" in result.out
    assert "bad   needs you" in result.out


def test_nothing_is_begun_if_one_file_is_wrong(lore: Lore) -> None:
    good = write(lore, "good", "touch ok")
    bad = lore.write("bad.toml", "descripton = 'x'")
    assert "did you mean description?" in goal(lore, "run", good, bad, code=2).err
    assert not (lore.folder / "goals.db").exists()


def test_the_command_line_wins_over_the_file(lore: Lore) -> None:
    path = write(lore, "one", "cat >/dev/null; touch ok")
    goal(lore, "run", path, "--agent", "hopper", code=0)
    assert goal(lore, "show", "--json").json["agent"] == "hopper"
    assert "unknown model address" in goal(lore, "run", path, "--mind", "gpt", code=2).err
    assert "--parallel" in goal(lore, "run", path, "--parallel", "0", code=2).err


def test_a_goal_with_an_id_of_its_own_is_begun_once(lore: Lore) -> None:
    id = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    path = write(lore, "one", "cat >/dev/null; touch ok", more=f"id = '{id}'")
    goal(lore, "run", path, code=0)
    assert f"lore goal resume {id}" in goal(lore, "run", path, code=2).err
    assert "set the same id" in lore("goal", "run", path, path, code=2).err
    assert "it is done" in goal(lore, "resume", "3f2504e0", code=2).err


def test_what_is_said_reaches_the_agent_with_its_next_turn(lore: Lore) -> None:
    path = write(lore, "deaf", "cat >> heard; echo $$ > changed", more="[budget]\nmax_turns = 1")
    goal(lore, "run", path, code=1)
    id = goal(lore, "show", "--json").json["id"]
    goal(lore, "say", id, "Try the other door", code=0)
    goal(lore, "raise", id, "--turns", "2", code=0)
    goal(lore, "resume", id, code=1)
    received = (lore.folder / "place-deaf" / "heard").read_text()
    assert received.count("Try the other door") == 1


# --- worktrees


def _repository(lore: Lore) -> Path:
    place = lore.folder / "place-branchy"
    place.mkdir(exist_ok=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(place)]
    for argv in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run([*git, *argv], check=True)
    return place


@pytest.mark.parametrize("keep", [False, True])
def test_a_worktree_goes_once_all_is_committed_and_the_branch_stays(lore: Lore, keep: bool) -> None:
    place = _repository(lore)
    script = "cat >/dev/null; touch ok; git add ok; git -c user.name=a -c user.email=a@b.c commit -qm ok"
    result = goal(lore, "run", write(lore, "branchy", script), *(["--keep-worktree"] if keep else []), code=0)
    id = goal(lore, "show", "--json").json["id"]
    branches = subprocess.run(
        ["git", "-C", str(place), "branch", "--list", "fleetlore/*"], capture_output=True, text=True, check=True
    ).stdout
    assert id[:8] in branches
    assert not (place / "ok").exists()
    work = Path(os.environ["XDG_DATA_HOME"]) / "fleetlore" / "goals" / id / "work"
    assert work.exists() == keep
    branch = f"fleetlore/{id[:8]}"
    assert result.lines[-3:] == [
        f"the work: 1 commit on the branch {branch}" + (f", in {work}" if keep else ""),
        f"  review it  git -C {place} diff HEAD...{branch}",
        f"  merge it   git -C {place} merge {branch}",
    ]
    assert result.lines[-3:] == goal(lore, "show").lines[-5:-2]
    _run_shown(result.lines[-2:])
    assert (place / "ok").exists(), "the commands that were shown take the work over"
    assert f"the work: no new commits on the branch {branch}" in goal(lore, "show").lines


def _run_shown(lines: list[str]) -> None:
    """Run the commands that were shown, as they are."""
    environ = os.environ | {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for line in lines:
        shown = line[len("  merge it   ") :]
        argv = command(shlex.split(shown)[1:]) if shown.startswith("lore ") else shlex.split(shown)
        done = subprocess.run(argv, check=False, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_work_that_is_not_committed_is_kept_and_taken_over_by_the_commands_that_are_shown(lore: Lore) -> None:
    place = _repository(lore)
    result = goal(lore, "run", write(lore, "branchy", "cat >/dev/null; touch ok; echo x > \"a 'b'\""), code=0)
    assert result.lines[-4].startswith("the work: 2 files not committed, in ")
    _run_shown(result.lines[-3:])
    assert (place / "ok").exists()
    assert (place / "a 'b'").exists()


def test_work_on_another_branch_of_the_agent_arrives_on_the_goal_s_branch(lore: Lore) -> None:
    place = _repository(lore)
    commit = "git -c user.name=a -c user.email=a@b.c commit -qm ok"
    result = goal(lore, "run", write(lore, "branchy", f"cat >/dev/null; git switch -qc mine; touch ok; git add ok; {commit}"), code=0)
    assert result.lines[-3].startswith("the work: 1 commit on the branch fleetlore/")
    _run_shown(result.lines[-1:])
    assert (place / "ok").exists()


def test_what_the_agent_does_not_see_is_said_when_a_goal_begins(lore: Lore) -> None:
    place = _repository(lore)
    (place / "draft").write_text("not committed")
    (place / "ignored").write_text("of no interest")
    (place / ".git" / "info" / "exclude").write_text("ignored\n")
    script = "cat >/dev/null; test -e draft || touch ok"
    result = goal(lore, "run", write(lore, "branchy", script), code=0)
    assert result.lines[1].startswith(f"  note  1 uncommitted change in {place} is not in its worktree, which is at the commit ")
    (place / "draft").unlink()
    path = write(lore, "branchy", script)
    os.rename(path, place / "goal.toml")
    (place / "goal.toml").write_text((place / "goal.toml").read_text().replace("place-branchy", "."))
    assert "note" not in goal(lore, "run", str(place / "goal.toml"), code=0).out, "the goal's own file is no news"


def test_a_goal_that_ended_otherwise_says_how_to_go_on(lore: Lore) -> None:
    path = write(lore, "never", "cat >/dev/null; echo $$ > changed", more="[budget]\nmax_turns = 1")
    result = goal(lore, "run", path, code=1)
    id = goal(lore, "show", "--json").json["id"][:8]
    assert result.lines[-1] == f"resume:   lore goal raise {id} --log {URL} --turns 2 && lore goal resume {id} --log {URL}"
    for line in result.lines[-1].removeprefix("resume:   ").split(" && "):
        lore(*line.split()[1:])
    assert goal(lore, "show", "--json").json["spent"]["turns"] == 2
    missing = lore.write("missing.toml", "description = 'x'\nharness = 'command'\ncommand = ['/no/such/agent']\nworkspace = 'place-never'")
    assert goal(lore, "run", missing, code=1).lines[-2].startswith("see why:  lore goal show ")


def test_goals_of_agents_with_the_same_name_are_told_apart(lore: Lore) -> None:
    path = write(lore, "one", "cat >/dev/null; touch ok")
    result = goal(lore, "run", path, path, "--parallel", "2", code=0)
    ids = {each["id"][:8] for each in goal(lore, "list", "--json").json["goals"]}
    assert {line.split()[0] for line in result.lines} == ids


# --- stopped, and steered from elsewhere


def _wait_for(path: Path) -> None:
    deadline = monotonic() + PATIENCE
    while not path.exists():
        assert monotonic() < deadline, path
        os.sched_yield()


LONG = "cat >/dev/null; echo $$ > pid; touch begun; test -e quick || sleep 60; touch ok"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_it_ends_the_turn_and_says_how_to_go_on(lore: Lore, number: signal.Signals) -> None:
    path = write(lore, "long", LONG)
    place = lore.folder / "place-long"
    inherited = signal.signal(number, signal.default_int_handler)  # else, under nohup, it would ignore one of them as this process does
    process = lore.start("--log", URL, "goal", "run", path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    signal.signal(number, inherited)
    _wait_for(place / "begun")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    id = goal(lore, "show", "--json").json["id"]
    assert process.returncode == 130, err
    assert "this log is not sealed" in err.decode()
    assert err.decode().endswith(f"\nstopped. Resume with: lore goal resume {id[:8]} --log {URL}\n")
    assert b"turn 1: interrupted" in out
    assert not os.path.exists(f"/proc/{(place / 'pid').read_text().strip()}")
    (place / "quick").touch()
    again = goal(lore, "resume", id[:8], code=0)
    assert again.lines[0] == "turn 1 starts", "a turn that was cut short is taken again"


def test_a_goal_that_is_driven_is_steered_from_another_process(lore: Lore) -> None:
    path = write(lore, "long", LONG)
    process = lore.start("--log", URL, "goal", "run", path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _wait_for(lore.folder / "place-long" / "begun")
    shown = goal(lore, "show", "--json").json
    assert shown["driver"].rpartition(":")[2].startswith(f"{process.pid}/")
    assert "is running in" in goal(lore, "resume", shown["id"], code=0).out
    assert goal(lore, "cancel", shown["id"], "--reason", "enough").lines == [f"{shown['id'][:8]}  is cancelled"]
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert b"grace: cancel  enough" in out
    assert b"cancelled" in out


# --- on a terminal


def test_a_terminal_shows_the_budgets_and_the_criteria_as_they_are_met(lore: Lore) -> None:
    path = write(lore, "one", "cat >/dev/null; touch ok; echo All is well")
    shown = lore.on_terminal("--log", URL, "goal", "run", path)
    assert shown.code == 0
    for part in ("turns", "█", "░", "1 of 40", "✓", "turn 1: ", "All is well", "done", "\x1b[?25h"):
        assert part in shown.out, part


def test_a_terminal_shows_what_the_agent_says_and_spends_while_its_turn_goes_on(lore: Lore) -> None:
    script = """cat >/dev/null; echo '{"say": "Half way", "tokens": 4711}'; sleep 1; echo '{"say": "There"}'; touch ok"""
    shown = lore.on_terminal("--log", URL, "goal", "run", write(lore, "one", script))
    assert shown.code == 0
    before, _, after = shown.out.partition("Half way")
    assert "4,711 of 2,000,000" in before + after
    assert "There" not in before
    assert "all criteria are met" in after


def test_commands_to_be_copied_are_not_broken_on_a_narrow_terminal(lore: Lore) -> None:
    _repository(lore)
    path = write(lore, "branchy", "cat >/dev/null; touch ok")
    shown = lore.on_terminal("--log", URL, "goal", "run", path, columns=40)
    assert "/work/place-branchy merge fleetlore/" in shown.out


# --- sealed logs


def test_a_sealed_log_asks_for_its_passphrase_first(lore: Lore) -> None:
    passphrase = "four words are enough"
    with seated(lore, "--log", URL, "seal") as (process, person):
        person.answer(passphrase)
        person.answer(passphrase)
        process.communicate(timeout=PATIENCE)
    path = write(lore, "one", "cat >/dev/null; touch ok")
    assert "passphrase" in goal(lore, "run", path, code=1).err
    with seated(lore, "--log", URL, "goal", "run", path) as (process, person):
        person.answer(passphrase)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert b"all criteria are met" in out
    recorded = goal(lore, "show").out
    assert "✓ one  done" in recorded
    assert "signatures were not verified" in recorded


# --- without a file


def test_a_goal_is_run_without_a_file(lore: Lore) -> None:
    wrong = goal(lore, "make the file", "--check", "test -e ok", "--harness", "command", code=2)
    assert "command: is missing" in wrong.err
    result = goal(lore, "make the file", "--check", "test -e ok", "--mind", "scripted:", "--turns", "1", "--json", code=1)
    started = next(line for line in map(json.loads, result.lines) if line["kind"] == "driver.goal_started")["data"]["goal"]
    assert (started["description"], started["acceptance"][0]["command"]) == ("make the file", "test -e ok")
    assert started["budget"]["max_turns"] == 1
    assert started["workspace"] == str(lore.folder)
    assert started["metadata"]["fleetlore"]["agent"] == "make-the-file"
    assert "unknown choice" in goal(lore, "lst", code=2).err
    assert "either goal files, or --do" in goal(lore, "run", code=2).err


def test_check_warns_about_files_that_the_worktree_lacks_and_missing_prices(lore: Lore) -> None:
    place = _repository(lore)
    (place / "notes.txt").write_text("not committed")
    path = write(lore, "branchy", "true")
    assert "warning: the agent's worktree will not have 1 untracked (notes.txt)" in goal(lore, "check", path).out
    lore.write("branchy.toml", Path(path).read_text().replace("[[acc", 'isolation = "none"\n[[acc'))
    assert "warning" not in goal(lore, "check", path).out
    head = 'description = "x"\nworkspace = "place-branchy"\nisolation = "none"\nmind = "openai:no-such-model"\n[budget]\nmax_usd = 2.0\n'
    warned = goal(lore, "check", lore.write("dear.toml", head), "--json").json
    assert warned["warnings"] == [
        "there is no price for no-such-model, so max_usd counts only the dollars that the endpoint reports; add a price under [prices]"
    ]


def test_worktrees_are_listed_shown_merged_and_cleaned(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b.c")
    place = _repository(lore)
    script = "cat >/dev/null; echo hello > ok; git add ok; git -c user.name=a -c user.email=a@b.c commit -qm ok"
    goal(lore, "run", write(lore, "branchy", script), "--keep-worktree", code=0)
    id = goal(lore, "show", "--json").json["id"]
    [line] = goal(lore, "worktrees").lines
    assert line.startswith(f"{id[:8]}  done ")
    assert f"fleetlore/{id[:8]}  1 commit, " in line
    assert goal(lore, "worktrees", "diff", id[:8], code=0)
    goal(lore, "worktrees", "merge", id[:8], code=0)
    assert (place / "ok").read_text() == "hello\n"
    assert "nothing to merge" in goal(lore, "worktrees", "merge", id[:8], code=0).out
    assert "removed" in goal(lore, "worktrees", "clean", code=0).out
    work = Path(os.environ["XDG_DATA_HOME"]) / "fleetlore" / "goals" / id / "work"
    assert not work.exists()
    assert "name one goal" in goal(lore, "worktrees", "diff", code=2).err


def test_work_that_is_not_committed_is_neither_merged_nor_cleaned(lore: Lore) -> None:
    _repository(lore)
    goal(lore, "run", write(lore, "branchy", "cat >/dev/null; touch ok"), code=0)
    id = goal(lore, "show", "--json").json["id"]
    assert "; commit them with" in goal(lore, "worktrees", "merge", id[:8], code=2).err
    assert ": 1 file not committed" in goal(lore, "worktrees", "clean", code=0).out
