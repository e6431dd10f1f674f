"""What everybody who watches relies on: each event once, in order, whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event, clock, connect
from fleetlore.errors import Closed, Invalid, LogError, Unreachable
from fleetlore.events.ids import uuid_bytes
from fleetlore.log.admission import Admission
from fleetlore.log.base import AppendBatch, Backend, Position, TailPage
from fleetlore.log.memory.log import MemoryLog
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.live.feed import Feed
from fleetlore.server.live.ring import BATCH_BYTES, MOST_BATCHES, EncodedEvent, EventFilter, Ring, iterate_entries
from fleetlore.server.live.subscription import SIGN_OF_LIFE, Subscription
from tests.contract.conftest import BACKENDS, address
from tests.contract.helpers import make_event
from tests.patience import PATIENCE

ALL = EventFilter()


@asynccontextmanager
async def feeding(log: BlockingRecorder, **options: Any) -> AsyncIterator[Feed]:
    """A feed that is started, and has ended afterwards."""
    feed = Feed(log, **options)
    feed.start()
    try:
        yield feed
    finally:
        feed.close()
        log.close()
        await asyncio.to_thread(feed.join, PATIENCE)


def opened(log: BlockingRecorder | None = None) -> BlockingRecorder:
    return (log or connect("memory:").blocking()).__enter__()


async def take(subscription: Subscription, count: int) -> list[dict[str, Any]]:
    """So many events, signs of life left out."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while len(events) < count:
            batch = await subscription.next()
            assert batch is not None
            events += [msgspec.json.decode(entry.json) for entry in batch.entries]
    assert len(events) == count
    return events


async def texts(subscription: Subscription, count: int) -> list[str]:
    return [event["text"] for event in await take(subscription, count)]


async def test_anybody_who_watches_is_given_what_comes_as_it_is_stored_with_its_position() -> None:
    log = opened()
    log.append([make_event("before")])
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=None)
        [position] = log.append([make_event("now", task="t7")])
        [event] = await take(subscription, 1)
        [stored] = log.read(after=subscription.head)
        assert event == {**msgspec.to_builtins(stored), "position": position} | {"at": event["at"]}
        assert subscription.is_new


async def test_a_chunk_is_one_server_sent_event_whatever_is_in_the_text() -> None:
    log = opened()
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=None)
        [position] = log.append([make_event("a\nline\r\n\ndata: {} \u2028 <script>")])
        batch = await subscription.next()
        assert batch is not None
        lines = batch.chunks.decode().split("\n")
        assert [lines[0], *lines[2:]] == [f"id: {position}", "", ""]
        assert msgspec.json.decode(lines[1].removeprefix("data: "))["text"] == "a\nline\r\n\ndata: {} \u2028 <script>"


async def test_all_who_want_the_same_are_given_the_same_bytes() -> None:
    log = opened()
    async with feeding(log) as feed:
        subscriptions = [await feed.subscribe(EventFilter("task:t"), after=None) for _ in range(3)]
        log.append([make_event("1", task="t"), make_event("2", task="u")])
        batches = [await subscription.next() for subscription in subscriptions]
        assert batches[0] is batches[1] is batches[2]
        assert feed.delivered == 3


async def test_scopes_and_kinds_choose() -> None:
    log = opened()
    async with feeding(log) as feed:
        of_task = await feed.subscribe(EventFilter("task:t"), after=None)
        of_family = await feed.subscribe(EventFilter(kinds=("town.*", "fleet.note")), after=None)
        log.append(
            [make_event("1", task="t"), make_event("2", kind="town.halted"), make_event("3", kind="fleet.note", task="t"), make_event("4")]
        )
        assert await texts(of_task, 2) == ["1", "3"]
        assert await texts(of_family, 2) == ["2", "3"]


async def test_one_who_begins_behind_the_ring_reads_the_log_first_and_then_lives_on() -> None:
    log = opened()
    positions = log.append_all(make_event(str(n), task="t" if n % 2 else "u") for n in range(1200))
    async with feeding(log, ring=Ring(most_events=50)) as feed:
        everything = await feed.subscribe(ALL, after="0")
        half = await feed.subscribe(EventFilter("task:t"), after=positions[99])
        assert await texts(everything, 1200) == [str(n) for n in range(1200)]
        assert await texts(half, 550) == [str(n) for n in range(100, 1200) if n % 2]
        log.append([make_event("live", task="t")])
        assert await texts(everything, 1) == await texts(half, 1) == ["live"]
        assert (everything.is_new, half.is_new) == (False, False)


