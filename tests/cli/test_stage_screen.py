"""A run on a terminal: who speaks, what is thought, who visits, and how it is ruled, at any width."""

from __future__ import annotations

import pytest

from fleetlore import Event
from fleetlore.cli.stage.screen import StageScreen
from fleetlore.cli.terminal import display_width
from fleetlore.stage import files

RULED = {"winner": "bob", "scores": {"ada": 3, "bob": 4.5, "cleo": "none"}}


def shown(event: Event, *, width: int = 80, read_minds: bool = False) -> list[str]:
    screen = StageScreen(files.load_scenario("the-tin"), width=width, colour=False, read_minds=read_minds)
    return list(screen.format_lines(event))


def make_line(**more: object) -> Event:
    return Event(kind="agent.spoke", agent="ada", text="It was lit.", data=dict(more))


def test_who_speaks_stands_before_the_words_and_on_a_narrow_terminal_above_them() -> None:
    [line] = shown(make_line())
    assert line.split() == ["ada", "It", "was", "lit."]
    assert shown(make_line(), width=30) == ["ada", "  It was lit."]


def test_what_one_thinks_is_shown_to_who_reads_minds_alone() -> None:
    [line] = shown(make_line(thought="Or was it?"))
    first, second = shown(make_line(thought="Or was it?"), read_minds=True)
    assert (first, second.strip()) == (line, "(Or was it?)")
    [alone] = shown(Event(kind="agent.thought", agent="ada", text="I wonder"), read_minds=True)
    assert alone.split(maxsplit=1) == ["ada", "(I wonder)"]


def test_a_visitor_is_called_so() -> None:
    [line] = shown(Event(kind="user.injected", actor="grace", text="Is anybody there?"))
    assert line.split(maxsplit=1) == ["visitor", "Is anybody there?"]


def test_a_verdict_is_set_apart_with_its_ruling_and_marks_the_best_first() -> None:
    lines = shown(Event(kind="judge.verdict", agent="edda", text="Well done.", data=RULED))
    assert lines[1].startswith("  ── edda ─")
    assert "  winner: bob" in lines
    assert [line.split()[:2] for line in lines[-3:-1]] == [["bob", "4.5"], ["ada", "3.0"]]
    assert set(lines[-1].strip()) == {"─"}


@pytest.mark.parametrize("scores", [None, [], "high", {}])
def test_a_verdict_without_a_winner_or_marks_is_its_words(scores: object) -> None:
    lines = shown(Event(kind="judge.verdict", agent="edda", text="Nobody convinced me.", data={"scores": scores}))
    assert [line.strip() for line in lines[2:-1]] == ["Nobody convinced me."]


def test_a_thought_without_words_is_shown_too() -> None:
    event = Event(kind="agent.spoke", agent="ada", data={"thought": "I wait"})
    [line] = shown(event, read_minds=True)
    assert line.split(maxsplit=1) == ["ada", "(I wait)"]
    assert shown(event) == []


def test_wide_characters_keep_to_the_width() -> None:
    lines = shown(Event(kind="agent.spoke", agent="ada", text="x" + "灯台の明かり" * 20), width=60)
    assert max(map(display_width, lines)) <= 60
    assert "".join(line.replace("ada", "").strip() for line in lines) == "x" + "灯台の明かり" * 20


@pytest.mark.parametrize("score", [85, 999.9, 10**400, float("inf"), float("nan")])
def test_scores_keep_to_the_width(score: float) -> None:
    lines = shown(Event(kind="judge.verdict", agent="edda", text="So.", data={"scores": {"ada": score, "b" * 90: 3}}), width=60)
    assert max(map(display_width, lines)) <= 60


def test_the_end_names_what_is_known_and_nothing_that_moves_the_cursor() -> None:
    lines = shown(Event(kind="run.finished", text="Over.", data={"turns": 3, "tokens": "\x1b[2J", "usd": "much"}))
    assert lines[-2] == "  3 turns, $0.00"
