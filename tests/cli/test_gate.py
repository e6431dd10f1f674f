"""`lore gate`: MCP as the agent's program speaks it, a no wherever something is wrong, and the real Claude Code that obeys."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetlore.events.driver_types import Allow
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal.gate import client as gate_door
from fleetlore.goal.gate.decision import (
    Decider,
    DeciderChain,
    PermissionAnswer,
    PermissionRequest,
    RecordingDecider,
    RuleDecider,
    make_denial,
)
from fleetlore.goal.gate.server import GateServer
from fleetlore.programs.harness import Gate, TurnRequest
from tests.cli.running import Lore, command
from tests.cli.test_claude_code_program import CLAUDE, QUIET, ROOT, without_a_network
from tests.patience import PATIENCE

GOAL = "7f7a50ca-4f1c-4e9a-9d57-1de1a3d0c0de"
CLEAN = {"PATH": os.environ["PATH"]}


def order(workspace: str = "/w") -> TurnRequest:
    return TurnRequest(goal=GOAL, agent="ada", turn=1, prompt="", workspace=workspace, new_session=GOAL, mark="m")


def call(id: Any, tool: Any, input: Any) -> dict[str, Any]:
    arguments = {"tool_name": tool, "input": input, "tool_use_id": f"toolu_{id}"}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "permission_prompt", "arguments": arguments}}


def read_answer(answer: dict[str, Any]) -> Any:
    """What the tool answered."""
    return json.loads(answer["result"]["content"][0]["text"])


def talk(*messages: Any, env: Mapping[str, str] = CLEAN) -> list[Any]:
    """A whole conversation without a driver, by `lore gate` itself."""
    lines = b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in messages)
    done = subprocess.run(command(["gate"]), input=lines, capture_output=True, check=False, env=env, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- MCP


@pytest.mark.parametrize(("asked", "answered"), [(v, v) for v in gate_door.VERSIONS] + [("1999-01-01", "2025-11-25"), (None, "2025-11-25")])
def test_the_version_that_is_asked_for_is_spoken_if_it_is_known(asked: Any, answered: str) -> None:
    [answer] = talk({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": asked, "capabilities": {}}})
    assert answer["id"] == 0
    assert answer["result"]["protocolVersion"] == answered
    assert answer["result"]["serverInfo"]["name"] == "fleetlore"
    assert "tools" in answer["result"]["capabilities"]


def test_a_conversation_is_held_as_the_protocol_says() -> None:
    answers = talk(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "a", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": "resources/list"},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "rm"}},
        {"jsonrpc": "2.0", "method": "no/such/notice"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[" * 100_000,
        [{"jsonrpc": "2.0", "id": 5, "method": "ping"}],
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"id": 6},
        {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]},
    )
    assert [answer["id"] for answer in answers] == ["a", 2, 3, 4, None, None, None, None, None, None, 7]
    [tool] = answers[0]["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("permission_prompt", ["tool_name", "input"])
    assert [answer["error"]["code"] for answer in answers[2:10]] == [-32601, -32602, -32700, -32700, -32700, -32600, -32600, -32600]
    assert answers[1]["result"] == answers[10]["result"] == {}


def test_help_says_what_it_is_for_and_the_daily_list_does_not_name_it(lore: Lore) -> None:
    shown = lore("gate", "--help", code=0).out
    assert "mcp__fleetlore__permission_prompt" in shown
    assert "examples:" in shown
    assert " gate " not in lore("--help", code=0).out


def test_it_loads_the_standard_library_alone() -> None:
    script = "import sys; before = set(sys.modules); import runpy; runpy.run_path(sys.argv[1]); print(*set(sys.modules) - before)"
    alone = [sys.executable, "-I", "-S", "-c", script, gate_door.__file__]
    loaded = subprocess.run(alone, capture_output=True, check=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in loaded} <= sys.stdlib_module_names
    assert not {"asyncio", "subprocess", "logging", "typing_extensions"} & set(loaded)


# --- without a driver


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({}, "nothing says where it listens"),
        ({gate_door.SOCKET_VARIABLE: "/nowhere/gate", gate_door.TOKEN_VARIABLE: "x"}, "No such file"),
        ({gate_door.SOCKET_VARIABLE: "/" + "x" * 300, gate_door.TOKEN_VARIABLE: "x"}, "too long"),
    ],
)
def test_without_a_driver_nothing_is_allowed_and_the_agent_gets_the_reason(env: dict[str, str], reason: str) -> None:
    answers = talk(call(1, "Bash", {"command": "ls"}), call(2, "Read", {}), env=CLEAN | env)
    assert [read_answer(answer)["behavior"] for answer in answers] == ["deny", "deny"]
    assert all(reason in read_answer(answer)["message"] for answer in answers)


@pytest.mark.parametrize(("tool", "input"), [(None, {}), ("", {}), (7, {}), ("Bash", None), ("Bash", "ls"), ("Bash", [])])
def test_a_request_that_is_none_is_denied(tool: Any, input: Any) -> None:
    [answer] = talk(call(1, tool, input))
    assert read_answer(answer)["behavior"] == "deny"


# --- with a driver


class Process:
    """A gate process, as an agent's program has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def ask(self, id: Any, tool: str, input: Any) -> Any:
        await self.say(call(id, tool, input))
        answer = await self.receive()
        assert answer["id"] == id
        return read_answer(answer)


