"""`lore stage`: scenarios listed and checked, runs shown live, stopped and taken up again."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from tests.cli.running import Lore
from tests.patience import PATIENCE

LOG = ("--log", "sqlite:stage.db")
DUEL = """\
name: duel
title: Duel
seeds: [dawn]
opening: Two stand at {seed}.
agents:
  ada: {persona: A., tick_every: 1, script: {opening: [{text: En garde., thought: My knees.}], lines: [Touché., Again.]}}
  bob: {persona: B., subscribes_to: [agent.spoke, user.injected], script: {lines: [Ha., Ho., Hm.], disturbed: ["Who said {visitor}?"]}}
governor: {max_turns: 3}
"""


def run_of(words: str) -> str:
    found = re.search(r"--resume (\S+)", words)
    assert found is not None, words
    return found[1]


def test_the_scenarios_are_listed_with_what_they_are_about(lore: Lore) -> None:
    shown = lore("stage", "list", code=0)
    assert [line.split()[0] for line in shown.lines] == ["monday", "night-train", "the-tin"]
    assert {each["name"] for each in lore("stage", "list", "--json", code=0).json["scenarios"]} == {"monday", "night-train", "the-tin"}


def test_listing_makes_no_log(lore: Lore) -> None:
    lore("stage", "list", *LOG, code=0)
    assert not (lore.folder / "stage.db").exists()


def test_a_good_scenario_is_said_to_be_fine_and_a_bad_one_line_by_line(lore: Lore) -> None:
    good, bad = lore.write("duel.yaml", DUEL), lore.write("bad.yaml", DUEL.replace("tick_every", "tick").replace("agent.spoke", "Speech"))
    assert "valid. Duel; ada (worker), bob (worker)" in lore("stage", "check", good, code=0).out
    said = lore("stage", "check", bad, code=2).err
    assert "bad.yaml:6: agents.ada.tick: is not known here" in said


def test_a_run_in_a_pipe_is_plain_lines_and_hides_thoughts(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    shown = lore("stage", "run", path, *LOG, code=0)
    assert "  1  ada  agent.spoke  En garde." in shown.lines
    assert "My knees." not in shown.out
    assert "\x1b" not in shown.out
    assert "My knees." in lore("stage", "run", path, "--read-minds", *LOG, code=0).out


def test_the_same_seed_plays_the_same_and_is_on_the_log(lore: Lore) -> None:
    first = lore("stage", "run", "the-tin", "--seed", "rain", "--turns", "3", *LOG, code=0)
    again = lore("stage", "run", "the-tin", "--seed", "rain", "--turns", "3", *LOG, code=0)
    assert first.lines == again.lines
    assert "judge.verdict" in first.out
    events = lore("events", "--kind", "run.finished", "--json", "--all", *LOG, code=0).ndjson
    assert len(events) == 2
    assert events[0]["data"]["reason"] == "verdict"


def test_the_settings_say_how_prompts_are_built(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    run = ("stage", "run", path, "--json", *LOG)
    estimated = [event["data"]["prompt_tokens"] for event in lore(*run, code=0).ndjson if event["kind"] == "model.called"]
    lore.write("fleetlore.toml", '[context]\ntokenizer = "characters"\nbudget = 100000\n')
    counted = [event["data"]["prompt_tokens"] for event in lore(*run, code=0).ndjson if event["kind"] == "model.called"]
    assert all(3 * few < many <= 4 * few for few, many in zip(estimated, counted, strict=True))
    lore.write("fleetlore.toml", "[context]\nbudget = 20\n")
    failed = [event for event in lore(*run, code=0).ndjson if event["kind"] == "model.failed"]
    assert failed
    assert all("raise the budget" in event["data"]["error"] for event in failed)


@pytest.mark.parametrize(
    ("said", "why"),
    [("tokenizer = 'abacus'", "unknown tokenizer"), ("nearness = 'stars'", "unknown similarity measure"), ("nearness = 3", "nearness")],
)
def test_settings_that_mean_nothing_leave_no_run_behind(lore: Lore, said: str, why: str) -> None:
    lore.write("fleetlore.toml", f"[context]\n{said}\n")
    assert why in lore("stage", "run", "the-tin", *LOG).err
    assert not (lore.folder / "stage.db").exists()


def test_another_mind_can_play_the_whole_cast(lore: Lore) -> None:
    events = lore("stage", "run", lore.write("duel.yaml", DUEL), "--mind", "scripted:village", "--json", *LOG, code=0).ndjson
    assert {event["data"]["model"] for event in events if event["kind"] == "model.replied"} == {"scripted:village"}
    assert events[-1]["kind"] == "run.finished"


def test_json_gives_every_event(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    events = lore("stage", "run", path, "--json", *LOG, code=0).ndjson
    assert events[0]["kind"] == "run.started"
    assert events[-1]["kind"] == "run.finished"
    assert {"model.called", "model.replied", "agent.spoke"} <= {event["kind"] for event in events}
    assert all(event["position"] for event in events)


def test_json_has_thoughts_only_for_those_who_read_minds(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    hidden = lore("stage", "run", path, "--json", *LOG, code=0)
    assert "My knees." not in hidden.out
    assert "En garde." in hidden.out
    assert "My knees." in lore("stage", "run", path, "--json", "--read-minds", *LOG, code=0).out
    secrets = lore("stage", "run", "night-train", "--turns", "2", "--json", *LOG, code=0).ndjson
    assert not [event for event in secrets if event["kind"] == "agent.thought" or "thought" in event["data"] or "play" in event["data"]]


def test_a_visitor_is_received_and_cannot_move_the_cursor(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    shown = lore("stage", "run", path, "--inject", "boo\x1b[2J", *LOG, code=0)
    assert any("Who said boo" in line for line in shown.lines)
    assert "\x1b" not in shown.out


def test_on_a_terminal_speakers_have_colours_and_lines_keep_to_the_width(lore: Lore) -> None:
    shown = lore.on_terminal("stage", "run", "night-train", "--seed", "fog", "--speed", "0", *LOG, columns=64)
    assert shown.code == 0
    assert "\x1b[1;38;5;" in shown.out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    story = plain.partition("lore context")[0]
    assert max(len(line) for line in story.splitlines()) <= 64
    assert "was the stowaway" in plain


def test_ctrl_c_leaves_a_run_that_can_be_taken_up(lore: Lore) -> None:
    process = lore.start("stage", "run", "the-tin", "--speed", "40", *LOG, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Resume with" in err.decode()
    assert "Traceback" not in err.decode()
    run = run_of(err.decode())
    assert run in lore("stage", "list", *LOG, code=0).out
    assert f"--resume {run}" in lore("stage", "run", "the-tin", "--turns", "1", *LOG, code=0).err
    resumed = lore("stage", "run", "--resume", run, *LOG, code=0)
    assert "judge.verdict" in resumed.out
    ends = [json.loads(line) for line in lore("events", "--scope", f"run:{run}", "--kind", "run.finished", "--json", *LOG, code=0).lines]
    assert len(ends) == 1
    assert "has ended" in lore("stage", "run", "--resume", run, *LOG, code=2).err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("run",), "a scenario is missing"),
        (("run", "the-tim"), "did you mean the-tin?"),
        (("run", "the-tin", "--turns", "0"), "--turns must be between 1"),
        (("run", "the-tin", "--turns", "9" * 30), "--turns must be between 1 and"),
        (("run", "the-tin", "--inject", " "), "--inject needs a text"),
        (("run", "the-tin", "--mind", "openai:m?base_url=http://h/v1?token=x"), "no password in base_url"),
        ((), "argument missing: VERB\n"),
        (("run", "the-tin", "--speed", "-1"), "--speed must be 0 or more"),
        (("run", "--resume", "x", "--seed", "y"), "--resume keeps the seed and turns"),
        (("run", "--resume", "nobody"), "no run is called 'nobody'"),
        (("run", "the-tin", "--mind", "crystal:ball"), "crystal:ball"),
        (("run", "./none.yaml"), "none.yaml"),
        (("list", "--seed", "x"), "--seed is for `lore stage run`"),
        (("list", "--inject", "x"), "--inject is for `lore stage run`"),
        (("check", "--read-minds"), "--read-minds is for `lore stage run`"),
    ],
)
def test_a_typing_error_is_answered_with_what_to_do(lore: Lore, argv: tuple[str, ...], words: str) -> None:
    result = lore("stage", *argv, *LOG)
    assert result.code in (1, 2)
    assert words in result.err
    assert "Traceback" not in result.err


def test_the_help_teaches_by_examples(lore: Lore) -> None:
    shown = lore("stage", "--help", code=0).out
    assert "lore stage run the-tin" in shown
    assert "--read-minds" in shown


def test_a_visitor_without_words_leaves_no_run_behind(lore: Lore) -> None:
    lore("stage", "run", "the-tin", "--inject", "", *LOG, code=2)
    assert "not finished" not in lore("stage", "list", *LOG, code=0).out


def test_a_check_is_there_for_programs(lore: Lore) -> None:
    recorded = lore("stage", "check", lore.write("duel.yaml", DUEL), "--json", code=0).json
    assert recorded == {"scenario": "duel", "ok": True, "cast": ["ada", "bob"]}


def test_a_run_that_nothing_is_left_of_names_no_command_to_look_at_it(lore: Lore) -> None:
    path = lore.write("duel.yaml", DUEL)
    assert "lore context" in lore("stage", "run", path, *LOG, code=0).err
    gone = lore("stage", "run", path, "--log", "memory:", code=0)
    assert "En garde." in gone.out
    assert gone.err == ""
