"""The agent's side of the gate: an MCP server on stdin and stdout that asks the driver about each tool call.

The driver starts it as its own process, without the rest of Fleetlore, so it uses only the standard library. It fails
closed: no driver, no answer or an invalid answer each mean "denied", with the reason. It connects once, when it starts
and before the agent can act, so a socket that is created at the same path later is never used.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

SOCKET_VARIABLE, TOKEN_VARIABLE, DRIVER_VARIABLE, TIMEOUT_VARIABLE = (
    "LORE_GATE_SOCKET",
    "LORE_GATE_TOKEN",
    "LORE_GATE_DRIVER",
    "LORE_GATE_PATIENCE",
)
"""Environment variables in which the driver passes the address of its socket and the token."""

NAME, TOOL = "fleetlore", "permission_prompt"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MAX_LINE_BYTES = 32 * 1024 * 1024
DEFAULT_TIMEOUT_SECONDS = 3600.0
CONNECT_TIMEOUT_SECONDS = 5.0
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_DRIVER_GONE = "the driver of this goal is gone"
_DESCRIPTION = "Decides whether a tool may be used. It is called by the program that runs the agent, not by the agent."
_SCHEMA = {
    "type": "object",
    "properties": {"tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"}},
    "required": ["tool_name", "input"],
}


class GateLineBuffer:
    """Splits a byte stream into lines. A line that is too long is replaced by `!`, which is not JSON."""

    def __init__(self) -> None:
        self._partial_line, self._is_skipping = bytearray(), False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *complete, remainder = chunk.split(b"\n")
        lines = []
        for piece in complete:
            lines.append(b"!" if self._is_skipping else bytes(self._partial_line) + piece)
            self._partial_line.clear()
            self._is_skipping = False
        self._partial_line += remainder
        if len(self._partial_line) > MAX_LINE_BYTES:
            self._partial_line.clear()
            self._is_skipping = True
        return lines


class DriverConnection:
    """The connection to the driver. It is never reopened."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.socket: socket.socket | None = None
        self.failure_reason = "the driver of this goal cannot be reached"
        self._lines = GateLineBuffer()
        try:
            self._open_socket(environ)
        except (OSError, ValueError, KeyError) as error:
            detail = "nothing says where it listens" if isinstance(error, KeyError) else str(error) or type(error).__name__
            self.close_connection(f"the driver of this goal cannot be reached ({detail})")

    def _open_socket(self, environ: Mapping[str, str]) -> None:
        path, token = environ[SOCKET_VARIABLE], environ[TOKEN_VARIABLE]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(CONNECT_TIMEOUT_SECONDS)
        self.socket.connect(path)
        expected_pid, peer_pid = environ.get(DRIVER_VARIABLE), _peer_pid(self.socket)
        if expected_pid and peer_pid and str(peer_pid) != expected_pid:
            raise ValueError("another process listens in its place")
        self.send({"token": token})
        line = b""
        while not line.endswith(b"\n") and len(line) < 1024 and (byte := self.socket.recv(1)):
            line += byte
        answer = json.loads(line or b"null")
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            raise ValueError("it does not know this turn")

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises `OSError` if that fails."""
        if self.socket is None:
            raise OSError(self.failure_reason)
        self.socket.sendall(_encode_line(message))

    def receive_messages(self) -> list[Any] | None:
        """The messages received; `None` if the connection is closed or a message is invalid."""
        assert self.socket is not None
        try:
            chunk = self.socket.recv(65536)
            return [json.loads(line) for line in self._lines.feed(chunk)] if chunk else None
        except (OSError, ValueError, RecursionError):
            return None

    def close_connection(self, reason: str) -> None:
        """Close the connection; later sends fail with this reason."""
        self.failure_reason = reason
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _encode_line(message: dict[str, Any]) -> bytes:
    """One line of JSON. Raises `ValueError` if the driver could not read back the same."""
    raw = json.dumps(message, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError("it is too long")
    return raw


def _peer_pid(connection: socket.socket) -> int | None:
    """Process id of the listener; 0 or `None` if the system cannot tell, as from inside a container."""
    if sys.platform == "linux":
        return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
    if sys.platform == "darwin":
        return int.from_bytes(connection.getsockopt(0, 2, 4), sys.byteorder)
    return None


class GateMcpServer:
    """One MCP session with the agent's program."""

    def __init__(self, environ: Mapping[str, str], output: int) -> None:
        self.driver = DriverConnection(environ)
        self._output, self._last_number = output, 0
        self._pending: dict[int, tuple[Any, dict[str, Any], float]] = {}
        try:
            self._timeout = float(environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_SECONDS))
        except ValueError:
            self._timeout = DEFAULT_TIMEOUT_SECONDS

    def handle_line(self, line: bytes) -> None:
        """Handle one JSON-RPC message of the agent's program."""
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send_error(None, _PARSE_ERROR, "not JSON")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._send_error(None, _INVALID_REQUEST, "not a JSON-RPC request")
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in message:
            self._handle_notification(message["method"], params)
        elif isinstance(id := message["id"], bool) or not isinstance(id, str | int):
            self._send_error(None, _INVALID_REQUEST, "the id is neither a text nor a number")
        else:
            self._handle_request(id, message["method"], params)

    def _handle_request(self, id: str | int, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                requested = params.get("protocolVersion")
                version = requested if requested in VERSIONS else VERSIONS[0]
                info = {"name": NAME, "version": "1"}
                self._send_result(id, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "ping":
                self._send_result(id, {})
            case "tools/list":
                self._send_result(id, {"tools": [{"name": TOOL, "description": _DESCRIPTION, "inputSchema": _SCHEMA}]})
            case "tools/call" if params.get("name") == TOOL:
                self._call_tool(id, params.get("arguments"))
            case "tools/call":
                self._send_error(id, _INVALID_PARAMS, "there is no such tool")
            case _:
                self._send_error(id, _METHOD_NOT_FOUND, "there is no such method")

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method != "notifications/cancelled":
            return
        for number, (id, _, _) in list(self._pending.items()):
            if id == params.get("requestId"):
                del self._pending[number]
                self._send_to_driver({"id": number, "cancel": True})

    def _call_tool(self, id: str | int, arguments: Any) -> None:
        given = arguments if isinstance(arguments, dict) else {}
        tool, input, call_id = given.get("tool_name"), given.get("input"), given.get("tool_use_id")
        if not isinstance(tool, str) or not tool or not isinstance(input, dict):
            self._send_denial(id, "the request names no tool, or has no input that is an object")
            return
        request = {"id": self._last_number + 1, "tool": tool, "input": input, "call_id": call_id if isinstance(call_id, str) else None}
        try:
            _encode_line(request)
        except (ValueError, RecursionError) as error:
            self._send_denial(id, f"the input cannot be passed on ({error}), so it is denied")
            return
        self._last_number += 1
        self._pending[self._last_number] = (id, input, time.monotonic() + self._timeout)
        self._send_to_driver(request)

    def _send_to_driver(self, message: dict[str, Any]) -> None:
        try:
            self.driver.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self.deny_all(_DRIVER_GONE)
        except OSError as error:
            self.deny_all(
                self.driver.failure_reason if self.driver.socket is None else f"the driver of this goal cannot be asked ({error})"
            )

    def receive_answers(self) -> None:
        """Read answers from the driver and forward them."""
        messages = self.driver.receive_messages()
        if messages is None:
            self.deny_all(_DRIVER_GONE)
        for answer in messages or ():
            if not self._forward_answer(answer):
                self.deny_all("the driver's answer makes no sense")
                return

    def _forward_answer(self, answer: Any) -> bool:
        """Forward an answer. Returns whether it was valid."""
        number = answer.get("id") if isinstance(answer, dict) else None
        if type(number) is not int or not 0 < number <= self._last_number:
            return False
        pending = self._pending.pop(number, None)
        if pending is None:  # cancelled in the meantime
            return True
        id, input, _ = pending
        if answer.get("choice") == "allow":
            self._send_answer(id, {"behavior": "allow", "updatedInput": input})
        else:
            message = answer.get("message")
            self._send_denial(id, message if isinstance(message, str) and message else "it is denied")
        return True

    def deny_all(self, reason: str) -> None:
        """Deny all pending requests, and all later ones."""
        self.driver.close_connection(reason)
        pending, self._pending = self._pending, {}
        for id, _, _ in pending.values():
            self._send_denial(id, f"{reason}, so nothing is allowed; end your turn and say so")

    def expire_requests(self) -> float | None:
        """Deny requests that were not answered in time. Returns the seconds until the next one expires."""
        now = time.monotonic()
        for number, (id, _, until) in list(self._pending.items()):
            if until <= now:
                del self._pending[number]
                self._send_denial(id, "no answer came in time, so it is denied")
        return min((until - now for _, _, until in self._pending.values()), default=None)

    def _send_denial(self, id: Any, message: str) -> None:
        self._send_answer(id, {"behavior": "deny", "message": message})

    def _send_answer(self, id: Any, answer: dict[str, Any]) -> None:
        self._send_result(id, {"content": [{"type": "text", "text": json.dumps(answer)}]})

    def _send_result(self, id: Any, result: dict[str, Any]) -> None:
        self._write_message({"jsonrpc": "2.0", "id": id, "result": result})

    def _send_error(self, id: Any, code: int, message: str) -> None:
        self._write_message({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _write_message(self, message: dict[str, Any]) -> None:
        raw = json.dumps(message).encode() + b"\n"
        while raw:
            raw = raw[os.write(self._output, raw) :]


def serve_gate(environ: Mapping[str, str], *, input: int = 0, output: int = 1) -> int:
    """Serve until the agent's program closes our input or exits. Returns the exit code."""
    server, lines = GateMcpServer(environ, output), GateLineBuffer()
    try:
        while True:
            connection = server.driver.socket
            watched: list[int | socket.socket] = [input] if connection is None else [input, connection]
            ready, _, _ = select.select(watched, [], [], server.expire_requests())
            if connection in ready:
                server.receive_answers()
            if input in ready:
                chunk = os.read(input, 65536)
                if not chunk:
                    return 0
                for line in lines.feed(chunk):
                    server.handle_line(line)
    except (BrokenPipeError, ConnectionResetError):
        return 0


if __name__ == "__main__":
    sys.exit(serve_gate(os.environ))
