"""The scripted model: the same request gets the same answer; and everything else a script can say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.errors import InvalidModelAddress, ModelBusy, ModelError, ModelTimeout, UnusableAnswer
from fleetlore.models.base import ModelRequest, TokenUsage
from fleetlore.models.fake_from_schema import JUDGE_LINES, SPOKEN_LINES
from fleetlore.models.json_schema import first_error
from fleetlore.testing import AnyOf, ScriptedModel, Slow, Stall
from tests.models.test_schema import LINE

HELLO = ModelRequest(prompt="Say hello.")


class Naps:
    """Sleeps that are only recorded."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_a_list_is_answered_in_order_and_says_when_it_is_over() -> None:
    mind = ScriptedModel(["One.", {"text": "Two."}])
    assert [(await mind.reply(HELLO)).text for _ in range(2)] == ["One.", '{"text": "Two."}']
    with pytest.raises(ModelError, match="no more than 2 answers; add some"):
        await mind.reply(HELLO)
    assert mind.asked == [HELLO] * 3


async def test_a_role_has_its_own_answers_and_nobody_else_gets_them() -> None:
    mind = ScriptedModel({"ada": ["I am Ada.", "Still Ada."], "judge": "Ada wins."})
    said = [
        (await mind.reply(ModelRequest(prompt="ada, judge: speak", role=role))).text for role in ("ada", "judge", "ada", "judge", "bob")
    ]
    assert said[:4] == ["I am Ada.", "Ada wins.", "Still Ada.", "Ada wins."]
    assert said[4] in SPOKEN_LINES


async def test_a_pattern_is_looked_for_in_the_prompt() -> None:
    mind = ScriptedModel({re.compile("lamp|lantern"): "It was lit."})
    assert (await mind.reply(ModelRequest(prompt="And the lantern?", role="ada"))).text == "It was lit."


async def test_a_function_is_given_the_question() -> None:
    mind = ScriptedModel(lambda ask: f"{ask.role} was asked.")
    assert (await mind.reply(ModelRequest(prompt="?", role="eve"))).text == "eve was asked."


async def test_one_of_several_is_chosen_by_the_question_alone() -> None:
    choice = AnyOf([f"Answer {number}" for number in range(50)])
    first, second = ScriptedModel({"ada": choice}), ScriptedModel({"ada": choice})
    asks = [ModelRequest(prompt=f"Question {number}", role="ada") for number in range(30)]
    said = [(await first.reply(ask)).text for ask in asks]
    assert said == [(await second.reply(ask)).text for ask in reversed(asks)][::-1]
    assert len(set(said)) > 15


async def test_without_a_script_there_are_lines_that_fit_who_speaks() -> None:
    mind = ScriptedModel()
    assert (await mind.reply(ModelRequest(prompt="Rule!", role="judge"))).text in JUDGE_LINES
    assert (await mind.reply(ModelRequest(prompt="Speak!", role="ada"))).text in SPOKEN_LINES


async def test_these_words_are_the_same_on_every_machine() -> None:
    assert (await ScriptedModel().reply(HELLO)).text == SPOKEN_LINES[18]


@given(st.text(), st.sampled_from([None, "ada", "judge"]), st.none() | st.integers())
async def test_without_a_script_any_question_gets_the_object_that_it_wants(prompt: str, role: str | None, seed: int | None) -> None:
    schema = {**LINE, "properties": {key: value for key, value in LINE["properties"].items() if key != "mood"}}
    reply = await ScriptedModel().reply(ModelRequest(prompt=prompt, role=role, seed=seed, schema=schema))
    assert reply.data is not None
    assert first_error(reply.data, schema) is None


async def test_usage_is_the_estimate_and_it_costs_nothing() -> None:
    reply = await ScriptedModel(["A" * 40]).reply(ModelRequest(prompt="B" * 8, system="C" * 4))
    assert (reply.usage, reply.usd, reply.latency_ms) == (TokenUsage(input=3, output=10, estimated=True), 0.0, 0)


@pytest.mark.parametrize("answer", ["I will not.", {"kind": "agent.spoke"}, '{"kind": "agent.spoke", "text": 5}'])
async def test_a_script_can_talk_nonsense(answer: Any) -> None:
    with pytest.raises(UnusableAnswer) as caught:
        await ScriptedModel([answer]).reply(ModelRequest(prompt="?", schema=LINE))
    assert caught.value.reply is not None


async def test_a_script_can_fail_and_go_on() -> None:
    mind = ScriptedModel([ModelBusy("too many questions", status=429), "Now."])
    with pytest.raises(ModelBusy, match="too many"):
        await mind.reply(HELLO)
    assert (await mind.reply(HELLO)).text == "Now."


async def test_a_script_can_be_slow() -> None:
    naps = Naps()
    reply = await ScriptedModel([Slow(2.5, Slow(1.5, "At last."))], sleep=naps).reply(HELLO)
    assert (reply.text, reply.latency_ms, naps.seconds) == ("At last.", 4000, [2.5, 1.5])


@pytest.mark.parametrize(("answer", "naps"), [(Stall(), [9.0]), (Slow(60, "Late."), [9.0]), (Slow(5, Slow(5, "Late.")), [5, 4.0])])
async def test_a_script_can_take_too_long(answer: Any, naps: list[float]) -> None:
    sleep = Naps()
    with pytest.raises(ModelTimeout, match="no answer within 9 s"):
        await ScriptedModel([answer], sleep=sleep).reply(ModelRequest(prompt="?", timeout=9))
    assert sleep.seconds == naps


async def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(InvalidModelAddress, match="cannot answer with 5"):
        await ScriptedModel(lambda ask: 5).reply(HELLO)  # type: ignore[arg-type]  # the mistake that is tested
