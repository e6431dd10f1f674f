"""The limits: a body, an address, a rate, a number of streams may be only so long, so fast, so many; memory stays bounded."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from fleetlore.server.problems import Problem, on_problem
from fleetlore.server.security.guard import Guard
from fleetlore.server.security.limits import MIB, STREAMS, Limited, RequestLimits
from fleetlore.server.security.rate_limit import RateLimit, get_network
from tests.patience import PATIENCE
from tests.server.asgi import ask, denied, knock, request, say, scope_of, served

SMALL = 1_000


class Ticks:
    """A clock that moves only if a test sets it."""

    def __init__(self) -> None:
        self.moment = 100.0

    def __call__(self) -> float:
        return self.moment


async def count(request: Request) -> Response:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
    return PlainTextResponse(str(size))


APP = Starlette(routes=[Route("/", count, methods=["GET", "POST"])], exception_handlers={Problem: on_problem})


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that knows of no problems."""
    await (await count(Request(scope, receive)))(scope, receive, send)


def chunked(*chunks: bytes) -> dict[str, Any]:
    return {"method": "POST", "headers": [("transfer-encoding", "chunked")], "chunks": chunks}


# --- bodies


@pytest.mark.parametrize("app", [APP, bare])
async def test_a_body_up_to_the_limit_is_read(app: Any) -> None:
    limited = Limited(app, limits=RequestLimits(body=SMALL))
    assert (await ask(limited, **chunked(b"x" * 600, b"", b"x" * 400))).body == b"1000"
    assert (await ask(limited, "POST", headers=[("content-length", "1000")], chunks=[b"x" * 1000])).body == b"1000"


@pytest.mark.parametrize("app", [APP, bare])
async def test_a_body_is_counted_as_it_streams_in(app: Any) -> None:
    answer = await ask(Limited(app, limits=RequestLimits(body=SMALL)), **chunked(b"x" * 600, b"x" * 401, b"never read"))
    assert answer.status == 413
    assert "1,000 bytes" in answer.detail


@pytest.mark.parametrize("length", ["1001", "9" * 18])
async def test_a_body_that_says_that_it_is_too_long_never_comes_to_the_application(length: str) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it was asked")

    for more in ([], [("expect", "100-continue")]):
        limited = Limited(never, limits=RequestLimits(body=SMALL, body_pause=0.01))
        assert (await ask(limited, "POST", headers=[("content-length", length), *more], chunks=())).status == 413


async def test_a_body_far_too_long_by_its_own_word_is_refused_before_any_of_it_comes() -> None:
    async def nothing_comes() -> Message:
        raise AssertionError("it was waited for")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    limited = Limited(APP, limits=RequestLimits(body=SMALL))
    await limited(scope_of("POST", "/", [("content-length", "2001")]), nothing_comes, send)
    assert sent[0]["status"] == 413


async def test_a_body_that_says_less_than_comes_is_counted_all_the_same() -> None:
    answer = await ask(Limited(APP, limits=RequestLimits(body=SMALL)), "POST", headers=[("content-length", "5")], chunks=[b"x" * 1001])
    assert answer.status == 413


@pytest.mark.parametrize("length", ["-1", "x", "", "1 0", "+5", "\xb2", "9" * 5_000])
async def test_a_length_that_is_no_number_is_a_bad_request(length: str) -> None:
    assert (await ask(Limited(APP, limits=RequestLimits()), "POST", headers=[("content-length", length)])).status == 400
    assert (
        await ask(Limited(APP, limits=RequestLimits()), "POST", headers=[("content-length", "1"), ("content-length", "2")])
    ).status == 400


async def test_a_body_that_stands_still_is_given_up() -> None:
    answer = await ask(Limited(APP, limits=RequestLimits(body_pause=0.01)), "POST", headers=[("content-length", "5")], chunks=())
    assert answer.status == 408
    assert answer.headers["connection"] == "close"


async def test_a_body_that_takes_too_long_altogether_is_given_up_though_it_never_stands_still() -> None:
    ticks = Ticks()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            ticks.moment += 20
            await asyncio.sleep(0)
        raise AssertionError("it was waited for")

    async def drop_by_drop() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x", "more_body": True}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"transfer-encoding", b"chunked")], "query_string": b""}
    await Limited(slow, limits=RequestLimits(body_time=100, now=ticks))(scope, drop_by_drop, send)
    assert sent[0]["status"] == 408


async def test_who_has_begun_to_answer_is_reported_that_the_client_has_gone() -> None:
    received: list[str] = []

    async def early(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        received.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"done"})

    answer = await ask(Limited(early, limits=RequestLimits(body=1)), **chunked(b"xx", b"xx", b"xx"))
    assert (answer.body, received) == (b"done", ["http.disconnect"])