async def test_one_who_is_passed_by_the_ring_is_let_go_and_resumes_by_position() -> None:
    log = opened()
    async with feeding(log, ring=Ring(most_events=10)) as feed:
        slow, quick = await feed.subscribe(ALL, after=None), await feed.subscribe(ALL, after=None)
        log.append([make_event("0")])
        [seen] = await take(slow, 1)
        await take(quick, 1)
        for n in range(1, 31):
            log.append([make_event(str(n))])
            assert await texts(quick, 1) == [str(n)]
        assert await slow.next() is None
        assert (slow.was_dropped, quick.was_dropped, feed.dropped_clients) == (True, False, 1)
        slow.close()
        again = await feed.subscribe(ALL, after=seen["position"])
        assert await texts(again, 30) == [str(n) for n in range(1, 31)]
        assert feed.clients == 2


async def test_one_who_takes_nothing_is_cut_off_and_the_others_do_not_notice() -> None:
    log = opened()
    async with feeding(log, stall_timeout=0.05) as feed:
        stalled, other = await feed.subscribe(ALL, after=None), await feed.subscribe(ALL, after=None)
        is_cut = asyncio.Event()
        stalled.cut = is_cut.set
        log.append([make_event("1")])
        assert await stalled.next() is not None  # and is not asked for more: it is still being sent
        assert await texts(other, 1) == ["1"]
        waiting = asyncio.ensure_future(texts(other, 1))
        async with asyncio.timeout(PATIENCE):
            await is_cut.wait()
        assert await stalled.next() is None
        log.append([make_event("2")])
        assert await waiting == ["2"]
        assert feed.dropped_clients == 1


async def test_a_place_that_was_trimmed_away_is_reported_as_one_gap_whatever_is_wanted() -> None:
    log = opened()
    positions = log.append([make_event(str(n)) for n in range(6)])
    log.trim(positions[4])
    async with feeding(log) as feed:
        for wanted in (ALL, EventFilter("agent:nobody", ("town.*",))):
            subscription = await feed.subscribe(wanted, after=positions[1])
            [gap] = (await take(subscription, 1 if wanted != ALL else 3))[:1]
            assert (gap["kind"], gap["position"]) == ("log.gap", positions[3])
            assert gap["data"] == {"after": positions[1], "through": positions[3]}


async def test_a_place_that_was_trimmed_away_with_all_that_came_after_is_reported_too() -> None:
    log = opened()
    positions = log.append([make_event(str(n)) for n in range(6)])
    async with feeding(log, ring=Ring(most_events=2)) as feed:
        witness = await feed.subscribe(ALL, after="0")
        await take(witness, 6)
        log.trim("9" * 16)
        subscription = await feed.subscribe(ALL, after=positions[1])
        [gap] = await take(subscription, 1)
        assert (gap["kind"], gap["position"]) == ("log.gap", positions[5])
        log.append([make_event("next")])
        assert await texts(subscription, 1) == ["next"]


async def test_what_was_erased_is_given_to_nobody_from_then_on() -> None:
    log = opened()
    async with feeding(log) as feed:
        quick, slow = await feed.subscribe(ALL, after=None), await feed.subscribe(ALL, after=None)
        [first, *_] = log.append([make_event("1"), make_event("a secret", id=clock.uuid7()), make_event("3")])
        [_, secret, _] = await take(quick, 3)
        log.erase([secret["id"]], "asked to")
        assert [event["kind"] for event in await take(quick, 1)] == ["log.forgotten"]
        assert await slow.next() is None
        again = await feed.subscribe(ALL, after=first)
        assert [event["kind"] for event in await take(again, 2)] == ["fleet.commit", "log.forgotten"]


@pytest.mark.parametrize("after", ["9" * 16, "99", "0000000000000007"])
async def test_a_place_that_never_was_begins_with_what_comes_now(after: Position) -> None:
    log = opened()
    log.append([make_event(str(n)) for n in range(3)])
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=after)
        log.append([make_event("now")])
        assert await texts(subscription, 1) == ["now"]


async def test_a_place_that_the_follower_has_yet_to_come_to_is_no_reason_to_report_it_twice() -> None:
    log = Faltering(times=3)
    log.__enter__()
    log.append([make_event("before")])
    async with feeding(log) as feed:
        first = await feed.subscribe(ALL, after=None)
        [seen] = log.append([make_event("mine")])
        mine = await feed.subscribe(ALL, after=seen)
        log.append([make_event("theirs")])
        assert await texts(mine, 1) == ["theirs"]
        assert await texts(first, 2) == ["mine", "theirs"]


async def test_what_is_no_position_is_refused() -> None:
    async with feeding(opened()) as feed:
        with pytest.raises(Invalid, match="not a position"):
            await feed.subscribe(ALL, after="yesterday")
        assert feed.clients == 0


