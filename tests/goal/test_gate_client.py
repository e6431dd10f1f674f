"""The agent's side of the gate, line by line: each request is answered, and every error is a denial with its reason."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fleetlore.goal.gate import client as gate_door
from fleetlore.goal.gate.client import (
    DRIVER_VARIABLE,
    SOCKET_VARIABLE,
    TIMEOUT_VARIABLE,
    TOKEN_VARIABLE,
    TOOL,
    VERSIONS,
    GateLineBuffer,
    GateMcpServer,
    serve_gate,
)

CALL = {"name": TOOL, "arguments": {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "toolu_1"}}


class Talk:
    """A gate client between the agent's program and the driver, both played by the test."""

    def __init__(self, door: GateMcpServer, output: int, driver: socket.socket | None) -> None:
        self.door, self._output, self.driver = door, output, driver
        self._decode_with = driver.makefile("rb") if driver is not None else None

    def say(self, line: bytes | dict[str, Any]) -> None:
        self.door.handle_line(line if isinstance(line, bytes) else json.dumps(line).encode())

    def ask(self, method: str, params: Any = None, *, id: Any = 1) -> None:
        self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def received(self) -> list[Any]:
        """The messages that the program has received so far."""
        try:
            return [json.loads(line) for line in os.read(self._output, 65536).splitlines()]
        except BlockingIOError:
            return []

    def verdict(self) -> dict[str, Any]:
        """The only answer to a request."""
        [answer] = self.received()
        verdict: dict[str, Any] = json.loads(answer["result"]["content"][0]["text"])
        return verdict

    def recorded(self) -> Any:
        """The next message that the driver received."""
        assert self._decode_with is not None
        return json.loads(self._decode_with.readline())

    def answer(self, line: Any) -> None:
        assert self.driver is not None
        self.driver.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.door.receive_answers()


