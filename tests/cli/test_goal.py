"""`lore goal`: goals are listed, shown and steered; docs/goals.md is the manual."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import clock
from fleetlore.events import driver_types as types
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import make_seal
from tests.cli.goals import ONE, TWO, Past, log_at
from tests.cli.running import Lore
from tests.servers import Valkey

URL = "sqlite:goals.db"


@pytest.fixture
def log(lore: Lore) -> Iterator[BlockingRecorder]:
    with log_at(URL) as log:
        yield log


def goal(lore: Lore, *argv: str, code: int | None = 0) -> Any:
    return lore("--log", URL, "goal", *argv, code=code)


# --- list


def test_goals_are_listed_the_newest_first(lore: Lore, log: BlockingRecorder) -> None:
    first, second = Past(log, agent="ada"), Past(log, TWO, begun=clock.now(), agent="bob")
    first.begin("Make the tests pass")
    first.turn(failing=(0,))
    second.begin("Write the manual")
    lines = goal(lore, "list").lines
    assert [line.split() for line in lines] == [
        ["3f25ffff", "○", "stopped", "bob", "turn", "0", "0/2", "met", "Write", "the", "manual"],
        ["3f2504e0", "○", "stopped", "ada", "turn", "1", "1/2", "met", "Make", "the", "tests", "pass"],
    ]


def test_what_ended_long_ago_is_shown_with_all(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log, begun=clock.now() - timedelta(days=5))
    past.begin()
    past.turn()
    past.end(types.Done())
    result = goal(lore, "list")
    assert (result.lines, result.err) == ([], "1 more ended more than two days ago; --all shows it\n")
    assert len(goal(lore, "list", "--all").lines) == 1


def test_a_goal_that_needs_somebody_is_never_left_out(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log, begun=clock.now() - timedelta(days=5))
    past.begin()
    past.turn(failing=(0,))
    past.end(types.Escalate(reason="log in first"))
    assert "▲ needs you" in goal(lore, "list").out


def test_the_list_is_there_for_programs(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.turn(failing=(0,))
    [recorded] = goal(lore, "list", "--json").json["goals"]
    assert (recorded["id"], recorded["state"], recorded["criteria"]) == (ONE, "working", {"met": 1, "all": 2})
    assert recorded["spent"]["tokens"] == 1000
    assert recorded["limits"]["turns"] == 4


def test_a_log_without_goals_says_how_to_begin_one(lore: Lore, log: BlockingRecorder) -> None:
    assert "lore goal run FILE" in goal(lore, "list").err
    assert "lore goal run FILE" in goal(lore, "show", code=2).err


# --- show


def test_the_newest_goal_is_shown_in_full(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.turn(failing=(0,), evidence="E   assert 3 == 4\n2 failed", words="The fixture is stale\nMore")
    out = goal(lore, "show").out
    for part in (
        "○ mender  turn 1, stopped",
        "Make the tests pass",
        ONE,
        "/srv/app",
        "turns    █████░░░░░░░░░░░░░░░  1 of 4",
        "✗ shell:make test  exit 1",
        "    | E   assert 3 == 4",
        "✓ file:CHANGELOG.md",
        "checks failed, 1 not met",
        "1,000 tokens, $0.25",
        "last message",
        "resume it: lore goal resume 3f2504e0",
    ):
        assert part in out, out


def test_decisions_and_questions_are_shown_with_how_to_answer(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.add(past.record.attempt_started(past.state, 1))
    decision = types.Decision(
        id=TWO, goal_id=ONE, turn_index=1, tool="Bash", input={}, choice=types.Deny(message="no"), rationale="the rule denies it",
        decided_at="2026-11-16T09:00:00Z",
    )  # fmt: skip
    asked = past.record.make_event("goal.permission_asked", {"tool": "WebFetch", "turn": 1})
    past.add(past.record.make_event("driver.decision", {"decision": decision}), asked)
    out = goal(lore, "show", "3f2504").out
    assert "turn 1, stopped" in out
    assert "decisions (0 allowed, 1 denied)" in out
    assert "denied   Bash  the rule denies it" in out
    assert "may it use WebFetch?" in out
    assert f"lore decide {(asked.id or '')[:13]} allow" in out


def test_how_it_ended_is_shown_with_what_to_do(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.turn(failing=(0, 1))
    past.end(types.BudgetSpent(axis="wall_time"))
    out = goal(lore, "show").out
    assert "■ mender  spent: wall time" in out
    assert "lore goal raise 3f2504e0 --wall-time 14400s && lore goal resume 3f2504e0" in out


def test_everything_is_there_for_programs(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin()
    past.turn()
    recorded = goal(lore, "show", "--json", ONE).json
    assert (recorded["id"], recorded["state"], recorded["driver"], recorded["turns"][0]["outcome"]) == (ONE, "working", None, "done")


def test_what_an_agent_wrote_moves_no_cursor(lore: Lore, log: BlockingRecorder) -> None:
    past = Past(log)
    past.begin("\x1b[2Jevil\u202e")
    past.turn(failing=(0,), words="\x1b]0;title\x07", evidence="\x1b[31mred\r\x08")
    for verb in ("show", "list"):
        out = goal(lore, verb).out
        assert not any(character in out for character in "\x1b\x07\r\x08\u202e")


# --- which one is meant


def test_the_beginning_of_an_id_is_enough_if_it_is_its_own(lore: Lore, log: BlockingRecorder) -> None:
    Past(log, ONE).begin()
    Past(log, TWO).begin()
    assert goal(lore, "show", "--json", "3F250").json["id"] == ONE
    assert "2 goal ids start with '3f25'" in goal(lore, "show", "3f25", code=2).err
    assert "at least 4 characters" in goal(lore, "show", "3f2", code=2).err
    assert "no goal id starts with 'beef'" in goal(lore, "show", "beef", code=2).err


# --- steering without a driver


def test_a_request_is_stored_signed_with_a_name_and_obeyed_by_the_fold(lore: Lore, log: BlockingRecorder) -> None:
    Past(log).begin()
    assert (
        goal(lore, "say", "3f2504e0", "The", "API moved")
        .lines[0]
        .startswith("3f2504e0  gets the message with its next turn; it is not running")
    )
    assert (
        goal(lore, "raise", "3f2504e0", "--turns", "60", "--wall-time", "6h")
        .lines[0]
        .startswith("3f2504e0  has a larger budget: turns up to 60")
    )
    assert goal(lore, "pause", "3f2504e0").lines == ["3f2504e0  is paused; it was not running"]
    recorded = goal(lore, "show", "--json").json
    assert (recorded["state"], recorded["limits"]["turns"], recorded["limits"]["seconds"]) == ("paused", 60, 6 * 3600)
    assert recorded["messages"][0]["text"] == "The API moved"
    assert recorded["messages"][0]["by"] == "grace"
    assert goal(lore, "cancel", "3f2504e0", "--reason", "another way").code == 0
    assert goal(lore, "show", "--json").json["cancel"] == "another way"


def test_what_makes_no_sense_is_refused_and_nothing_is_stored(lore: Lore, log: BlockingRecorder) -> None:
    past, other = Past(log, ONE), Past(log, TWO)
    past.begin()
    other.begin()
    other.turn()
    other.end(types.Done())
    head = log.head()
    assert "3f25ffff: it has ended (done)" in goal(lore, "pause", "3f2504e0", "3f25ffff", code=2).err
    assert "the limit is 4 already" in goal(lore, "raise", "3f2504e0", "--turns", "4", code=2).err
    assert "nothing to raise" in goal(lore, "raise", "3f2504e0", code=2).err
    assert log.head() == head


def test_a_verb_is_needed(lore: Lore) -> None:
    assert "a verb is missing" in lore("goal", code=2).err
    assert "unknown choice: 'dance'" in lore("goal", "dance", code=2).err


# --- check


def test_a_good_file_is_reported_in_a_line(lore: Lore) -> None:
    head = "description = 'x'\nharness = 'command'\ncommand = 'sh'\n"
    path = lore.write("fix.toml", f"{head}[budget]\nmax_usd = 2\n[[acceptance]]\ncommand = 'true'")
    first, *rest = lore("goal", "check", path, code=0).lines
    assert first == f"{path}: valid. fix (command), 1 criterion; at most 40 turns, 4h, 2,000,000 tokens, $2.00"
    assert "  checks use the original of: no file (no build or test configuration was found)." in rest
    assert "  warning: max_usd counts only the dollars that the command reports (`usd` in its report)" in rest
    assert lore("goal", "check", "--json", path).json["goal"]["description"] == "x"


def test_a_program_that_is_not_there_is_reported_before_it_is_missed(lore: Lore) -> None:
    path = lore.write("fix.toml", "description = 'x'\nharness = 'command'\ncommand = 'no-such-agent --fast'")
    assert "The program no-such-agent was not found" in lore("goal", "check", path, code=0).out
    later = lore.write("later.toml", "description = 'x'\nharness = 'command'\ncommand = './made-later.sh'")
    assert "there is no program" not in lore("goal", "check", later, code=0).out


@pytest.mark.parametrize("verb", ["run", "resume", "list", "show", "pause", "cancel", "say", "raise", "check"])
def test_the_help_of_each_verb_teaches_by_examples(lore: Lore, verb: str) -> None:
    assert f"\n  lore goal {verb}" in lore("goal", verb, "--help", code=0).out


def test_what_is_wrong_is_reported_for_all_files(lore: Lore) -> None:
    paths = [lore.write("a.toml", "descripton = 'x'"), lore.write("b.yaml", "description: ''"), lore.write("c.toml", "description = 'x'")]
    result = lore("goal", "check", *paths, code=2)
    assert "a.toml:1: descripton: is not known here; did you mean description?" in result.err
    assert "b.yaml:1: description: is empty" in result.err
    assert "c.toml: valid." in result.out
    assert "no criteria: the agent decides when it is done" in result.out


def test_a_file_that_is_not_there_is_said(lore: Lore) -> None:
    assert "absent.toml" in lore("goal", "check", "absent.toml", code=1).err


# --- logs that a goal cannot be pursued on


def test_a_log_that_takes_words_out_of_events_is_refused(lore: Lore) -> None:
    lore.write("fleetlore.toml", '[redact]\nlevel = ["prompts"]')
    path = lore.write("g.toml", "description = 'x'\nharness = 'command'\ncommand = ['true']")
    result = goal(lore, "run", path, code=2)
    assert "[redact] level" in result.err
    assert "but goals need them" in result.err


def test_a_log_that_drops_its_oldest_events_is_refused(lore: Lore, valkey: Valkey) -> None:
    path = lore.write("g.toml", "description = 'x'\nharness = 'command'\ncommand = ['true']")
    result = lore("goal", "run", path, "--log", f"{valkey.url}?keep=tinytown", "--town", "capped-goals", code=2)
    assert "this log drops its oldest events (?keep=tinytown)" in result.err


def test_without_an_id_a_goal_is_taken_up_only_if_one_is_open(lore: Lore, log: BlockingRecorder) -> None:
    assert "there is no open goal to resume" in goal(lore, "resume", code=2).err
    past = Past(log)
    past.begin()
    past.turn()
    past.end(types.Done())
    assert "there is no open goal to resume" in goal(lore, "resume", code=2).err


def test_an_agent_that_no_scope_could_name_is_refused_before_anything_begins(lore: Lore) -> None:
    file = lore.write("goal.toml", "description = 'x'\nharness = 'command'\ncommand = ['true']\n[[acceptance]]\ncommand = 'true'\n")
    assert "--agent must have 1 to 200 bytes" in goal(lore, "run", file, "--agent", "a\nb", code=2).err


def test_on_a_sealed_log_what_is_not_signed_is_counted_and_not_obeyed(lore: Lore, log: BlockingRecorder) -> None:
    seal, key = make_seal("a dog in the manger", cost=2)
    with open_shared(URL) as shared:
        shared.set_seal(seal, None)
    past, forged = Past(log), Past(log, TWO)
    forged.begin("Open the door")
    with log_at("memory:") as aside:
        Past(aside).begin()
        log.append([key.sign_event(replace(event, position=None)) for event in aside.read()])
    past.add(past.record.make_event("control.requested", {"action": "cancel"}))
    assert [each["id"] for each in goal(lore, "list", "--json").json["goals"]] == [ONE]
    assert "1 unsigned control requests were ignored: this log is sealed" in goal(lore, "show", ONE).out
