"""The shipped scenarios and examples run offline, with varied results."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from fleetlore.stage import files
from fleetlore.stage.scenario import ScriptLine, StageScenario
from tests.stage.staging import RecordingModels, run_in_memory

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "stage").glob("*.yaml"))
ALL = (*files.list_scenario_names(), *map(str, EXAMPLES))


def load(place: str, turns: int | None = None) -> StageScenario:
    found = files.load_scenario(place)
    return found if turns is None else replace(found, governor=replace(found.governor, max_turns=turns))


def test_there_are_three_to_begin_with_and_two_examples() -> None:
    assert [load(name).competition.kind for name in files.list_scenario_names()] == ["versus", "hidden", "judged"]
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("place", ALL)
async def test_twenty_turns_repeat_nothing_and_everybody_speaks(place: str) -> None:
    scenario = load(place, 20)
    events = await run_in_memory(scenario, seed=scenario.seeds[0])
    said = [event.text for event in events if event.agent and event.visibility == "public" and event.text]
    assert len(said) == len(set(said))
    assert {event.agent for event in events if event.agent and event.text} == {manifest.name for manifest in scenario.cast}
    assert len(said) >= 20


@pytest.mark.parametrize("place", ALL)
async def test_two_seeds_read_differently(place: str) -> None:
    scenario = load(place)
    runs = [await run_in_memory(scenario, seed=seed) for seed in scenario.seeds[:2]]
    first, second = [[event.text for event in events if event.agent and event.text and event.visibility == "public"] for events in runs]
    assert len(set(first) - set(second)) >= len(first) / 4
    assert sum(one == other for one, other in zip(first, second, strict=False)) <= len(first) / 2


@pytest.mark.parametrize("place", ALL)
async def test_a_visitor_is_answered(place: str) -> None:
    events = await run_in_memory(load(place), seed="x", injects=["A goat has got in."])
    assert any("A goat has got in" in (event.text or "") for event in events if event.agent)


@pytest.mark.parametrize("place", files.list_scenario_names())
async def test_a_contest_has_a_winner_or_a_culprit(place: str) -> None:
    end = (await run_in_memory(load(place)))[-1]
    assert end.data["reason"] == "verdict"
    assert "won" in (end.text or "") or "found out" in (end.text or "")


@pytest.mark.parametrize("place", ["the-tin", "monday"])
async def test_with_the_seeds_that_come_with_it_everybody_can_win(place: str) -> None:
    scenario = load(place)
    ends = [(await run_in_memory(scenario, seed=seed))[-1] for seed in scenario.seeds]
    assert {end.data["winner"] for end in ends} == set(scenario.competition.teams or scenario.candidates)


@pytest.mark.parametrize("seed", ["fog", "7", "rain?", "Enough."])
async def test_any_words_can_be_a_seed_of_the_debate(seed: str) -> None:
    events = await run_in_memory(load("monday"), seed=seed)
    assert f"The plate by the lift says “{seed}”; the last human" in (events[1].text or "")
    assert not any(mark in (event.text or "") for event in events for mark in ("?.", "..", "? was"))


def thoughts_of(scenario: StageScenario) -> dict[str, set[str]]:
    """Name → everything that it may think."""
    found: dict[str, set[str]] = {}
    for manifest in scenario.cast:
        scripts = [manifest.script, *manifest.script.dealt.values()]
        pools = [
            pool
            for script in scripts
            for pool in (script.opening, script.lines, script.disturbed, script.closing, *script.replies.values())
        ]
        found[manifest.name] = {line.thought for pool in pools for line in pool if isinstance(line, ScriptLine) and line.thought}
    return found


@pytest.mark.parametrize("place", files.list_scenario_names())
async def test_no_thought_and_no_secret_is_in_anybody_elses_prompt(place: str) -> None:
    scenario, stage_models = load(place, 16), RecordingModels()
    events = await run_in_memory(scenario, stage_models=stage_models)
    thoughts = thoughts_of(scenario)
    thought = {event.agent: event.data["thought"] for event in events if event.data.get("thought")}
    assert thought
    for name, _, prompt in stage_models.prompts:
        for other, secrets in thoughts.items():
            if other != name:
                assert not [secret for secret in secrets if secret in prompt]
    deal = scenario.competition.deal
    if deal is not None:
        recorded = [name for name, _, prompt in stage_models.prompts if deal.told in prompt]
        assert len(set(recorded)) == 1
