"""Drivers that are stopped, replaced, steered and watched at awkward moments."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fleetlore import connect
from fleetlore.clock import ticks
from fleetlore.errors import Invalid, LeaseHeld, LeaseLost, LogError
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.kernel import lease as kernel_lease
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views.goal_state import GoalState, elapsed_seconds
from tests.goal.scripted import GOAL, START, Clock, DriverSetup, done, goal, kinds, make_driver
from tests.patience import PATIENCE


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


@pytest.fixture
def shared() -> Iterator[Coordination]:
    with open_shared("memory:") as shared:
        yield shared


def control(action: str, **data: Any) -> Event:
    return Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": action, **data})


async def begun(setup: DriverSetup, **options: Any) -> asyncio.Task[GoalState]:
    await setup.driver.start(goal(**options))
    return asyncio.create_task(setup.driver.run_goal())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in threads, and tells nobody
            await asyncio.sleep(0.005)


async def stopped(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


def list_complaints(log: BlockingRecorder) -> list[Any]:
    completed = log.read(f"goal:{GOAL}", kinds=["driver.attempt_completed"])
    return [event.data["result"]["harness_extras"].get("fleetlore.complaint") for event in completed]


async def forever(order: TurnRequest, watch: Watch) -> TurnResult:
    await watch(TurnProgress(tokens=10, words="on my way"))
    await asyncio.Event().wait()
    raise AssertionError


# --- stopped from outside


@pytest.mark.parametrize("times", [1, 2])
async def test_stopped_while_the_workspace_is_saved_it_writes_nothing_once_it_has_let_go(
    log: BlockingRecorder, shared: Coordination, times: int
) -> None:
    setup = make_driver(log, [done()], shared=shared)
    is_saving, may_go_on, checkpoint = threading.Event(), threading.Event(), setup.workspace.checkpoint

    def slowly(turn: int) -> Any:
        is_saving.set()
        may_go_on.wait(PATIENCE)
        return checkpoint(turn)

    setup.workspace.checkpoint = slowly  # type: ignore[method-assign]
    pursuit = await begun(setup)
    await until(is_saving.is_set)
    for _ in range(times):
        pursuit.cancel()
        await asyncio.sleep(0.02)
    assert shared.find_lease(f"goal:{GOAL}") is not None  # what it began is not over
    may_go_on.set()
    await stopped(pursuit)
    assert shared.find_lease(f"goal:{GOAL}") is None
    assert setup.harness.orders == []
    assert "crashed" not in list_complaints(log)  # it was recorded, as far as there was time
    assert (await make_driver(log, [done()], shared=shared).driver.run_goal()).outcome == "done"


async def test_stopped_while_the_order_is_made_the_turn_is_reported_as_cut_short(log: BlockingRecorder) -> None:
    setup = make_driver(log, [done()])
    is_reading, may_go_on = threading.Event(), threading.Event()

    def slowly(about: str) -> str:
        is_reading.set()
        may_go_on.wait(PATIENCE)
        return ""

    setup.resources.render_memory = slowly  # type: ignore[method-assign]
    pursuit = await begun(setup)
    await until(is_reading.is_set)
    pursuit.cancel()
    may_go_on.set()
    await stopped(pursuit)
    assert (setup.harness.orders, list_complaints(log)) == ([], ["interrupted"])


async def test_an_agent_that_ends_well_though_it_is_stopped_does_not_make_the_driver_go_on(log: BlockingRecorder) -> None:
    async def stubborn(order: TurnRequest, watch: Watch) -> TurnResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return done("I was done anyway")
        raise AssertionError

    setup = make_driver(log, [stubborn], met=[False])
    pursuit = await begun(setup)
    await until(lambda: bool(setup.harness.orders))
    pursuit.cancel()
    await stopped(pursuit)
    assert (len(setup.harness.orders), list_complaints(log)) == (1, ["interrupted"])


async def test_stopped_while_an_agent_that_is_over_its_budget_is_being_ended(log: BlockingRecorder) -> None:
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def slow_to_end(order: TurnRequest, watch: Watch) -> TurnResult:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await may_end.wait()
        raise AssertionError

    setup = make_driver(log, [slow_to_end], met=[False])
    pursuit = await begun(setup)
    await until(lambda: bool(setup.harness.orders))
    assert setup.driver._turn is not None
    setup.driver._turn.cancel_turn("over_budget")
    await ending.wait()
    pursuit.cancel()
    may_end.set()
    await stopped(pursuit)
    assert setup.checker.checks == 0


# --- one driver at a time


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


async def test_who_follows_a_dead_driver_is_not_followed_while_it_lives(shared: Coordination) -> None:
    dead = f"{kernel_lease._host_and_namespace()}:{dead_pid()}"
    assert shared.acquire(f"goal:{GOAL}", dead, 30) is not None
    async with kernel_lease.LeaseHolder(shared, f"goal:{GOAL}"):
        with pytest.raises(LeaseHeld, match="is held by"):
            async with kernel_lease.LeaseHolder(shared, f"goal:{GOAL}"):
                raise AssertionError
    async with kernel_lease.LeaseHolder(shared, f"goal:{GOAL}"):  # given back
        pass


async def test_two_drivers_of_one_process_do_not_take_a_goal_from_each_other(log: BlockingRecorder, shared: Coordination) -> None:
    setup = make_driver(log, [forever], shared=shared)
    pursuit = await begun(setup)
    await until(lambda: bool(setup.harness.orders))
    other = make_driver(log, [done()], shared=shared)
    with pytest.raises(LogError, match=f":{os.getpid()}/"):
        await other.driver.run_goal()
    pursuit.cancel()
    await stopped(pursuit)
    assert other.harness.orders == []


async def test_of_two_who_resume_at_the_same_moment_one_drives(log: BlockingRecorder, shared: Coordination) -> None:
    await make_driver(log, []).driver.start(goal())
    both = [make_driver(log, [done()], shared=shared) for _ in range(2)]
    ends = await asyncio.gather(*(each.driver.run_goal() for each in both), return_exceptions=True)
    assert sum(len(each.harness.orders) for each in both) == 1
    assert any(isinstance(end, GoalState) and end.outcome == "done" for end in ends)


async def test_a_goal_is_begun_once_though_two_begin_it_at_the_same_moment(log: BlockingRecorder) -> None:
    both = [make_driver(log, [done()]) for _ in range(2)]
    ends = await asyncio.gather(*(each.driver.start(goal()) for each in both), return_exceptions=True)
    assert [type(end) for end in ends if end is not None] == [Invalid]
    assert kinds(log).count("driver.goal_started") == 1


def stolen(shared: Coordination) -> int:
    """The lease has expired, and a driver on another machine holds it."""
    held = shared.find_lease(f"goal:{GOAL}")
    assert held is not None
    shared.release(held)
    lease = shared.acquire(f"goal:{GOAL}", "elsewhere:1:2/1", 30)
    assert lease is not None
    return lease.epoch


@pytest.mark.parametrize("is_paused", [True, False])
async def test_a_lost_lease_stops_the_driver_which_says_so_and_writes_nothing_more(
    log: BlockingRecorder, shared: Coordination, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    monkeypatch.setattr(kernel_lease, "RENEW_SECONDS", 0.05)
    setup = make_driver(log, [forever], shared=shared)
    await setup.driver.start(goal())
    if is_paused:
        log.append([control("pause")])
    pursuit = asyncio.create_task(setup.driver.run_goal())
    await until(lambda: setup.driver.state.waiting_for == "paused" if is_paused else bool(setup.harness.orders))
    stolen(shared)
    before = log.head()
    with pytest.raises(LeaseLost):
        await pursuit
    assert log.head() == before
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_driver_that_slept_through_its_lease_writes_nothing_that_the_next_one_would_take_for_its_own(
    log: BlockingRecorder, shared: Coordination
) -> None:
    is_awake = asyncio.Event()

    async def sleeper(order: TurnRequest, watch: Watch) -> TurnResult:
        await is_awake.wait()
        return done("long ago")

    late = make_driver(log, [sleeper], shared=shared)
    pursuit = await begun(late)
    await until(lambda: bool(late.harness.orders))
    late.driver.journal.poll = asyncio.Event().wait  # type: ignore[assignment,method-assign] # it does not know yet
    epoch = stolen(shared)
    reporter = late.driver.journal.event_factory
    state = late.driver.state
    log.append([reporter.lease_taken("elsewhere:1:2/1", epoch), reporter.attempt_started(state, 1)])
    head = log.head()
    is_awake.set()
    with pytest.raises(LeaseLost):
        await pursuit
    assert log.head() == head


async def test_a_lease_that_may_be_over_is_renewed_before_anything_is_written(log: BlockingRecorder, shared: Coordination) -> None:
    """As after a sleep of the whole machine."""
    asleep = 0.0
    setup = make_driver(log, [forever], shared=shared, ticks=lambda: ticks() + asleep)
    pursuit = await begun(setup)
    await until(lambda: bool(setup.harness.orders))
    assert shared.find_lease(f"goal:{GOAL}") is not None
    asleep = 3600
    setup.driver.journal.record(
        [Event(kind="tool.called", agent="ada", goal=GOAL, id=setup.driver.journal.new_id(), data={"tool": "Bash"})]
    )
    await setup.driver.journal.flush()
    assert kinds(log)[-1] == "tool.called"  # nobody had taken it
    stolen(shared)
    setup.driver.journal.record(
        [Event(kind="tool.called", agent="ada", goal=GOAL, id=setup.driver.journal.new_id(), data={"tool": "Bash"})]
    )
    asleep = 7200
    with pytest.raises(LeaseLost):
        await setup.driver.journal.flush()
    pursuit.cancel()
    await asyncio.gather(pursuit, return_exceptions=True)


async def test_a_renewal_that_fails_in_an_unknown_way_gives_the_goal_up_in_time(
    shared: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("nobody foresaw this")

    monkeypatch.setattr(kernel_lease, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(kernel_lease, "RETRY_SECONDS", 0.01)
    asleep = 0.0
    hold = kernel_lease.LeaseHolder(shared, f"goal:{GOAL}", ticks=lambda: ticks() + asleep)
    async with hold:
        monkeypatch.setattr(shared, "renew", broken)
        asleep = 60
        async with asyncio.timeout(PATIENCE):
            await hold.lost.wait()
        assert "nobody foresaw this" in str(hold.make_loss_error())


# --- steered


@pytest.mark.parametrize("where", ["paused", "asleep", "limited", "asking", "checking"])
async def test_a_goal_is_called_off_wherever_it_is(log: BlockingRecorder, where: str) -> None:
    nap = TurnResult(how="asleep", words="the build runs", sleep_ms=3_600_000)
    limited = TurnResult(how="failed", error="You've hit your session limit · resets 1:10am", status=429)

    async def ask(order: TurnRequest, watch: Watch) -> TurnResult:
        await setup.resources.tool_gate.permit("Bash", {"command": "make"})
        await asyncio.Event().wait()
        raise AssertionError

    moves: dict[str, Any] = {"asleep": nap, "limited": limited, "asking": ask}
    setup = make_driver(log, [moves.get(where, done())], met=[False], clock=Clock(0))
    if where == "checking":

        async def check(*_: Any, cancel: asyncio.Event, **__: Any) -> Any:
            await cancel.wait()
            return await type(setup.checker).check(setup.checker, *_, cancel=cancel, **__)

        setup.checker.check = check  # type: ignore[method-assign]
    await setup.driver.start(goal(permissions=Permissions(ask=True)))
    if where == "paused":
        log.append([control("pause")])
    pursuit = asyncio.create_task(setup.driver.run_goal())
    state = setup.driver
    reached: dict[str, Callable[[], bool]] = {
        "paused": lambda: state.state.waiting_for == "paused",
        "asking": lambda: bool(state.state.questions),
        "checking": lambda: state.state.attempt is not None and state.state.attempt.ending is not None,
    }
    await until(reached.get(where, lambda: state.state.wake is not None))
    log.append([control("cancel")])
    async with asyncio.timeout(PATIENCE):
        assert (await pursuit).outcome == "cancelled"


async def test_a_budget_that_is_raised_in_the_midst_of_a_turn_holds_for_that_turn(log: BlockingRecorder) -> None:
    """An agent that got the old budget stops by itself at that."""

    async def by_the_order(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("raise", value={"tokens": 5000})])
        await until(lambda: setup.driver.state.limits.tokens == 5000)
        return TurnResult(how="over_budget", tokens=900, extras={"axis": "tokens"})

    setup = make_driver(log, [by_the_order, done()])
    state = await (await begun(setup, budget={"max_tokens": 1000}))
    assert (state.outcome, state.spent.turns, state.spent.tokens) == ("done", 1, 1000)


async def test_words_of_a_person_outlive_a_turn_that_was_stopped(log: BlockingRecorder) -> None:
    async def receive(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([control("say", value="Second.")])
        return await forever(order, watch)

    setup = make_driver(log, [receive])
    await setup.driver.start(goal())
    log.append([control("say", value="First.")])
    pursuit = asyncio.create_task(setup.driver.run_goal())
    await until(lambda: [message.text for message in setup.driver.state.messages] == ["Second."])
    pursuit.cancel()
    await stopped(pursuit)
    again = make_driver(log, [done()])
    await again.driver.run_goal()
    assert again.harness.orders[0].prompt.index("First.") < again.harness.orders[0].prompt.index("Second.")


async def test_time_counts_until_a_turn_in_which_a_pause_was_asked_for_is_over(log: BlockingRecorder) -> None:
    clock = Clock(0)

    async def pause(order: TurnRequest, watch: Watch) -> TurnResult:
        log.append([msgspec.structs.replace(control("pause"), at=clock.moment)])
        await until(lambda: setup.driver.state.is_paused)
        clock.moment += timedelta(minutes=10)
        return done()

    setup = make_driver(log, [pause], met=[False], clock=clock)
    pursuit = await begun(setup)
    await until(lambda: setup.driver.state.waiting_for == "paused")
    clock.moment += timedelta(hours=5)
    assert elapsed_seconds(setup.driver.state, clock.moment) == 600
    pursuit.cancel()
    await stopped(pursuit)


async def test_time_goes_on_after_a_clock_was_set_back(log: BlockingRecorder) -> None:
    clock = Clock(0)

    async def set_back(order: TurnRequest, watch: Watch) -> TurnResult:
        clock.moment -= timedelta(hours=1)
        return done()

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        clock.moment += timedelta(minutes=5)
        return done()

    state = await (await begun(make_driver(log, [set_back, work], met=[False, True], clock=clock)))
    assert state.spent.seconds == 300


# --- watched


async def test_watchers_see_events_in_the_order_of_the_log_however_slow_they_are(log: BlockingRecorder) -> None:
    seen: list[str] = []

    async def slowly(event: Event) -> None:
        await asyncio.sleep(0.002)
        seen.append(event.id or "")

    async def chat(order: TurnRequest, watch: Watch) -> TurnResult:
        for number in range(20):
            log.append([control("say", value=str(number))])
            book = setup.driver.journal
            await asyncio.gather(
                book.append([book.event_factory.make_event("agent.spoke", {"turn": number})]),
                book.catch_up(),
                book.catch_up(),
            )
        return done()

    setup = make_driver(log, [chat], watch=slowly)
    await (await begun(setup))
    assert seen == [event.id for event in log.read(f"goal:{GOAL}")]


async def test_a_watcher_that_breaks_while_the_agent_works_stops_the_driver(log: BlockingRecorder) -> None:
    async def breaks(event: Event) -> None:
        if event.kind == "control.requested":
            raise BrokenPipeError

    setup = make_driver(log, [forever], watch=breaks)
    pursuit = await begun(setup)
    await until(lambda: bool(setup.harness.orders))
    log.append([control("say", value="Hello?")])
    with pytest.raises(BrokenPipeError):
        await asyncio.wait_for(pursuit, PATIENCE)


async def test_a_sink_that_hangs_or_breaks_holds_up_nothing_and_the_others_are_informed(
    log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hangs:
        async def publish(self, event: Event) -> None:
            await asyncio.Event().wait()

    class Breaks:
        async def publish(self, event: Event) -> None:
            raise ZeroDivisionError("no way")

    class Keeps:
        def __init__(self) -> None:
            self.kinds: list[str] = []

        async def publish(self, event: Event) -> None:
            await asyncio.sleep(0)
            self.kinds.append(event.kind)

    monkeypatch.setattr("fleetlore.goal.journal.CLOSE_TIMEOUT_SECONDS", 0.05)
    keeps = Keeps()
    setup = make_driver(log, [done()], sinks=[Hangs(), Breaks(), keeps])
    async with asyncio.timeout(PATIENCE):
        state = await (await begun(setup))
    assert state.outcome == "done"
    assert setup.driver.journal.forwarder.last_failure == "no way"
    assert keeps.kinds == [kind for kind in kinds(log) if kind.startswith("driver.")]


def test_what_a_driver_records_of_a_turn_that_another_has_followed_changes_nothing() -> None:
    from fleetlore.views import goals as view

    led_goal = goal()
    state = GoalState(id=GOAL)

    def emit(kind: str, data: Any, **more: Any) -> str:
        event = Event(id=f"00000000-0000-4000-8000-{len(kind):012d}", at=START, kind=kind, goal=GOAL, data=data, **more)
        view.apply_to_goal(state, event)
        return event.id or ""

    emit("driver.goal_started", {"goal": msgspec.to_builtins(led_goal)})
    attempt = emit(
        "driver.attempt_started", {"goal_id": GOAL, "turn_index": 1, "usage": msgspec.to_builtins(view.goal_usage(state, START))}
    )
    emit("goal.attempt_ended", {"turn": 1, "how": "finished", "tokens": 5, "seconds": 1}, cause="00000000-0000-4000-8000-00000000dead")
    assert state.attempt is not None
    assert state.attempt.ending is None
    emit("goal.attempt_ended", {"turn": 1, "how": "finished", "tokens": 5, "seconds": 1}, cause=attempt)
    assert state.attempt.ending is not None
