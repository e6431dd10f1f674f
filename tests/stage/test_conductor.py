"""A run: order of turns, one turn each, everything recorded, and an end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.errors import Invalid, ModelRefused, UnusableAnswer
from fleetlore.events.envelope import Event
from fleetlore.models.base import ModelReply, ModelRequest, TokenUsage
from tests.patience import PATIENCE
from tests.stage.staging import (
    JUDGED,
    CallbackModel,
    RecordingModels,
    lines,
    memory_log,
    open_conductor,
    run_in_memory,
    run_scenario,
    scenario,
)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_who_ticks_speaks_and_who_listens_answers_in_the_same_turn() -> None:
    events = await run_in_memory(scenario(turns=2))
    said = [line.split(":")[0] for line in lines(events)]
    assert said == ["1 ada", "1 bob", "1 eve", "2 bob", "2 ada", "2 eve"]


async def test_each_turn_begins_with_another_player() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, script: {lines: [a1, a2, a3]}}
      bob: {persona: B., tick_every: 1, script: {lines: [b1, b2, b3]}}
      cleo: {persona: C., tick_every: 1, script: {lines: [c1, c2, c3]}}
    """
    firsts = {line.split()[0]: line.split()[1] for line in reversed(lines(await run_in_memory(scenario(body))))}
    assert firsts == {"1": "ada:", "2": "bob:", "3": "cleo:"}


async def test_questions_of_a_round_are_stored_before_any_answer() -> None:
    events = await run_in_memory(scenario(turns=1))
    first = [event.kind for event in events if event.agent in ("ada", "bob")]
    assert first == ["model.called", "model.called", "model.replied", "agent.spoke", "model.replied", "agent.spoke"]


async def test_those_who_do_not_wait_for_each_other_are_asked_at_the_same_time() -> None:
    meeting = asyncio.Barrier(2)

    class Meeting(CallbackModel):
        async def reply(self, ask: ModelRequest) -> ModelReply:
            async with asyncio.timeout(PATIENCE):
                await meeting.wait()  # nobody gets past it alone
            return await super().reply(ask)

    mind = Meeting(lambda ask: {"text": f"{ask.role} was there"})
    events = await run_in_memory(scenario(turns=1), models={"ada": mind, "bob": mind})
    assert lines(events)[:2] == ["1 ada: ada was there", "1 bob: bob was there"]


