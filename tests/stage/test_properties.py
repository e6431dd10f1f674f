"""For any scenario: it ends, it is reproducible, and timing does not change the log."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.events import catalog
from fleetlore.stage.budget import StageLimits
from fleetlore.stage.run_state import apply_event, create_run_state
from fleetlore.stage.scenario import AgentManifest, AgentScript, Competition, StageMemory, StageScenario
from tests.stage.staging import RecordingModels, file_log, run_in_memory, run_scenario, scenario
from tests.strategies import events as any_events

KINDS = ("agent.spoke", "clue.found", "oracle.spoke", "world.observed")
RECEIVED = (*KINDS, "user.injected", "clue.*", "agent.*", "run.started", "model.*")


@st.composite
def manifests(draw: st.DrawFn, name: str) -> AgentManifest:
    tick = draw(st.none() | st.integers(1, 3))
    received = draw(st.lists(st.sampled_from(RECEIVED), max_size=3, unique=True))
    return AgentManifest(
        name=name,
        persona=f"You are {name}.",
        role=draw(st.sampled_from(("worker", "worker", "observer"))),
        subscribes_to=tuple(received or ([] if tick else ["world.observed"])),
        may_emit=tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True))),
        tick_every=tick,
        max_consecutive=draw(st.integers(1, 3)),
        memory=StageMemory(reflect_every=draw(st.none() | st.integers(1, 4))),
        script=AgentScript(lines=tuple(f"{name} {n}" for n in range(draw(st.integers(0, 5)))), reflections=(f"{name} believes",)),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> StageScenario:
    cast = tuple(draw(manifests(f"a{n}")) for n in range(draw(st.integers(1, 4))))
    is_judged = draw(st.booleans()) and any(manifest.role == "worker" for manifest in cast)
    judge = AgentManifest(
        name="jo", role="judge", persona="You judge.", may_emit=("judge.verdict",), tick_every=draw(st.none() | st.just(2))
    )
    limits = StageLimits(
        max_turns=draw(st.integers(1, 5)),
        max_calls=draw(st.integers(1, 12)),
        max_calls_per_turn=draw(st.integers(1, 5)),
        max_tokens=draw(st.none() | st.integers(1, 3000)),
    )
    return StageScenario(
        name="any",
        title="Any",
        seeds=("s",),
        opening="It begins.",
        cast=(*cast, judge) if is_judged else cast,
        competition=Competition(kind="judged" if is_judged else "none"),
        governor=limits,
    )


@settings(max_examples=25, deadline=None)
@given(scenarios(), st.integers(), st.lists(st.just("boo"), max_size=2))
def test_any_scenario_ends_within_its_budgets_and_no_timing_changes_its_log(what: StageScenario, chance: int, injects: list[str]) -> None:
    rng = random.Random(chance)
    first = asyncio.run(run_in_memory(what, injects=injects))
    with file_log() as log:
        other = asyncio.run(run_scenario(log, what, injects=injects, stage_models=RecordingModels(waits=lambda: rng.randrange(6))))
    assert [replace(event, position=None) for event in first] == [replace(event, position=None) for event in other]
    assert [event.kind for event in first].count("run.finished") == 1
    calls = [event for event in first if event.kind == "model.called"]
    assert len(calls) <= what.governor.max_calls
    assert max((event.data["turn"] for event in calls), default=0) <= what.governor.max_turns + 1
    turns = [(event.agent, event.data["turn"]) for event in calls if event.data["attempt"] == 1]
    assert len(turns) == len(set(turns))


@settings(max_examples=15, deadline=None)
@given(scenarios())
def test_nobody_says_what_it_may_not(what: StageScenario) -> None:
    allowed = {manifest.name: {*manifest.may_emit, "agent.reflected"} for manifest in what.cast}
    for event in asyncio.run(run_in_memory(what)):
        if event.agent is not None and not event.kind.startswith(("model.", "context.", "log.", "tool.")):
            assert event.kind in allowed[event.agent]
        assert catalog.find_payload(event.kind) is not None or event.kind == "clue.found"


@settings(max_examples=20, deadline=None)
@given(st.lists(any_events(), max_size=5), st.data())
def test_any_stored_event_can_be_taken_in(stored: list[Any], data: st.DataObject) -> None:
    what = scenario()
    state = create_run_state(what, "r", "one")
    for event in stored:
        kind = data.draw(st.sampled_from((event.kind, "model.called", "model.replied", "model.failed", "run.started", "judge.verdict")))
        agent = data.draw(st.sampled_from((event.agent, "ada", "eve")))
        apply_event(state, replace(event, kind=kind, agent=agent, run="r"))
    from fleetlore.stage.next_turn import next_step

    next_step(state)
