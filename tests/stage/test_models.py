"""A cast with models over HTTP: requests, answers, and faulty models."""

from __future__ import annotations

import json
import subprocess
import sys

from fleetlore.stage.actors import open_stage_models
from tests.models.stub import Stub, answers, chat, refuses
from tests.stage.staging import JUDGED, lines, memory_log, run_scenario, scenario

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def says(**data: object) -> list[str]:
    return chat("<think>hm</think>```json\n", json.dumps(data), "\n```", usage=USAGE)


async def test_a_model_plays_the_whole_cast_by_its_address() -> None:
    acts = [
        answers(*says(kind="agent.spoke", text="I begin.", thought="Nervous.")),
        answers(*says(text="I answer.", mood="calm")),
        answers(*says(text="It was bob.", winner="bob", scores={"ada": 4, "bob": 8.25})),
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
    told = subprocess.run([sys.executable, "-c", LOADING, "openai:m?base_url=http://h"], capture_output=True, text=True, check=True).stdout
    is_loaded, longest_pause = told.split()
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
