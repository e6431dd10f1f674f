"""The journal's lease on every backend: one holder, a block that is cancelled when it is lost, crashes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetlore import clock, connect
from fleetlore.errors import LeaseHeld, LeaseLost, Unreachable
from fleetlore.events.envelope import Event
from fleetlore.kernel.journal import Journal, NoState
from fleetlore.kernel.lease import LEASE_SECONDS, RENEW_SECONDS, LeaseHolder
from fleetlore.log.async_recorder import Recorder
from fleetlore.log.coordination import Coordination, open_shared
from tests.contract.conftest import BACKENDS, SHARED, address
from tests.patience import PATIENCE


class ManualTime:
    """A clock that the test moves, and a sleep that ends when it has moved far enough."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def ticks(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.seconds + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        for _ in range(10):  # tasks that are about to sleep do so first
            await asyncio.sleep(0)
        self.seconds += seconds
        for due, woken in self._sleepers:
            if due <= self.seconds:
                woken.set()


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
async def log(url: str) -> AsyncIterator[Recorder]:
    async with connect(url) as opened:
        yield opened


@pytest.fixture
def shared(url: str) -> Iterator[Coordination]:
    with open_shared(url) as coordination:
        yield coordination


def open_journal(log: Recorder, time: ManualTime | None = None, **options: Any) -> Journal[None]:
    used = {} if time is None else {"ticks": time.ticks, "sleep": time.sleep}
    return Journal(log, NoState(), scopes=("goal:g",), **used | options)


def note(text: str) -> Event:
    return Event(kind="fleet.note", agent="ada", goal="g", text=text)


async def read_texts(log: Recorder) -> list[str | None]:
    return [event.text async for event in log.read("goal:g")]


def take_from_holder(shared: Coordination, name: str = "goal:g") -> None:
    """Its lease has expired, and another machine has taken it."""
    held = shared.find_lease(name)
    assert held is not None
    shared.release(held)
    assert shared.acquire(name, "elsewhere:1:2/1", 30) is not None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - nothing tells that a thread has answered
            await asyncio.sleep(0)


# --- one holder


async def test_a_lease_has_one_holder_at_a_time(log: Recorder, shared: Coordination) -> None:
    journal, other = open_journal(log), open_journal(log)
    async with journal.lease(shared) as held:
        with pytest.raises(LeaseHeld, match="goal:g is held by"):
            async with other.lease(shared):
                raise AssertionError
        async with other.lease(shared, "another name"):
            pass
        assert held.lease is not None
        first_epoch = held.lease.epoch
    assert shared.find_lease("goal:g") is None
    async with other.lease(shared) as later:
        assert later.lease is not None
        assert later.lease.epoch > first_epoch


async def test_a_block_that_fails_gives_the_lease_back_and_raises_its_own_error(log: Recorder, shared: Coordination) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_journal(log).lease(shared):
            raise ZeroDivisionError
    assert shared.find_lease("goal:g") is None


# --- losing it


async def test_losing_the_lease_cancels_the_block(log: Recorder, shared: Coordination) -> None:
    time = ManualTime()
    was_cancelled = False

    async def hold() -> None:
        nonlocal was_cancelled
        async with open_journal(log, time).lease(shared):
            take_from_holder(shared)
            await time.advance(RENEW_SECONDS)
            try:
                async with asyncio.timeout(PATIENCE):
                    await asyncio.Event().wait()
            except asyncio.CancelledError:
                was_cancelled = True
                raise

    with pytest.raises(LeaseLost):
        await hold()
    assert was_cancelled
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    assert shared.find_lease("goal:g").holder == "elsewhere:1:2/1"  # type: ignore[union-attr]


async def test_a_block_that_is_cancelled_by_others_is_cancelled_also_if_the_lease_is_lost(log: Recorder, shared: Coordination) -> None:
    entered = asyncio.Event()

    async def hold(must_lose: bool) -> None:
        async with open_journal(log).lease(shared, f"lost: {must_lose}") as lease:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                if must_lose:
                    lease.lost.set()
                    await asyncio.wait_for(asyncio.shield(asyncio.sleep(0)), PATIENCE)

    for must_lose in (False, True):
        entered.clear()
        task = asyncio.create_task(hold(must_lose))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_error_that_a_cancelled_block_ends_with_is_raised_and_no_request_to_cancel_remains(
    log: Recorder, shared: Coordination
) -> None:
    async def hold() -> None:
        async with open_journal(log).lease(shared) as lease:
            lease.lost.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await hold()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_an_event_with_a_higher_epoch_ends_the_lease_and_one_with_its_own_does_not(log: Recorder, shared: Coordination) -> None:
    async def hold() -> None:
        async with open_journal(log).lease(shared) as lease:
            assert lease.lease is not None
            lease.on_lease_taken(lease.lease.epoch)
            assert not lease.lost.is_set()
            lease.on_lease_taken(lease.lease.epoch + 1)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        await hold()


# --- renewing


async def test_it_is_renewed_by_the_given_clock_and_sleep(log: Recorder, shared: Coordination) -> None:
    time = ManualTime()
    async with open_journal(log, time).lease(shared, ttl=60.0, renew=20.0) as lease:
        for _ in range(3):
            before = lease.lease
            await time.advance(19.0)
            await asyncio.sleep(0)
            assert lease.lease is before
            await time.advance(1.0)
            await until(lambda before=before: lease.lease is not before)  # type: ignore[misc]
            assert lease._held_until == time.seconds + 60.0
        await lease.ensure_held()


