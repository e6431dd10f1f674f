"""The feed as browsers and programs get it over HTTP, from a real server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import pytest

from fleetlore import clock
from fleetlore.log.tokens import create_token
from fleetlore.server.live.ring import Ring
from fleetlore.server.security.limits import RequestLimits
from tests.contract.helpers import make_event
from tests.patience import PATIENCE
from tests.server.watching import Client, Station, station, until


async def problem(client: Client, status: int) -> str:
    """The detail of an answer that says no."""
    assert (client.status, client.headers["content-type"]) == (status, "application/problem+json")
    said = msgspec.json.decode(await client.body())
    assert said["status"] == status
    return str(said["detail"])


async def test_a_stream_greets_with_the_head_and_then_shows_what_comes() -> None:
    async with station() as place:
        [head] = place.log.append([make_event("before")])
        await until(lambda: place.feed.ring.newest == head)
        async with place.watch() as client:
            assert client.status == 200
            assert client.headers["content-type"] == "text/event-stream"
            assert client.headers["cache-control"] == "no-cache"
            assert client.headers["x-accel-buffering"] == "no"
            assert await client.frame() == "retry: 1000\n: welcome"
            assert await client.frame() == f'event: hello\ndata: {{"head":"{head}"}}'
            [position] = place.log.append([make_event("now")])
            id, event = await client.event()
            assert (id, event["position"], event["text"]) == (position, position, "now")


async def test_a_stream_of_an_empty_log_says_that_there_is_no_head() -> None:
    async with station() as place, place.watch() as client:
        await client.frame()
        assert await client.frame() == 'event: hello\ndata: {"head":null}'


async def test_last_event_id_wins_over_after_and_is_greeted_without_a_head() -> None:
    async with station() as place:
        positions = place.log.append([make_event(str(n)) for n in range(4)])
        async with place.watch(f"?after={positions[0]}") as client:
            assert await client.texts(3) == ["1", "2", "3"]
        async with place.watch(f"?after={positions[0]}", Last_Event_ID=positions[2]) as client:
            await client.frame()
            assert (await client.frame()).startswith(f"id: {positions[3]}\n")


async def test_scope_and_kinds_choose() -> None:
    async with station() as place, place.watch("?scope=task:t&kind=town.*&kind=fleet.note") as client:
        place.log.append([make_event("1", task="t"), make_event("2", kind="town.halted"), make_event("3", kind="fleet.note", task="t")])
        place.log.append([make_event("4", kind="town.halted", task="t")])
        assert await client.texts(2) == ["3", "4"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?scope=nobody", "unknown scope"),
        ("?kind=NOT+A+KIND", "neither a kind"),
        ("?after=yesterday", "after"),
        ("?after=1-1", "not a position"),
        ("?after=1&after=2", "given twice"),
        ("?colour=blue", "colour"),
    ],
)
async def test_what_cannot_be_watched_is_refused_with_a_reason(query: str, reason: str) -> None:
    async with station() as place:
        async with place.watch(query) as client:
            assert reason in await problem(client, 422)
        assert (place.feed.clients, place.limits.open_streams) == (0, 0)


async def test_a_last_event_id_that_is_no_position_is_refused_too() -> None:
    async with station() as place, place.watch(Last_Event_ID="\u00fcber alles") as client:
        assert "not a position" in await problem(client, 422)


async def test_a_stream_takes_no_body() -> None:
    async with station() as place, place.watch(Content_Length="7") as client:
        assert "no body" in await problem(client, 400)


async def test_a_place_that_was_trimmed_away_begins_with_one_gap() -> None:
    async with station(ring=Ring(most_events=2)) as place:
        positions = place.log.append([make_event(str(n)) for n in range(6)])
        await until(lambda: place.feed.ring.newest == positions[-1])
        place.log.trim(positions[4])
        async with place.watch(Last_Event_ID=positions[1]) as client:
            id, gap = await client.event()
            assert (id, gap["kind"]) == (positions[3], "log.gap")
            assert await client.texts(2) == ["4", "5"]


async def test_a_quiet_stream_says_now_and_then_that_it_is_still_here() -> None:
    async with station(heartbeat=0.01) as place, place.watch() as client:
        await client.frame()
        await client.frame()
        assert [await client.frame() for _ in range(3)] == [": still here"] * 3


async def test_a_client_that_leaves_is_noticed_though_nothing_happens() -> None:
    async with station() as place:
        async with place.watch() as client:
            await client.frame()
            assert (place.feed.clients, place.limits.open_streams) == (1, 1)
        await until(lambda: place.feed.clients == 0)
        await until(lambda: place.limits.open_streams == 0)


async def test_a_head_request_is_answered_and_over() -> None:
    async with station() as place, place.watch(method="HEAD") as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/event-stream")
        assert place.feed.clients == 0


async def test_there_is_an_end_to_how_many_may_watch() -> None:
    async with station(limits=RequestLimits(streams=1)) as place, place.watch() as first:
        await first.frame()
        async with place.watch() as second:
            assert "try again" in await problem(second, 503)
            assert "retry-after" in second.headers


async def test_streams_end_well_when_the_feed_is_closed() -> None:
    async with station() as place, place.watch() as client:
        place.log.append([make_event("last words")])
        assert await client.texts(1) == ["last words"]
        place.feed.close()
        with pytest.raises(EOFError):
            await client.event()


async def test_where_a_token_is_needed_it_is_needed_here_and_a_stream_ends_soon_after_it_was_revoked() -> None:
    secret, token = create_token("read", now=clock.now())
    async with station(heartbeat=0.05) as place:
        async with place.watch(Authorization="") as client:
            assert "needs a token" in await problem(client, 401)
        place.shared.save_token(token)
        async with place.watch(Authorization=f"Bearer {secret}") as client:
            place.log.append([make_event("read")])
            assert await client.texts(1) == ["read"]
            place.shared.delete_token(token.id)
            with pytest.raises(EOFError):
                await client.event()


async def stall(place: Station) -> None:
    """Store events until what was sent to a client that does not read fills every buffer on the way."""
    async with asyncio.timeout(PATIENCE):
        while place.feed.dropped_clients == 0:
            place.log.append([make_event("x" * 15_000) for _ in range(20)])
            await asyncio.sleep(0.01)


async def numbers(client: Client, seen: list[int]) -> None:
    """The positions that a client is given, until its connection ends."""
    with suppress(OSError, EOFError):
        while True:
            seen.append(int((await client.event())[0]))


async def test_a_client_that_does_not_read_is_cut_off_and_comes_back_by_its_last_position() -> None:
    by_other: list[int] = []
    by_stalled: list[int] = []
    async with station(stall_timeout=0.2) as place, place.watch() as other:
        reading = asyncio.create_task(numbers(other, by_other))
        async with place.watch(window=4096) as client:
            await stall(place)
            await until(lambda: place.connections == 1)  # its socket is not kept until it has read, either
            await numbers(client, by_stalled)
        head = int(place.log.head() or 0)
        assert 0 < len(by_stalled) < head
        async with place.watch(Last_Event_ID=f"{by_stalled[-1]:016d}") as again:
            by_stalled += [int((await again.event())[0]) for _ in range(by_stalled[-1], head)]
        await until(lambda: len(by_other) >= head)
        reading.cancel()
    assert by_stalled == by_other == list(range(1, head + 1))