class Faltering(BlockingRecorder):
    """A log that cannot be followed for so many times, as one on a server that is away."""

    def __init__(self, *, times: int) -> None:
        super().__init__(lambda: MemoryLog(town="t"), Admission(now=clock.now, new_id=clock.uuid7))
        self.times = times

    def follow_pages(self, scope: str = "town", *, after: Position | None = None) -> Generator[TailPage, None, None]:
        if self.times:
            self.times -= 1
            raise Unreachable("the server does not answer; start it")
        return super().follow_pages(scope, after=after)


async def test_a_log_that_cannot_be_followed_for_a_while_is_followed_again_and_nothing_is_missed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Faltering(times=2)
    log.__enter__()
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=None)
        log.append([make_event("meanwhile")])
        assert await texts(subscription, 1) == ["meanwhile"]
        assert (log.times, feed.trouble) == (0, None)
    assert len([record for record in caplog.records if "trying again" in record.message]) == 1


async def test_a_log_that_says_nothing_at_all_is_said_so() -> None:
    class Away(Faltering):
        def head(self, scope: str = "town") -> Position | None:
            raise Unreachable("the server does not answer; start it")

    log = Away(times=0)
    log.__enter__()
    async with feeding(log, opening=0.05) as feed:
        with pytest.raises(LogError, match="does not answer"):
            await feed.subscribe(ALL, after=None)
        assert feed.trouble is not None


async def test_records_that_cannot_be_sent_as_they_are_stored_are_reported_all_the_same() -> None:
    backend = MemoryLog(town="t")
    log = opened(BlockingRecorder(lambda: backend, Admission(now=clock.now, new_id=clock.uuid7)))
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=None)
        store(backend, b'{"kind":"fleet.commit",\n"text":"spread over lines",\r\n"v":1}', b"\xff no JSON", b'{"kind":"a.b","v":99}')
        spread, garbage, later = await take(subscription, 3)
        assert spread["text"] == "spread over lines"
        assert [event["kind"] for event in (garbage, later)] == ["log.rejected"] * 2
        assert garbage["position"] < later["position"]


def store(backend: Backend, *raws: bytes) -> None:
    """Put bytes into a log as somebody else would."""
    plain = Admission().admit(Event(kind="a.b", actor="somebody"))
    backend.commit([AppendBatch([replace(plain, id=(id := clock.uuid7()), key=uuid_bytes(id), raw=raw) for raw in raws])])


async def test_signs_of_life_come_whether_or_not_anything_happens() -> None:
    async with feeding(opened(), heartbeat=0.01) as feed:
        subscription = await feed.subscribe(EventFilter("task:t"), after=None)
        async with asyncio.timeout(PATIENCE):
            assert [await subscription.next() for _ in range(3)] == [SIGN_OF_LIFE] * 3


async def test_to_close_the_feed_ends_every_subscription_and_lets_nobody_in() -> None:
    log = opened()
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after=None)
        waiting = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        feed.close()
        assert await waiting is None
        with pytest.raises(Closed):
            await feed.subscribe(ALL, after=None)
        assert log.append([make_event("the log is still open")])


async def test_to_close_the_log_ends_every_subscription() -> None:
    log = opened()
    async with feeding(log) as feed:
        living, reading = await feed.subscribe(ALL, after=None), await feed.subscribe(ALL, after="9")
        waiting = asyncio.gather(living.next(), reading.next())
        await asyncio.sleep(0)
        log.close()
        async with asyncio.timeout(PATIENCE):
            assert list(await waiting) == [None, None]


async def test_one_who_leaves_while_the_past_is_read_leaves_nothing_behind() -> None:
    log = opened()
    log.append_all(make_event(str(n)) for n in range(1200))
    async with feeding(log) as feed:
        subscription = await feed.subscribe(ALL, after="0")
        reading = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        reading.cancel()
        subscription.close()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert feed.clients == 0


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


async def test_the_past_the_gap_and_the_present_come_in_order_from_every_kind_of_log(url: str) -> None:
    log = opened(connect(url).blocking())
    positions = log.append_all(make_event(str(n), task="t" if n % 2 else "u") for n in range(700))
    log.trim(positions[100])
    async with feeding(log, ring=Ring(most_events=20)) as feed:
        some = await feed.subscribe(EventFilter("task:t"), after=positions[650])
        everything = await feed.subscribe(ALL, after=positions[49])
        log.append_all(make_event(str(n), task="t") for n in range(700, 730))
        [gap, *rest] = await take(everything, 631)
        assert (gap["kind"], [event["text"] for event in rest]) == ("log.gap", [str(n) for n in range(100, 730)])
        assert await texts(some, 55) == [str(n) for n in range(651, 730) if n % 2 or n >= 700]
        [last] = log.append([make_event("last")])
        assert (await take(everything, 1))[0]["position"] == last


