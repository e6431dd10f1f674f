"""`lore mcp` as an agent's program runs it: a process beside the agent that speaks the protocol, and nothing else, on its output."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from fleetlore import Event, connect
from fleetlore.cli.main import main
from tests.cli.running import Lore, command
from tests.patience import PATIENCE


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


HELLO = [
    request(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def spoken(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in (*HELLO, *messages))


def use(tool: str, **asked: Any) -> dict[str, Any]:
    return request(2, "tools/call", name=tool, arguments=asked)


class Output(io.BytesIO):
    """Standard output; after the answer to the last question the input is closed, as a client does when it is done."""

    def __init__(self, input: int) -> None:
        super().__init__()
        self._input = input

    def write(self, data: Any) -> int:
        if b'"id":2,' in bytes(data):
            os.close(self._input)
        return super().write(data)


def ask_server(*argv: str, asked: dict[str, Any]) -> Any:
    """What `lore mcp` answers to one question, asked within this process; there is nothing else on its output."""
    ours, theirs = os.pipe()
    os.write(theirs, spoken(asked))
    out = io.TextIOWrapper(Output(theirs), encoding="utf-8")
    with open(ours, encoding="utf-8") as stdin, patch.object(sys, "stdin", stdin), redirect_stdout(out):
        assert main(["mcp", *argv]) == 0
    hello, answer = (json.loads(line) for line in out.buffer.getvalue().splitlines())
    assert (hello["id"], answer["id"]) == (1, 2)
    return answer["result"]


@pytest.fixture
def fleet(lore: Lore) -> str:
    url = f"sqlite:{lore.folder}/fleet.db"
    with connect(url).blocking() as log:
        log.append(
            [
                Event(kind="fleet.commit", agent="ada", mission="m1", text="parser fixed"),
                Event(kind="fleet.idle", agent="bo"),
                Event(kind="agent.thought", agent="ada", text="secretplan", visibility="private"),
            ]
        )
    return url


def test_a_program_that_starts_it_can_ask_and_write(lore: Lore, fleet: str) -> None:
    program, *arguments = command(["mcp", "--log", fleet, "--write", "--agent", "bo"])
    started = StdioServerParameters(command=program, args=arguments, env=dict(os.environ), cwd=lore.folder)

    async def talk() -> str:
        async with Client(stdio_client(started)) as client:
            agents = (await client.call_tool("fleet")).structured_content["agents"]
            assert {agent["name"]: agent["doing"] for agent in agents}["ada"] == "parser fixed"
            await asyncio.to_thread(call_hook, fleet)
            assert "Bash" in str(await client.call_tool("events", {"kind": ["tool.*"]}))
            assert not (await client.call_tool("send_message", {"to": "ada", "body": "hello"})).is_error
            assert len((await client.list_tools()).tools) == 23
            return client.protocol_version

    assert asyncio.run(asyncio.wait_for(talk(), PATIENCE)) == "2026-07-28"
    with connect(fleet).blocking() as log:
        [sent] = log.read(kinds=["work.message_sent"])
    assert (sent.actor, sent.agent, sent.child, sent.data["body"]) == ("bo", "bo", "ada", "hello")


def call_hook(log: str) -> None:
    """A coding program calls its hook, which leaves a line in the spool."""
    record = {
        "session_id": "5e55",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "t1",
    }
    subprocess.run(command(["hook", "claude-code"]), input=json.dumps(record).encode(), check=True, env=os.environ | {"FLEETLORE_LOG": log})


def test_its_output_holds_nothing_but_the_protocol_whatever_else_is_said_and_ctrl_c_ends_it_at_once(lore: Lore, fleet: str) -> None:
    call_hook("sqlite:/dev/null/no/log.db")
    with lore.start("mcp", "--log", fleet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"garbage\n" + spoken() + b"\xff\xfe\n{}\n" + json.dumps(use("fleet")).encode() + b"\n")
        process.stdin.flush()
        answers: list[dict[str, Any]] = []
        while not answers or answers[-1].get("id") != 2:
            answers.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT
        assert (process.stdout.read(), b"/dev/null" in process.stderr.read()) == (b"", True)
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)


def test_without_write_it_only_reads(lore: Lore, fleet: str) -> None:
    listed = ask_server("--log", fleet, "--agent", "ada", asked=request(2, "tools/list"))
    assert "send_message" not in {tool["name"] for tool in listed["tools"]}
    refused = ask_server("--log", fleet, "--agent", "ada", asked=use("send_message", to="bo", body="hi"))
    assert refused["isError"]
    assert "lore mcp --write --agent NAME" in refused["content"][0]["text"]


@pytest.mark.parametrize(("argv", "sees"), [((), False), (("--agent", "bo"), False), (("--agent", "ada"), True)])
def test_the_agent_it_speaks_for_sees_its_own_thoughts_and_no_others(lore: Lore, fleet: str, argv: tuple[str, ...], sees: bool) -> None:
    answer = ask_server("--log", fleet, *argv, asked=use("events"))
    assert ("secretplan" in str(answer)) is sees


def test_the_name_comes_from_the_environment_unless_it_is_said(lore: Lore, fleet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_AGENT", "ada")
    for argv, sender in (((), "ada"), (("--agent", "bo"), "bo")):
        answer = ask_server("--log", fleet, "--write", *argv, asked=use("note", mission="m1", text="noted"))
        assert answer["structuredContent"]["sender"] == sender


def test_to_write_needs_a_name(lore: Lore, fleet: str) -> None:
    refused = lore("mcp", "--log", fleet, "--write")
    assert (refused.code, refused.raw) == (2, b"")
    assert "--agent NAME, or set FLEETLORE_AGENT" in refused.err
    assert "is not a valid name" in lore("mcp", "--log", fleet, "--agent", "a\nb", code=2).err


def test_the_users_own_log_may_still_be_empty_and_another_that_is_missing_is_noticed(lore: Lore) -> None:
    answer = ask_server(asked=use("fleet"))
    assert answer["structuredContent"]["agents"] == []
    assert "there is no log yet" in lore("mcp", "--log", "sqlite:slip.db", code=1).err


def test_without_its_library_it_says_what_to_install(lore: Lore, fleet: str) -> None:
    with patch.dict(sys.modules, {"fleetlore.server.mcp.stdio": None}):
        refused = lore("mcp", "--log", fleet)
    assert (refused.code, refused.raw) == (1, b"")
    assert "pip install 'fleetlore[mcp]'" in refused.err