@asynccontextmanager
async def started(gate: Gate, more: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> AsyncIterator[Process]:
    pipe = asyncio.subprocess.PIPE
    environ = {**CLEAN, **gate.env, **(more or {})}
    process = await asyncio.create_subprocess_exec(*gate.command, env=environ, stdin=pipe, stdout=pipe, cwd=cwd, limit=1 << 20)
    try:
        yield Process(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        assert await process.wait() in (0, -signal.SIGKILL)


class Scripted:
    """Allows what is called `yes`."""

    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(Allow(), "fine") if request.tool == "yes" else make_denial(f"not {request.tool}")


async def test_what_the_driver_decides_reaches_the_program_with_the_input_as_it_was() -> None:
    input = {"text": "ä😀\n\"'", "n": [1, 2.5, None, True], "deep": {"x": "y" * 100_000}}
    async with GateServer(Scripted()) as server, started(server.create_gate(order())) as process:
        assert await process.ask(1, "yes", input) == {"behavior": "allow", "updatedInput": input}
        assert await process.ask("two", "no", {}) == {"behavior": "deny", "message": "not no"}


@pytest.mark.parametrize("input", [{"n": float("inf")}, {"text": "\ud800"}, {"deep": json.loads("[" * 900 + "]" * 900)}])
async def test_an_input_that_cannot_be_passed_on_is_denied_and_the_next_one_is_not(input: dict[str, Any]) -> None:
    async with GateServer(Scripted()) as server, started(server.create_gate(order())) as process:
        assert (await process.ask(1, "no", input))["behavior"] == "deny"
        assert (await process.ask(2, "yes", {}))["behavior"] == "allow"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [(gate_door.TOKEN_VARIABLE, "wrong", "does not know this turn"), (gate_door.DRIVER_VARIABLE, "1", "another process")],
)
async def test_a_wrong_token_or_another_listener_is_a_no(name: str, value: str, reason: str) -> None:
    async with GateServer(Scripted()) as server, started(server.create_gate(order()), {name: value}) as process:
        answer = await process.ask(1, "yes", {})
        assert answer["behavior"] == "deny"
        assert reason in answer["message"]


async def test_a_driver_that_goes_takes_all_permissions_with_it() -> None:
    class Never:
        async def decide(self, request: PermissionRequest) -> PermissionAnswer:
            await asyncio.Event().wait()
            raise AssertionError

    async with GateServer(Never()) as server:
        gate = server.create_gate(order())
        pipe = asyncio.subprocess.PIPE
        process = Process(await asyncio.create_subprocess_exec(*gate.command, env={**CLEAN, **gate.env}, stdin=pipe, stdout=pipe))
        await process.say({"jsonrpc": "2.0", "id": 0, "method": "ping"})
        await process.receive()
        await process.say(call(1, "yes", {}))
    assert "gone" in read_answer(await process.receive())["message"]
    assert (await process.ask(2, "yes", {}))["behavior"] == "deny"
    await process.process.communicate(b"")


def test_a_driver_that_went_before_it_was_asked_is_gone_all_the_same() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    reading, writing = os.pipe()
    with open(reading, "rb") as answers, open(writing, "wb") as output:
        door = gate_door.GateMcpServer({}, output.fileno())
        door.driver.socket = ours
        door.handle_line(json.dumps(call(1, "yes", {})).encode())
        assert "the driver of this goal is gone" in read_answer(json.loads(answers.readline()))["message"]


async def test_no_answer_in_time_is_a_no_and_the_next_request_does_not_get_it() -> None:
    late = asyncio.Event()

    class Late:
        async def decide(self, request: PermissionRequest) -> PermissionAnswer:
            if request.tool == "late":
                await late.wait()
                return PermissionAnswer(Allow(), "at last")
            late.set()
            await asyncio.sleep(0)
            return make_denial("no")

    async with GateServer(Late()) as server, started(server.create_gate(order()), {gate_door.TIMEOUT_VARIABLE: "0.2"}) as process:
        assert "in time" in (await process.ask(1, "late", {}))["message"]
        assert await process.ask(2, "next", {}) == {"behavior": "deny", "message": "no"}


@pytest.mark.parametrize(
    "reply",
    [b"garbage", b"[]", b'{"choice": "allow"}', b'{"id": 7, "choice": "allow"}', b'{"id": true, "choice": "allow"}', b'{"id": 1}',
     b'{"id": 1, "choice": "Allow"}', b'{"id": 1, "choice": "deny", "message": 7}', b""],
)  # fmt: skip
async def test_a_reply_that_makes_no_sense_is_a_no(tmp_path: Path, reply: bytes) -> None:
    path = str(tmp_path / "s")

    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"ok": true}\n')
        await reader.readline()
        writer.write(reply + b"\n" if reply else b"")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(lie, path)
    env = {gate_door.SOCKET_VARIABLE: path, gate_door.TOKEN_VARIABLE: "x"}
    gate = Gate(command=(sys.executable, "-I", "-S", gate_door.__file__), env=env)
    async with server, started(gate) as process:
        assert (await process.ask(1, "yes", {}))["behavior"] == "deny"