async def test_an_agent_woken_by_three_events_of_a_round_takes_one_turn() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, script: {lines: [a1]}}
      bob: {persona: B., tick_every: 1, script: {lines: [b1]}}
      cleo: {persona: C., tick_every: 1, script: {lines: [c1]}}
      eve: {persona: E., subscribes_to: [agent.spoke], script: {lines: [e1, e2, e3]}}
    """
    assert [line.split(":")[0] for line in lines(await run_in_memory(scenario(body, turns=1)))] == ["1 ada", "1 bob", "1 cleo", "1 eve"]


async def test_nobody_wakes_himself() -> None:
    body = """
    agents:
      ada: {persona: A., subscribes_to: [agent.spoke, world.observed], script: {lines: [a1, a2, a3]}}
    """
    events = await run_in_memory(scenario(body, turns=9))
    assert len(lines(events)) == 1
    assert events[-1].data["reason"] == "quiet"


async def test_two_who_wake_each_other_sit_out_after_max_consecutive_and_end_with_the_turns() -> None:
    body = """
    agents:
      ada: {persona: A., subscribes_to: [agent.spoke, world.observed], max_consecutive: 2, script: {lines: [a1, a2, a3, a4, a5, a6]}}
      bob: {persona: B., subscribes_to: [agent.spoke], max_consecutive: 2, script: {lines: [b1, b2, b3, b4, b5, b6]}}
    """
    events = await run_in_memory(scenario(body, turns=6))
    turns = [int(line.split()[0]) for line in lines(events) if " ada:" in line]
    assert turns == [1, 2, 4, 5]
    assert events[-1].data["reason"] == "tick_cap"


async def test_what_an_agent_may_not_emit_is_refused_and_recorded_and_never_stored_as_such() -> None:
    mind = CallbackModel(lambda ask: {"kind": "judge.verdict", "text": "I win", "winner": "ada"})
    events = await run_in_memory(scenario(turns=1), models={"ada": mind})
    assert "judge.verdict" not in kinds(events)
    [refused] = [event for event in events if event.kind == "log.rejected"]
    assert refused.agent == "ada"
    assert "may not emit judge.verdict" in refused.data["reason"]
    assert any(event.agent == "bob" and event.kind == "agent.spoke" for event in events)


@pytest.mark.parametrize("said", [{}, {"text": ""}, {"text": 7}, {"text": None, "kind": "agent.spoke"}])
async def test_an_answer_without_words_is_refused_and_the_run_goes_on(said: Any) -> None:
    events = await run_in_memory(scenario(turns=1), models={"ada": CallbackModel(lambda ask: said)})
    assert [event.agent for event in events if event.kind == "log.rejected"] == ["ada"]
    assert events[-1].kind == "run.finished"


async def test_who_passes_has_taken_its_turn_and_said_nothing() -> None:
    events = await run_in_memory(scenario(turns=2), models={"ada": CallbackModel(lambda ask: {"pass": True})})
    assert not [event for event in events if event.agent == "ada" and event.kind == "agent.spoke"]
    assert len([event for event in events if event.agent == "ada" and event.kind == "model.called"]) == 2


async def test_a_failure_is_recorded_and_charged_and_the_others_go_on() -> None:
    refusing = CallbackModel(lambda ask: ModelRefused("too long", status=400))
    events = await run_in_memory(scenario(turns=2), models={"ada": refusing})
    failures = [event for event in events if event.kind == "model.failed"]
    assert [(event.agent, event.data["turn"], event.data["status"]) for event in failures] == [("ada", turn, 400) for turn in (1, 1, 2, 2)]
    assert [event.data for event in events if event.kind == "turn.missed"] == [{"turn": turn, "reason": "too long"} for turn in (1, 2)]
    assert events[-1].data["calls"] == len([event for event in events if event.kind == "model.called"])
    assert len([line for line in lines(events) if " bob:" in line]) == 2


async def test_an_unforeseen_error_of_a_mind_ends_its_turn_and_not_the_run() -> None:
    events = await run_in_memory(scenario(turns=1), models={"bob": CallbackModel(lambda ask: ZeroDivisionError("oops"))})
    failed, again = (event for event in events if event.kind == "model.failed")
    assert failed.data["error"] == again.data["error"] == "ZeroDivisionError: oops"
    assert events[-1].kind == "run.finished"


async def test_an_answer_that_cannot_be_used_is_paid_for_all_the_same() -> None:
    reply = ModelReply(text="?", usage=TokenUsage(input=500, output=50), usd=0.2, model="m")
    events = await run_in_memory(scenario(turns=1), models={"ada": CallbackModel(lambda ask: UnusableAnswer("no object", reply=reply))})
    assert events[-1].data["usd"] == 0.4
    assert events[-1].data["tokens"] >= 1100


async def test_a_turn_says_what_caused_it() -> None:
    events = await run_in_memory(scenario(turns=1))
    by_id = {event.id: event for event in events}
    eve = next(event for event in events if event.agent == "eve" and event.kind == "agent.spoke")
    ada = next(event for event in events if event.agent == "ada" and event.kind == "agent.spoke")
    assert by_id[eve.cause or ""].kind == "agent.spoke"
    assert by_id[ada.cause or ""].kind == "world.observed"


async def test_a_kind_of_ones_own_wakes_and_can_be_read_by_those_who_subscribe_to_it_alone() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, may_emit: [clue.found], script: {lines: ["A thread of blue wool."]}}
      bob: {persona: B., subscribes_to: ["clue.*"], script: {lines: [b1, b2]}}
      eve: {persona: E., tick_every: 1, script: {lines: [e1, e2]}}
    """
    stage_models = RecordingModels()
    events = await run_in_memory(scenario(body, turns=2), stage_models=stage_models)
    assert "clue.found" in kinds(events)
    assert any(name == "bob" and "blue wool" in prompt for name, _, prompt in stage_models.prompts)
    assert not any(name == "eve" and "blue wool" in prompt for name, _, prompt in stage_models.prompts)


async def test_a_visitor_may_come_at_any_time_and_those_who_listen_react() -> None:
    body = """
    agents:
      ada: {persona: A., subscribes_to: [user.injected], script: {disturbed: ["Who said {visitor}?"]}}
    """
    events = await run_in_memory(scenario(body), injects=["boo"])
    assert lines(events) == ["1 ada: Who said boo?"]
    assert [event.actor for event in events if event.kind == "user.injected"] == ["visitor"]


