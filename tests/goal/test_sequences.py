"""The events that the driver writes, in order, along every path. `golden/` has the sequences."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetlore import connect
from fleetlore.events.driver_types import Deny
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Compaction, Memory, Permissions
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.scripted import ScriptedModel
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views.goal_state import GoalState
from tests.goal.scripted import GOAL, Clock, DriverSetup, done, goal, make_driver

GOLDEN = Path(__file__).parent / "golden"
WRITE = "FLEETLORE_WRITE_GOLDEN" in os.environ


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


def failed(error: str, **more: Any) -> TurnResult:
    return TurnResult(how="failed", error=error, tokens=10, **more)


def control(action: str, **data: Any) -> Event:
    return Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": action, **data})


def render_events(log: BlockingRecorder) -> str:
    """One line per event, with the fields that matter."""
    return "".join(f"{event.kind} {outcome(event.data) or detail(event)}".rstrip() + "\n" for event in log.read(f"goal:{GOAL}"))


def outcome(data: dict[str, Any]) -> str:
    match data:
        case {"result": {"outcome": outcome, "turn_index": turn}}:
            return f"turn {turn}: {outcome['kind']} {outcome.get('axis', '')}"
        case {"outcome": {"outcome": outcome}}:
            return f"{outcome['kind']} {outcome.get('axis', '')}"
        case {"decision": {"choice": choice}}:
            return str(choice["kind"])
        case {"decision": {"kind": kind, **rest}}:
            return f"{kind}{' with rollback' if rest.get('rollback_to') else ''}"
        case {"verdict": {"met": met}}:
            return "met" if met else "not met"
    return ""


def detail(event: Event) -> str:
    match event.data:
        case {"how": how}:
            return f"{how} {event.data.get('complaint', '')}"
        case {"action": more} | {"axis": more} | {"why": more} | {"outcome_kind": more}:
            return str(more)
        case {"turn_index": turn}:
            return f"turn {turn}"
        case {"reason": reason} if event.kind.endswith("skipped"):
            return str(reason)
    return ""


def compare(name: str, text: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if WRITE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


async def pursue(setup: DriverSetup, **options: Any) -> GoalState:
    await setup.driver.start(goal(**options))
    return await setup.driver.run_goal()


# --- well


async def test_a_goal_that_is_reached_at_once(log: BlockingRecorder) -> None:
    state = await pursue(make_driver(log, [done()]))
    assert (state.outcome, state.spent.turns, state.spent.tokens) == ("done", 1, 100)
    compare("happy", render_events(log))


async def test_what_failed_is_reported_to_the_agent_until_it_is_done(log: BlockingRecorder) -> None:
    setup = make_driver(log, [done("I think so."), done("Now it holds.")], met=[False, True])
    state = await pursue(setup, progress_every=1)
    assert (state.outcome, state.spent.turns) == ("done", 2)
    assert "exit 1 != 0" in setup.harness.orders[1].prompt
    assert "2 failed" in setup.harness.orders[1].prompt
    assert setup.harness.orders[1].session == setup.harness.orders[0].new_session
    compare("retry_then_done", render_events(log))


# --- every budget


@pytest.mark.parametrize(
    ("axis", "moves", "budget", "plan"),
    [
        ("turns", [done()], {"max_turns": 2}, {}),
        ("wall_time", [done()], {"max_wall_time": "30s"}, {}),
        ("tokens", [done(tokens=600)], {"max_tokens": 1000}, {}),
        ("usd", [done(usd=0.4)], {}, {"max_usd": 0.5}),
        ("consecutive_errors", [failed("fetch failed: ECONNRESET")], {"max_consecutive_errors": 2}, {}),
        ("consecutive413", [failed("prompt is too long: 210000 tokens > 200000 maximum")], {"max_consecutive_413": 2}, {}),
    ],
)
async def test_each_budget_ends_the_goal(log: BlockingRecorder, axis: str, moves: Any, budget: Any, plan: Any) -> None:
    setup = make_driver(log, moves, met=[False], clock=Clock(step=30 if axis.endswith("errors") else 1))
    state = await pursue(setup, budget=budget, stuck_after=0, **plan)
    assert (state.outcome, state.why) == ("budget_exhausted", axis)
    compare(f"budget_{axis}", render_events(log))


async def test_an_agent_that_is_denied_again_and_again_is_stopped(log: BlockingRecorder) -> None:
    async def insist(order: TurnRequest, watch: Watch) -> TurnResult:
        while (stop := await watch(TurnProgress())) is None:
            assert isinstance(await setup.resources.tool_gate.permit("Bash", {"command": "rm -rf /"}), Deny)
        return TurnResult(how=stop)

    setup = make_driver(log, [insist], met=[False])
    state = await pursue(setup, permissions=Permissions(deny=("Bash",)))
    assert (state.outcome, state.why, state.denied) == ("budget_exhausted", "consecutive_denies", 3)
    compare("budget_consecutive_denies", render_events(log))


# --- a person is needed, or steers


async def test_what_only_a_person_can_fix_is_handed_to_one_at_once(log: BlockingRecorder) -> None:
    state = await pursue(make_driver(log, [failed("Invalid API key · Please run /login")]))
    assert (state.outcome, state.spent.turns) == ("escalate", 0)
    assert "log in again" in state.why
    compare("escalate", render_events(log))


async def test_an_agent_that_changes_nothing_is_stuck(log: BlockingRecorder) -> None:
    setup = make_driver(log, [done("I tried.")], met=[False])
    setup.workspace.compute_digest = lambda: "same"  # type: ignore[method-assign]
    state = await pursue(setup, stuck_after=2)
    assert (state.outcome, state.spent.turns) == ("escalate", 3)
    assert state.why.startswith("stuck")
    compare("stuck", render_events(log))


async def test_cancelled_in_the_midst_of_a_turn(log: BlockingRecorder) -> None:
    async def work_on(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("cancel", reason="not needed any more")])
        await asyncio.Event().wait()
        raise AssertionError

    state = await pursue(make_driver(log, [work_on]))
    assert (state.outcome, state.spent.turns) == ("cancelled", 1)
    compare("cancel", render_events(log))


async def test_paused_between_two_turns_and_taken_up_again(log: BlockingRecorder) -> None:
    async def first(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("pause")])
        return done()

    async def watch(event: Event) -> None:
        if event.kind == "goal.waiting":
            log.append([control("say", value="Mind the tests."), control("resume")])

    setup = make_driver(log, [first, done()], met=[False, True], watch=watch)
    state = await pursue(setup)
    assert (state.outcome, state.is_paused, state.messages) == ("done", False, [])
    assert "Mind the tests." in setup.harness.orders[1].prompt
    compare("pause", render_events(log))


async def test_a_budget_that_was_spent_is_raised_and_the_goal_goes_on(log: BlockingRecorder) -> None:
    setup = make_driver(log, [done()], met=[False, False, True])
    assert (await pursue(setup, budget={"max_turns": 2})).outcome == "budget_exhausted"
    log.append([control("raise", value={"turns": 5}), control("resume")])
    assert (await setup.driver.run_goal()).outcome == "done"
    compare("raise", render_events(log))


# --- sleep and replay


async def test_an_agent_that_asks_to_sleep_is_woken(log: BlockingRecorder) -> None:
    nap = TurnResult(how="asleep", words="the build runs", sleep_ms=1500, tokens=5)
    setup = make_driver(log, [nap, done()])
    state = await pursue(setup)
    assert (state.outcome, state.spent.turns) == ("done", 2)
    compare("sleep", render_events(log))


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("replay_fresh_session", failed("No conversation found with session ID: 1234")),
        ("replay_next_turn", TurnResult(how="timed_out", tokens=10)),
        ("replay_compact_and_retry", failed("prompt is too long: 210000 tokens > 200000 maximum")),
        ("replay_wait", failed("rate limited", status=429)),
    ],
)
async def test_how_it_goes_on_after_a_trouble(log: BlockingRecorder, name: str, trouble: TurnResult) -> None:
    setup = make_driver(log, [trouble, done()], clock=Clock(step=60))
    state = await pursue(setup)
    assert state.outcome == "done"
    assert state.spent.turns == (2 if name == "replay_next_turn" else 1)
    is_fresh = setup.harness.orders[1].session is None
    assert is_fresh == (name in ("replay_fresh_session", "replay_compact_and_retry"))
    assert bool(setup.workspace.rolled_back) == (name == "replay_fresh_session")
    compare(name, render_events(log))


# --- context and memory


async def test_a_context_that_is_nearly_full_is_summed_up_and_begun_anew(log: BlockingRecorder) -> None:
    moves = [done(context=90_000), done("The parser is half done.", context=91_000), done(context=10_000)]
    setup = make_driver(log, moves, met=[False, True])
    state = await pursue(setup, compaction=Compaction(context_window=100_000))
    assert (state.outcome, state.spent.turns, state.summary) == ("done", 2, "The parser is half done.")
    assert [order.is_summary for order in setup.harness.orders] == [False, True, False]
    assert setup.harness.orders[1].session == setup.harness.orders[0].new_session
    assert setup.harness.orders[2].session is None
    assert "The parser is half done." in setup.harness.orders[2].prompt
    compare("compaction", render_events(log))


async def test_memories_are_written_down_after_a_turn_and_put_in_order_at_the_end(log: BlockingRecorder, tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "memory": {"memories": [{"title": "How tests are run", "content": "With make test."}]},
        "dream": {"merges": []},
    }
    setup = make_driver(log, [done()], memory=MemoryFolder(str(tmp_path / "ada")), thinker=ScriptedModel(answers))
    state = await pursue(setup, memory=Memory())
    assert (state.outcome, state.remembering.saved) == ("done", 1)
    assert "With make test." in setup.resources.render_memory("tests")
    compare("memory", render_events(log))


# --- crash


async def test_a_driver_that_dies_in_a_turn_is_followed_by_one_that_says_so(log: BlockingRecorder) -> None:
    class Dead(BaseException):
        """Nothing is written any more."""

    async def die(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(tokens=40, events=[Event(kind="model.replied", agent="ada", data={"input": 30, "output": 10})]))
        setup.driver.journal.flush = setup.driver.journal.append = dead  # type: ignore[method-assign, assignment]
        raise Dead

    async def dead(*args: Any, **more: Any) -> None:
        raise Dead

    setup = make_driver(log, [die])
    await setup.driver.start(goal())
    await setup.driver.journal.flush()
    with pytest.raises(Dead):
        await setup.driver.run_goal()
    again = make_driver(log, [done()], met=[False, True])
    state = await again.driver.run_goal()
    assert (state.outcome, state.spent.turns) == ("done", 1)
    assert "Your last turn was interrupted" in again.harness.orders[0].prompt
    assert "2 failed" in again.harness.orders[0].prompt, "the prompt says what was checked after the crash"
    compare("crash_and_resume", render_events(log))
