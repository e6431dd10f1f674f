"""A cast with models over HTTP: requests, answers, and faulty models."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fleetlore.errors import ModelBusy, UnusableAnswer
from fleetlore.models.json_schema import make_strict
from fleetlore.stage.actors import open_stage_models
from fleetlore.stage.agent_turn import build_answer_schema
from fleetlore.stage.conductor import StageInterrupted
from tests.models.function_stub import FunctionStub, Mode
from tests.models.stub import Stub, answers, chat, refuses
from tests.stage.staging import JUDGED, CallbackModel, lines, memory_log, run_in_memory, run_scenario, scenario

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def make_reply(**data: object) -> list[str]:
    return chat("<think>hm</think>```json\n", json.dumps(data), "\n```", usage=USAGE)


async def test_a_model_plays_the_whole_cast_by_its_address() -> None:
    acts = [
        answers(*make_reply(kind="agent.spoke", text="I begin.", thought="Nervous.")),
        answers(*make_reply(kind="agent.spoke", text="I answer.", mood="calm")),
        answers(*make_reply(text="It was bob.", winner="bob", scores={"ada": 4, "bob": 8.25})),
    ]
    what = scenario(JUDGED, turns=2)
    async with Stub(*acts) as stub:
        address = f"openai:small?base_url={stub.url}/v1"
        async with open_stage_models(what, address) as stage_models:
            with memory_log() as log:
                events = await run_scenario(log, what, stage_models=stage_models)
    assert lines(events) == ["1 ada: I begin.", "1 bob: I answer."]
    assert events[-1].data["winner"] == "bob"
    assert events[-1].data["tokens"] == 360
    prompts = [request.body["messages"][-1]["content"] for request in stub.asked]
    assert "You are Bob." in prompts[1]
    assert "I begin." in prompts[1]
    assert "Nervous." not in "".join(prompts)
    assert len([event for event in events if event.kind == "context.built"]) == 3


LOADING = """
import asyncio, sys
from itertools import pairwise
from time import monotonic
from fleetlore.stage import files
from fleetlore.stage.actors import open_stage_models

ticks = []

async def tick():
    while True:
        ticks.append(monotonic())
        await asyncio.sleep(0.01)

async def main():
    clock = asyncio.create_task(tick())
    await asyncio.sleep(0)
    async with open_stage_models(files.load_scenario("monday"), sys.argv[1]):
        ticks.append(monotonic())
    clock.cancel()
    print("openai" in sys.modules, max(after - before for before, after in pairwise(ticks)) / (ticks[-1] - ticks[0]))

asyncio.run(main())
"""


def test_while_a_client_library_is_loaded_the_loop_goes_on() -> None:
    recorded = subprocess.run(
        [sys.executable, "-c", LOADING, "openai:m?base_url=http://h"], capture_output=True, text=True, check=True
    ).stdout
    is_loaded, longest_pause = recorded.split()
    assert is_loaded == "True"
    assert float(longest_pause) < 0.4, "of the time that loading takes"


async def test_an_endpoint_that_refuses_is_recorded_and_ends_nothing_but_its_turns() -> None:
    what = scenario(JUDGED, turns=2)
    refusal = refuses(401, {"error": {"message": "no such key"}})
    async with Stub(refusal) as stub, open_stage_models(what, f"openai:small?base_url={stub.url}/v1") as stage_models:
        with memory_log() as log:
            events = await run_scenario(log, what, stage_models=stage_models)
    assert {event.data["status"] for event in events if event.kind == "model.failed"} == {401}
    assert events[-1].data["reason"] == "tick_cap"
    assert "winner" not in events[-1].data


# --- weak models, outages


ROUND = """\
agents:
  ada: {persona: You are Ada., subscribes_to: [world.observed, agent.spoke], may_emit: [agent.spoke, clue.found]}
  bob: {persona: You are Bob., subscribes_to: [agent.spoke]}
  jo: {persona: You judge., role: judge, may_emit: [judge.verdict]}
