"""Goals that share a budget: what one has reserved the others cannot spend, and nobody waits for a driver that died."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.goal.turn import FIRST_CALL, LONGEST_CALL, estimate_call, find_blockers
from fleetlore.kernel.lease import make_holder_name
from fleetlore.log.coordination import Coordination, open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from fleetlore.views.goal_state import GoalLimits, GoalState, GoalUsage, Reservation
from tests.goal.scripted import START, done
from tests.goal.test_spending import BESIDE, LOW, MIDDLE, TOP, answered, below, known
from tests.patience import PATIENCE

CHILDREN = (LOW, BESIDE, MIDDLE, "3f2b8c1e-0000-4000-8000-000000000009")


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


@pytest.fixture
def shared() -> Iterator[Coordination]:
    with open_shared("memory:") as shared:
        yield shared


def parent(spent: int, *, turns: int = 0, limit: int = 1000, **reserved: Reservation) -> GoalState:
    limits = GoalLimits(tokens=limit, turns=10)
    return GoalState(id="top", limits=limits, spent=GoalUsage(tokens=spent, turns=turns), reserved=dict(reserved))


def reserved(tokens: int, **more: Any) -> Reservation:
    return Reservation(tokens=tokens, at=START, **more)


# --- the rule


@pytest.mark.parametrize(
    ("parents", "wanted", "blockers"),
    [
        pytest.param([parent(0)], 100, set(), id="nobody else"),
        pytest.param([parent(999)], 500, set(), id="the only one may pass the limit by one call"),
        pytest.param([parent(0, b=reserved(100))], 100, set(), id="room for both"),
        pytest.param([parent(800, b=reserved(100))], 100, set(), id="just enough room"),
        pytest.param([parent(801, b=reserved(100))], 100, {"b"}, id="both cannot spend the rest"),
        pytest.param([parent(801, a=reserved(100))], 100, set(), id="what is its own"),
        pytest.param([parent(0), parent(901, b=reserved(50), c=reserved(1))], 100, {"b", "c"}, id="higher up"),
        pytest.param([parent(900, top=reserved(500))], 100, set(), id="a goal does not wait for its own parent"),
        pytest.param([parent(0, turns=9, b=reserved(1, turns=1))], 1, {"b"}, id="the last turn"),
        pytest.param([parent(900, b=Reservation(tokens=99, at=START - LONGEST_CALL))], 100, set(), id="too old"),
    ],
)
def test_a_goal_waits_for_those_who_have_reserved_the_rest(parents: list[GoalState], wanted: int, blockers: set[str]) -> None:
    assert find_blockers(parents, "a", Reservation(tokens=wanted, turns=1), START) == blockers
    assert find_blockers(parents, "a", Reservation(tokens=wanted, turns=1), START, ignored=blockers) == set()


def test_the_next_call_is_reserved_by_the_largest_so_far() -> None:
    top, above = parent(0), parent(0)
    assert estimate_call([top, above]) == FIRST_CALL
    top.largest_call, above.largest_call = Reservation(tokens=300), Reservation(tokens=500, usd=0.5)
    assert estimate_call([top, above]) == Reservation(tokens=1000, usd=1.0)


# --- whole goals


class Caller:
    """Makes calls of given sizes, the last one for ever. A program notices only after the next call that it must stop."""

    def __init__(self, sizes: Sequence[int], pauses: Sequence[int]) -> None:
        self._sizes, self._pauses, self.calls = list(sizes), list(pauses), 0

    async def __call__(self, order: TurnRequest, watch: Watch) -> TurnResult:
        spent = 0
        while True:
            for _ in range(self._pauses[self.calls % len(self._pauses)]):
                await asyncio.sleep(0)
            size = self._sizes[min(self.calls, len(self._sizes) - 1)]
            self.calls, spent = self.calls + 1, spent + size
            if stop := await watch(TurnProgress(tokens=spent, events=[answered(size, "turn")])):
                return TurnResult(how=stop, tokens=spent)
            assert self.calls < 1000, "nobody stops it"


SIZES = st.lists(st.integers(50, 100), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(SIZES, st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans()), min_size=2, max_size=4),
    st.integers(100, 2500),
)
def test_together_they_spend_the_budget_and_at_most_one_call_more(agents: list[tuple[list[int], list[int], bool]], limit: int) -> None:
    async def run() -> tuple[int, int]:
        with connect("memory:").blocking() as log, open_shared("memory:") as shared:
            await below(log, TOP, None, [], budget={"max_tokens": limit, "max_turns": 1000})
            setups = []
            for id, (sizes, pauses, is_in_process) in zip(CHILDREN, agents, strict=False):
                options: dict[str, Any] = {"shared": shared, "sleep": lambda seconds: asyncio.sleep(0), "budget": {"max_turns": 1000}}
                setup = await below(log, id, TOP, [Caller(sizes, pauses)], met=[False], **options)
                setup.harness.name = "mind" if is_in_process else "command"
                setups.append(setup)
            async with asyncio.timeout(PATIENCE):
                ends = await asyncio.gather(*(setup.driver.run_goal() for setup in setups))
            assert {end.outcome for end in ends} == {"budget_exhausted"}
            top = known(log, TOP)
            assert top.reserved == {}, "nothing stays reserved"
            assert top.spent.tokens == sum(end.spent.tokens for end in ends)
            return top.spent.tokens, max(max(sizes) for sizes, _, _ in agents)

    spent, largest = asyncio.run(run())
    assert limit <= spent < limit + largest


async def waiting(log: BlockingRecorder, *ids: str) -> None:
    """Until one of the goals waits."""
    while not any("goal.waiting" in {event.kind for event in log.read(f"goal:{id}")} for id in ids):  # noqa: ASYNC110 - the log tells
        await asyncio.sleep(0.01)


async def test_a_turn_is_reserved_before_it_starts(log: BlockingRecorder, shared: Coordination) -> None:
    """Two goals want the last turn: one gets it, and the other ends without a turn."""
    release = asyncio.Event()

    async def work(order: TurnRequest, watch: Watch) -> TurnResult:
        await release.wait()
        return done(tokens=10)

    await below(log, TOP, None, [], budget={"max_turns": 1})
    setups = [await below(log, id, TOP, [work], shared=shared) for id in (LOW, BESIDE)]
    runs = [asyncio.create_task(setup.driver.run_goal()) for setup in setups]
    async with asyncio.timeout(PATIENCE):
        await waiting(log, LOW, BESIDE)
        release.set()
        ends = await asyncio.gather(*runs)
    assert sorted(str(end.outcome) for end in ends) == ["budget_exhausted", "done"]
    assert sorted(len(setup.harness.orders) for setup in setups) == [0, 1]
    assert known(log, TOP).spent.turns == 1


# --- drivers that die


def reserve(log: BlockingRecorder, by: str, tokens: int) -> None:
    log.append([Event(kind="goal.reserved", actor="driver", goal=TOP, data={"below": by, "tokens": tokens})])


def dead_holder() -> str:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return make_holder_name().replace(f":{os.getpid()}/", f":{gone.pid}/")


@pytest.mark.parametrize("lease", ["none", "of a dead process"])
async def test_what_a_dead_driver_had_reserved_is_released(log: BlockingRecorder, shared: Coordination, lease: str) -> None:
    await below(log, TOP, None, [], budget={"max_tokens": 1000})
    await below(log, BESIDE, TOP, [])
    if lease != "none":
        assert shared.acquire(f"goal:{BESIDE}", dead_holder(), 600)
    reserve(log, BESIDE, 1000)
    setup = await below(log, LOW, TOP, [done(tokens=10)], shared=shared)
    async with asyncio.timeout(PATIENCE):
        assert (await setup.driver.run_goal()).outcome == "done"
    assert known(log, TOP).reserved == {}


async def test_the_reservation_of_a_living_driver_is_waited_for(log: BlockingRecorder, shared: Coordination) -> None:
    await below(log, TOP, None, [], budget={"max_tokens": 1000})
    await below(log, BESIDE, TOP, [])
    lease = shared.acquire(f"goal:{BESIDE}", make_holder_name(), 600)
    assert lease is not None
    clock = [START + timedelta(minutes=1)]
    setup = await below(log, LOW, TOP, [done(tokens=10)], shared=shared, clock=lambda: clock[0])
    log.append([Event(kind="goal.reserved", at=clock[0], actor="driver", goal=TOP, data={"below": BESIDE, "tokens": 1000})])
    run = asyncio.create_task(setup.driver.run_goal())
    async with asyncio.timeout(PATIENCE):
        await waiting(log, LOW)
        assert setup.harness.orders == []
        clock[0] += LONGEST_CALL  # no call takes that long
        assert (await run).outcome == "done"


def test_a_killed_run_leaves_the_budget_to_its_siblings(tmp_path: Path) -> None:
    """The same with processes: `kill -9` in the middle of a turn."""
    address, ids = f"sqlite:{tmp_path}/fleet.db", {"top": TOP, "a": LOW, "b": BESIDE}
    commands = {"top": "true", "a": f"echo $$ > {tmp_path}/pid; exec sleep 600", "b": "true"}

    def write_goal(name: str) -> Path:
        path = tmp_path / f"{name}.toml"
        above = "" if name == "top" else f'parent = "{TOP}"\n'
        command = commands[name]
        path.write_text(
            f'id = "{ids[name]}"\ndescription = "Goal {name}."\nharness = "command"\ncommand = ["sh", "-c", "{command}"]\n'
            f'workspace = "{tmp_path}"\nisolation = "none"\n{above}[budget]\nmax_tokens = 1000\n[[acceptance]]\ncommand = "true"\n'
        )
        return path

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-m", "fleetlore", "--log", address, "goal", "run", str(write_goal(name))]
        environ = os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        return subprocess.Popen(arguments, env=environ, stdout=subprocess.DEVNULL)

    assert start("top").wait(PATIENCE) == 0
    killed, pid = start("a"), tmp_path / "pid"
    with connect(address).blocking() as log:
        while not (pid.exists() and pid.read_text().strip()):
            assert killed.poll() is None
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        assert known(log, TOP).reserved.keys() == {LOW}
        assert start("b").wait(PATIENCE) == 0
        assert known(log, BESIDE).outcome == "done"
        assert known(log, TOP).reserved == {}
