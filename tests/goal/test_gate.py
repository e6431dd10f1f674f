"""The gate: who decides, how decisions are recorded, what a person answers, and that every error is a denial."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fleetlore.errors import Busy, Invalid
from fleetlore.events.catalog import check_payload
from fleetlore.events.driver_types import Allow, Deny
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Permissions
from fleetlore.goal.gate import client as gate_door
from fleetlore.goal.gate import server as gate_server
from fleetlore.goal.gate.decision import (
    GOAL_CANCELLED,
    MAX_INPUT_BYTES,
    MAX_OPEN_QUESTIONS,
    DeciderChain,
    PermissionAnswer,
    PermissionRequest,
    PersonDecider,
    RecordingDecider,
    RuleDecider,
    make_denial,
)
from fleetlore.goal.gate.server import GateServer
from fleetlore.programs.harness import TurnRequest

GOAL = "7f7a50ca-4f1c-4e9a-9d57-1de1a3d0c0de"
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def request(tool: str = "Bash", input: Any = None, *, turn: int = 1) -> PermissionRequest:
    return PermissionRequest(tool=tool, input={"command": "ls"} if input is None else input, call_id="toolu_1", goal=GOAL, turn=turn)


class Log:
    """Records events in order; a test can wait for the next one."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.kinds: list[str] = []

    async def __call__(self, event: Event) -> None:
        check_payload(event.kind, event.data)
        self.kinds.append(event.kind)
        await self.events.put(event)


class Yes:
    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer(Allow(), "always")


class Broken:
    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        raise RuntimeError("out of order")


def rules(*allow: str, deny: tuple[str, ...] = ()) -> RuleDecider:
    return RuleDecider(Permissions(allow=allow, deny=deny), workspace="/w")


# --- deciders


async def test_rules_decide_what_they_speak_of_and_leave_the_rest_to_the_next() -> None:
    chain = DeciderChain([rules("Bash(git *)", deny=("Task",)), Yes()])
    assert (await chain.decide(request(input={"command": "git log"}))).reason == "the rule `Bash(git *)` allows all of it"
    assert isinstance((await chain.decide(request("Task", {}))).choice, Deny)
    assert (await chain.decide(request(input={"command": "make"}))).reason == "always"


async def test_what_nobody_decides_is_denied() -> None:
    answer = await DeciderChain([rules()]).decide(request())
    assert answer.choice == Deny(message=answer.reason)
    assert "no rule allows Bash" in answer.reason
    assert isinstance((await DeciderChain([]).decide(request())).choice, Deny)


async def test_a_denial_says_what_no_rule_could_cover() -> None:
    answer = await DeciderChain([rules("Bash(git *)")]).decide(request(input={"command": "git log > x"}))
    assert "it redirects to or from elsewhere than /dev/null" in answer.reason


async def test_an_agent_that_calls_the_gate_itself_is_sent_away() -> None:
    answer = await rules("*").decide(request("mcp__fleetlore__permission_prompt", {"tool_name": "Bash", "input": {}}))
    assert answer is not None
    assert isinstance(answer.choice, Deny)


def test_a_rule_that_cannot_be_read_is_found_before_anything_is_asked() -> None:
    with pytest.raises(Invalid, match="not a rule"):
        rules("Bash(")


# --- telling


async def test_every_decision_is_reported_before_it_is_answered() -> None:
    log = Log()
    keeper = RecordingDecider(
        DeciderChain([rules("Bash(git *)")]), log, now=lambda: NOON, new_id=lambda: "0193f2a7-0000-7000-8000-000000000001"
    )
    await keeper.decide(request(input={"command": "git log"}, turn=3))
    event = log.events.get_nowait()
    assert (event.kind, event.goal, event.actor, event.cause) == ("driver.decision", GOAL, "driver", None)
    assert event.data["decision"] == {
        "id": "0193f2a7-0000-7000-8000-000000000001",
        "goal_id": GOAL,
        "turn_index": 3,
        "tool": "Bash",
        "input": {"command": "git log"},
        "choice": {"kind": "allow"},
        "rationale": "the rule `Bash(git *)` allows all of it",
        "decided_at": "2026-11-16T12:00:00Z",
    }
    await keeper.decide(request("Task", {}))
    choice = log.events.get_nowait().data["decision"]["choice"]
    assert choice["kind"] == "deny"
    assert "no rule allows Task" in choice["message"]


async def test_what_cannot_be_recorded_is_not_allowed() -> None:
    async def record(event: Event) -> None:
        raise Busy("the log is busy")

    answer = await RecordingDecider(Yes(), record).decide(request())
    assert isinstance(answer.choice, Deny)
    assert "could not be recorded" in answer.reason


async def test_a_decider_that_breaks_opens_no_door() -> None:
    log = Log()
    answer = await RecordingDecider(Broken(), log).decide(request())
    assert isinstance(answer.choice, Deny)
    assert "out of order" in log.events.get_nowait().data["decision"]["rationale"]


