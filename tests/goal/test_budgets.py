"""Budgets hold within turns and over the whole tree of goals: they are exceeded by at most one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.goal.model_harness import ModelHarness
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import ModelRequest
from fleetlore.models.scripted import ScriptedModel
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import GOAL, Clock, DriverSetup, FakeChecker, FakeWorkspace, done, goal, make_driver

CHILD, SIBLING = f"{GOAL[:-1]}7", f"{GOAL[:-1]}8"


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


def control(action: str, **data: Any) -> Event:
    return Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": action, **data})


class Spender:
    """Uses a fixed amount per record, and continues until it is stopped."""

    def __init__(self, *, tokens: int = 0, usd: float = 0.0) -> None:
        self.records, self._tokens, self._usd = 0, tokens, usd

    async def __call__(self, order: TurnRequest, watch: Watch) -> TurnResult:
        first, stop = self.records, None
        while stop is None:
            self.records += 1
            taken = self.records - first
            stop = await watch(TurnProgress(tokens=taken * self._tokens, usd=taken * self._usd))
            assert self.records < 1000, "nobody stops it"
        return TurnResult(how=stop, tokens=taken * self._tokens, usd=taken * self._usd)


async def pursued(setup: DriverSetup, **options: Any) -> Any:
    await setup.driver.start(goal(id=setup.driver.state.id, **options))
    return await setup.driver.run_goal()


# --- one goal


@pytest.mark.parametrize(
    ("step", "budget", "plan", "axis", "records"),
    [
        ({"tokens": 100}, {"max_tokens": 1000}, {}, "tokens", 10),
        ({"tokens": 300}, {"max_tokens": 1000}, {}, "tokens", 4),
        ({"usd": 0.25}, {}, {"max_usd": 1.0}, "usd", 4),
    ],
)
async def test_an_agent_is_stopped_at_the_first_record_past_its_budget(
    log: BlockingRecorder, step: Any, budget: Any, plan: Any, axis: str, records: int
) -> None:
    spender = Spender(**step)
    state = await pursued(make_driver(log, [spender], met=[False]), budget=budget, **plan)
    assert (state.outcome, state.why, spender.records) == ("budget_exhausted", axis, records)
    assert state.spent.tokens <= 1000 + step.get("tokens", 0)
    assert state.spent.usd <= 1.0 + step.get("usd", 0.0)


async def test_what_earlier_turns_took_is_not_there_for_later_ones(log: BlockingRecorder) -> None:
    spender = Spender(tokens=100)
    setup = make_driver(log, [done(tokens=600), spender], met=[False])
    state = await pursued(setup, budget={"max_tokens": 1000})
    assert (state.spent.tokens, spender.records) == (1000, 4)
    assert [order.rest.tokens for order in setup.harness.orders] == [1000, 400]


async def test_what_a_turn_costs_that_is_cut_short_counts(log: BlockingRecorder) -> None:
    async def give_up(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(tokens=700))
        return TurnResult(how="failed", error="fetch failed: ECONNRESET", tokens=700)

    setup = make_driver(log, [give_up, Spender(tokens=100)], met=[False], clock=Clock(step=30))
    state = await pursued(setup, budget={"max_tokens": 1000})
    assert (state.why, state.spent.tokens, state.spent.turns) == ("tokens", 1000, 1)


async def test_work_that_is_good_when_the_budget_ends_is_accepted(log: BlockingRecorder) -> None:
    state = await pursued(make_driver(log, [Spender(tokens=100)], met=[True]), budget={"max_tokens": 1000})
    assert state.outcome == "done"


async def test_time_is_a_budget_for_an_agent_that_talks_and_for_one_that_does_not(log: BlockingRecorder) -> None:
    setup = make_driver(log, [Spender()], met=[False], clock=Clock(step=60))
    state = await pursued(setup, budget={"max_wall_time": "30m"}, turn_timeout=7200.0)
    assert (state.outcome, state.why, state.spent.turns) == ("budget_exhausted", "wall_time", 1)
    [order] = setup.harness.orders
    assert 0 < order.timeout <= 1800  # who says nothing is stopped by its harness


async def test_a_mind_is_not_asked_what_it_can_no_longer_pay_for(log: BlockingRecorder, tmp_path: Path) -> None:
    def answer(ask: ModelRequest) -> dict[str, Any]:
        return {"say": "I look again. " + "x" * 2000, "tool": "list", "args": {}}

    mind = ScriptedModel(answer)
    setup = make_driver(log, [])
    setup.resources.workspace = FakeWorkspace(path=str(tmp_path))
    setup.resources.harness = ModelHarness(mind, folder=tmp_path / "sessions", max_tokens=1000)
    setup.checker.met = (False,)
    state = await pursued(setup, budget={"max_tokens": 12_000}, harness="mind", permissions={"allow": ["list"]})
    assert (state.outcome, state.why) == ("budget_exhausted", "tokens")
    assert len(mind.asked) > 1
    assert 0 < state.spent.tokens <= 12_000


# --- raised while it goes on


async def test_a_budget_that_is_raised_in_the_midst_of_a_turn_lets_it_go_on(log: BlockingRecorder) -> None:
    class Raised(Spender):
        async def __call__(self, order: TurnRequest, watch: Watch) -> TurnResult:
            async def watched(received: TurnProgress) -> Any:
                if self.records == 9:
                    log.append([control("raise", value={"tokens": 2000})])
                return await watch(received)

            return await super().__call__(order, watched)

    spender = Raised(tokens=100)
    state = await pursued(make_driver(log, [spender], met=[False]), budget={"max_tokens": 1000})
    assert (state.spent.tokens, state.spent.turns, spender.records) == (2000, 1, 20)


async def test_a_turn_that_ended_by_a_budget_that_was_raised_meanwhile_is_followed_by_another(log: BlockingRecorder) -> None:
    """A program that was given the rest of the budget when it began stops by itself, and cannot know."""

    async def stop_by_itself(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("raise", value={"tokens": 2000})])
        return TurnResult(how="over_budget", tokens=900, extras={"axis": "tokens"})

    setup = make_driver(log, [stop_by_itself, done(tokens=50)], met=[False, True])
    state = await pursued(setup, budget={"max_tokens": 1000})
    assert (state.outcome, state.spent.tokens, state.spent.turns) == ("done", 950, 2)


# --- the tree


async def with_parent(log: BlockingRecorder, **budget: Any) -> None:
    above = make_driver(log, [done()])
    await above.driver.start(goal(budget=budget))


async def test_a_goal_below_gets_what_its_sibling_left(log: BlockingRecorder) -> None:
    await with_parent(log, max_tokens=1000)
    first = await pursued(make_driver(log, [done(tokens=700)], id=SIBLING), parent=GOAL)
    assert first.outcome == "done"
    spender = Spender(tokens=100)
    setup = make_driver(log, [spender], met=[False], id=CHILD)
    state = await pursued(setup, parent=GOAL)
    assert (state.outcome, state.why, state.spent.tokens, spender.records) == ("budget_exhausted", "tokens", 300, 3)
    assert setup.harness.orders[0].rest.tokens == 300


async def test_a_goal_below_is_stopped_in_its_turn_when_a_sibling_uses_up_what_both_share(log: BlockingRecorder) -> None:
    """The agent says nothing at all meanwhile."""
    await with_parent(log, max_tokens=1000)

    async def keep_silent(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(tokens=100))
        sibling = make_driver(log, [done(tokens=900)], id=SIBLING)
        await asyncio.create_task(pursued(sibling, parent=GOAL))
        await asyncio.Event().wait()
        raise AssertionError

    state = await pursued(make_driver(log, [keep_silent], met=[False], id=CHILD), parent=GOAL)
    assert (state.outcome, state.why, state.spent.tokens) == ("budget_exhausted", "tokens", 100)


async def test_turns_of_goals_below_count_above(log: BlockingRecorder) -> None:
    await with_parent(log, max_turns=2)
    state = await pursued(make_driver(log, [done()], met=[False], id=CHILD), parent=GOAL)
    assert (state.outcome, state.why, state.spent.turns) == ("budget_exhausted", "turns", 2)
    above = make_driver(log, [done()], met=[False])
    assert (await above.driver.run_goal()).why == "turns"
    assert above.harness.orders == []


# --- control requests are applied at any moment


async def test_anybody_who_is_called_off_between_the_beginning_of_a_turn_and_its_agent_starts_none(log: BlockingRecorder) -> None:
    class Slow(FakeWorkspace):
        """Somebody calls it off while the workspace is being saved."""

        def checkpoint(self, turn: int) -> Any:
            log.append([control("cancel")])
            return super().checkpoint(turn)

    setup = make_driver(log, [done()])
    setup.resources.workspace = Slow()
    state = await pursued(setup)
    assert (state.outcome, setup.harness.orders, state.spent.turns) == ("cancelled", [], 0)


async def test_a_goal_that_was_called_off_and_taken_up_again_is_checked_as_ever(log: BlockingRecorder) -> None:
    async def called_off(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("cancel")])
        await asyncio.Event().wait()
        raise AssertionError

    setup = make_driver(log, [called_off, done()])
    assert (await pursued(setup)).outcome == "cancelled"
    log.append([control("resume")])
    again = make_driver(log, [done()])
    seen: list[bool] = []

    class Listening(FakeChecker):
        async def check(self, *args: Any, cancel: asyncio.Event, **more: Any) -> Any:
            seen.append(cancel.is_set())
            return await again.checker.check(*args, cancel=cancel, **more)

    again.resources.verifiers = Listening()
    assert ((await again.driver.run_goal()).outcome, seen) == ("done", [False])