@contextmanager
def talking(folder: Path | None, hello: bytes = b'{"ok": true}\n', environ: Mapping[str, str] = {}) -> Iterator[Talk]:
    """Without a folder there is no driver."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        if folder is None:
            yield Talk(GateMcpServer(environ, writing), reading, None)
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening, ThreadPoolExecutor(1) as thread:
            listening.bind(str(folder / "gate"))
            listening.listen()
            making = thread.submit(GateMcpServer, {SOCKET_VARIABLE: str(folder / "gate"), TOKEN_VARIABLE: "t0ken", **environ}, writing)
            driver, _ = listening.accept()
            with driver:
                with suppress(BrokenPipeError):  # it may have hung up on somebody whom it does not trust
                    driver.sendall(hello)
                talk = Talk(making.result(), reading, driver)
                if talk.door.driver.socket is not None:
                    assert talk.recorded() == {"token": "t0ken"}
                yield talk
                talk.door.driver.close_connection("over")
    finally:
        os.close(reading)
        os.close(writing)


# --- speaking MCP


@pytest.mark.parametrize(("asked", "given"), [(VERSIONS[-1], VERSIONS[-1]), ("1999-01-01", VERSIONS[0]), (None, VERSIONS[0])])
def test_it_speaks_the_version_that_it_is_asked_for_if_it_knows_it(asked: str | None, given: str) -> None:
    with talking(None) as talk:
        talk.ask("initialize", {"protocolVersion": asked})
        assert talk.received()[0]["result"]["protocolVersion"] == given


def test_it_has_one_tool_and_answers_a_ping() -> None:
    with talking(None) as talk:
        talk.ask("tools/list")
        talk.ask("ping", id="two")
        tools, ping = talk.received()
        assert [tool["name"] for tool in tools["result"]["tools"]] == [TOOL]
        assert (ping["id"], ping["result"]) == ("two", {})


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no JSON", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": true, "method": "ping"}', -32600),
        (b'{"id": null, "method": "ping"}', -32600),
        (b'{"id": 1, "method": "tools/call", "params": {"name": "another"}}', -32602),
        (b'{"id": 1, "method": "resources/list"}', -32601),
    ],
)
def test_what_it_does_not_understand_is_an_error(line: bytes, code: int) -> None:
    with talking(None) as talk:
        talk.say(line)
        assert [answer["error"]["code"] for answer in talk.received()] == [code]


@pytest.mark.parametrize(
    "line", [b" \n", b'{"id": 1, "result": {}}', b'{"id": 1, "error": {}}', b'{"method": "notifications/initialized"}']
)
def test_what_wants_no_answer_gets_none(line: bytes) -> None:
    with talking(None) as talk:
        talk.say(line)
        assert talk.received() == []


# --- asking the driver


def test_a_yes_passes_the_input_on_as_it_was(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.ask("tools/call", CALL)
        assert talk.recorded() == {"id": 1, "tool": "Bash", "input": {"command": "ls"}, "call_id": "toolu_1"}
        talk.answer({"id": 1, "choice": "allow"})
        assert talk.verdict() == {"behavior": "allow", "updatedInput": {"command": "ls"}}


@pytest.mark.parametrize(
    ("answer", "message"),
    [({"choice": "deny", "message": "not today"}, "not today"), ({"choice": "deny", "message": 7}, "it is denied"), ({}, "it is denied")],
)
def test_whatever_is_no_yes_is_a_no(tmp_path: Path, answer: dict[str, Any], message: str) -> None:
    with talking(tmp_path) as talk:
        talk.ask("tools/call", CALL)
        talk.answer({"id": 1} | answer)
        assert talk.verdict() == {"behavior": "deny", "message": message}


@pytest.mark.parametrize("line", [b"no JSON\n", b"[]\n", b'{"id": 2, "choice": "allow"}\n', b'{"id": true, "choice": "allow"}\n'])
def test_an_answer_that_makes_no_sense_allows_nothing_now_or_later(tmp_path: Path, line: bytes) -> None:
    with talking(tmp_path) as talk:
        talk.ask("tools/call", CALL)
        talk.answer(line)
        assert "so nothing is allowed" in talk.verdict()["message"]
        talk.ask("tools/call", CALL)
        assert talk.verdict()["behavior"] == "deny"


def test_a_driver_that_goes_takes_every_open_question_with_it(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.ask("tools/call", CALL)
        assert talk.driver is not None
        talk.driver.shutdown(socket.SHUT_RDWR)
        talk.door.receive_answers()
        assert talk.verdict() == {
            "behavior": "deny",
            "message": "the driver of this goal is gone, so nothing is allowed; end your turn and say so",
        }


def test_what_is_called_off_is_not_answered_any_more(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.ask("tools/call", CALL, id="a")
        talk.ask("tools/call", CALL, id="b")
        talk.say({"method": "notifications/cancelled", "params": {"requestId": "b"}})
        talk.answer({"id": 2, "choice": "allow"})
        assert talk.received() == []
        assert [talk.recorded() for _ in range(3)][-1] == {"id": 2, "cancel": True}
        talk.answer({"id": 1, "choice": "allow"})
        assert talk.verdict()["behavior"] == "allow"


def test_what_nobody_answers_in_time_is_denied(tmp_path: Path) -> None:
    with talking(tmp_path, environ={TIMEOUT_VARIABLE: "0"}) as talk:
        talk.ask("tools/call", CALL)
        assert talk.door.expire_requests() is None
        assert talk.verdict()["message"] == "no answer came in time, so it is denied"


def test_there_is_time_for_a_person_where_nothing_else_is_said(tmp_path: Path) -> None:
    with talking(tmp_path, environ={TIMEOUT_VARIABLE: "a while"}) as talk:
        talk.ask("tools/call", CALL)
        left = talk.door.expire_requests()
        assert left is not None
        assert left > gate_door.DEFAULT_TIMEOUT_SECONDS / 2
        assert talk.received() == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (None, "names no tool"),
        ({"tool_name": "", "input": {}}, "names no tool"),
        ({"tool_name": "Bash", "input": "ls"}, "names no tool"),
        ({"tool_name": "Bash", "input": {"n": float("nan")}}, "cannot be passed on"),
        ({"tool_name": "Bash", "input": {"command": "x" * 500}}, "cannot be passed on (it is too long)"),
    ],
)
def test_a_question_that_cannot_be_put_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, why: str) -> None:
    with talking(tmp_path) as talk:
        monkeypatch.setattr(gate_door, "MAX_LINE_BYTES", 400)
        talk.ask("tools/call", {"name": TOOL, "arguments": arguments})
        assert why in talk.verdict()["message"]


# --- who is behind it


def test_where_nothing_says_who_drives_everything_is_denied() -> None:
    with talking(None) as talk:
        talk.ask("tools/call", CALL)
        assert "nothing says where it listens" in talk.verdict()["message"]


@pytest.mark.parametrize("hello", [b'{"ok": false}\n', b"[]\n", b"no JSON\n", b'{"ok": 1}\n', b"x" * 2000])
def test_who_does_not_know_the_turn_is_not_asked(tmp_path: Path, hello: bytes) -> None:
    with talking(tmp_path, hello) as talk:
        talk.ask("tools/call", CALL)
        assert "cannot be reached" in talk.verdict()["message"]


def test_another_process_in_the_drivers_place_is_not_asked(tmp_path: Path) -> None:
    with talking(tmp_path, environ={DRIVER_VARIABLE: str(os.getpid() + 1)}) as talk:
        talk.ask("tools/call", CALL)
        assert "another process listens in its place" in talk.verdict()["message"]


# --- lines


def test_of_a_line_that_is_too_long_only_a_remark_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_door, "MAX_LINE_BYTES", 10)
    lines = GateLineBuffer()
    assert lines.feed(b"sho") == []
    assert lines.feed(b"rt\n" + b"x" * 20) == [b"short"]
    assert lines.feed(b"x" * 20 + b"\nnext\n") == [b"!", b"next"]


def test_it_serves_until_its_input_is_closed() -> None:
    program, ours = socket.socketpair()
    with program, ours:
        program.sendall(b'{"id": 1, "method": "ping"}\n')
        program.shutdown(socket.SHUT_WR)
        assert serve_gate({}, input=ours.fileno(), output=ours.fileno()) == 0
        assert json.loads(program.recv(4096)) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_program_that_is_gone_ends_it_without_a_word() -> None:
    program, ours = socket.socketpair()
    with ours:
        program.sendall(b'{"id": 1, "method": "ping"}\n')
        program.close()
        assert serve_gate({}, input=ours.fileno(), output=ours.fileno()) == 0
