"""An endpoint on loopback that follows a script: answers, stalls, sends garbage, breaks off. Real sockets, no clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from tests.patience import PATIENCE


class Asked(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Wire:
    """One connection, seen from the endpoint."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def receive(self) -> Asked | None:
        """The next request; `None` when the client is gone."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(head[0].split()[1], headers, json.loads(body or b"{}"))

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Send the beginning of an answer."""
        lines = [f"HTTP/1.1 {status} Said", f"content-type: {kind}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self._send(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def part(self, text: str | bytes) -> None:
        """Send a piece of it."""
        raw = text.encode() if isinstance(text, str) else text
        await self._send(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")

    async def end(self) -> None:
        """End it properly."""
        await self._send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection without an end."""
        self._writer.transport.abort()

    async def stall(self) -> None:
        """Send nothing more until the client disconnects."""
        while await self._reader.read(1024):
            pass

    async def _send(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()


Act: TypeAlias = Callable[[Wire], Awaitable[None]]


class Stub:
    """Plays one act per request; the last one repeats."""

    def __init__(self, *acts: Act) -> None:
        self.acts, self.asked = list(acts), list[Asked]()
        self.connections = 0
        """How many there are now."""
        self.made = 0
        """How many there were."""
        self.received = asyncio.Event()
        """Set with the first request."""
        self._gone = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        await self.nobody_left()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def nobody_left(self) -> None:
        """Wait until every connection is closed."""
        async with self._gone, asyncio.timeout(PATIENCE):
            await self._gone.wait_for(lambda: self.connections == 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections, self.made = self.connections + 1, self.made + 1
        wire = Wire(reader, writer)
        try:
            with suppress(ConnectionError):
                while asked := await wire.receive():
                    self.asked.append(asked)
                    self.received.set()
                    await self.acts[min(len(self.asked), len(self.acts)) - 1](wire)
        finally:
            writer.close()
            async with self._gone:
                self.connections -= 1
                self._gone.notify_all()


def answers(*parts: str | bytes, status: int = 200, kind: str = "text/event-stream", **headers: str) -> Act:
    """A complete answer in these pieces."""

    async def act(wire: Wire) -> None:
        await wire.head(status, kind, **headers)
        for part in parts:
            await wire.part(part)
        await wire.end()

    return act


def refuses(status: int, body: object, **headers: str) -> Act:
    """An error as JSON."""
    return answers(json.dumps(body), status=status, kind="application/json", **headers)


def stalls(*parts: str) -> Act:
    """An answer that stops after these pieces."""

    async def act(wire: Wire) -> None:
        await wire.head()
        for part in parts:
            await wire.part(part)
        await wire.stall()

    return act


async def says_nothing(wire: Wire) -> None:
    """Not even a status line."""
    await wire.stall()


def breaks_off(*parts: str, politely: bool = False) -> Act:
    """An answer that ends in the middle: the connection breaks, or only the text ends."""

    async def act(wire: Wire) -> None:
        await wire.head()
        for part in parts:
            await wire.part(part)
        if politely:
            await wire.end()
        else:
            wire.cut()

    return act


def chat(*tokens: str, finish: str | None = "stop", usage: dict[str, Any] | None = None, **delta: Any) -> list[str]:
    """A stream of chat completions."""
    pieces: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}]
    pieces += [{"choices": [{"index": 0, "delta": {"content": token, **delta}, "finish_reason": None}]} for token in tokens]
    if finish:
        pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        pieces.append({"choices": [], "usage": usage})
    common = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "small-1"}
    return [f"data: {json.dumps(common | piece)}\n\n" for piece in pieces] + (["data: [DONE]\n\n"] if finish else [])


def message(*tokens: str, finish: str | None = "end_turn", usage: dict[str, Any] | None = None, tool: bool = False) -> list[str]:
    """A stream of Anthropic's messages."""
    counts = {"input_tokens": 1, "output_tokens": 1} if usage is None else usage
    head: dict[str, Any] = {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "small-1",
        "content": [],
        "stop_reason": None,
        "usage": counts,
    }
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "answer", "input": {}} if tool else {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for token in tokens:
        delta = {"type": "input_json_delta", "partial_json": token} if tool else {"type": "text_delta", "text": token}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    if finish:
        events.append({"type": "content_block_stop", "index": 0})
        events.append({"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None}, "usage": counts})
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


Speech: TypeAlias = Callable[..., Sequence[str]]
