"""Small stages for tests: scenarios written in a few lines, minds that are watched, and runs told as lists of events."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect, Position
from fleetlore.log.connect import connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import Model, ModelReply, ModelRequest, TokenUsage
from fleetlore.stage.actors import StageModels
from fleetlore.stage.conductor import Conductor
from fleetlore.stage.files import parse_scenario
from fleetlore.stage.resume import resume_run
from fleetlore.stage.run_state import create_run_state
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
    """A scenario from the part that matters."""
    found = parse_scenario(HEAD + textwrap.dedent(body), "test.yaml")
    return replace(found, governor=replace(found.governor, max_turns=turns, **limits))


class Answering:
    """A mind that says what a function says, after passing the turn to others as often as it is told."""

    def __init__(self, answer: Callable[[ModelRequest], Any], *, waits: Callable[[], int] = lambda: 0, name: str = "test:mind") -> None:
        self.name, self._answer, self._waits = name, answer, waits
        self.asked: list[ModelRequest] = []

    async def reply(self, ask: ModelRequest) -> ModelReply:
        self.asked.append(ask)
        for _ in range(self._waits()):
            await asyncio.sleep(0)
        said = self._answer(ask)
        if isinstance(said, BaseException):
            raise said
        return ModelReply(text=str(said), data=said, usage=TokenUsage(input=90, output=10), usd=0.01, model="m")


class Loitering:
    """A mind that takes its time before it answers."""

    def __init__(self, mind: Model, waits: Callable[[], int]) -> None:
        self.name, self._mind, self._waits = mind.name, mind, waits

    async def reply(self, ask: ModelRequest) -> ModelReply:
        for _ in range(self._waits()):
            await asyncio.sleep(0)
        return await self._mind.reply(ask)


class Overheard(StageModels):
    """Prompters, with every prompt that was built written down, and made to wait where that is asked for."""

    def __init__(self, minds: dict[str, Model] | None = None, *, waits: Callable[[], int] = lambda: 0) -> None:
        super().__init__(minds or {})
        self.prompts: list[tuple[str, int, str]] = []
        self._waits = waits

    def select_model(self, cue: ScriptContext) -> Model:
        mind = Loitering(super().select_model(cue), self._waits)
        reply = mind.reply

        async def overhear(ask: ModelRequest) -> ModelReply:
            self.prompts.append((cue.manifest.name, cue.turn, ask.prompt))
            return await reply(ask)

        mind.reply = overhear  # type: ignore[method-assign]  # the one that is given away
        return mind


class Notary:
    """A log that remembers what was stored together."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log
        self.batches: list[list[Event]] = []

    def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        positions = self._log.append(events, expect=expect)
        self.batches.append(list(events))
        return positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def memory_log() -> BlockingRecorder:
    """A log whose clock stands still and whose ids count."""
    return connect("memory:", now=FrozenClock(), new_id=counting_ids()).blocking()


@contextmanager
def file_log() -> Iterator[BlockingRecorder]:
    """The same in a file of its own."""
    with (
        TemporaryDirectory() as folder,
        connect(f"sqlite:{folder}/log.db?sync=off", now=FrozenClock(), new_id=counting_ids()).blocking() as log,
    ):
        yield log


async def play(
    log: BlockingRecorder,
    what: StageScenario,
    *,
    minds: dict[str, Model] | None = None,
    troupe: StageModels | None = None,
    run: str = "r",
    seed: str = "one",
    injects: Sequence[str] = (),
    resume: bool = False,
) -> list[Event]:
    """Play a run to its end; answers all its events."""
    at = resume_run(log, run) if resume else create_run_state(what, run, seed)
    conductor = Conductor(log, at, troupe or StageModels(minds or {}), now=FrozenClock(), new_id=counting_ids(1000))
    await conductor.load_or_start_run()
    for text in injects:
        await conductor.inject_message(text)
    await conductor.run_to_end()
    return list(log.read(f"run:{run}"))


async def played(what: StageScenario, **options: Any) -> list[Event]:
    """The same in a log of its own."""
    with memory_log() as log:
        return await play(log, what, **options)


def lines(events: Iterable[Event], *kinds: str) -> list[str]:
    """`turn who: what` of everything that was said."""
    wanted = kinds or ("agent.spoke",)
    return [f"{event.data['turn']} {event.agent}: {event.text}" for event in events if event.kind in wanted]


def bare(event: Event) -> tuple[Any, ...]:
    """An event without what may differ after a crash: times, and which attempt it was."""
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


def without_lost(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """A run without what a crash adds to it: that answers were lost, and that they were asked for again."""
    again = {event.id for event in events if event.kind == "model.called" and event.data.get("again")}
    return [
        bare(event)
        for event in events
        if not (event.kind == "model.failed" and event.data["error"] == "lost")
        and not (event.kind in ("model.called", "context.built") and event.data.get("call_id") in again)
    ]