async def test_the_feed_of_a_file_sees_what_other_processes_write(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'fleet.db'}"
    with connect(url).blocking() as other:
        async with feeding(opened(connect(url).blocking())) as feed:
            subscription = await feed.subscribe(ALL, after=None)
            other.append([make_event("from elsewhere")])
            assert await texts(subscription, 1) == ["from elsewhere"]


# --- the seam


class Step(msgspec.Struct, frozen=True):
    """Events that are stored, and then clients that look, each so many times."""

    events: int
    looks: tuple[int, ...]


steps = st.lists(st.builds(Step, st.integers(0, 12), st.lists(st.integers(0, 3), max_size=4).map(tuple)), max_size=12)


@given(before=st.integers(0, 30), steps=steps, starts=st.lists(st.integers(0, 40), min_size=1, max_size=4), size=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_wherever_a_client_begins_and_however_slow_it_is_nothing_is_lost_and_nothing_is_reported_twice(
    before: int, steps: Sequence[Step], starts: Sequence[int], size: int
) -> None:
    asyncio.run(_walk(before, steps, starts, size))


async def _walk(before: int, steps: Sequence[Step], starts: Sequence[int], size: int) -> None:
    log = opened()
    log.append_all(_numbered(1, before))
    async with feeding(log, ring=Ring(most_events=size)) as feed:
        clients = [Client(feed, min(start, before)) for start in starts]
        for step in steps:
            stored = len(list(log.read()))
            log.append_all(_numbered(stored + 1, step.events))
            for client, looks in zip(clients, step.looks, strict=False):
                await client.look(looks)
        end = len(list(log.read()))
        for client in clients:
            await client.finish(end)
            assert client.seen == list(range(client.start + 1, end + 1))


def _numbered(first: int, count: int) -> list[Event]:
    return [make_event(str(n)) for n in range(first, first + count)]


class Client:
    """Comes back with its last position whenever it is let go."""

    def __init__(self, feed: Feed, start: int) -> None:
        self._feed, self.start = feed, start
        self.seen: list[int] = []
        self._subscription: Subscription | None = None

    async def look(self, times: int, *, patience: float = 0.001) -> None:
        for _ in range(times):
            if self._subscription is None:
                after = f"{self.seen[-1] if self.seen else self.start:016d}"
                self._subscription = await self._feed.subscribe(ALL, after=after)
            try:
                async with asyncio.timeout(patience):
                    batch = await self._subscription.next()
            except TimeoutError:
                self._leave()
                continue
            if batch is None:
                self._leave()
            else:
                self.seen += [int(entry.position) for entry in batch.entries]

    def _leave(self) -> None:
        assert self._subscription is not None
        self._subscription.close()
        self._subscription = None

    async def finish(self, end: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while (self.seen[-1] if self.seen else self.start) < end:
                await self.look(1, patience=PATIENCE)


# --- the ring by itself


def entries(count: int) -> list[EncodedEvent]:
    with connect("memory:").blocking() as log:
        log.append([make_event() for _ in range(count)])
        return list(iterate_entries(TailPage(next(log.read_pages())), None))


def test_a_ring_is_bounded_by_count_and_knows_where_it_begins() -> None:
    ring, all = Ring(most_events=4), entries(6)
    ring.add(all)
    assert (ring.first, ring.end, ring.base, ring.newest) == (2, 6, all[1].position, all[5].position)
    assert ring.holds_position(all[1].position)
    assert not ring.holds_position(all[0].position)
    assert ring.find_place(all[3].position) == 4


def test_a_ring_is_bounded_by_bytes() -> None:
    all = entries(10)
    ring = Ring(most_bytes=3 * len(all[0].chunk))
    for entry in all:
        ring.add([entry])
    assert (ring.first, ring.end) == (7, 10)


def test_a_ring_gives_no_more_at_once_than_is_written_at_once_but_always_something() -> None:
    ring = Ring()
    ring.add(
        [EncodedEvent(f"{n:02d}", "a.b", (), b"x" * size, 0) for n, size in enumerate((10, 20, BATCH_BYTES - 30, 1, 2 * BATCH_BYTES, 5))]
    )
    sizes, place = [], 0
    while place < ring.end:
        batch, place = ring.make_batch(ALL, place)
        sizes.append(len(batch.entries))
    assert sizes == [3, 1, 1, 1]


def test_clients_that_come_back_at_many_places_of_a_quiet_ring_leave_few_batches_behind() -> None:
    ring = Ring()
    ring.add(entries(3 * MOST_BATCHES))
    given = [ring.make_batch(ALL, place)[0] for place in range(ring.end)]
    assert len(ring._batches) <= MOST_BATCHES
    assert ring.make_batch(ALL, ring.end - 1)[0] is given[-1], "those who stand at the same place still share"
