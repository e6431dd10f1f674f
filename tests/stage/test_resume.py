"""After a crash at any point the log is enough to resume: same run, same budgets, no turn twice."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.errors import Invalid, LogError
from fleetlore.events.envelope import Event
from fleetlore.log.async_recorder import Recorder
from fleetlore.models.base import ModelRequest
from fleetlore.stage import files
from fleetlore.stage.actors import StageModels
from fleetlore.stage.resume import find_unfinished_runs, resume_run
from fleetlore.stage.run_state import MAX_ATTEMPTS, create_run_state
from fleetlore.testing import FrozenClock
from tests.stage.staging import (
    JUDGED,
    TRIO,
    CallbackModel,
    RecordingLog,
    memory_log,
    open_conductor,
    run_in_memory,
    run_scenario,
    run_to_end,
    scenario,
    strip_lost_calls,
)

BOTH = TRIO + "  jo: {persona: You judge., role: judge, may_emit: [judge.verdict]}\ncompetition: {kind: judged}\n"

PLAYER = """
import asyncio, sys
from fleetlore import connect
from fleetlore.stage import files
from fleetlore.stage.actors import StageModels
from fleetlore.stage.conductor import Conductor
from fleetlore.stage.run_state import create_run_state

async def told(event):
    print(event.kind, flush=True)

async def play():
    state = create_run_state(files.load_scenario("night-train"), "r", "fog")
    async with connect(sys.argv[1]) as log:
        await Conductor(log, state, StageModels({}), on_event=told).run_to_end()