async def test_a_store_that_does_not_answer_costs_the_lease_when_it_may_have_expired_and_not_before(
    log: Recorder, shared: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Unreachable("nobody answers")

    time = ManualTime()

    async def hold() -> None:
        async with open_journal(log, time).lease(shared) as lease:
            monkeypatch.setattr(shared, "renew", fail)
            await time.advance(RENEW_SECONDS)
            await until(lambda: lease.last_failure is not None)
            assert not lease.lost.is_set()
            await time.advance(LEASE_SECONDS)
            async with asyncio.timeout(PATIENCE):
                await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="could not be renewed: nobody answers"):
        await hold()


# --- writing with it


async def test_a_fenced_journal_writes_while_the_lease_is_held_and_nothing_after(log: Recorder, shared: Coordination) -> None:
    time = ManualTime()
    journal = open_journal(log, time)

    async def hold() -> None:
        async with journal.lease(shared, fenced=True):
            await journal.append([note("held")])
            take_from_holder(shared)
            await time.advance(LEASE_SECONDS)  # as after a suspend: it does not know yet
            await journal.append([note("late")])

    with pytest.raises(LeaseLost):
        await hold()
    assert await read_texts(log) == ["held"]
    await journal.append([note("no lease, no fence")])


async def test_a_fenced_journal_retries_as_long_as_the_lease_is_held(log: Recorder, shared: Coordination) -> None:
    class RarelyReachableLog:
        failures = 3

        async def append(self, events: list[Event], **options: Any) -> list[str]:
            if self.failures:
                self.failures -= 1
                raise Unreachable("nobody answers")
            return await log.append(events, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

    sleeping = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds >= 1:  # the renewals
            await sleeping.wait()

    used: Any = RarelyReachableLog()
    journal = open_journal(used, sleep=sleep, retry_seconds=0.0)
    with pytest.raises(Unreachable):
        await journal.append([note("unfenced")])
    async with journal.lease(shared, fenced=True):
        await journal.append([note("fenced")])
    assert await read_texts(log) == ["fenced"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["enter", "leave", "write", "lose"])), max_size=25))
def test_of_whatever_holders_do_only_the_newest_epoch_is_written(url: str, actions: list[tuple[int, str]]) -> None:
    """Each of three processes enters and leaves, writes fenced, and loses its lease without knowing."""

    async def run() -> None:
        name = f"goal:{clock.uuid7()}"
        async with connect(url) as log:
            with open_shared(url) as shared:
                await _act(log, shared, name, actions)

    asyncio.run(run())


async def _act(log: Recorder, shared: Coordination, name: str, actions: list[tuple[int, str]]) -> None:
    time = ManualTime()
    journals = [Journal(log, NoState(), scopes=(name,), ticks=time.ticks, sleep=time.sleep) for _ in range(3)]
    leave: dict[int, Callable[[], Awaitable[None]]] = {}
    leases: dict[int, LeaseHolder] = {}
    owner: int | None = None
    written: list[int] = []

    async def hold(who: int, is_entered: asyncio.Event, is_leaving: asyncio.Event) -> None:
        async with journals[who].lease(shared, name, holder=f"elsewhere:{who}", fenced=True) as lease:
            leases[who] = lease
            is_entered.set()
            await is_leaving.wait()

    for who, action in actions:
        match action:
            case "enter" if who not in leave:
                is_entered, is_leaving = asyncio.Event(), asyncio.Event()
                task = asyncio.create_task(hold(who, is_entered, is_leaving))
                entering = asyncio.create_task(is_entered.wait())
                await asyncio.wait([task, entering], return_when=asyncio.FIRST_COMPLETED)
                entering.cancel()
                if owner is not None:
                    with pytest.raises(LeaseHeld):
                        await task
                    continue

                async def end(task: asyncio.Task[None] = task, is_leaving: asyncio.Event = is_leaving) -> None:
                    is_leaving.set()
                    await asyncio.gather(task, return_exceptions=True)

                owner, leave[who] = who, end
            case "leave" if who in leave:
                await leave.pop(who)()
                owner = None if owner == who else owner
            case "lose" if owner is not None:  # it expires, and its holder does not know
                held = shared.find_lease(name)
                assert held is not None
                shared.release(held)
                time.seconds += LEASE_SECONDS  # nobody's sleep ends: suspended
                owner = None
            case "write" if who in leave:
                lease = leases[who].lease
                assert lease is not None
                event = Event(kind="fleet.note", agent="ada", goal=name.removeprefix("goal:"), text=str(lease.epoch))
                if owner == who:
                    await journals[who].append([event])
                    written.append(lease.epoch)
                else:
                    with pytest.raises(LeaseLost):
                        await journals[who].append([event])
    for end_block in leave.values():
        await end_block()
    assert written == sorted(written)
    assert [event.text async for event in log.read(name)] == [str(epoch) for epoch in written]


# --- crashes

HOLD_AND_WAIT = """
import asyncio, sys
from fleetlore import connect
from fleetlore.kernel.journal import Journal, NoState
from fleetlore.log.coordination import open_shared

async def hold(url):
    async with connect(url) as log:
        with open_shared(url) as shared:
            async with Journal(log, NoState(), scopes=("goal:g",)).lease(shared, fenced=True):
                print("holds it", flush=True)
                await asyncio.Event().wait()

asyncio.run(hold(sys.argv[1]))
"""


@pytest.mark.parametrize("url", SHARED, indirect=True)
async def test_the_lease_of_a_killed_process_is_taken_over_at_once(url: str, log: Recorder, shared: Coordination) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD_AND_WAIT, url, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"holds it\n"
        abandoned = shared.find_lease("goal:g")
        with pytest.raises(LeaseHeld):
            async with open_journal(log).lease(shared):
                raise AssertionError
    finally:
        process.kill()
        await process.wait()
    async with open_journal(log).lease(shared) as lease:
        assert lease.lease is not None
        assert abandoned is not None
        assert lease.lease.epoch > abandoned.epoch
