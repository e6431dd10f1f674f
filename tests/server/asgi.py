"""Asking an ASGI application: directly, where the network does not matter, and over a real uvicorn on a free port where it does."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp, Message

from tests.patience import PATIENCE

Headers = Iterable[tuple[str, str]]


class Answer(NamedTuple):
    """What an application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["detail"])


def scope_of(method: str, path: str, headers: Headers, **more: Any) -> dict[str, Any]:
    """What a server hands to an application."""
    path, _, query = path.partition("?")
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": raw, "scheme": "http"}
    return scope | {"client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 7077), "extensions": {}} | more


async def ask(
    app: ASGIApp, method: str = "GET", path: str = "/", headers: Headers = (), chunks: Iterable[bytes] = (b"",), **more: Any
) -> Answer:
    """Send one request, its body in parts, without a server between."""
    parts: list[Message] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if parts:
        parts[-1]["more_body"] = False
    sent: list[Message] = []

    async def receive() -> Message:
        return parts.pop(0) if parts else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope_of(method, path, headers, **more), receive, send)
    return _answer(sent, "http.response")


async def knock(app: ASGIApp, path: str = "/ws", headers: Headers = (), **more: Any) -> list[Message]:
    """Ask for a WebSocket; answers all that the application said."""
    sent: list[Message] = []
    waiting: list[Message] = [{"type": "websocket.connect"}]

    async def receive() -> Message:
        return waiting.pop(0) if waiting else {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = scope_of("", path, headers, type="websocket", scheme="ws", **more)
    del scope["method"]
    await app(scope, receive, send)
    return sent


def denied(sent: list[Message]) -> Answer:
    """The answer to a WebSocket that was refused."""
    return _answer(sent, "websocket.http.response")


def _answer(sent: list[Message], kind: str) -> Answer:
    [start] = [message for message in sent if message["type"] == f"{kind}.start"]
    body = b"".join(message.get("body", b"") for message in sent if message["type"] == f"{kind}.body")
    names = [name for name, _ in start["headers"]]
    assert len(names) == len(set(names))
    return Answer(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body)


@contextmanager
def served(app: ASGIApp, **settings: Any) -> Iterator[int]:
    """A real server on a free port of the loopback; gives the port, and is ended at the end."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off", **settings))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = monotonic() + PATIENCE
        while not server.started:
            assert thread.is_alive()
            assert monotonic() < deadline, "the server does not come up"
            sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def say(port: int, raw: bytes) -> tuple[int, bytes]:
    """Send bytes to a server as they are; answers the status and all that came back."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(raw)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return int(received.split(b" ", 2)[1]), received


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A request as it goes over the wire; the connection is closed behind it."""
    head = {"Connection": "close"} | dict(headers) | ({"Content-Length": str(len(body))} if body else {})
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