async def test_modules_that_an_agent_leaves_in_the_workspace_are_not_loaded(tmp_path: Path) -> None:
    for name in ("json", "socket", "fleetlore", "sitecustomize", "select"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    async with (
        GateServer(Scripted()) as server,
        started(server.create_gate(order()), {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path) as process,
    ):
        assert (await process.ask(1, "no", {}))["message"] == "not no"


def test_a_socket_that_was_put_in_the_place_of_the_drivers_is_not_received(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        env = CLEAN | {gate_door.SOCKET_VARIABLE: path, gate_door.TOKEN_VARIABLE: "x", gate_door.DRIVER_VARIABLE: str(os.getpid() + 1)}
        [answer] = talk(call(1, "yes", {}), env=env)
    assert "another process listens in its place" in read_answer(answer)["message"]


# --- the real program


async def run_claude(lore: Lore, decider: Decider, steps: list[dict[str, Any]], *more: str) -> tuple[list[Event], dict[str, Any]]:
    """Let it take the steps through our gate; returns its recorded events and its result."""
    recorded: list[Event] = []

    async def record(event: Event) -> None:
        recorded.append(event)

    async with GateServer(RecordingDecider(decider, record)) as server:
        gate = server.create_gate(order(str(lore.folder)))
        servers = {"fleetlore": {"type": "stdio", "command": gate.command[0], "args": list(gate.command[1:]), "env": dict(gate.env)}}
        claude = [str(CLAUDE), "-p", "go", "--output-format", "json", "--mcp-config", json.dumps({"mcpServers": servers})]
        claude += ["--strict-mcp-config", "--permission-prompt-tool", "mcp__fleetlore__permission_prompt", *more]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC"))}
        process = await asyncio.create_subprocess_exec(
            *without_a_network(), sys.executable, "-m", "tests.model_stub", json.dumps(steps), *claude,
            cwd=lore.folder, env=environ | QUIET | {"PYTHONPATH": str(ROOT)}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode() + out.decode()
    return recorded, json.loads(out)


def bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": command, "description": "a step"}}


@pytest.mark.skipif(CLAUDE is None, reason="needs Claude Code: `claude` on PATH, or its path in FLEETLORE_CLAUDE")
async def test_the_real_claude_code_asks_the_gate_and_obeys(lore: Lore) -> None:
    rules = RuleDecider(Permissions(allow=("Bash(touch yes*)", "Edit(src/**)")), workspace=str(lore.folder))
    write = {"name": "Write", "input": {"file_path": str(lore.folder / "src" / "x.txt"), "content": "hello"}}
    everything = '{"permissions": {"ask": ["Bash", "Read"]}}'
    steps = [bash("touch yes"), bash("touch yes; touch no"), write, bash("ls")]
    recorded, report = await run_claude(lore, DeciderChain([rules]), steps, "--setting-sources", "user", "--settings", everything)
    assert sorted(path.name for path in lore.folder.iterdir()) == ["src", "yes"]
    decisions = [event.data["decision"] for event in recorded]
    assert [(each["tool"], each["choice"]["kind"]) for each in decisions] == [
        ("Bash", "allow"), ("Bash", "deny"), ("Write", "allow"), ("Bash", "deny"),
    ]  # fmt: skip
    assert {(each["goal_id"], each["turn_index"]) for each in decisions} == {(GOAL, 1)}
    assert [denial["tool_input"]["command"] for denial in report["permission_denials"]] == ["touch yes; touch no", "ls"]
