"""The driver events of nexo: types, subjects, bytes, and sinks with a real server."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

import nats
import nats.errors
import pytest

from fleetlore import Event, connect
from fleetlore.compat import nexo
from fleetlore.compat.nexo import DriverEvent
from fleetlore.dialects.nexo import DIALECT, SUBJECT_BY_KIND
from fleetlore.errors import Invalid, InvalidEvent
from tests.compat.wire_readers import DRIVER_FIELDS, read_driver_event
from tests.servers import Nats

G = "00000000-0000-0000-0000-000000000000"
U: dict[str, Any] = {
    "turns": 1, "wall_time": "1m 2s", "tokens": 5, "consecutive_denies": 0, "consecutive_errors": 0, "consecutive_413": 0,
}  # fmt: skip
BUDGET = {
    "max_turns": 5, "max_wall_time": "1h", "max_tokens": 5,
    "max_consecutive_denies": 3, "max_consecutive_errors": 5, "max_consecutive_413": 2,
}  # fmt: skip
RESULT = {"goal_id": G, "turn_index": 0, "outcome": {"kind": "done"}, "decisions_recorded": [], "usage_after": U}
OUTCOME = {
    "goal_id": G, "outcome": {"kind": "done"}, "total_turns": 1, "usage": U, "final_text": None, "acceptance": None, "elapsed": "3s",
}  # fmt: skip
CRITERION = {"kind": "shell_command", "command": "true", "timeout_secs": 300}
CHOICE = {"choice": {"kind": "allow"}, "rationale": "r", "decided_at": "2026-01-01T00:00:00Z"}
PRESSURE = {"token_pressure": 0.9, "before_tokens": 9, "age_minutes": 0, "trigger": {"kind": "age", "age_minutes": 3, "max_age_minutes": 2}}
VERDICT = {"met": True, "failures": [], "evaluated_at": "2026-01-01T00:00:00Z", "elapsed_ms": 3}
RECORDS: list[dict[str, Any]] = [
    {"kind": "goal_started", "goal": {"id": G, "description": "d", "acceptance": [CRITERION], "budget": BUDGET, "metadata": {"a": 1}}},
    {"kind": "goal_completed", "outcome": OUTCOME},
    {"kind": "attempt_started", "goal_id": G, "turn_index": 0, "usage": U},
    {"kind": "attempt_completed", "result": RESULT},
    {"kind": "decision", "decision": {"id": G, "goal_id": G, "turn_index": 0, "tool": "Bash", "input": {"command": "ls"}, **CHOICE}},
    {"kind": "acceptance", "goal_id": G, "verdict": VERDICT},
    {"kind": "budget_exhausted", "goal_id": G, "axis": "turns", "usage": U},
    {"kind": "escalate", "goal_id": G, "reason": "x"},
    {"kind": "replay_decision", "goal_id": G, "turn_index": 1, "decision": {"kind": "next_turn"}, "error_message": "e"},
    {"kind": "compact_requested", "goal_id": G, "turn_index": 1, "focus": "f", **PRESSURE},
    {"kind": "compact_completed", "goal_id": G, "turn_index": 1, "after_tokens": 3},
    {"kind": "compact_summary_stored", "goal_id": G, "turn_index": 1, "before_tokens": 9, "after_tokens": 3},
    {"kind": "extract_memories_completed", "goal_id": G, "turn_index": 1, "memories_saved": 2, "duration_ms": 4},
    {"kind": "extract_memories_skipped", "goal_id": G, "reason": "main_agent_wrote"},
    {"kind": "auto_dream_outcome", "goal_id": G, "outcome_kind": "completed"},
    {"kind": "progress", "goal_id": G, "turn_index": 5, "usage": U, "last_text": None},
]


def raw(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def test_there_are_sixteen_types() -> None:
    types = {kind.__struct_config__.tag for kind in DriverEvent.__subclasses__()}
    assert types == DRIVER_FIELDS.keys() == SUBJECT_BY_KIND.keys() == {record["kind"] for record in RECORDS}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record["kind"]))
def test_bytes_subject_and_turn_survive_every_way(record: dict[str, Any]) -> None:
    event = DriverEvent.from_json(raw(record))
    assert event.kind == record["kind"]
    assert event.nats_subject() == f"agent.driver.{DRIVER_FIELDS[record['kind']][0]}"
    assert event.to_json() == raw(record)
    read_driver_event(event.to_json(), event.nats_subject())
    assert DriverEvent.from_event(event.to_event()) == event
    assert DIALECT.encode(event.to_event()) == raw(record)


def test_a_budget_has_nothing_used_by_default() -> None:
    usage = nexo.BudgetUsage()
    event = nexo.BudgetExhausted(goal_id=G, axis="turns", usage=usage)
    assert read_driver_event(event.to_json())["usage"] == {**U, "turns": 0, "wall_time": "0s", "tokens": 0}


@pytest.mark.parametrize(
    "bad", [b"{}", b'{"kind":"nope"}', b'{"kind":"escalate"}', b"5", b"{", b'{"kind":"attempt_started","turn_index":-1}']
)
def test_anything_else_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        DriverEvent.from_json(bad)
    with pytest.raises(Invalid):
        DriverEvent.from_event(Event(kind="fleet.commit", actor="a"))


def test_unknown_keys_are_ignored() -> None:
    assert DriverEvent.from_json(raw({"kind": "escalate", "goal_id": G, "reason": "x", "new": 1})) == nexo.Escalate(goal_id=G, reason="x")


async def test_a_log_keeps_foreign_turns_and_refuses_turn_zero_by_hand() -> None:
    """nexo's first turn is 0, ours is 1: a sink converts, and an event written by hand is refused instead of changed silently."""
    async with connect("memory:") as log:
        sink = nexo.LogEventSink(log, {"agent": "ada"})
        started = nexo.AttemptStarted(goal_id=G, turn_index=0, usage=nexo.BudgetUsage())
        await sink.publish(started)
        await sink.publish(started)
        stored = [event async for event in log.read()]
        assert [event.data["turn_index"] for event in stored] == [1, 1]
        assert [DriverEvent.from_event(event) for event in stored] == [started, started]
        assert {event.agent for event in stored} == {"ada"}
        data = json.loads(started.to_json())
        with pytest.raises(InvalidEvent, match="turn_index"):
            await log.append([Event(kind="driver.attempt_started", actor="x", data={key: data[key] for key in data if key != "kind"})])


