"""Connections that are let go, and work that waits for its turn: one client does not take the server away from the others."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest
from starlette.types import Receive, Scope, Send

from fleetlore import Event
from fleetlore.log.sqlite import maintenance
from fleetlore.operations import events as event_operations
from fleetlore.projections import live_views
from fleetlore.server import serve, uvicorn_protocols
from fleetlore.server.context import MAX_COSTLY_ANSWERS, THREADS
from fleetlore.server.endpoints import request_body as doors_reading
from fleetlore.server.endpoints.request_body import decompress_body, split_array, split_lines
from fleetlore.server.live import subscription
from fleetlore.server.problems import Problem
from fleetlore.server.security.limits import ConcurrencyLimit, Limited, RequestLimits
from fleetlore.server.view_cache import ViewCache
from tests.patience import PATIENCE
from tests.server.asgi import ask
from tests.server.serving import HOST, Served
from tests.server.serving import serve as serving
from tests.server.watching import until

UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
PING, TEXT, MORE = 9, 1, 0


@contextmanager
def talking(served: Served, said: str) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, served.port), PATIENCE) as connection:
        connection.sendall(said.replace("HOST", f"Host: {HOST}:{served.port}\r\nAuthorization: Bearer {served.token}").encode())
        yield connection


def read_received(connection: socket.socket, until: bytes | None = None) -> bytes:
    """What comes, up to a word or to the end; a connection that stays open too long is an error."""
    said = b""
    try:
        while (until is None or until not in said) and (part := connection.recv(65536)):
            said += part
    except ConnectionResetError:
        pass
    return said


def is_gone(connection: socket.socket) -> bool:
    """Whether there is nobody any more who would listen."""
    try:
        connection.send(b"x")
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def frame(kind: int, data: bytes, *, is_last: bool = True) -> bytes:
    return bytes((is_last << 7 | kind, 0x80 | len(data))) + bytes(4) + data


def make_events(count: int, text: str = "done") -> list[Event]:
    return [Event(kind="fleet.commit", agent="ada", text=text) for _ in range(count)]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that looks at its connections all the time, and waits for nobody."""
    monkeypatch.setattr(uvicorn_protocols, "REQUEST_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(uvicorn_protocols, "READ_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(serve, "CHECK_SECONDS", 0.1)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("said", ["", "GET /api/me", "GET /healthz HTTP/1.1\r\nHOST\r\nX-Slow: "])
def test_who_does_not_say_what_it_wants_is_let_go(tmp_path: Path, said: str) -> None:
    with serving(tmp_path) as served, talking(served, said) as connection:
        assert read_received(connection) == b""


@pytest.mark.usefixtures("hasty")
def test_who_does_not_read_its_answer_is_let_go(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        list(served.log.append_all(make_events(400, "x" * 16_000)))
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.settimeout(PATIENCE)
            lazy.connect((HOST, served.port))
            lazy.sendall(f"GET /api/events?limit=1000 HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode())
            asyncio.run(until(lambda: is_gone(lazy)))


@pytest.mark.usefixtures("hasty")
def test_a_stream_is_not_cut_off_for_having_nothing_to_say(tmp_path: Path) -> None:
    with serving(tmp_path) as served, talking(served, "GET /api/stream HTTP/1.1\r\nHOST\r\n\r\n") as connection:
        assert b"hello" in read_received(connection, b"hello")
        with talking(served, "GET /") as silent:
            assert read_received(silent) == b""  # by now all were looked at
        served.post("/api/events", {"kind": "fleet.commit", "agent": "ada"})
        assert b"fleet.commit" in read_received(connection, b"fleet.commit")


@pytest.mark.parametrize("said", ["POST /ws HTTP/1.1\r\nHOST\r\n", "GET /ws HTTP/1.1\r\nHOST\r\nContent-Length: 3\r\n"])
def test_what_cannot_become_a_websocket_gets_that_answer(tmp_path: Path, said: str) -> None:
    with serving(tmp_path) as served, talking(served, f"{said}{UPGRADE}\r\nabc") as connection:
        assert b"HTTP/1.1 40" in read_received(connection, b"problem+json")


PINGS = frame(PING, b"x" * 125) * 1000
PARTS = frame(TEXT, b"", is_last=False) + frame(MORE, b"", is_last=False) * 1000


@pytest.mark.parametrize("words", [PINGS, PARTS], ids=["pings", "parts"])
def test_who_floods_a_websocket_and_reads_nothing_is_let_go(tmp_path: Path, words: bytes) -> None:
    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(words)

    with serving(tmp_path) as served, talking(served, f"GET /ws HTTP/1.1\r\nHOST\r\n{UPGRADE}\r\n") as connection:
        assert b"hello" in read_received(connection, b"hello")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            flood(connection)


async def test_a_body_with_two_lengths_is_refused() -> None:
    headers = [("host", "localhost"), ("content-length", "4"), ("transfer-encoding", "chunked")]
    answer = await ask(Limited(_reading, limits=RequestLimits()), "POST", "/", headers)
    assert (answer.status, answer.headers["connection"]) == (400, "close")


async def test_bodies_together_take_no_more_memory_than_is_allowed() -> None:
    limits = RequestLimits(body=100, bodies=150)
    app, headers = Limited(_reading, limits=limits), [("host", "localhost"), ("transfer-encoding", "chunked")]
    limits.held = 100  # others'
    answer = await ask(app, "POST", "/", headers, [b"x" * 60])
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    limits.held -= 100
    assert ((await ask(app, "POST", "/", headers, [b"x" * 60])).status, limits.held) == (204, 0)


async def _reading(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_body_that_was_packed_in_very_many_pieces_is_refused_soon() -> None:
    with pytest.raises(Problem, match="pack it as one"):
        decompress_body(gzip.compress(b"") * (doors_reading.MAX_MEMBERS + 1), "gzip", 1000)


def test_pieces_of_any_length_are_unpacked_one_behind_the_other() -> None:
    parts = [b"a" * n for n in (0, 1, doors_reading.DECOMPRESS_STEP, 3 * doors_reading.DECOMPRESS_STEP + 1)]
    assert decompress_body(b"".join(map(gzip.compress, parts)), "gzip", 20_000) == b"".join(parts)


def test_blank_lines_and_empty_elements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors_reading, "MAX_LINES", 10)
    monkeypatch.setattr(doors_reading, "MAX_EVENTS", 10)
    with pytest.raises(Problem, match="more than 10 lines"):
        list(split_lines(b"\n" * 11))
    with pytest.raises(Problem, match="more than 10 events"):
        split_array(b"[" + b"1," * 10 + b"1]")


async def test_turns_come_one_after_the_other_and_a_line_has_an_end() -> None:
    turns, order = ConcurrencyLimit(1, queued=1, timeout=PATIENCE), list[str]()

    async def take(name: str) -> None:
        async with turns.hold_slot():
            order.append(name)

    async with turns.hold_slot():
        second = asyncio.create_task(take("second"))
        await until(lambda: turns.waiting == 1)
        with pytest.raises(Problem, match="try again"):
            await take("third")
    await second
    await take("fourth")
    assert order == ["second", "fourth"]


async def test_a_turn_that_does_not_come_in_time_is_a_503_that_says_when_to_try_again() -> None:
    turns = ConcurrencyLimit(1, queued=1, timeout=0.001)
    async with turns.hold_slot():
        with pytest.raises(Problem) as recorded:
            async with turns.hold_slot():
                pass
    assert (recorded.value.status, recorded.value.headers, turns.waiting) == (503, {"retry-after": "2"}, 0)


def test_looks_into_the_past_keep_nobody_from_writing_and_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, under_way = Flag(), list[str]()

    def slow(view_cache: ViewCache, as_of: str | None) -> str | None:
        if as_of is not None:
            under_way.append(as_of)
            go_on.wait(PATIENCE)
        return as_of

    monkeypatch.setattr(ViewCache, "resolve_position", slow)
    with serving(tmp_path) as served, ThreadPoolExecutor(2 * THREADS) as crowd:
        position = served.log.append(make_events(2))[0]
        try:
            asked = [crowd.submit(served.get, "/api/fleet", as_of=position) for _ in range(2 * THREADS)]
            asyncio.run(until(lambda: len(under_way) == MAX_COSTLY_ANSWERS))
            assert served.post("/api/events", {"kind": "fleet.commit", "agent": "ada"}).status == 200
            assert served.view("meta")["events"] == 3
            assert served.get("/readyz").status == 200
            assert len(under_way) == MAX_COSTLY_ANSWERS
        finally:
            go_on.set()
        assert {each.result().status for each in asked} == {200}


@pytest.mark.parametrize("path", ["/api/events?", "/api/stream?", "/api/search?q=x&", "/api/arcs?"])
def test_only_so_many_kinds_can_be_asked_for_at_once(tmp_path: Path, path: str) -> None:
    with serving(tmp_path) as served:
        answer = served.get(path + "&".join(f"kind=fleet.k{n}" for n in range(51)))
        assert (answer.status, "kind" in answer.detail) == (422, True)


def test_an_answer_with_long_events_is_cut_and_leads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_operations, "MAX_PAGE_BYTES", 1000)
    with serving(tmp_path) as served:
        positions = served.log.append(make_events(10, "x" * 400))
        seen, after = list[str](), "0" * 16
        while after is not None:
            page = served.view("events", after=after, limit=1000)
            assert len(page["events"]) <= 3
            seen, after = seen + [event["position"] for event in page["events"]], page["next"]
        assert seen == positions


def test_the_past_of_a_stream_is_read_in_small_parts_without_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "PAST_BYTES", 1000)
    with serving(tmp_path) as served:
        positions = served.log.append(make_events(40, "x" * 300))
    with serving(tmp_path) as served, talking(served, f"GET /api/stream?after={'0' * 16} HTTP/1.1\r\nHOST\r\n\r\n") as connection:
        said = read_received(connection, f"id: {positions[-1]}".encode())
        assert [line[4:].decode() for line in said.splitlines() if line.startswith(b"id: ")] == positions


def test_a_backup_put_in_the_place_of_the_log_is_what_is_shown_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_views, "SURE_SECONDS", 0.0)
    path, backup = str(tmp_path / "fleet.db"), str(tmp_path / "backup.db")
    with serving(tmp_path) as served:
        [first] = served.log.append(make_events(1))
        assert served.view("meta")["events"] == 1
        maintenance.backup_log(path, backup)
        served.log.append([Event(kind="fleet.commit", agent="lost", text="never was")])
        assert {agent["name"] for agent in served.view("fleet")["agents"]} == {"ada", "lost"}
        maintenance.restore_log(backup, path, overwrite=True)
        asyncio.run(until(lambda: {agent["name"] for agent in served.view("fleet")["agents"]} == {"ada"}))
        asyncio.run(until(lambda: served.context.feed.ring.end == served.context.feed.ring.first))
        [last] = served.log.append(make_events(1))
        with talking(served, f"GET /api/stream?after={first} HTTP/1.1\r\nHOST\r\n\r\n") as connection:
            said = read_received(connection, f"id: {last}".encode())
        assert b"never was" not in said


def test_who_may_not_read_is_not_given_the_reason_the_log_is_in_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as served:
        # A trouble that lasts: the thread that follows the log takes back one that was only set, with its next page, which may be empty.
        lasting = property(lambda feed: "/home/ada/fleet.db: is damaged", lambda feed, trouble: None)
        monkeypatch.setattr(type(served.context.feed), "trouble", lasting, raising=False)
        assert served.get("/readyz").json["detail"] == "/home/ada/fleet.db: is damaged"
        remote = served.get("/readyz", signed_in=False)
        assert (remote.status, "ada" in remote.json["detail"]) == (503, False)