async def test_a_problem_of_the_application_is_left_to_it() -> None:
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        raise Problem(409, "its own")

    for more in ({}, chunked(b"x")):
        with pytest.raises(Problem, match="its own"):
            await ask(Limited(refusing, limits=RequestLimits()), **more)


def test_a_real_client_reads_why_its_body_was_refused() -> None:
    with served(Limited(APP, limits=RequestLimits(body=SMALL))) as port:
        body = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        status, received = say(port, body + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n")
        assert (status, b"application/problem+json" in received) == (413, True)


def test_a_real_client_that_sends_all_before_it_listens_gets_why_it_was_refused() -> None:
    """Else the connection would be cut while it still sends, and the answer lost."""

    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("no", 401)(scope, receive, send)

    body = b"x" * (8 * MIB)
    with served(Limited(refusing, limits=RequestLimits(body=16 * MIB))) as port:
        assert say(port, request("POST", "/", {"Host": "x"}, body))[0] == 401
    with served(Limited(refusing, limits=RequestLimits(body=5 * MIB))) as port:
        assert say(port, request("POST", "/", {"Host": "x"}, body))[0] == 413


async def test_a_client_that_waits_to_be_asked_for_its_body_is_not_asked_in_vain() -> None:
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("no", 401)(scope, receive, send)

    headers = [("content-length", "5"), ("expect", "100-continue")]
    assert (
        await asyncio.wait_for(ask(Limited(refusing, limits=RequestLimits()), "POST", headers=headers, chunks=()), PATIENCE)
    ).status == 401


# --- addresses and headers


async def test_a_path_or_a_query_that_is_too_long_is_refused() -> None:
    limited = Limited(APP, limits=RequestLimits())
    assert (await ask(limited, path="/?q=" + "x" * 8_000)).status == 200
    assert (await ask(limited, path="/?q=" + "x" * 8_200)).status == 414
    assert (await ask(limited, path="/" + "x" * 2_048)).status == 414


def test_headers_that_are_too_long_are_refused_before_they_are_held() -> None:
    limits = RequestLimits(headers=4_096)
    with served(Limited(APP, limits=limits), **limits.for_uvicorn()) as port:
        assert say(port, request("GET", "/", {"Host": "x", "X-Long": "y" * 3_000}))[0] == 200
        assert say(port, request("GET", "/", {"Host": "x", "X-Long": "y" * 5_000}))[0] == 431
        try:
            status = say(port, request("GET", "/", {"Host": "x", "X-Long": "y" * (8 * MIB)}))[0]
        except ConnectionError:
            status = 400  # it was cut off, and did not stop to listen
        assert status == 400


def test_an_address_that_a_client_claims_for_itself_is_not_believed() -> None:
    limits = RequestLimits(rate=0.001, burst=2)
    with served(Limited(APP, limits=limits), **limits.for_uvicorn()) as port:
        statuses = [say(port, request("GET", "/", {"Host": "x", "X-Forwarded-For": f"10.0.0.{n}"}))[0] for n in range(3)]
    assert statuses == [200, 200, 429]


# --- rate


async def test_one_address_may_ask_so_often_and_then_has_to_wait() -> None:
    ticks = Ticks()
    limited = Limited(APP, limits=RequestLimits(rate=10, burst=20, now=ticks))
    assert [(await ask(limited)).status for _ in range(21)] == [200] * 20 + [429]
    refused = await ask(limited)
    assert refused.headers["retry-after"] == "1"
    assert "several events with one request" in refused.detail
    assert (await ask(limited, client=("10.0.0.1", 1))).status == 200
    ticks.moment += 0.5
    assert [(await ask(limited)).status for _ in range(6)] == [200] * 5 + [429]


async def test_websockets_count_too() -> None:
    limited = Limited(APP, limits=RequestLimits(rate=0.001, burst=1))
    await ask(limited)
    answer = denied(await knock(limited, extensions={"websocket.http.response": {}}))
    assert (answer.status, int(answer.headers["retry-after"]) > 1) == (429, True)


def test_the_rate_is_kept_in_the_long_run() -> None:
    ticks = Ticks()
    rate = RateLimit(500, 2_000, clients=10, now=ticks)
    allowed = 0
    for _ in range(10_000):  # ten seconds, a thousand a second
        allowed += rate.count("10.0.0.1") == 0
        ticks.moment += 0.001
    assert 6_990 <= allowed <= 7_010


def test_only_so_many_addresses_are_remembered() -> None:
    rate = RateLimit(1, 1, clients=100)
    for number in range(5_000):
        rate.count(f"10.0.{number // 250}.{number % 250}")
    assert len(rate) == 100


def test_an_address_that_is_refused_stays_remembered_while_it_asks() -> None:
    ticks = Ticks()
    rate = RateLimit(1, 1, clients=2, now=ticks)
    assert rate.count("a") == 0
    assert rate.count("a") > 0
    assert rate.count("b") == 0
    assert rate.count("a") > 0


def test_a_whole_network_of_ipv6_is_one_client() -> None:
    assert get_network("2001:db8::1") == get_network("2001:db8::ffff:1")
    assert get_network("2001:db8::1") != get_network("2001:db8:0:1::1")
    assert get_network("::ffff:10.0.0.1") == "10.0.0.1"
    assert len({get_network(text) for text in ("10.0.0.1", "10.0.0.2", "", "a:b:c:nothing", "fe80::1%eth0")}) == 5


# --- how many at once


async def test_requests_at_the_same_moment_are_so_many() -> None:
    limits, gate, inside = RequestLimits(requests=2), asyncio.Event(), asyncio.Semaphore(0)

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        inside.release()
        await gate.wait()
        await PlainTextResponse("done")(scope, receive, send)

    limited = Limited(waiting, limits=limits)
    at_work = [asyncio.create_task(ask(limited)) for _ in range(2)]
    for _ in range(2):
        await inside.acquire()
    refused = await ask(limited)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    streams = [asyncio.create_task(ask(limited, path=path)) for path in STREAMS]
    gate.set()
    assert [(await task).status for task in (*at_work, *streams)] == [200] * (2 + len(STREAMS))
    assert limits.open_requests == 0


async def test_a_request_that_fails_gives_its_place_back() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("on purpose")

    limits = RequestLimits(requests=1)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            await ask(Limited(broken, limits=limits))
    assert limits.open_requests == 0


def test_streams_are_so_many_and_give_their_places_back() -> None:
    limits = RequestLimits(streams=2)
    here = {"client": ("127.0.0.1", 1)}
    with limits.count_stream(here), limits.count_stream(here):
        assert limits.open_streams == 2
        with pytest.raises(Problem) as refused, limits.count_stream(here):
            pass
        assert (refused.value.status, refused.value.headers["retry-after"]) == (503, "5")
    with pytest.raises(ValueError, match="cut off"), limits.count_stream(here):
        raise ValueError("cut off")
    assert limits.open_streams == 0


def test_one_address_cannot_take_all_streams() -> None:
    limits = RequestLimits(streams=3, streams_each=1)
    one, other = {"client": ("2001:db8::1", 1)}, {"client": ("10.0.0.9", 1)}
    with limits.count_stream(one):
        with pytest.raises(Problem) as refused, limits.count_stream({"client": ("2001:db8::2", 7)}):  # the same /64
            pass
        assert refused.value.status == 429
        with limits.count_stream(other):
            assert limits.open_streams == 2
    with limits.count_stream(one):
        assert limits.open_streams == 1


def test_idle_connections_of_one_address_make_room_for_its_next_one() -> None:
    limits = RequestLimits(connections_each=5)
    with served(Guard(Limited(APP, limits=limits)), **limits.for_uvicorn()) as port, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
        half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(20):
            assert say(port, request("GET", "/", {"Host": "localhost"}))[0] == 200
        idle[0].settimeout(PATIENCE)
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""


def test_the_limits_are_as_documented() -> None:
    limits = RequestLimits()
    assert (limits.body, limits.rate, limits.burst, limits.streams) == (32 * 1024 * 1024, 500, 2_000, 4_000)
    recorded = limits.for_uvicorn()
    assert recorded["h11_max_incomplete_event_size"] == limits.headers
    assert recorded["limit_concurrency"] > limits.streams + limits.requests


def test_guard_and_limits_stand_together_before_a_real_server() -> None:
    limits = RequestLimits(rate=0.001, burst=1)
    with served(Guard(Limited(APP, limits=limits)), **limits.for_uvicorn()) as port:
        assert say(port, request("GET", "/", {"Host": "evil.com"}))[0] == 421  # costs nothing of the rate
        assert say(port, request("GET", "/", {"Host": "localhost"}))[0] == 200
        status, received = say(port, request("GET", "/", {"Host": "localhost"}))
        assert (status, b"x-content-type-options: nosniff" in received) == (429, True)
        assert b"uvicorn" not in received
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as idle:
            idle.sendall(b"GET / HT")  # a client that never ends its headers holds up nobody
            assert say(port, request("GET", "/", {"Host": "localhost"}))[0] == 429