async def test_the_noop_sink_takes_everything() -> None:
    await nexo.NoopEventSink().publish(nexo.Escalate(goal_id=G, reason="x"))


async def test_the_nats_sink_publishes_and_its_errors_reach_the_caller(nats_server: Nats) -> None:
    client, listener = await nats.connect(nats_server.url, connect_timeout=30), await nats.connect(nats_server.url, connect_timeout=30)
    received = await listener.subscribe("agent.driver.>")
    own = await listener.subscribe("team.>")
    await listener.flush()
    sink: nexo.DriverEventSink = nexo.NatsEventSink(client)
    for record in RECORDS:
        await sink.publish(DriverEvent.from_json(raw(record)))
    for record in RECORDS:
        message = await received.next_msg(timeout=10)
        assert message.data == raw(record)
        read_driver_event(message.data, message.subject)
    await nexo.NatsEventSink(client, prefix="team").publish(nexo.Escalate(goal_id=G, reason="x"))
    assert (await own.next_msg(timeout=10)).subject == "team.escalate"
    await client.close()
    with pytest.raises(nats.errors.Error):
        await sink.publish(nexo.Escalate(goal_id=G, reason="x"))
    await listener.close()


class SilentClient:
    """A client whose server takes messages and answers none."""

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(self, subject: str) -> SilentClient:
        return self

    async def unsubscribe(self) -> None:
        """Nothing to do."""

    async def publish(self, subject: str, payload: bytes = b"", *, headers: dict[str, str] | None = None) -> None:
        """Nothing comes of it."""

    async def next_msg(self, **options: float) -> None:
        await asyncio.Event().wait()