async def test_of_a_huge_input_the_event_shows_how_it_begins() -> None:
    log = Log()
    input = {str(n): "x" * 1000 for n in range(MAX_INPUT_BYTES // 1000 + 1)}
    await RecordingDecider(Yes(), log).decide(request("Write", input))
    recorded = log.events.get_nowait().data["decision"]["input"]
    assert sorted(recorded) == ["begins", "bytes"]
    assert recorded["bytes"] == len(msgspec.json.encode(input))


# --- a person


async def test_a_person_is_asked_by_an_event_and_answers_by_its_id() -> None:
    log = Log()
    person = PersonDecider(log, timeout=60, now=lambda: NOON)
    asking = asyncio.create_task(person.decide(request()))
    asked = await log.events.get()
    assert (asked.kind, asked.goal) == ("approval.requested", GOAL)
    assert asked.data == {"tool": "Bash", "input": {"command": "ls"}, "turn": 1, "call_id": "toolu_1", "expires": "2026-11-16T12:01:00Z"}
    assert person.open_question_ids == (asked.id,)
    assert not person.answer_question("another", "allow")
    assert person.answer_question(asked.id or "", "allow", "fine")
    assert await asking == PermissionAnswer(Allow(), "a person said: fine", asked.id)
    assert not person.answer_question(asked.id or "", "deny")
    assert not person.open_question_ids


@pytest.mark.parametrize("choice", ["deny", "Allow", "", "allow "])
async def test_anything_but_allow_is_a_no(choice: str) -> None:
    log = Log()
    person = PersonDecider(log)
    asking = asyncio.create_task(person.decide(request()))
    person.answer_question((await log.events.get()).id or "", choice, "not today")
    assert (await asking).choice == Deny(message="not today")


async def test_without_an_answer_in_time_it_is_a_no() -> None:
    log = Log()
    answer = await PersonDecider(log, timeout=0.01).decide(request())
    assert "nobody answered within" in answer.reason
    assert isinstance(answer.choice, Deny)
    assert answer.cause == log.events.get_nowait().id


async def test_the_same_question_is_asked_once_while_it_is_open() -> None:
    log = Log()
    person = PersonDecider(log)
    asking = [asyncio.create_task(person.decide(request(input=input))) for input in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    other = asyncio.create_task(person.decide(request(input={"a": 2})))
    first, second = await log.events.get(), await log.events.get()
    asking[0].cancel()  # who asked first goes away; the other one still waits
    person.answer_question(first.id or "", "allow")
    person.answer_question(second.id or "", "deny")
    assert (await asking[1]).choice == Allow()
    assert isinstance((await other).choice, Deny)
    assert log.events.empty()
    again = asyncio.create_task(person.decide(request(input={"a": 1, "b": 2})))
    assert (await log.events.get()).id != first.id
    person.cancel_questions()
    assert isinstance((await again).choice, Deny)


async def test_a_goal_that_is_called_off_denies_what_waits_and_what_comes() -> None:
    log = Log()
    person = PersonDecider(log)
    asking = asyncio.create_task(person.decide(request()))
    await log.events.get()
    person.cancel_questions()
    assert (await asking).choice == Deny(message=GOAL_CANCELLED)
    assert (await person.decide(request())).choice == Deny(message=GOAL_CANCELLED)
    assert log.events.empty()


async def test_a_person_is_not_flooded() -> None:
    log = Log()
    person = PersonDecider(log)
    asking = [asyncio.create_task(person.decide(request(input={"n": n}))) for n in range(MAX_OPEN_QUESTIONS)]
    for _ in asking:
        await log.events.get()
    assert "too many questions" in (await person.decide(request(input={"n": -1}))).reason
    person.cancel_questions()
    await asyncio.gather(*asking)


async def test_a_question_that_cannot_be_recorded_is_a_no() -> None:
    async def record(event: Event) -> None:
        raise Busy("the log is busy")

    assert "could not be asked" in (await PersonDecider(record).decide(request())).reason


# --- the socket


def order(turn: int = 1, goal: str = GOAL) -> TurnRequest:
    return TurnRequest(goal=goal, agent="ada", turn=turn, prompt="", workspace="/w", new_session=GOAL, mark="m")


class Client:
    """A gate client, driven by the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, recorded: Any) -> None:
        self.writer.write((recorded if isinstance(recorded, bytes) else json.dumps(recorded).encode()) + b"\n")
        await self.writer.drain()

    async def receive(self) -> Any:
        line = await self.reader.readline()
        return json.loads(line) if line else None


@asynccontextmanager
async def connected(server: GateServer, token: str | None = None) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_unix_connection(server.path))
    try:
        if token is not None:
            await client.say({"token": token})
            assert await client.receive() == {"ok": True}
        yield client
    finally:
        client.writer.close()
        await client.writer.wait_closed()


async def test_the_socket_is_for_this_user_alone_and_goes_with_the_server() -> None:
    async with GateServer(Yes()) as server:
        folder = os.path.dirname(server.path)
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
        assert len(os.fsencode(server.path)) < 104
    with pytest.raises(FileNotFoundError):
        os.stat(folder)


async def test_a_request_is_bound_to_the_goal_and_the_turn_of_its_token() -> None:
    seen: list[PermissionRequest] = []

    class Seen:
        async def decide(self, request: PermissionRequest) -> PermissionAnswer:
            seen.append(request)
            return make_denial("not this") if request.tool == "Task" else PermissionAnswer(Allow(), "fine")

    async with GateServer(Seen()) as server:
        gate = server.create_gate(order(turn=7))
        async with connected(server, gate.env[gate_door.TOKEN_VARIABLE]) as client:
            await client.say({"id": 1, "tool": "Bash", "input": {"command": "ls"}, "call_id": "t1"})
            assert await client.receive() == {"id": 1, "choice": "allow", "message": "fine"}
            await client.say({"id": 2, "tool": "Task", "input": {}})
            assert await client.receive() == {"id": 2, "choice": "deny", "message": "not this"}
    assert seen[0] == PermissionRequest(tool="Bash", input={"command": "ls"}, call_id="t1", goal=GOAL, turn=7)


async def test_a_token_of_an_earlier_turn_or_of_nobody_is_not_known() -> None:
    async with GateServer(Yes()) as server:
        old = server.create_gate(order(turn=1)).env[gate_door.TOKEN_VARIABLE]
        other = server.create_gate(order(goal=GOAL.replace("7", "8"))).env[gate_door.TOKEN_VARIABLE]
        server.create_gate(order(turn=2))
        for hello in ({"token": old}, {"token": ""}, {"token": 7}, {}, b"garbage", b"\xff", {"token": "x", "more": 1}):
            async with connected(server) as client:
                await client.say(hello)
                assert await client.receive() == {"ok": False}
                assert await client.receive() is None
        async with connected(server, other):
            pass


@pytest.mark.parametrize("line", [b"garbage", b"[]", b'{"id": "x"}', b'{"id": 1, "tool": "Bash", "input": {}, "goal": "other"}'])
async def test_what_makes_no_sense_ends_the_conversation(line: bytes) -> None:
    async with GateServer(Yes()) as server, connected(server, server.create_gate(order()).env[gate_door.TOKEN_VARIABLE]) as client:
        await client.say(line)
        assert await client.receive() is None


@pytest.mark.parametrize("asked", [{"tool": "", "input": {}}, {"tool": "Bash", "input": "ls"}, {"tool": "Bash"}])
async def test_a_request_without_a_tool_or_an_object_is_denied(asked: dict[str, Any]) -> None:
    async with GateServer(Yes()) as server, connected(server, server.create_gate(order()).env[gate_door.TOKEN_VARIABLE]) as client:
        await client.say({"id": 1} | asked)
        assert (await client.receive())["choice"] == "deny"


async def test_answers_come_by_id_in_whatever_order_and_called_off_ones_not_at_all() -> None:
    log = Log()
    person = PersonDecider(log)
    async with GateServer(person) as server, connected(server, server.create_gate(order()).env[gate_door.TOKEN_VARIABLE]) as client:
        for number in (1, 2, 3):
            await client.say({"id": number, "tool": "Bash", "input": {"n": number}})
        asked = [await log.events.get() for _ in range(3)]
        await client.say({"id": 2, "cancel": True})
        person.answer_question(asked[2].id or "", "allow")
        assert (await client.receive())["id"] == 3
        person.answer_question(asked[1].id or "", "allow")
        person.answer_question(asked[0].id or "", "deny", "no")
        assert await client.receive() == {"id": 1, "choice": "deny", "message": "no"}


async def test_too_much_at_once_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_server, "MAX_CONCURRENT_REQUESTS", 1)
    log = Log()
    person = PersonDecider(log)
    async with GateServer(person) as server:
        async with connected(server, server.create_gate(order()).env[gate_door.TOKEN_VARIABLE]) as client:
            await client.say({"id": 1, "tool": "Bash", "input": {}})
            await log.events.get()
            await client.say({"id": 2, "tool": "Bash", "input": {}})
            assert (await client.receive())["message"].startswith("too many tools")
        person.cancel_questions()


async def test_closing_the_server_ends_anybody_who_waits() -> None:
    log = Log()
    person = PersonDecider(log)
    async with GateServer(person) as server:
        reader, writer = await asyncio.open_unix_connection(server.path)
        client = Client(reader, writer)
        await client.say({"token": server.create_gate(order()).env[gate_door.TOKEN_VARIABLE]})
        await client.receive()
        await client.say({"id": 1, "tool": "Bash", "input": {}})
        await log.events.get()
    assert await client.receive() is None
    writer.close()
    person.cancel_questions()


def test_the_patience_of_the_gate_process_is_longer_than_a_persons() -> None:
    server = GateServer(Yes(), path="/nowhere", timeout=60)
    assert timedelta(seconds=float(server.create_gate(order()).env[gate_door.TIMEOUT_VARIABLE])) > timedelta(seconds=60)
