"""The feed over WebSocket, from a real server to a real client."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fleetlore import clock
from fleetlore.log.tokens import create_token
from fleetlore.server.security.limits import RequestLimits
from tests.contract.helpers import make_event
from tests.patience import PATIENCE
from tests.server.watching import Station, station, until


def watch(place: Station, query: str = "", **options: Any) -> connect:
    options.setdefault("additional_headers", {"Authorization": f"Bearer {place.token}"})
    return connect(f"ws://127.0.0.1:{place.port}/ws{query}", proxy=None, **options)


async def receive(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        frame = await client.recv()
    assert isinstance(frame, str)
    said: dict[str, Any] = msgspec.json.decode(frame)
    return said


async def refused(place: Station, query: str = "", **options: Any) -> tuple[int, str]:
    """The status and the detail with which a connection is not opened."""
    with pytest.raises(InvalidStatus) as caught:
        async with watch(place, query, **options):
            pass
    said = msgspec.json.decode(caught.value.response.body)
    return said["status"], said["detail"]


async def test_a_frame_says_hello_and_then_each_event_has_its_own() -> None:
    async with station() as place, watch(place) as client:
        assert await receive(client) == {"hello": {"head": None}}
        positions = place.log.append([make_event("1"), make_event("2\n\u2028")])
        events = [await receive(client) for _ in range(2)]
        assert [(event["text"], event["position"]) for event in events] == [("1", positions[0]), ("2\n\u2028", positions[1])]


async def test_scope_kinds_and_after_choose() -> None:
    async with station() as place:
        [first, *_] = place.log.append([make_event(str(n), task="t" if n % 2 else "u") for n in range(6)])
        async with watch(place, f"?scope=task:t&kind=fleet.*&after={first}") as client:
            await receive(client)
            place.log.append([make_event("6"), make_event("7", task="t"), make_event("8", kind="town.halted", task="t")])
            assert [(await receive(client))["text"] for _ in range(4)] == ["1", "3", "5", "7"]


async def test_what_cannot_be_watched_is_refused_with_a_reason_before_anything_is_opened() -> None:
    async with station(limits=RequestLimits(streams=1)) as place:
        status, detail = await refused(place, "?scope=nobody")
        assert (status, "unknown scope" in detail) == (422, True)
        async with watch(place) as client:
            await receive(client)
            status, detail = await refused(place)
            assert (status, "try again" in detail) == (503, True)


async def test_where_a_token_is_needed_it_is_needed_here() -> None:
    secret, token = create_token("read", now=clock.now())
    async with station(heartbeat=0.05) as place:
        assert (await refused(place, additional_headers={}))[0] == 401
        place.shared.save_token(token)
        async with watch(place, additional_headers={"Authorization": f"Bearer {secret}"}) as client:
            await receive(client)
            place.log.append([make_event("read")])
            assert (await receive(client))["text"] == "read"
            place.shared.delete_token(token.id)
            with pytest.raises(ConnectionClosed):
                await receive(client)


async def test_what_a_client_says_is_not_listened_to_and_its_leaving_is_noticed() -> None:
    async with station() as place:
        async with watch(place) as client:
            await receive(client)
            for n in range(50):
                await client.send(f"hello {n}")
            place.log.append([make_event("still fine")])
            assert (await receive(client))["text"] == "still fine"
            assert (place.feed.clients, place.limits.open_streams) == (1, 1)
        await until(lambda: (place.feed.clients, place.limits.open_streams) == (0, 0))


async def test_a_client_is_asked_to_come_back_when_the_feed_is_closed() -> None:
    async with station() as place, watch(place) as client:
        await receive(client)
        place.feed.close()
        with pytest.raises(ConnectionClosed) as caught:
            await receive(client)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with station(stall_timeout=0.2) as place, watch(place, max_queue=1, compression=None, close_timeout=0.1) as client:
        await receive(client)
        async with asyncio.timeout(PATIENCE):
            while place.feed.dropped_clients == 0:
                place.log.append([make_event("x" * 15_000) for _ in range(20)])
                await asyncio.sleep(0.01)
        await until(lambda: place.connections == 0)
