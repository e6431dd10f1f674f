"""For any log: nothing raises, thoughts stay with their owner, no event appears twice, the budget holds, the identity is complete."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.errors import PromptTooLarge
from fleetlore.events.envelope import Event
from fleetlore.prompts import blocks, text_safety
from fleetlore.prompts.agent_context import ContextRequest, build_stage_context
from fleetlore.prompts.build import BuiltPrompt, build_prompt, count_characters, find_tokenizer
from fleetlore.prompts.roles import BLOCKS_BY_ROLE
from fleetlore.prompts.turn import MemoryPolicy, PromptTool, PromptTurn
from fleetlore.views import stage
from tests.prompts.hostile import ATTACKS, CAST, SECRET, histories, placed
from tests.strategies import events

PERSONA = "You are the keeper of the light.\n# not a heading\nYou never leave your post."


def turn_of(history: list[Event], agent: str, **given: Any) -> PromptTurn:
    """The turn as it would be recalled, without a log in between."""
    state = stage.initial()
    for event in history:
        state = stage.apply(state, event)
    run = state.runs.get("r")
    subscribes_to = ("clue.found", "agent.reflected", "model.replied", "agent.thought")
    wanted = ContextRequest(agent=agent, **({"subscribes_to": subscribes_to} | given))
    return (
        PromptTurn(agent=agent) if run is None else build_stage_context(run, wanted, [event for event in history if event.run == "r"], None)
    )


def headings(prompt: BuiltPrompt) -> list[str]:
    return [line for line in prompt.text.splitlines() if line.lstrip().startswith("#")]


@settings(max_examples=60)
@given(histories(), st.sampled_from(CAST), st.sampled_from([*BLOCKS_BY_ROLE, "page boy"]), st.sampled_from(["episodic", "salience"]))
def test_no_private_word_of_another_is_in_a_prompt(history: list[Event], agent: str, role: str, kind: str) -> None:
    remembering = MemoryPolicy(kind="episodic" if kind == "episodic" else "salience", most=50)
    prompt = build_prompt(turn_of(history, agent, remembering=remembering), role, budget=100_000)
    owners = set(re.findall(rf"{SECRET}(\d)", prompt.text))
    assert owners <= {str(CAST.index(agent))}


@settings(max_examples=60)
@given(histories(), st.sampled_from(CAST), st.sampled_from(list(BLOCKS_BY_ROLE)))
def test_no_event_stands_twice(history: list[Event], agent: str, role: str) -> None:
    prompt = build_prompt(turn_of(history, agent, remembering=MemoryPolicy(most=50)), role, budget=100_000)
    recorded = [event for part in prompt.parts for event in part.events]
    assert len(recorded) == len(set(recorded))
    assert set(recorded) == set(prompt.events)


@settings(max_examples=60)
@given(histories(), st.sampled_from(CAST), st.sampled_from(list(BLOCKS_BY_ROLE)), st.sampled_from(ATTACKS))
def test_nobody_forges_a_heading_or_leaves_a_block(history: list[Event], agent: str, role: str, extra: str) -> None:
    tools = (PromptTool(name=extra, description=extra),)
    prompt = build_prompt(turn_of(history, agent, extra=extra, tools=tools, memory_text=None), role, budget=100_000)
    assert headings(prompt) == [f"## {part.heading}" for part in prompt.parts if part.is_shown]


@settings(max_examples=60)
@given(histories(), st.sampled_from(CAST), st.sampled_from(list(BLOCKS_BY_ROLE)), st.integers(0, 2000), st.booleans())
def test_the_budget_holds_and_identity_is_whole(history: list[Event], agent: str, role: str, budget: int, by_estimate: bool) -> None:
    turn = turn_of(history, agent)
    turn = replace(turn, persona=PERSONA, output_format="Answer in one line.")
    count = find_tokenizer("estimate") if by_estimate else count_characters
    least = build_prompt(turn, (blocks.identity_block, blocks.output_format_block), budget=100_000, tokenizer=count).tokens
    if least > budget:
        with pytest.raises(PromptTooLarge):
            build_prompt(turn, role, budget=budget, tokenizer=count)
        return
    prompt = build_prompt(turn, role, budget=budget, tokenizer=count)
    assert prompt.tokens <= budget
    assert prompt.tokens == (-(-len(prompt.text.encode()) // 4) if by_estimate else len(prompt.text))
    assert text_safety.sanitize_text(PERSONA) in prompt.text
    assert prompt.text.endswith("Answer in one line.")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events(), max_size=3), st.sampled_from(list(BLOCKS_BY_ROLE)))
def test_any_stored_event_can_be_part_of_a_run(stored: list[Event], role: str) -> None:
    opening = Event(kind="world.observed", actor="world", text="A beach.", run="r")
    history = placed([opening, *(replace(event, run="r") for event in stored)])
    prompt = build_prompt(turn_of(history, "ada"), role, budget=100_000)
    assert headings(prompt) == [f"## {part.heading}" for part in prompt.parts if part.is_shown]


@settings(max_examples=30)
@given(histories(), st.integers(200, 3000))
def test_the_same_turn_gives_the_same_prompt(history: list[Event], budget: int) -> None:
    assert build_prompt(turn_of(history, "ada"), budget=budget) == build_prompt(turn_of(history, "ada"), budget=budget)


def test_a_prompt_that_cannot_fit_says_what_it_would_take() -> None:
    turn = PromptTurn(agent="ada", persona=PERSONA * 10, output_format="Answer in one line.")
    with pytest.raises(PromptTooLarge, match="raise the budget") as caught:
        build_prompt(turn, budget=100)
    assert build_prompt(turn, budget=caught.value.tokens).tokens == caught.value.tokens
