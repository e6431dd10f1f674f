"""The stage view: public lines, private thoughts, run state; no stored event makes it raise."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given as with_any
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event
from fleetlore.testing import given
from fleetlore.views import stage
from fleetlore.views.stage import StageRunState, StageState, count_unreflected, is_reflection_due, private_thought, public_line
from tests.prompts.hostile import SECRET, histories
from tests.strategies import events

CAST = {"ada": {"role": "worker", "persona": "You are the spy."}, "brin": {"role": "judge"}}


def begun(**data: Any) -> Event:
    return Event(kind="run.started", actor="conductor", run="r", data={"goal": "get home", "seed": "spy", "cast": CAST} | data)


def said(who: str, text: str | None = "hello", turn: int = 1, **fields: Any) -> Event:
    return Event(kind="agent.spoke", actor=who, agent=who, run="r", text=text, data={"turn": turn} | fields.pop("data", {}), **fields)


def run_of(*recorded: Event) -> StageRunState:
    return given(stage, *recorded).state.runs["r"]


def test_a_run_has_its_goal_its_cast_its_scene_and_its_lines() -> None:
    scene = Event(kind="world.observed", actor="world", run="r", text="A beach.")
    run = run_of(begun(), scene, said("ada", "Where is the boat?", 1), said("brin", "Gone.", 2))
    assert (run.goal, run.seed, run.turn, run.said) == ("get home", "spy", 2, 2)
    assert run.scene is not None
    assert run.scene.text == "A beach."
    assert [(line.speaker, line.text, line.turn) for line in run.lines] == [("ada", "Where is the boat?", 1), ("brin", "Gone.", 2)]
    assert (run.cast["ada"].role, run.cast["brin"].role, run.cast["ada"].spoke_in) == ("worker", "judge", 1)


def test_anybody_who_speaks_is_one_of_the_cast() -> None:
    assert "cem" in run_of(begun(), said("cem")).cast


def test_personas_and_thoughts_are_in_nobodys_lists_but_their_owners_mind() -> None:
    run = run_of(
        begun(),
        said("ada", "I am no spy.", data={"thought": "I am the spy."}),
        Event(kind="agent.thought", actor="ada", run="r", text="They believe me."),
        Event(kind="clue.found", actor="ada", run="r", text="A torn map.", visibility="private"),
    )
    assert run.minds["ada"].persona == "You are the spy."
    assert [thought.text for thought in run.minds["ada"].thoughts] == ["I am the spy.", "They believe me.", "A torn map."]
    assert [line.text for line in (*run.lines, *run.reports)] == ["I am no spy."]


def test_a_models_raw_answer_is_no_line_even_if_it_is_public() -> None:
    answer = Event(
        kind="model.replied", actor="ada", run="r", text='{"thought": "I am the spy."}', data={"input": 10, "output": 5, "usd": 0.5}
    )
    run = run_of(begun(), Event(kind="model.called", actor="ada", run="r"), answer)
    assert public_line(answer) is None
    assert run.reports == []
    assert (run.spent.calls, run.spent.tokens, run.spent.usd) == (1, 15, 0.5)


def test_the_newest_eighty_lines_are_kept_and_all_are_counted() -> None:
    run = run_of(begun(), *(said("ada", f"line {n}", n) for n in range(100)))
    assert (run.said, len(run.lines), run.lines[0].text) == (100, 80, "line 20")


def test_words_without_text_are_no_line_and_do_no_harm() -> None:
    run = run_of(
        Event(kind="run.started", actor="c", run="r"), said("ada", None), said("ada", "  "), Event(kind="judge.verdict", actor="b", run="r")
    )
    assert (run.said, run.lines, run.verdicts) == (0, [], [])


def test_visitors_verdicts_and_the_end_are_kept() -> None:
    verdict = Event(
        kind="judge.verdict", actor="brin", run="r", text="Ada wins.", data={"winner": "ada", "scores": {"ada": 7, "x": "many"}}
    )
    visit = [Event(kind="user.injected", actor="visitor", run="r", text=f"boo {n}") for n in range(7)]
    ends = [Event(kind="run.finished", actor="c", run="r", data={"reason": reason}) for reason in ("verdict", "budget")]
    run = run_of(begun(), *visit, verdict, *ends)
    assert [line.text for line in run.disturbances] == [f"boo {n}" for n in range(2, 7)]
    assert run.disturbed == 7
    assert (run.verdicts[0].winner, run.verdicts[0].scores) == ("ada", {"ada": 7.0})
    assert run.finish is not None
    assert run.finish.reason == "verdict", "a run ends once"


def test_the_newest_run_is_the_one_that_began_last_and_old_ones_are_let_go() -> None:
    state = given(stage, *(Event(kind="run.started", actor="c", run=f"r{n}") for n in range(20))).state
    assert state.newest == "r19"
    assert list(state.runs) == [f"r{n}" for n in range(4, 20)]
    assert state.let_go == 4


def test_a_coding_session_is_no_run_of_a_stage() -> None:
    thought = Event(kind="agent.thought", actor="claude", agent="claude", run="s1", text="hm", visibility="private")
    assert given(stage, thought, Event(kind="tool.called", actor="claude", agent="claude", run="s1")).state.runs == {}


# --- reflection


def reflected(who: str) -> Event:
    return Event(kind="agent.reflected", actor=who, agent=who, run="r", text="I believe nobody.")


def test_a_reflection_is_due_though_the_count_jumped_over_its_multiple() -> None:
    recorded = given(stage, begun(), *(said("brin") for _ in range(3)))
    assert not is_reflection_due(recorded.state.runs["r"], "ada", 5)
    recorded.when(said("brin"), said("brin"))
    assert count_unreflected(recorded.state.runs["r"], "ada") == 6
    assert is_reflection_due(recorded.state.runs["r"], "ada", 5)
    recorded.when(reflected("ada"))
    assert not is_reflection_due(recorded.state.runs["r"], "ada", 5)
    assert is_reflection_due(recorded.state.runs["r"], "brin", 5), "each counts for itself"


def test_what_one_subscribes_to_counts_and_what_others_do_in_private_does_not() -> None:
    clue = Event(kind="clue.found", actor="brin", agent="brin", run="r", text="a lid")
    run = run_of(
        begun(), clue, replace(clue, visibility="private"), Event(kind="agent.thought", actor="ada", agent="ada", run="r", text="hm")
    )
    assert count_unreflected(run, "ada") == 2, "how it began, and its own thought"
    assert count_unreflected(run, "ada", ["clue.found"]) == 3
    assert count_unreflected(run, "ada", ["clue.*"]) == 3


def test_reflection_is_a_fold_so_that_it_survives_a_restart() -> None:
    before = given(stage, begun(), said("brin"), reflected("ada"), said("brin")).state
    after = msgspec.json.decode(msgspec.json.encode(before), type=StageState)
    assert count_unreflected(after.runs["r"], "ada") == count_unreflected(before.runs["r"], "ada") == 1


# --- whatever is stored


def test_a_run_that_thinks_without_end_is_kept_small_and_who_thinks_most_forgets_first() -> None:
    state = stage.initial()
    quiet = Event(kind="agent.thought", actor="ada", run="r", text="I am still here.", visibility="private")
    for event in (begun(), quiet):
        state = stage.apply(state, event)
    for number in range(3000):
        loud = Event(kind="agent.thought", actor=f"loud {number % 150}", run="r", text="x" * 5000, visibility="private")
        state = stage.apply(state, loud)
    run = state.runs["r"]
    assert run.thinking == sum(len(thought.text) for mind in run.minds.values() for thought in mind.thoughts) <= stage.MAX_THOUGHT_CHARS
    assert run.minds["ada"].thoughts[-1].text == "I am still here."
    assert len(msgspec.json.encode(state)) < 2 * stage.MAX_THOUGHT_CHARS


def test_names_and_kinds_that_are_none_take_no_room() -> None:
    endless = "x" * 100_000
    cast = {"ada": {"subscribes_to": [endless, "clue.found"]}, endless: {"persona": "me"}}
    verdict = Event(kind="judge.verdict", actor="jo", run="r", text="So be it.", data={"scores": {endless: 3, "ada": 4}})
    run = given(stage, Event(kind="run.started", actor="c", run="r", data={"cast": cast}), verdict).state.runs["r"]
    assert run.cast["ada"].subscribes_to == ["clue.found"]
    assert run.verdicts[0].scores == {"ada": 4.0}
    assert len(msgspec.json.encode(run)) < 4000


@settings(max_examples=60)
@with_any(histories())
def test_hostile_events_never_make_it_raise_and_private_words_stay_under_minds(history: list[Event]) -> None:
    state = stage.initial()
    for event in history:
        state = stage.apply(state, event)
    assert msgspec.json.decode(msgspec.json.encode(state), type=StageState) == state
    for run in state.runs.values():
        assert SECRET not in str(replace(run, minds={}))


@settings(max_examples=60)
@with_any(st.lists(events(), max_size=4))
def test_any_event_can_be_folded_and_is_a_line_a_thought_or_neither(stored: list[Event]) -> None:
    state = given(stage, begun()).state
    for event in stored:
        state = stage.apply(state, replace(event, run="r"))
        line, thought = public_line(event), private_thought(event)
        assert line is None or (event.visibility == "public" and event.kind != "agent.thought")
        assert thought is None or thought.owner == event.actor
    assert msgspec.json.decode(msgspec.json.encode(state), type=StageState) == state
