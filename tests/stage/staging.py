"""Helpers for stage tests: short scenarios, models that record what they are asked, and complete runs as lists of events."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.base import Expect, Position
from fleetlore.log.connect import connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import Model, ModelReply, ModelRequest, TokenUsage
from fleetlore.stage.actors import StageModels
from fleetlore.stage.conductor import Conductor
from fleetlore.stage.files import parse_scenario
from fleetlore.stage.resume import resume_run
from fleetlore.stage.run_state import RunState, create_run_state
from fleetlore.stage.scenario import StageScenario
from fleetlore.stage.scripted_agents import ScriptContext
from fleetlore.testing import FrozenClock, counting_ids

HEAD = """\
name: test
title: A Test
seeds: [one, two]
opening: It begins.
"""

TRIO = """\
agents:
  ada: {persona: You are Ada., tick_every: 1, script: {lines: [a1, a2, a3, a4, a5, a6]}}
  bob: {persona: You are Bob., tick_every: 1, script: {lines: [b1, b2, b3, b4, b5, b6]}}
  eve: {persona: You are Eve., subscribes_to: [agent.spoke], script: {lines: [e1, e2, e3, e4, e5, e6]}}
"""

JUDGED = """\
agents:
  ada: {persona: You are Ada., tick_every: 1, script: {lines: [a1, a2, a3, a4]}}
  bob: {persona: You are Bob., subscribes_to: [agent.spoke], script: {lines: [b1, b2, b3, b4]}}
  jo: {persona: You judge., role: judge, may_emit: [judge.verdict]}
competition: {kind: judged}
"""


def scenario(body: str = TRIO, *, turns: int = 3, **limits: Any) -> StageScenario:
    """A scenario with the common head and this body."""
    parsed = parse_scenario(HEAD + textwrap.dedent(body), "test.yaml")
    return replace(parsed, governor=replace(parsed.governor, max_turns=turns, **limits))


class CallbackModel:
    """A model whose answer (or error) comes from a function, after yielding to other tasks `waits()` times."""

    def __init__(self, answer: Callable[[ModelRequest], Any], *, waits: Callable[[], int] = lambda: 0, name: str = "test:mind") -> None:
        self.name, self._answer, self._waits = name, answer, waits
        self.asked: list[ModelRequest] = []

    async def reply(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        for _ in range(self._waits()):
            await asyncio.sleep(0)
        answer = self._answer(request)
        if isinstance(answer, BaseException):
            raise answer
        return ModelReply(text=str(answer), data=answer, usage=TokenUsage(input=90, output=10), usd=0.01, model="m")


class DelayedModel:
    """A model that yields to other tasks before it answers."""

    def __init__(self, model: Model, waits: Callable[[], int]) -> None:
        self.name, self._model, self._waits = model.name, model, waits

    async def reply(self, request: ModelRequest) -> ModelReply:
        for _ in range(self._waits()):
            await asyncio.sleep(0)
        return await self._model.reply(request)


class RecordingModels(StageModels):
    """Scripted models that record every prompt, with optional delays."""

    def __init__(self, models: dict[str, Model] | None = None, *, waits: Callable[[], int] = lambda: 0) -> None:
        super().__init__(models or {})
        self.prompts: list[tuple[str, int, str]] = []
        self._waits = waits

    def select_model(self, context: ScriptContext) -> Model:
        model = DelayedModel(super().select_model(context), self._waits)
        reply = model.reply

        async def overhear(request: ModelRequest) -> ModelReply:
            self.prompts.append((context.manifest.name, context.turn, request.prompt))
            return await reply(request)

        model.reply = overhear  # type: ignore[method-assign]  # the one that is given away
        return model


class RecordingLog:
    """A log that records its appends."""

    def __init__(self, log: Recorder, batches: list[list[Event]]) -> None:
        self._log, self._batches = log, batches

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        positions = await self._log.append(events, expect=expect)
        self._batches.append(list(events))
        return positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def memory_log() -> BlockingRecorder:
    """A log in memory with a frozen clock and counting ids."""
    return connect("memory:", now=FrozenClock(), new_id=counting_ids()).blocking()


@contextmanager
def file_log() -> Iterator[BlockingRecorder]:
    """The same in a temporary file."""
    with (
        TemporaryDirectory() as folder,
        connect(f"sqlite:{folder}/log.db?sync=off", now=FrozenClock(), new_id=counting_ids()).blocking() as log,
    ):
        yield log


@asynccontextmanager
async def open_conductor(
    log: BlockingRecorder, state: RunState, models: StageModels, *, wrap_log: Callable[[Recorder], Any] = lambda log: log, **options: Any
) -> AsyncIterator[Conductor]:
    """A conductor on a log that the test reads and writes, too."""
    recorder = Recorder.from_blocking(log)
    try:
        yield Conductor(wrap_log(recorder), state, models, **options)
    finally:
        await recorder.close()


async def run_to_end(log: BlockingRecorder, state: RunState, models: StageModels, **options: Any) -> Event:
    """Run to the end; returns the last event."""
    async with open_conductor(log, state, models, **options) as conductor:
        return await conductor.run_to_end()


async def run_scenario(
    log: BlockingRecorder,
    stage_scenario: StageScenario,
    *,
    models: dict[str, Model] | None = None,
    stage_models: StageModels | None = None,
    run: str = "r",
    seed: str = "one",
    injects: Sequence[str] = (),
    sleep: Callable[[float], Awaitable[None]] | None = None,
    resume: bool = False,
    wrap_log: Callable[[Recorder], Any] = lambda log: log,
) -> list[Event]:
    """Run a scenario to its end; returns all its events."""
    state = resume_run(log, run) if resume else create_run_state(stage_scenario, run, seed)
    options: dict[str, Any] = {"now": FrozenClock(), "new_id": counting_ids(1000), "wrap_log": wrap_log}
    if sleep is not None:
        options["sleep"] = sleep
    async with open_conductor(log, state, stage_models or StageModels(models or {}), **options) as conductor:
        await conductor.load_or_start_run()
        for text in injects:
            await conductor.inject_message(text)
        await conductor.run_to_end()
    return list(log.read(f"run:{run}"))


async def run_in_memory(stage_scenario: StageScenario, **options: Any) -> list[Event]:
    """The same in a new log in memory."""
    with memory_log() as log:
        return await run_scenario(log, stage_scenario, **options)


def lines(events: Iterable[Event], *kinds: str) -> list[str]:
    """Everything said, as `turn speaker: text`."""
    wanted = kinds or ("agent.spoke",)
    return [f"{event.data['turn']} {event.agent}: {event.text}" for event in events if event.kind in wanted]


def bare(event: Event) -> tuple[Any, ...]:
    """An event without what may differ after a crash: times and attempts."""
    data = {
        name: value for name, value in event.data.items() if name not in ("attempt", "call_id", "elapsed_ms", "again", "calls", "as_of")
    }
    is_model = event.kind.startswith(("model.", "context."))
    return (
        None if is_model else event.id,
        event.kind,
        event.actor,
        event.agent,
        event.run,
        None if is_model and event.kind != "model.called" else event.cause,
        event.text,
        event.visibility,
        data,
    )


def strip_lost_calls(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """A run without what a crash adds: lost answers and repeated calls."""
    repeated = {event.id for event in events if event.kind == "model.called" and event.data.get("again")}
    return [
        bare(event)
        for event in events
        if not (event.kind == "model.failed" and event.data["error"] == "lost")
        and not (event.kind in ("model.called", "context.built") and event.data.get("call_id") in repeated)
    ]