async def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(TimeoutError):
        await nexo.NatsEventSink(SilentClient(), flush_seconds=0.01).publish(nexo.Escalate(goal_id=G, reason="x"))


# --- a program that is ported line by line


def guards(**more: Any) -> nexo.BudgetGuards:
    given: dict[str, Any] = {"max_turns": 10, "max_wall_time": timedelta(seconds=60), "max_tokens": 1000, "max_consecutive_denies": 3}
    return nexo.BudgetGuards(**given | more)


@pytest.mark.parametrize(
    ("usage", "axis"),
    [
        ({}, None),
        ({"turns": 10}, "turns"),
        ({"wall_time": timedelta(seconds=60)}, "wall_time"),
        ({"wall_time": "59s"}, None),
        ({"tokens": 1000}, "tokens"),
        ({"consecutive_denies": 3}, "consecutive_denies"),
        ({"consecutive_errors": 5}, "consecutive_errors"),
        ({"consecutive_413": 2}, "consecutive413"),
        ({"turns": 99, "wall_time": "99s", "tokens": 9999}, "turns"),
    ],
)
def test_the_first_budget_that_is_used_up(usage: dict[str, Any], axis: str | None) -> None:
    assert guards().is_exhausted(nexo.BudgetUsage(**usage)) == axis
    assert axis is None or nexo.BudgetAxis(axis) == axis


def test_zero_errors_mean_no_limit_and_zero_turns_none() -> None:
    unlimited = guards(max_consecutive_errors=0, max_consecutive_413=0)
    assert unlimited.is_exhausted(nexo.BudgetUsage(consecutive_errors=99, consecutive_413=99)) is None
    assert guards(max_turns=0).is_exhausted(nexo.BudgetUsage()) is nexo.BudgetAxis.TURNS


def test_a_goal_made_in_python_has_the_bytes_of_nexo() -> None:
    criteria = (nexo.AcceptanceCriterion.shell("cargo build"), nexo.AcceptanceCriterion.file("PHASES.md", "done"))
    budget = guards(max_wall_time=timedelta(minutes=90))
    goal = nexo.Goal(id=str(UUID(int=0)), description="d", acceptance=criteria, budget=budget, metadata={"b": 1, "a": 2})
    event = nexo.DriverEvent.GoalStarted(goal=goal)  # type: ignore[attr-defined]  # set once the types exist
    assert event.to_json() == (
        b'{"kind":"goal_started","goal":{"id":"00000000-0000-0000-0000-000000000000","description":"d","acceptance":'
        b'[{"kind":"shell_command","command":"cargo build","timeout_secs":0},'
        b'{"kind":"file_matches","path":"PHASES.md","regex":"done","required":true}],'
        b'"budget":{"max_turns":10,"max_wall_time":"1h 30m","max_tokens":1000,"max_consecutive_denies":3,'
        b'"max_consecutive_errors":5,"max_consecutive_413":2},"metadata":{"a":2,"b":1}}}'
    )
    assert nexo.DriverEvent.from_json(event.to_json()) == event


async def test_a_sink_needs_no_more_of_a_client_than_publish() -> None:
    class Client:
        sent: ClassVar[list[tuple[str, bytes]]] = []

        async def publish(self, subject: str, payload: bytes) -> None:
            if b"refused" in payload:
                raise ConnectionError("closed")
            self.sent.append((subject, payload))

    sink = nexo.NatsEventSink(Client())  # type: ignore[arg-type]  # a client without inboxes
    await sink.publish(nexo.Escalate(goal_id=str(UUID(int=0)), reason="x"))
    assert Client.sent == [("agent.driver.escalate", b'{"kind":"escalate","goal_id":"00000000-0000-0000-0000-000000000000","reason":"x"}')]
    with pytest.raises(ConnectionError):
        await sink.publish(nexo.Escalate(goal_id=str(UUID(int=0)), reason="refused"))