asyncio.run(play())
"""


class ProcessEnded(BaseException):
    """The process ends here."""


async def test_whatever_was_stored_before_the_crash_the_run_comes_to_the_same_end() -> None:
    what = scenario(BOTH, turns=3)
    batches: list[list[Event]] = []
    with memory_log() as log:
        whole = await run_scenario(log, what, wrap_log=lambda recorder: RecordingLog(recorder, batches))
    assert len(batches) > 8
    for stored in range(1, len(batches)):
        with memory_log() as log:
            for batch in batches[:stored]:
                log.append(batch)
            events = await run_scenario(log, what, resume=True)
        assert strip_lost_calls(events) == strip_lost_calls(whole), f"after {stored} appends"


@pytest.mark.parametrize("crash", range(1, 8))
async def test_a_process_that_ends_while_a_model_is_asked_loses_that_attempt_alone(crash: int) -> None:
    what = scenario(BOTH, turns=3)

    def answering(is_doomed: bool) -> CallbackModel:
        def answer(ask: ModelRequest) -> Any:
            if is_doomed and len(mind.asked) == crash:
                return ProcessEnded()
            return {"text": f"{ask.role} {ask.seed}", "winner": "ada"}

        mind = CallbackModel(answer)
        return mind

    names = ("ada", "bob", "eve", "jo")
    whole = await run_in_memory(what, models=dict.fromkeys(names, answering(False)))
    with memory_log() as log:
        with pytest.raises(ProcessEnded):
            await run_scenario(log, what, models=dict.fromkeys(names, answering(True)))
        events = await run_scenario(log, what, models=dict.fromkeys(names, answering(False)), resume=True)
    lost = [event for event in events if event.kind == "model.failed"]
    assert lost
    assert strip_lost_calls(events) == strip_lost_calls(whole)
    assert events[-1].data["calls"] == whole[-1].data["calls"] + len(lost)
    assert events[-1].data["tokens"] == whole[-1].data["tokens"]


@pytest.mark.slow
def test_a_killed_process_is_taken_up_where_it_stopped(tmp_path: Path) -> None:
    assert torment(tmp_path, seed=7, runs=4) > 4


def torment(folder: Path, seed: int, runs: int) -> int:
    """Kill whoever plays a run with -9, at a moment of chance, then whoever takes it up, until it ends; how many were killed."""
    chance, killed = random.Random(seed), 0
    night_train = files.load_scenario("night-train")
    whole = strip_lost_calls(asyncio.run(run_in_memory(night_train, seed="fog")))
    for number in range(runs):
        url = f"sqlite:{folder}/{number}.db"
        for _ in range(3):
            killed += killed_after(url, chance.randrange(2, 90))
        with connect(url).blocking() as log:
            events = asyncio.run(run_scenario(log, night_train, resume=True))
        assert events[-1].kind == "run.finished"
        assert [event.kind for event in events].count("run.finished") == 1
        assert no_turn_twice(events)
        assert strip_lost_calls(events) == whole or is_turn_given_up(events)
    return killed


def killed_after(url: str, events: int) -> bool:
    """Play a run, or take it up, and end that process after so many events; whether it was still playing."""
    process = subprocess.Popen([sys.executable, "-c", PLAYER, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(events):
        process.stdout.readline()
    is_playing = process.poll() is None
    process.kill()  # nothing happens where it is gone already
    process.wait()
    process.stdout.close()
    return is_playing


def is_turn_given_up(events: Sequence[Event]) -> bool:
    """Whether the answer to one and the same question was lost with two processes."""
    lost = Counter((event.agent, event.data["turn"]) for event in events if event.data.get("error") == "lost")
    return max(lost.values(), default=0) >= MAX_ATTEMPTS


def no_turn_twice(events: Sequence[Event]) -> bool:
    said = [(event.agent, event.data["turn"]) for event in events if event.kind in ("agent.spoke", "judge.verdict")]
    return len(said) == len(set(said))


async def test_a_turn_that_was_lost_twice_is_given_up() -> None:
    what = scenario("agents:\n  ada: {persona: A., tick_every: 1}\n", turns=2)
    doomed = CallbackModel(lambda ask: ProcessEnded())
    with memory_log() as log:
        for resume in (False, True):
            with pytest.raises(ProcessEnded):
                await run_scenario(log, what, models={"ada": doomed}, resume=resume)
        events = await run_scenario(log, what, models={"ada": CallbackModel(lambda ask: {"text": "Here."})}, resume=True)
    first = [event for event in events if event.data.get("turn") == 1 and event.kind.startswith("model.")]
    assert [event.kind for event in first] == ["model.called", "model.failed", "model.called", "model.failed"]
    assert [event.data["turn"] for event in events if event.kind == "agent.spoke"] == [2]


async def test_a_corrected_verdict_whose_answer_was_lost_is_asked_for_with_the_correction() -> None:
    answers: list[Any] = [{"text": "Hm.", "winner": "zed"}, ProcessEnded(), {"text": "Well.", "winner": "ada"}]
    judge = CallbackModel(lambda ask: answers[len(judge.asked) - 1])
    with memory_log() as log:
        with pytest.raises(ProcessEnded):
            await run_scenario(log, scenario(JUDGED), models={"jo": judge})
        events = await run_scenario(log, scenario(JUDGED), models={"jo": judge}, resume=True)
    assert "winner must be exactly one of" in judge.asked[2].prompt
    assert events[-1].data["winner"] == "ada"


async def test_only_the_log_is_needed_even_for_a_scenario_that_is_nowhere_else() -> None:
    what = scenario(JUDGED, turns=4)
    with memory_log() as log:
        async with open_conductor(log, create_run_state(what, "r", "two"), StageModels({}), now=FrozenClock()) as conductor:
            await conductor.load_or_start_run()
        again = resume_run(log, "r")
    assert again.scenario == what
    assert again.seed == "two"


async def test_unfinished_runs_are_known_newest_first() -> None:
    with memory_log() as log:
        await run_scenario(log, scenario(turns=1), run="done")
        for run in ("first", "second"):
            async with open_conductor(log, create_run_state(scenario(), run, "one"), StageModels({})) as conductor:
                await conductor.load_or_start_run()
        assert [event.run for event in find_unfinished_runs(log)] == ["second", "first"]


async def test_a_run_that_is_not_there_or_not_readable_says_what_to_do() -> None:
    with memory_log() as log:
        with pytest.raises(Invalid, match="no run is called 'x'"):
            resume_run(log, "x")
        log.append([Event(kind="run.started", actor="other", run="x", data={"seed": "s", "play": {"name": 3}})])
        with pytest.raises(Invalid, match="name it: lore stage run SCENARIO --resume x"):
            resume_run(log, "x")


async def test_a_second_process_that_takes_a_run_up_too_early_doubles_nothing() -> None:
    with memory_log() as log:

        class Slow(CallbackModel):
            async def reply(self, ask: ModelRequest) -> Any:
                if not self.asked:
                    self.asked.append(ask)
                    await run_to_end(log, resume_run(log, "r"), StageModels({}))
                return await super().reply(ask)

        await run_scenario(log, scenario(turns=3), models={"ada": Slow(lambda ask: {"text": "late"})})
        events = list(log.read("run:r"))
    turns = [(event.agent, event.data["turn"]) for event in events if event.kind == "agent.spoke"]
    assert len(turns) == len(set(turns))
    assert [event.kind for event in events].count("run.finished") == 1


async def test_a_conductor_that_finds_another_at_work_stops() -> None:
    with memory_log() as log:

        def meddle(ask: ModelRequest) -> Any:
            call = Event(kind="model.called", agent="eve", run="r", data={"turn": 1, "attempt": 1, "purpose": "speak"})
            if len(mind.asked) == 1:
                log.append([call])
            return {"text": f"line {len(mind.asked)}"}

        mind = CallbackModel(meddle)
        with pytest.raises(LogError, match="another process is playing r now"):
            await run_scenario(log, scenario(turns=3), models={"ada": mind})


async def test_a_question_that_another_process_answered_meanwhile_stops_the_one_who_put_it() -> None:
    with memory_log() as log:

        def answer_at_once(recorder: Recorder) -> Recorder:
            """What a second process does between two steps of ours."""
            store = recorder.append

            async def append(events: Any, **options: Any) -> Any:
                stored = await store(events, **options)
                for call in [event for event in events if event.kind == "model.called"]:
                    log.append([Event(kind="model.failed", agent=call.agent, run="r", cause=call.id, data=call.data | {"error": "lost"})])
                return stored

            recorder.append = append  # type: ignore[method-assign]
            return recorder

        with pytest.raises(LogError, match="another process is playing r now"):
            await run_scenario(log, scenario(turns=3), wrap_log=answer_at_once)
