"""Budgets: checked before each round, charged for failures, with a share reserved for the verdict, and restored from the log."""

from __future__ import annotations

from typing import Any

import pytest

from fleetlore.errors import BudgetExceeded, ModelRefused
from fleetlore.events.envelope import Event
from fleetlore.stage.budget import RunUsage, StageLimits, check_budget
from fleetlore.testing import FrozenClock
from tests.stage.staging import JUDGED, CallbackModel, memory_log, run_in_memory, run_to_end, scenario


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_turns": 4}, "turns"),
        ({"max_calls": 7}, "calls"),
        ({"max_tokens": 900}, "tokens"),
        ({"max_usd": 0.5}, "usd"),
        ({"max_seconds": 30.0}, "seconds"),
    ],
)
def test_each_budget_says_that_it_is_spent(limits: dict[str, Any], reason: str) -> None:
    spent = RunUsage(turn=5, calls=7, tokens=900, usd=0.5, seconds=30.0)
    with pytest.raises(BudgetExceeded) as error:
        check_budget(StageLimits(**({"max_turns": 99} | limits)), spent, turn=5, seconds=0.0)
    assert error.value.reason == reason


def test_spending_is_read_off_any_event_without_a_complaint() -> None:
    spent = RunUsage()
    for data in ({}, {"turn": "x", "input": -3, "usd": "much"}, {"input": True, "elapsed_ms": None}, {"output": 1e300}):
        for kind in ("model.called", "model.replied", "model.failed"):
            spent.apply_event(Event(kind=kind, data=dict(data)))
    assert (spent.calls, spent.tokens, spent.usd) == (4, 0, 0.0)


@pytest.mark.parametrize("most", [1, 2, 3, 5])
async def test_calls_never_go_over_even_in_a_round_of_many(most: int) -> None:
    body = "agents:\n" + "".join(f"  a{n}: {{persona: A., tick_every: 1, script: {{lines: [x{n}]}}}}\n" for n in range(4))
    events = await run_in_memory(scenario(body, max_calls=most))
    assert len([event for event in events if event.kind == "model.called"]) == most
    assert events[-1].data["reason"] == "budget"


async def test_players_leave_enough_for_a_verdict() -> None:
    events = await run_in_memory(scenario(JUDGED, turns=50, max_calls=6))
    assert len([event for event in events if event.kind == "model.called"]) <= 6
    assert [event.agent for event in events if event.kind == "judge.verdict"] == ["jo"]
    assert events[-1].data["budget"] == "calls"


async def test_a_run_that_costs_too_much_ends_after_what_was_in_flight() -> None:
    dear = CallbackModel(lambda ask: {"text": f"line {len(dear.asked)}"})
    body = "agents:\n  ada: {persona: A., tick_every: 1}\n"
    events = await run_in_memory(scenario(body, turns=50, max_usd=0.025), models={"ada": dear})
    assert len(dear.asked) == 3
    assert events[-1].data["reason"] == "budget"


async def test_calls_of_one_turn_are_bounded_and_the_rest_wait_for_the_next() -> None:
    body = "agents:\n" + "".join(f"  a{n}: {{persona: A., tick_every: 1, script: {{lines: [x{n}, y{n}]}}}}\n" for n in range(4))
    events = await run_in_memory(scenario(body, turns=2, max_calls_per_turn=3))
    assert [event.data["turn"] for event in events if event.kind == "model.called"] == [1, 1, 1, 2, 2, 2]


async def test_failures_are_charged() -> None:
    no = CallbackModel(lambda ask: ModelRefused("no", status=401))
    events = await run_in_memory(scenario("agents:\n  ada: {persona: A., tick_every: 1}\n", turns=50, max_calls=4), models={"ada": no})
    assert len(no.asked) == 4
    assert events[-1].data["reason"] == "budget"


async def test_time_is_counted_while_a_run_is_played_and_not_while_it_rests() -> None:
    from fleetlore.stage.actors import StageModels
    from fleetlore.stage.resume import resume_run
    from fleetlore.stage.run_state import create_run_state

    what = scenario("agents:\n  ada: {persona: A., tick_every: 1}\n", turns=50, max_seconds=60.0)
    clock = FrozenClock()

    class Gone(BaseException):
        """The process ends here."""

    def tick(ask: Any) -> Any:
        clock.advance(20)
        return Gone() if len(mind.asked) == 2 else {"text": f"line {len(mind.asked)}"}

    mind = CallbackModel(tick)
    with memory_log() as log:
        with pytest.raises(Gone):
            await run_to_end(log, create_run_state(what, "r", "one"), StageModels({"ada": mind}), now=clock)
        clock.advance(86_400)
        end = await run_to_end(log, resume_run(log, "r"), StageModels({"ada": mind}), now=clock)
    assert len(mind.asked) == 4
    assert end.data["reason"] == "budget"
