"""The driver's side of the gate: a private Unix socket where `gate/client.py` asks about the tool calls of a turn.

One connection per client process. The first line is the token; then each line is a request, answered by id in any
order.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from fleetlore.goal.gate import client
from fleetlore.goal.gate.decision import Decider, PermissionAnswer, PermissionRequest, make_denial
from fleetlore.programs.harness import Gate, TurnRequest

MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_CONCURRENT_REQUESTS = 64
HELLO_TIMEOUT_SECONDS = 10.0
_MAX_SOCKET_PATH_BYTES = 100
"""Longest path of a socket that every system supports."""
_TIMEOUT_MARGIN_SECONDS = 30.0
_REQUEST_ID = re.compile(rb'\{"id": ([0-9]{1,9}),')


class GateHello(Struct, frozen=True, forbid_unknown_fields=True):
    """The first message of a client."""

    token: str


class GateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request, or the cancellation of one."""

    id: int
    tool: str = ""
    input: Any = None
    call_id: str | None = None
    cancel: bool = False


class GateServer:
    """Listens while it is open. A token is valid for one turn of one goal."""

    def __init__(self, decider: Decider, *, path: str | None = None, timeout: float = 600.0) -> None:
        self._decider, self._timeout = decider, timeout
        self._folder: str | None = None
        self.path = path or ""
        self._turns_by_token: dict[str, tuple[str, int]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> GateServer:
        if not self.path:
            self._folder = _short_folder()
            self.path = os.path.join(self._folder, "gate")
        self._server = await asyncio.start_unix_server(self._on_connection, sock=_private_socket(self.path), limit=MAX_LINE_BYTES)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def create_gate(self, turn_request: TurnRequest) -> Gate:
        """The command and environment with which the program of this turn asks. Revokes the tokens of the goal's earlier turns."""
        self._turns_by_token = {token: turn for token, turn in self._turns_by_token.items() if turn[0] != turn_request.goal}
        token = secrets.token_urlsafe(32)
        self._turns_by_token[token] = (turn_request.goal, turn_request.turn)
        env = {
            client.SOCKET_VARIABLE: self.path,
            client.TOKEN_VARIABLE: token,
            client.DRIVER_VARIABLE: str(os.getpid()),
            client.TIMEOUT_VARIABLE: str(self._timeout + _TIMEOUT_MARGIN_SECONDS),
        }
        # Isolated and started by path: it runs in the workspace, and must not import modules that the agent put there.
        return Gate(command=(sys.executable, "-I", "-S", os.path.abspath(client.__file__)), env=env)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._handle_connection(reader, writer)
        except (asyncio.CancelledError, OSError, TimeoutError):
            pass  # the client is gone, or we are closing: the client itself denies what is pending
        finally:
            self._connections.discard(task)
            writer.close()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
            turn = self._find_turn_by_token(await _read_line(reader))
        await _send_message(writer, {"ok": turn is not None})
        if turn is not None:
            await _GateConnection(self._decider, turn, writer).handle_requests(reader)

    def _find_turn_by_token(self, line: bytes) -> tuple[str, int] | None:
        """The goal and turn of a token. Compares with every token in constant time."""
        try:
            given = msgspec.json.decode(line, type=GateHello).token.encode()
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        found = None
        for token, turn in self._turns_by_token.items():
            if hmac.compare_digest(token.encode(), given):
                found = turn
        return found


class _GateConnection:
    """The connection of one client."""

    def __init__(self, decider: Decider, turn: tuple[str, int], writer: asyncio.StreamWriter) -> None:
        self._decider, self._goal, self._turn, self._writer = decider, turn[0], turn[1], writer
        self._running_requests: dict[int, asyncio.Task[None]] = {}

    async def handle_requests(self, reader: asyncio.StreamReader) -> None:
        """Handle requests until the client disconnects or sends an invalid one."""
        try:
            while line := await _read_line(reader):
                request = _parse_request(line)
                if request is None:
                    return
                self._start_request(request)
        finally:
            tasks = list(self._running_requests.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start_request(self, request: GateRequest) -> None:
        if request.cancel:
            if task := self._running_requests.get(request.id):
                task.cancel()
            return
        if request.id in self._running_requests:
            return
        self._running_requests[request.id] = task = asyncio.create_task(self._send_answer(request))
        task.add_done_callback(lambda _: self._running_requests.pop(request.id, None))

    async def _send_answer(self, request: GateRequest) -> None:
        answer = await self._decide_request(request)
        message = {"id": request.id, "choice": answer.choice.__struct_config__.tag, "message": answer.reason}
        with suppress(OSError):
            await _send_message(self._writer, message | ({"message": answer.choice.message} if hasattr(answer.choice, "message") else {}))

    async def _decide_request(self, request: GateRequest) -> PermissionAnswer:
        if len(self._running_requests) > MAX_CONCURRENT_REQUESTS:
            return make_denial("too many tools are asked for at once; ask for fewer")
        if not request.tool or not isinstance(request.input, dict):
            return make_denial("the request names no tool, or has no input that is an object")
        permission_request = PermissionRequest(
            tool=request.tool, input=request.input, call_id=request.call_id, goal=self._goal, turn=self._turn
        )
        return await self._decider.decide(permission_request) or make_denial("no rule or person decided it")


def _parse_request(line: bytes) -> GateRequest | None:
    """The request; `None` if invalid. Of one that is nested too deeply only the id is kept, so that it is denied."""
    try:
        return msgspec.json.decode(line, type=GateRequest)
    except RecursionError:
        match = _REQUEST_ID.match(line)
        return None if match is None else GateRequest(id=int(match[1]))
    except (msgspec.DecodeError, UnicodeError):
        return None


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end, or if the line is too long."""
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return b""


async def _send_message(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")
    await writer.drain()


def _private_socket(path: str) -> socket.socket:
    """A socket with mode 0600 from the start, with no moment in which others can open it."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o177)
    try:
        sock.bind(path)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(old_umask)
    return sock


def _short_folder() -> str:
    """A temporary folder whose path is short enough for a socket."""
    folder = tempfile.mkdtemp(prefix="lore-")
    if len(os.fsencode(folder)) + len("/gate") <= _MAX_SOCKET_PATH_BYTES:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="lore-", dir="/tmp")
