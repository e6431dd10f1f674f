"""Unreachable logs, rejected text and oversized events neither end a goal nor lose what was done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import connect
from fleetlore.clock import ticks
from fleetlore.errors import Busy, DiskFull, Invalid, LogError, Unanswered, Unreachable
from fleetlore.events.driver_types import Failure, ShellCommand, Verdict
from fleetlore.events.envelope import Event
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.kernel import journal, lease
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.command import CommandHarness
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import GOAL, FakeCheckResult, done, goal, kinds, make_driver
from tests.patience import PATIENCE


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


class Away:
    """A log that fails as long as an error is set; `stores`: it stores the events, but its answer is lost."""

    def __init__(self, log: BlockingRecorder) -> None:
        self._log = log
        self.error: LogError | None = None
        self.stores, self.refused = False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def _check(self) -> None:
        if self.error is not None:
            self.refused += 1
            raise self.error

    def append(self, events: Sequence[Event], **more: Any) -> list[str]:
        if self.stores:
            self._log.append(events, **more)
        self._check()
        return self._log.append(events, **more)

    def append_all(self, events: Any) -> list[str]:
        self._check()
        return self._log.append_all(events)

    def head(self, scope: str) -> str | None:
        self._check()
        return self._log.head(scope)


@pytest.mark.parametrize("error", [Busy("held"), Unreachable("gone"), DiskFull("full"), Unanswered("lost", [])])
async def test_a_log_that_comes_back_in_time_has_missed_nothing(
    log: BlockingRecorder, error: LogError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.01)
    away = Away(log)

    async def back() -> None:
        while away.refused < 5:  # noqa: ASYNC110 - it is counted in threads
            await asyncio.sleep(0.005)
        away.error, away.stores = None, False

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        away.error, away.stores = error, isinstance(error, Unanswered)
        tasks.append(asyncio.create_task(back()))
        for number in range(3):
            await watch(TurnProgress(events=[Event(kind="tool.called", agent="ada", data={"tool": str(number)})]))
        return done()

    tasks: list[asyncio.Task[None]] = []
    setup = make_driver(away, [work], met=[True])  # type: ignore[arg-type]
    await setup.driver.start(goal())
    state = await setup.driver.run_goal()
    await asyncio.gather(*tasks)
    assert (state.outcome, len(setup.harness.orders)) == ("done", 1)
    assert [event.data["tool"] for event in log.read(kinds=["tool.called"])] == ["0", "1", "2"]
    for kind in ("driver.attempt_started", "goal.attempt_ended", "driver.attempt_completed", "driver.goal_completed"):
        assert kinds(log).count(kind) == 1


async def test_a_log_that_stays_away_ends_the_agent_and_what_it_missed_is_reported_later(
    log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journal, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.01)
    away = Away(log)
    script = f"echo $$ > {tmp_path}/pid; exec sleep 100"
    asleep = 0.0
    setup = make_driver(away, [done()], ticks=lambda: ticks() + asleep)  # type: ignore[arg-type]
    setup.resources.harness = CommandHarness(["sh", "-c", script], environ=os.environ)
    setup.workspace.path = str(tmp_path)
    await setup.driver.start(goal())
    pursuit = asyncio.create_task(setup.driver.run_goal())
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    away.error = Unreachable("the server does not answer")

    def renew(*_: Any) -> Any:
        raise Unreachable("the server does not answer")

    monkeypatch.setattr(setup.driver._coordination, "renew", renew)
    asleep = 60
    with pytest.raises(LogError, match=r"the (server|log) does not answer"):
        await asyncio.wait_for(pursuit, PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    away.error = None
    again = make_driver(log, [done()], met=[False, True])
    assert (await again.driver.run_goal()).outcome == "done"
    assert "Your last turn was interrupted" in again.harness.orders[0].prompt


async def test_ctrl_c_while_the_log_is_away_does_not_wait_for_it(log: BlockingRecorder) -> None:
    away, is_away = Away(log), asyncio.Event()

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        away.error = Unreachable("gone")
        is_away.set()
        while True:
            await watch(TurnProgress(events=[Event(kind="tool.called", agent="ada", data={"tool": "Bash"})] * 60))

    setup = make_driver(away, [work])  # type: ignore[arg-type]
    await setup.driver.start(goal())
    pursuit = asyncio.create_task(setup.driver.run_goal())
    await is_away.wait()
    pursuit.cancel()
    [end] = await asyncio.wait_for(asyncio.gather(pursuit, return_exceptions=True), PATIENCE)
    assert isinstance(end, Unreachable | asyncio.CancelledError)
    assert (await make_driver(log, [done()]).driver.run_goal()).outcome == "done"


async def test_a_goal_is_not_begun_on_a_log_that_is_away(log: BlockingRecorder) -> None:
    away = Away(log)
    away.error = Unreachable("gone")
    with pytest.raises(Unreachable):
        await make_driver(away, [done()]).driver.start(goal())  # type: ignore[arg-type]


# --- words


@pytest.mark.parametrize(
    "event",
    [
        Event(kind="tool.called", agent="ada"),  # it says no tool
        Event(kind="tool.called", agent="ada", data={"tool": "\ud800"}),
        Event(kind="tool.returned", agent="ada", data={"tool": "Read", "lines": ["x" * 1000] * 400}),
        Event(kind="No Kind", agent="ada"),
        Event(kind="agent.spoke", agent="ada", cause="that one"),
    ],
)
async def test_what_the_log_does_not_take_of_an_agent_stands_in_nobodys_way(log: BlockingRecorder, event: Event) -> None:
    good = Event(kind="tool.called", agent="ada", data={"tool": "Bash"})

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(events=[good, event, good]))
        return done()

    setup = make_driver(log, [work])
    await setup.driver.start(goal())
    assert (await setup.driver.run_goal()).outcome == "done"
    recorded = [each.kind for each in log.read(f"goal:{GOAL}", kinds=["tool.*", "log.rejected"])]
    assert recorded == ["tool.called", "log.rejected", "tool.called"]


@pytest.mark.parametrize("filling", ["x", "\x01", "\ud83d", "é", "\U0001f600"])
async def test_a_hundred_criteria_with_all_their_evidence_fit_and_so_do_words_and_errors(log: BlockingRecorder, filling: str) -> None:
    failures = tuple(
        Failure(criterion_index=number, criterion_label=filling * 200, message=filling * 2000, evidence=filling * 4095 + "!")
        for number in range(100)
    )

    async def check(*_: Any, **__: Any) -> FakeCheckResult:
        met = len(setup.harness.orders) > 2
        verdict = Verdict(met=met, failures=() if met else failures, evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=5)
        paths = [f"tests/{filling * 200}/{number}" for number in range(1000)]
        return FakeCheckResult(verdict, [TouchedFile(path=path, change="changed", reason="CI", use="left out") for path in paths])

    broken = TurnResult(how="failed", error=filling * 100_000, words=filling * 100_000)
    setup = make_driver(log, [done(filling * 100_000), broken, done()])
    setup.checker.check = check  # type: ignore[method-assign]
    await setup.driver.start(goal(progress_every=1))
    state = await setup.driver.run_goal()
    assert state.outcome == "done"
    [recorded, _] = log.read(f"goal:{GOAL}", kinds=["driver.acceptance"])
    kept = recorded.data["verdict"]["failures"]
    assert len(kept) == 100
    assert all(each["evidence"].endswith("!") for each in kept)  # the end of what was printed says most


@pytest.mark.parametrize("ms", [2**53, -5, 0])
async def test_no_nap_is_too_long_to_be_reported(log: BlockingRecorder, ms: int) -> None:
    setup = make_driver(log, [TurnResult(how="asleep", words="zzz", sleep_ms=ms), done()])
    await setup.driver.start(goal())
    pursuit = asyncio.create_task(setup.driver.run_goal())
    async with asyncio.timeout(PATIENCE):
        while setup.driver.state.wake is None and not pursuit.done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    if ms > 0:
        assert (setup.driver.state.wake - setup.driver.state.seen_at).days <= 7  # type: ignore[operator]
        pursuit.cancel()
    await asyncio.gather(pursuit, return_exceptions=True)
    assert kinds(log).count("goal.waiting") == 1


@pytest.mark.parametrize("description", ["Use the key sk-ant-api03-" + "a1B2" * 20, "word " * 4000])
async def test_a_goal_that_the_log_would_keep_otherwise_is_refused(log: BlockingRecorder, description: str) -> None:
    request = msgspec.structs.replace(goal(), description=description)
    with pytest.raises(Invalid, match="would not be kept as it is"):
        await make_driver(log, [done()]).driver.start(request)
    assert kinds(log) == []


@pytest.mark.parametrize("filling", ["x", "漢"])
async def test_a_long_goal_with_as_many_criteria_as_there_may_be_is_reported_to_the_agent(log: BlockingRecorder, filling: str) -> None:
    size = len(filling.encode())
    criteria = tuple(ShellCommand(command=filling * (550 // size), stdout_must_match=filling * (550 // size)) for _ in range(100))
    request = msgspec.structs.replace(goal(), description=filling * (16_000 // size), acceptance=criteria)
    setup = make_driver(log, [done()])
    await setup.driver.start(request)
    assert (await setup.driver.run_goal()).outcome == "done"
    assert "\n100. " in setup.harness.orders[0].prompt


async def test_a_check_that_was_called_off_at_its_very_end_is_reported(log: BlockingRecorder) -> None:
    async def check(*_: Any, **__: Any) -> FakeCheckResult:
        log.append([Event(kind="control.requested", actor="eve", goal=GOAL, data={"action": "cancel"})])
        return FakeCheckResult(Verdict(met=False, failures=(), evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=5))

    setup = make_driver(log, [done()])
    setup.checker.check = check  # type: ignore[method-assign]
    await setup.driver.start(goal())
    assert (await setup.driver.run_goal()).outcome == "cancelled"


async def test_ten_thousand_events_of_a_turn_are_kept_up_with(log: BlockingRecorder) -> None:
    """What waits stays small all the time."""
    most = 0

    async def flood(order: TurnRequest, watch: Watch) -> TurnResult:
        nonlocal most
        for number in range(1000):
            await watch(TurnProgress(tokens=number, events=[Event(kind="tool.called", agent="ada", data={"tool": "Bash"})] * 10))
            most = max(most, setup.driver.journal.recorded_count)
        return done()

    setup = make_driver(log, [flood])
    await setup.driver.start(goal())
    assert (await setup.driver.run_goal()).outcome == "done"
    assert kinds(log).count("tool.called") == 10_000
    assert most < 300
