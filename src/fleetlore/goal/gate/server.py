"""The driver's side of the gate: a socket that only this user reaches, where an agent's program asks by `lore gate`.

One connection is one gate process. It says its token first; then each line is a request, answered by its id, in whatever order.
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

from fleetlore.goal.gate import client as gate_door
from fleetlore.goal.gate.decision import Decider, PermissionAnswer, PermissionRequest, make_denial
from fleetlore.programs.harness import Gate, Order

MAX_LINE_BYTES = 32 * 1024 * 1024
MOST_AT_ONCE = 64
HELLO_TIMEOUT_SECONDS = 10.0
_MAX_SOCKET_PATH_BYTES = 100
"""What a socket's path may be on every system, in bytes."""
_TIMEOUT_MARGIN_SECONDS = 30.0
_REQUEST_ID = re.compile(rb'\{"id": ([0-9]{1,9}),')


class GateHello(Struct, frozen=True, forbid_unknown_fields=True):
    """What a gate process says first."""

    token: str


class GateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request, or the end of one."""

    id: int
    tool: str = ""
    input: Any = None
    call_id: str | None = None
    cancel: bool = False


class GateServer:
    """Listens as long as it is open; a token is good for one turn of one goal."""

    def __init__(self, decider: Decider, *, path: str | None = None, patience: float = 600.0) -> None:
        self._decider, self._timeout = decider, patience
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

    def create_gate(self, order: Order) -> Gate:
        """How the program of this turn asks. What earlier turns of the goal were given is good no more."""
        self._turns_by_token = {token: bound for token, bound in self._turns_by_token.items() if bound[0] != order.goal}
        token = secrets.token_urlsafe(32)
        self._turns_by_token[token] = (order.goal, order.turn)
        env = {
            gate_door.SOCKET_VARIABLE: self.path,
            gate_door.TOKEN_VARIABLE: token,
            gate_door.DRIVER_VARIABLE: str(os.getpid()),
            gate_door.TIMEOUT_VARIABLE: str(self._timeout + _TIMEOUT_MARGIN_SECONDS),
        }
        # Isolated and by its path: the workspace is its folder, and no module that an agent put there must be taken for one of ours.
        return Gate(command=(sys.executable, "-I", "-S", os.path.abspath(gate_door.__file__)), env=env)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._handle_connection(reader, writer)
        except (asyncio.CancelledError, OSError, TimeoutError):
            pass  # the program is gone, or we are: whoever waits there is denied by the gate process itself
        finally:
            self._connections.discard(task)
            writer.close()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HELLO_TIMEOUT_SECONDS):
            bound = self._find_turn_by_token(await _read_line(reader))
        await _send_message(writer, {"ok": bound is not None})
        if bound is not None:
            await _GateConnection(self._decider, bound, writer).handle_requests(reader)

    def _find_turn_by_token(self, line: bytes) -> tuple[str, int] | None:
        """The goal and the turn that a token is good for; every token is compared, each in constant time."""
        try:
            given = msgspec.json.decode(line, type=GateHello).token.encode()
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        found = None
        for token, bound in self._turns_by_token.items():
            if hmac.compare_digest(token.encode(), given):
                found = bound
        return found


class _GateConnection:
    """One gate process, and what it asks."""

    def __init__(self, decider: Decider, bound: tuple[str, int], writer: asyncio.StreamWriter) -> None:
        self._decider, self._goal, self._turn, self._writer = decider, bound[0], bound[1], writer
        self._running_requests: dict[int, asyncio.Task[None]] = {}

    async def handle_requests(self, reader: asyncio.StreamReader) -> None:
        """Until it goes, or says what makes no sense."""
        try:
            while line := await _read_line(reader):
                ask = _parse_request(line)
                if ask is None:
                    return
                self._start_request(ask)
        finally:
            tasks = list(self._running_requests.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start_request(self, ask: GateRequest) -> None:
        if ask.cancel:
            if task := self._running_requests.get(ask.id):
                task.cancel()
            return
        if ask.id in self._running_requests:
            return
        self._running_requests[ask.id] = task = asyncio.create_task(self._send_answer(ask))
        task.add_done_callback(lambda _: self._running_requests.pop(ask.id, None))

    async def _send_answer(self, ask: GateRequest) -> None:
        answer = await self._decide_request(ask)
        told = {"id": ask.id, "choice": answer.choice.__struct_config__.tag, "message": answer.reason}
        with suppress(OSError):
            await _send_message(self._writer, told | ({"message": answer.choice.message} if hasattr(answer.choice, "message") else {}))

    async def _decide_request(self, ask: GateRequest) -> PermissionAnswer:
        if len(self._running_requests) > MOST_AT_ONCE:
            return make_denial("too many tools are asked for at once; ask for fewer")
        if not ask.tool or not isinstance(ask.input, dict):
            return make_denial("the request names no tool, or has no input that is an object")
        request = PermissionRequest(tool=ask.tool, input=ask.input, call_id=ask.call_id, goal=self._goal, turn=self._turn)
        return await self._decider.decide(request) or make_denial("nobody decided it")


def _parse_request(line: bytes) -> GateRequest | None:
    """What is asked; one that only says its number cannot be decided, and is denied."""
    try:
        return msgspec.json.decode(line, type=GateRequest)
    except RecursionError:
        numbered = _REQUEST_ID.match(line)
        return None if numbered is None else GateRequest(id=int(numbered[1]))
    except (msgspec.DecodeError, UnicodeError):
        return None


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """The next whole line; nothing at the end, or where it is longer than any can be."""
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return b""


async def _send_message(writer: asyncio.StreamWriter, told: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(told) + b"\n")
    await writer.drain()


def _private_socket(path: str) -> socket.socket:
    """A socket that nobody else can open, not even for a moment."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


def _short_folder() -> str:
    """A folder of our own whose path leaves room for a socket's."""
    folder = tempfile.mkdtemp(prefix="lore-")
    if len(os.fsencode(folder)) + len("/gate") <= _MAX_SOCKET_PATH_BYTES:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="lore-", dir="/tmp")
