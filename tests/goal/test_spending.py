"""Budgets cover everything that is done for a goal: judges, memories, summaries, and child goals."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import connect
from fleetlore.errors import ModelRefused
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Compaction, Memory
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.goal.recorded_model import RecordedModel
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.base import ModelRequest
from fleetlore.models.scripted import ScriptedModel
from fleetlore.programs.command import CommandHarness
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.testing import START
from fleetlore.views import costs
from fleetlore.views import goals as view
from fleetlore.views.cost_sums import sum_by_agent
from fleetlore.views.goal_state import GoalState, goal_status
from tests.goal.scripted import GOAL, Clock, DriverSetup, done, goal, kinds, make_driver
from tests.patience import PATIENCE

TOP, MIDDLE, LOW, BESIDE = (f"3f2b8c1e-0000-4000-8000-00000000000{number}" for number in range(1, 5))


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


def known(log: BlockingRecorder, id: str) -> GoalState:
    state = GoalState(id=id)
    for event in log.read(f"goal:{id}"):
        view.apply_to_goal(state, event)
    return state


async def below(log: BlockingRecorder, id: str, parent: str | None, moves: Any, **more: Any) -> DriverSetup:
    options = {name: more.pop(name) for name in ("budget",) if name in more}
    setup = make_driver(log, moves, id=id, **more)
    await setup.driver.start(goal(id=id, parent=parent, **options))
    return setup


def answered(tokens: int, purpose: str) -> Event:
    return Event(kind="model.replied", agent="ada", data={"input": tokens, "output": 0, "model": "m", "purpose": purpose})


async def test_three_goals_deep_everything_counts_above_once_judges_too(log: BlockingRecorder) -> None:
    await below(log, TOP, None, [])
    await below(log, MIDDLE, TOP, [])
    setup = await below(log, LOW, MIDDLE, [done(tokens=100), done(tokens=50)], met=[False, True])
    check = setup.checker.check

    async def judged(*args: Any, **more: Any) -> Any:
        await setup.driver.journal.append([setup.driver.journal.event_factory.assign_to_goal(answered(7, "judge"))])
        return await check(*args, **more)

    setup.checker.check = judged  # type: ignore[method-assign]
    state = await setup.driver.run_goal()
    assert (state.outcome, state.spent.tokens) == ("done", 164)
    for above in (TOP, MIDDLE):
        assert (known(log, above).spent.tokens, known(log, above).spent.turns) == (164, 2)


async def test_what_a_command_reports_of_itself_is_in_the_goal_and_in_the_costs(log: BlockingRecorder, tmp_path: Path) -> None:
    setup = make_driver(log, [])
    report = '{"tokens": 1200, "usd": 0.25, "model": "of-its-own"}'
    setup.resources.harness = CommandHarness(["sh", "-c", f"cat >/dev/null; echo '{report}'"], environ=os.environ)
    setup.workspace.path = str(tmp_path)
    await setup.driver.start(goal())
    state = await setup.driver.run_goal()
    assert (state.outcome, state.spent.tokens, state.spent.usd) == ("done", 1200, 0.25)
    spending = costs.initial()
    for event in log.read():
        spending = costs.apply(spending, event)
    [(agent, amount)] = sum_by_agent(spending).items()
    assert (agent, amount.tokens, amount.usd) == ("ada", 1200, 0.25)


async def test_what_was_reported_above_in_a_turn_is_not_reported_again_after_a_crash(log: BlockingRecorder) -> None:
    class Dead(BaseException):
        """Nothing is written any more."""

    async def die(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(tokens=300, events=[answered(300, "turn")]))
        await setup.driver.journal.flush()
        setup.driver.journal.flush = setup.driver.journal.append = dead  # type: ignore[method-assign,assignment]
        raise Dead

    async def dead(*args: Any, **more: Any) -> None:
        raise Dead

    await below(log, TOP, None, [])
    setup = await below(log, LOW, TOP, [die])
    with pytest.raises(Dead):
        await setup.driver.run_goal()
    assert known(log, TOP).spent.tokens == 300
    await make_driver(log, [done(tokens=20)], id=LOW, met=[False, True]).driver.run_goal()
    assert (known(log, TOP).spent.tokens, known(log, LOW).spent.tokens) == (320, 320)


async def test_neighbours_that_share_a_budget_stop_when_both_together_have_spent_it(log: BlockingRecorder) -> None:
    async def spend(order: TurnRequest, watch: Watch) -> TurnResult:
        spent = 0
        while True:
            spent += 100
            if stop := await watch(TurnProgress(tokens=spent, events=[answered(100, "turn")])):
                return TurnResult(how=stop, tokens=spent)
            await asyncio.sleep(0.05)

    await below(log, TOP, None, [], budget={"max_tokens": 2000})
    shared = open_shared("memory:").__enter__()
    both = [await below(log, id, TOP, [spend], met=[False], shared=shared) for id in (LOW, BESIDE)]
    for setup in both:
        setup.harness.name = "mind"
    async with asyncio.timeout(PATIENCE):
        ends = await asyncio.gather(*(setup.driver.run_goal() for setup in both))
    assert [end.outcome for end in ends] == ["budget_exhausted"] * 2
    assert known(log, TOP).spent.tokens == 2000, "who has no room for another call waits"
    assert known(log, TOP).spent.tokens == sum(end.spent.tokens for end in ends)


async def test_a_goal_below_another_is_pursued_again_by_the_same_driver(log: BlockingRecorder) -> None:
    await below(log, TOP, None, [])
    setup = await below(log, LOW, TOP, [done(tokens=10)], met=[False, True], budget={"max_turns": 1})
    assert (await setup.driver.run_goal()).outcome == "budget_exhausted"
    more = Event(kind="control.requested", actor="eve", goal=LOW, data={"action": "raise", "value": {"turns": 3}})
    log.append([more, msgspec.structs.replace(more, data={"action": "resume"})])
    assert (await setup.driver.run_goal()).outcome == "done"
    assert known(log, TOP).spent.tokens == 20


async def test_a_mind_is_not_asked_beside_the_work_once_that_would_pass_a_budget(log: BlockingRecorder) -> None:
    setup = make_driver(log, [done(tokens=990)])
    await setup.driver.start(goal(budget={"max_tokens": 1000}))
    asked = ScriptedModel({"judge": {"met": True}})
    mind = RecordedModel(setup.driver.journal, asked, purpose="judge")
    with pytest.raises(ModelRefused, match="budget of tokens"):
        await mind.reply(ModelRequest(prompt="word " * 2000))
    assert "model.called" not in kinds(log)


@pytest.mark.parametrize("end", ["budget", "cancel"])
async def test_nothing_is_remembered_or_dreamt_once_a_goal_is_over_its_budget_or_called_off(
    log: BlockingRecorder, tmp_path: Path, end: str
) -> None:
    async def cancelled(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "cancel"})])
        return done()

    moves: Any = [done(tokens=200_000)] if end == "budget" else [cancelled]
    thinker = ScriptedModel({"memory": {"memories": []}, "dream": {"merges": []}})
    setup = make_driver(log, moves, met=[False], memory=MemoryFolder(str(tmp_path / "ada")), thinker=thinker)
    await setup.driver.start(goal(memory=Memory()))
    assert (await setup.driver.run_goal()).outcome in ("budget_exhausted", "cancelled")
    assert "model.called" not in kinds(log)


async def test_what_a_slow_memory_takes_during_the_next_turn_counts_besides_that(log: BlockingRecorder) -> None:
    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        await setup.driver.journal.append([setup.driver.journal.event_factory.assign_to_goal(answered(500, "memory"))])
        return done(tokens=1000)

    setup = make_driver(log, [work])
    await setup.driver.start(goal())
    assert (await setup.driver.run_goal()).spent.tokens == 1500


# --- summaries


FULL = Compaction(context_window=100_000)
WORKED = done(context=90_000)


async def pursue(log: BlockingRecorder, *moves: Any, met: Any = (False, True), **more: Any) -> tuple[DriverSetup, GoalState]:
    setup = make_driver(log, moves, met=met, clock=Clock(60))
    await setup.driver.start(goal(compaction=FULL, **more))
    return setup, await setup.driver.run_goal()


async def test_a_context_too_full_to_be_summed_up_is_left_behind(log: BlockingRecorder) -> None:
    overflow = TurnResult(how="failed", error="prompt is too long: 210000 tokens > 200000 maximum")
    setup, state = await pursue(log, WORKED, overflow, done(context=5000))
    assert (state.outcome, state.spent.turns) == ("done", 2)
    assert [order.is_summary for order in setup.harness.orders] == [False, True, False]
    assert setup.harness.orders[2].session is None


@pytest.mark.parametrize(
    "trouble", [TurnResult(how="failed", error="rate limited", status=429), TurnResult(how="failed", error="fetch failed: ECONNRESET")]
)
async def test_a_summary_that_an_endpoint_did_not_give_is_asked_for_again(log: BlockingRecorder, trouble: TurnResult) -> None:
    setup, state = await pursue(log, WORKED, trouble, done("Half done."), done(context=5000))
    assert (state.outcome, state.summary, state.compacting.failures) == ("done", "Half done.", 0)
    assert [order.is_summary for order in setup.harness.orders] == [False, True, True, False]


async def test_a_summary_in_which_a_login_has_ended_needs_a_person(log: BlockingRecorder) -> None:
    _, state = await pursue(log, WORKED, TurnResult(how="failed", error="Invalid API key · Please run /login"))
    assert (state.outcome, state.spent.turns) == ("escalate", 1)
    assert "log in again" in state.why


async def test_summaries_that_never_come_are_given_up_and_tried_once_more_after_a_while(log: BlockingRecorder) -> None:
    async def act(order: TurnRequest, watch: Watch) -> TurnResult:
        return done("", context=90_000) if order.is_summary else done(f"turn {order.turn}", context=90_000)

    setup = make_driver(log, [act], met=[False], clock=Clock(0.001))
    plan = Compaction(context_window=100_000, min_turns_between=2, max_failures=2)
    await setup.driver.start(goal(compaction=plan, budget={"max_turns": 12}, stuck_after=0))
    state = await setup.driver.run_goal()
    assert (state.outcome, state.why) == ("budget_exhausted", "turns")
    asked = [order.turn for order in setup.harness.orders if order.is_summary]
    assert asked == sorted(asked)
    assert 3 <= len(asked) <= 6  # two failures open the breaker, and now and then one more is let through


async def test_an_agent_that_waits_for_something_outside_is_not_stuck(log: BlockingRecorder) -> None:
    nap = TurnResult(how="asleep", words="the build runs", sleep_ms=1)
    setup = make_driver(log, [nap, nap, nap, nap, nap, done()])
    setup.workspace.compute_digest = lambda: "same"  # type: ignore[method-assign]
    await setup.driver.start(goal(stuck_after=2))
    assert (await setup.driver.run_goal()).outcome == "done"


async def test_what_a_person_did_in_the_workspace_meanwhile_is_not_rolled_back(log: BlockingRecorder) -> None:
    lost = TurnResult(how="failed", error="No conversation found with session ID: 1234")

    async def watch(event: Event) -> None:
        if event.kind == "driver.replay_decision":
            log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "cancel"})])

    setup = make_driver(log, [lost], watch=watch)
    await setup.driver.start(goal())
    assert (await setup.driver.run_goal()).outcome == "cancelled"
    log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "resume"})])
    again = make_driver(log, [done()])
    assert (await again.driver.run_goal()).outcome == "done"
    assert again.workspace.rolled_back == []
    assert "Your last turn was interrupted" in again.harness.orders[0].prompt


# --- a shared budget, programs, and a person who is asked


async def test_programs_that_share_a_budget_stop_at_the_first_record_past_it(log: BlockingRecorder) -> None:
    """Every record of one is seen by the other before it goes on."""
    progress: list[str] = []

    def spender(id: str) -> Any:
        async def spend(order: TurnRequest, watch: Watch) -> TurnResult:
            spent = 0
            while True:
                spent += 1000
                progress.append(id)
                if stop := await watch(TurnProgress(tokens=spent, events=[answered(1000, "turn")])):
                    return TurnResult(how=stop, tokens=spent)
                await asyncio.sleep(0)

        return spend

    await below(log, TOP, None, [], budget={"max_tokens": 70_000})
    shared = open_shared("memory:").__enter__()
    both = [await below(log, id, TOP, [spender(id)], met=[False], shared=shared) for id in (LOW, BESIDE)]
    async with asyncio.timeout(PATIENCE):
        ends = await asyncio.gather(*(setup.driver.run_goal() for setup in both))
    assert [end.outcome for end in ends] == ["budget_exhausted"] * 2
    assert len(set(progress)) == 2
    assert known(log, TOP).spent.tokens == 70_000
    assert known(log, TOP).spent.tokens == sum(end.spent.tokens for end in ends)
    late = await below(log, MIDDLE, TOP, [done()])
    assert (await late.driver.run_goal()).outcome == "budget_exhausted"
    assert late.harness.orders == [], "a child of a spent goal takes no turn"


async def test_a_goal_whose_budget_is_spent_can_wait_and_ask(log: BlockingRecorder) -> None:
    waiting = asyncio.Event()

    async def watch(event: Event) -> None:
        if event.kind == "goal.waiting":
            waiting.set()

    setup = make_driver(log, [done(tokens=600), done(tokens=600), done(tokens=10)], met=[False, False, True], watch=watch)
    await setup.driver.start(goal(budget={"max_tokens": 1000}, on_budget="ask"))
    run = asyncio.ensure_future(setup.driver.run_goal())
    async with asyncio.timeout(PATIENCE):
        await waiting.wait()
        assert goal_status(setup.driver.state, START) == "asking"
        assert setup.driver.state.waiting_for == "a spent budget: tokens"
        assert "driver.goal_completed" not in kinds(log)
        log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "raise", "value": {"tokens": 5000}})])
        assert (await run).outcome == "done"
    assert known(log, GOAL).spent.tokens == 1210


async def test_a_command_that_reports_a_full_context_is_asked_for_a_summary(log: BlockingRecorder, tmp_path: Path) -> None:
    program = """
cat > "prompt-$LORE_TURN_NUMBER-$LORE_SUMMARY.txt"
if [ "$LORE_SUMMARY" = 1 ]; then echo "Half is done; the parser is next."; exit; fi
echo "{\\"say\\": \\"turn $LORE_TURN_NUMBER\\", \\"tokens\\": 100, \\"context\\": 950}"
"""
    setup = make_driver(log, [], met=[False, False, True])
    setup.resources.harness = CommandHarness(["sh", "-c", program], environ=os.environ)
    setup.workspace.path = str(tmp_path)
    await setup.driver.start(goal(compaction=Compaction(context_window=1000, min_turns_between=2)))
    state = await setup.driver.run_goal()
    assert (state.outcome, state.summary) == ("done", "Half is done; the parser is next.")
    compacted = [kind for kind in kinds(log) if kind.startswith("driver.compact")]
    assert compacted == ["driver.compact_requested", "driver.compact_completed", "driver.compact_summary_stored"]
    assert "Half is done" in (tmp_path / "prompt-2-.txt").read_text()
