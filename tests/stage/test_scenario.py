"""A scenario is accepted, or refused with file, line, error and known values."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetlore.errors import Invalid, InvalidScenario
from fleetlore.stage import files
from fleetlore.stage.files import parse_scenario

GOOD = """\
name: good
title: Good
seeds: [one]
opening: It begins with {seed}.
agents:
  ada:
    persona: You are Ada.
    tick_every: 1
  bob:
    persona: You are Bob.
    subscribes_to: [agent.spoke]
  jo:
    persona: You judge.
    role: judge
    may_emit: [judge.verdict]
competition:
  kind: versus
  teams:
    reds: [ada]
    blues: [bob]
"""


def problems(text: str) -> str:
    with pytest.raises(InvalidScenario) as error:
        parse_scenario(text, "my.yaml")
    return "\n".join(error.value.problems)


def test_a_good_one_is_read_with_its_defaults() -> None:
    scenario = parse_scenario(GOOD, "my.yaml")
    assert [manifest.name for manifest in scenario.cast] == ["ada", "bob", "jo"]
    assert scenario.cast[0].may_emit == ("agent.spoke",)
    assert scenario.candidates == ("reds", "blues", "ada", "bob")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("    tick_every: 1", "    tick_evry: 1", 8, "agents.ada.tick_evry: is not known here; did you mean tick_every?"),
        ("    tick_every: 1", "    tick_evry: 1", 8, "did you mean tick_every?"),
        (
            "    tick_every: 1",
            "    memory: {windw: 3}\n    tick_every: 1",
            8,
            "agents.ada.memory.windw: is not known here; did you mean window?",
        ),
        ("    tick_every: 1", "    tick_every: often", 8, "agents.ada.tick_every: a whole number is needed, not text in quotes"),
        ("    tick_every: 1", "    tick_every: 0", 8, "1 is every turn"),
        ("    tick_every: 1", "    role: worker", 6, "would never get a turn"),
        ("[agent.spoke]", "[Agent Spoke]", 11, "'Agent Spoke' is neither a kind such as agent.spoke"),
        ("    tick_every: 1", "    tick_every: 1\n    may_emit: [agent]", 9, "'agent' is no kind"),
        ("    tick_every: 1", "    tick_every: 1\n    may_emit: [run.finished]", 9, "agents of a cast cannot emit run.finished"),
        ("    tick_every: 1", "    tick_every: 1\n    may_emit: [judge.verdict]", 9, "only a judge gives a verdict"),
        ("    may_emit: [judge.verdict]", "    may_emit: [agent.spoke]", 15, "a judge must be able to give a verdict: add judge.verdict"),
        ("    role: judge", "    role: jugde", 14, "no role is called 'jugde'; known: worker, observer, judge"),
        ("  bob:", "  ada:", 9, "agents.ada: is there twice"),
        ("    blues: [bob]", "    blues: [ada]", 20, "ada is in reds already"),
        ("    blues: [bob]", "    blues: [jo]", 20, "jo is a judge and cannot be in a team"),
        ("    blues: [bob]", "    blues: [zed]", 20, "no agent of the cast is named 'zed'; known: ada, bob, jo"),
        ("    blues: [bob]", "    ada: [bob]", 20, "has the name of an agent of the cast"),
        ("    blues: [bob]\n", "", 18, "one team alone is no contest"),
        ("  kind: versus", "  kind: judged", 16, "teams belong to kind versus"),
        ("  kind: versus", "  kind: battle", 17, "battle"),
        ("seeds: [one]", "seeds: []", 3, "at least one is needed"),
        ("seeds: [one]", "seeds: [no]", 3, "put words into quotes"),
        ("name: good", "name: Not Good", 1, "lower-case words joined by hyphens"),
        ("{seed}", "{sede}", 4, "{sede} is not known here; known: {seed}, {goal}"),
        ("{seed}", "{", 4, "a single brace"),
        ("competition:", "cast: [ada, bob, jo, zed]\ncompetition:", 16, "no agent is called 'zed'; known: ada, bob, jo"),
        ("competition:", "cast: [ada, ada]\ncompetition:", 16, "ada is there twice"),
        ("competition:", "governor: {max_turns: 0}\ncompetition:", 16, "must be more than 0"),
        ("competition:", "governor: {max_turn: 3}\ncompetition:", 16, "did you mean max_turns?"),
        ("competition:", "scenes: [{turn: 2, text: a}, {turn: 2, text: b}]\ncompetition:", 16, "two scenes for turn 2"),
        ("    tick_every: 1", "    tick_every: 1\n    tools: [hammer]", 9, "no tool is called 'hammer'; known: dice"),
        ("    tick_every: 1", "    tick_every: 1\n    script: {replies: {zed: [x]}}", 9, "no other agent of the cast is named 'zed'"),
        (
            "    tick_every: 1",
            "    tick_every: 1\n    script: {lines: [{text: x, use: dice}]}",
            9,
            "uses 'dice', which is not among its tools",
        ),
        (
            "    tick_every: 1",
            "    tick_every: 1\n    script: {lines: [{text: x, kind: clue.found}]}",
            9,
            "is a clue.found, which is not among",
        ),
        ("    tick_every: 1", "    tick_every: 1\n    script: {dealt: {spy: {lines: [x]}}}", 9, "no role called 'spy' is dealt"),
        ("title: Good", "title: &x Good\nabout: *x", 2, "aliases"),
        ("title: Good", "title: !!python/name:os.system x", 2, "not YAML"),
        ("title: Good\n", "", 1, "title is missing"),
        ("title: Good", "title: Good\nextra: 1", 3, "extra: is not known here; known: name, title"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert words in found
    assert any(each.startswith(f"my.yaml:{line}:") for each in found.splitlines() if words in each), found


@pytest.mark.parametrize(
    "text", ["", "[]", "just words", "a: [", "\x00", "- " * 200, "{" * 500, "a: " + "[" * 100_000 + "]" * 100_000, "? [a, b]\n: c"]
)
def test_what_is_no_scenario_at_all_is_refused(text: str) -> None:
    assert "my.yaml" in problems(text)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems(GOOD.replace("role: judge", "role: jury").replace("tick_every: 1", "tick_every: -1").replace("[bob]", "[zed]"))
    assert len(found.splitlines()) >= 3


def test_a_file_of_ones_own_is_found_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert files.load_scenario(str(path)).name == "good"


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(Invalid, match=r"no scenario is called 'the-tim'; known: .*the-tin.*did you mean the-tin\?"):
        files.load_scenario("the-tim")