async def test_a_visitor_who_says_nothing_or_comes_too_late_gets_that_answer() -> None:
    from fleetlore.stage.actors import StageModels
    from fleetlore.stage.run_state import create_run_state

    with memory_log() as log:
        async with open_conductor(log, create_run_state(scenario(turns=1), "r", "one"), StageModels({})) as conductor:
            with pytest.raises(Invalid, match="must not be empty"):
                await conductor.inject_message("  ")
            await conductor.run_to_end()
            with pytest.raises(Invalid, match="has ended"):
                await conductor.inject_message("hello?")


async def test_what_another_process_puts_on_the_run_while_it_plays_is_received() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, script: {lines: [a1, a2, a3]}}
      bob: {persona: B., subscribes_to: [user.injected], script: {disturbed: ["I heard {visitor}."]}}
    """
    with memory_log() as log:

        def meddle(ask: ModelRequest) -> dict[str, Any]:
            if len(mind.asked) == 1:
                log.append([Event(kind="user.injected", actor="someone", run="r", text="a knock")])
            return {"text": f"line {len(mind.asked)}"}

        mind = CallbackModel(meddle)
        events = await run_scenario(log, scenario(body), models={"ada": mind})
    assert [line for line in lines(events) if "bob" in line] == ["1 bob: I heard a knock."]


async def test_what_a_visitor_or_a_scene_says_in_private_wakes_nobody_and_is_in_nobodys_mouth() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, script: {lines: [a1, a2, a3]}}
      bob: {persona: B., tick_every: 1, script: {disturbed: ["I heard {visitor}."], lines: [b1, {text: xyzzy it is, after: xyzzy}]}}
      eve: {persona: E., subscribes_to: [user.injected, world.observed], script: {disturbed: ["I heard {visitor}."], lines: [e1]}}
    """
    stage_models = RecordingModels()
    with memory_log() as log:
        for kind in ("user.injected", "world.observed"):
            log.append([Event(kind=kind, actor="someone", run="r", text="xyzzy", visibility="private", data={"turn": 1})])
        events = await run_scenario(log, scenario(body), stage_models=stage_models)
    assert [line for line in lines(events) if "heard" in line or "xyzzy" in line] == []
    assert not any("xyzzy" in prompt for _, _, prompt in stage_models.prompts)
    assert {name for name, turn, _ in stage_models.prompts if turn > 1} == {"ada", "bob"}


async def test_a_tool_gives_what_the_turn_has_drawn_and_only_to_those_who_have_it() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, tools: [dice]}
      bob: {persona: B., tick_every: 1}
    """
    roll = CallbackModel(lambda ask: {"text": "I roll.", "use": "dice"})
    first = await run_in_memory(scenario(body, turns=1), models={"ada": roll, "bob": roll})
    again = await run_in_memory(scenario(body, turns=1), models={"ada": roll, "bob": roll})
    given = [event for event in first if event.kind == "tool.returned"]
    assert [event.agent for event in given] == ["ada"]
    assert [event.agent for event in first if event.kind == "tool.denied"] == ["bob"]
    assert [event.text for event in again if event.kind == "tool.returned"] == [given[0].text]


async def test_an_agent_reflects_when_it_has_seen_enough() -> None:
    body = """
    agents:
      ada: {persona: A., tick_every: 1, memory: {reflect_every: 3}, script: {lines: [a1, a2, a3, a4], reflections: [All is vanity.]}}
      bob: {persona: B., tick_every: 1, script: {lines: [b1, b2, b3, b4]}}
    """
    events = await run_in_memory(scenario(body, turns=4))
    assert lines(events, "agent.reflected")[0].endswith("ada: All is vanity.")


async def test_the_end_is_reported_once() -> None:
    with memory_log() as log:
        what = scenario(JUDGED)
        await run_scenario(log, what)
        events = await run_scenario(log, what, resume=True)
    assert kinds(events).count("run.finished") == 1


async def test_a_run_lives_in_a_real_file(tmp_path: Path) -> None:
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        events = await run_scenario(log, scenario(JUDGED))
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        assert [event.id for event in log.read("run:r")] == [event.id for event in events]


async def test_the_same_seed_plays_the_same_run_and_another_seed_another() -> None:
    what = scenario(JUDGED, turns=4)
    first, again, other = await run_in_memory(what), await run_in_memory(what), await run_in_memory(what, seed="two")
    assert first == again
    assert lines(first) != lines(other)