competition: {kind: judged}
"""


class Naps:
    """Replaces sleep, and counts the seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def __call__(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize("mode", ["strict", "prose", "fails_third"])
async def test_a_play_ends_with_a_verdict_whatever_the_model_does(mode: Mode) -> None:
    what, naps = scenario(ROUND, turns=5), Naps()
    async with FunctionStub(mode) as stub, open_stage_models(what, f"openai:small?base_url={stub.url}/v1&attempts=1") as stage_models:
        with memory_log() as log:
            events = await run_scenario(log, what, stage_models=stage_models, sleep=naps)
    assert not stub.refusals
    assert events[-1].data["reason"] == "verdict"
    [verdict] = [event for event in events if event.kind == "judge.verdict"]
    assert verdict.data.get("winner") in (("ada", "bob") if mode != "prose" else (None,))
    assert len(lines(events, "agent.spoke", "clue.found")) >= 3
    assert (naps.seconds > 0) == (mode == "fails_third")
    assert ("run.waiting" in {event.kind for event in events}) == (mode == "fails_third")


def test_schemas_hold_only_what_is_allowed() -> None:
    what = scenario(ROUND)
    ada, jo = what.find_agent("ada"), what.find_agent("jo")
    speak, judge = build_answer_schema(what, ada, "speak"), build_answer_schema(what, jo, "judge")
    assert speak["properties"]["kind"]["enum"] == ["agent.spoke", "clue.found", "pass"]
    assert speak["required"] == ["kind", "text"]
    assert judge["properties"]["winner"]["enum"] == ["ada", "bob"]
    assert list(judge["properties"]["scores"]["properties"]) == ["ada", "bob"]
    assert all(make_strict(schema) is not None for schema in (speak, judge))


async def test_a_bad_answer_is_asked_for_again_once_then_the_turn_is_missed_and_the_play_goes_on() -> None:
    """Nobody was woken in turn 1, and still it is not the end."""
    answers_of_ada = iter([{"kind": "no.such"}, {"kind": "no.such"}, {"text": "Now I can."}, *[{"text": "More."}] * 9])
    ada = CallbackModel(lambda ask: next(answers_of_ada))
    events = await run_in_memory(scenario(ROUND, turns=4), models={"ada": ada})
    assert "may not emit no.such" in ada.asked[1].prompt
    missed = [event for event in events if event.kind == "turn.missed"]
    assert [(event.agent, event.data["turn"]) for event in missed] == [("ada", 1)]
    assert lines(events)[0] == "2 ada: Now I can."


async def test_an_outage_is_waited_for_and_after_ten_minutes_the_run_can_be_resumed() -> None:
    down, naps = [True], Naps()
    model = CallbackModel(lambda ask: ModelBusy("no connection") if down[0] else {"text": f"line {len(model.asked)}"})
    what = scenario("agents:\n  ada: {persona: A., tick_every: 1}\n", turns=2)
    with memory_log() as log:
        with pytest.raises(StageInterrupted, match="lore stage run --resume r"):
            await run_scenario(log, what, models={"ada": model}, sleep=naps)
        assert 500 < naps.seconds <= 600
        down[0] = False
        events = await run_scenario(log, what, models={"ada": model}, sleep=naps, resume=True)
    assert [line.partition(":")[0] for line in lines(events)] == ["1 ada", "2 ada"]
    assert not [event for event in events if event.kind == "turn.missed"]


async def test_a_judge_whose_answers_are_broken_is_asked_in_one_more_turn() -> None:
    answers_of_jo = iter([UnusableAnswer("no object")] * 2 + [{"text": "It was ada.", "winner": "ada"}])
    events = await run_in_memory(scenario(JUDGED, turns=3), models={"jo": CallbackModel(lambda ask: next(answers_of_jo))})
    assert events[-1].data["winner"] == "ada"
