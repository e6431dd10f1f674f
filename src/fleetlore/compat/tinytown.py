"""The event streams of tinytown, with its names: `TownEvent` and `EventStream` over a Redis connection. See docs/ancestors.md.

    stream = EventStream(redis.asyncio.from_url("redis://127.0.0.1:6379"), "harbour")
    await stream.emit(TownEvent.new(EventType.TASK_ASSIGNED, "Fix the parser").with_agent(agent).with_task(task))

Keys, entries and retention are those of tinytown, so both may write to and read from the same streams.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID, uuid4

import msgspec

from fleetlore import clock
from fleetlore.dialects.fields import read_time, write_time
from fleetlore.dialects.tinytown import derive_town_uuid

__all__ = [
    "AGENT_STREAM_MAXLEN", "MISSION_STREAM_MAXLEN", "SUPERVISOR_ID", "TOWN_STREAM_MAXLEN", "AgentId", "EventStream", "EventType",
    "MissionId", "SpawnMode", "TaskId", "TownEvent", "id_of_name", "new_id",
]  # fmt: skip

TOWN_STREAM_MAXLEN, AGENT_STREAM_MAXLEN, MISSION_STREAM_MAXLEN = 1000, 100, 500
"""How many entries a stream keeps; approximately, as Redis trims whole nodes."""
AgentId = TaskId = MissionId = UUID
SUPERVISOR_ID = UUID("00000000-0000-0000-0000-000000000001")
_T = TypeVar("_T")


class EventType(StrEnum):
    """The 22 types of events."""

    AGENT_STATE_CHANGED = "agent_state_changed"
    AGENT_SPAWNED = "agent_spawned"
    AGENT_STOPPED = "agent_stopped"
    TASK_ASSIGNED = "task_assigned"
    TASK_COMPLETED = "task_completed"
    TASK_FAILED = "task_failed"
    MISSION_STATE_CHANGED = "mission_state_changed"
    MISSION_WORK_PROMOTED = "mission_work_promoted"
    MISSION_WORK_ASSIGNED = "mission_work_assigned"
    MISSION_WORK_COMPLETED = "mission_work_completed"
    MISSION_WORK_BLOCKED = "mission_work_blocked"
    MISSION_HELP_NEEDED = "mission_help_needed"
    MISSION_WATCH_TRIGGERED = "mission_watch_triggered"
    MISSION_EVENT = "mission_event"
    TASK_DELEGATED = "task_delegated"
    AGENT_INTERRUPTED = "agent_interrupted"
    AGENT_RESUMED = "agent_resumed"
    AGENT_COMPLETED = "agent_completed"
    AGENT_FAILED = "agent_failed"
    REVIEWER_HANDOFF = "reviewer_handoff"
    REVIEWER_APPROVAL = "reviewer_approval"
    CONDUCTOR_ESCALATION = "conductor_escalation"


class SpawnMode(StrEnum):
    """How a child agent starts."""

    FRESH = "fresh"
    FORKED_CONTEXT = "forkedcontext"
    RESUMED = "resumed"


@dataclass(frozen=True)
class TownEvent:
    """One event of a town. The `with_…` methods return a copy, so they can be chained."""

    event_type: EventType
    message: str
    agent_id: UUID | None = None
    task_id: UUID | None = None
    mission_id: UUID | None = None
    old_state: str | None = None
    new_state: str | None = None
    timestamp: datetime = field(default_factory=clock.now)
    parent_agent_id: UUID | None = None
    child_agent_id: UUID | None = None
    scope: str | None = None
    spawn_mode: SpawnMode | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "event_type", EventType(self.event_type))
        if self.spawn_mode is not None:
            object.__setattr__(self, "spawn_mode", SpawnMode(self.spawn_mode))
        for name in _ID_FIELDS:
            object.__setattr__(self, name, _to_uuid(getattr(self, name)))

    @classmethod
    def new(cls, event_type: EventType, message: str) -> TownEvent:
        """An event that happens now."""
        return cls(event_type, message)

    def with_agent(self, id: UUID | str) -> TownEvent:
        """The same event of an agent."""
        return replace(self, agent_id=_to_uuid(id))

    def with_task(self, id: UUID | str) -> TownEvent:
        """The same event of a task."""
        return replace(self, task_id=_to_uuid(id))

    def with_mission(self, id: UUID | str) -> TownEvent:
        """The same event of a mission."""
        return replace(self, mission_id=_to_uuid(id))

    def with_transition(self, old: str, new: str) -> TownEvent:
        """The same event with a change of state."""
        return replace(self, old_state=old, new_state=new)

    def with_parent_agent(self, id: UUID | str) -> TownEvent:
        """The same event with the agent that spawned or delegated."""
        return replace(self, parent_agent_id=_to_uuid(id))

    def with_child_agent(self, id: UUID | str) -> TownEvent:
        """The same event with the agent that was spawned or delegated to."""
        return replace(self, child_agent_id=_to_uuid(id))

    def with_scope(self, scope: str) -> TownEvent:
        """The same event with a description of what the agent is to do."""
        return replace(self, scope=scope)

    def with_spawn_mode(self, mode: SpawnMode) -> TownEvent:
        """The same event with the way in which the child starts."""
        return replace(self, spawn_mode=SpawnMode(mode))

    def to_json(self) -> str:
        """The event as tinytown writes it: compact, in a fixed order, without absent fields."""
        record = {name: write(value) for name, write in _WIRE_FIELDS.items() if (value := getattr(self, name)) is not None}
        return msgspec.json.encode(record).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> TownEvent:
        """The event of a text; `ValueError` if tinytown could not read it either. Unknown keys are ignored."""
        record: Any = msgspec.json.decode(text)
        if not isinstance(record, dict) or not {"event_type", "message", "timestamp"} <= record.keys():
            raise ValueError("event_type, message and timestamp are required")
        known = {name: value for name, value in record.items() if name in _WIRE_FIELDS and value is not None}
        at = read_time(known["timestamp"])
        if at is None or not all(isinstance(value, str) for value in known.values()):
            raise ValueError("an RFC 3339 timestamp and texts are needed")
        return cls(**{**known, "timestamp": at})


_ID_FIELDS = ("agent_id", "task_id", "mission_id", "parent_agent_id", "child_agent_id")
_WIRE_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "event_type": str,
    "agent_id": str,
    "task_id": str,
    "mission_id": str,
    "old_state": str,
    "new_state": str,
    "message": str,
    "timestamp": write_time,
    "parent_agent_id": str,
    "child_agent_id": str,
    "scope": str,
    "spawn_mode": str,
}
"""The fields in wire order."""


def new_id() -> UUID:
    """A new id of an agent, task or mission."""
    return uuid4()


def id_of_name(town: str, name: str) -> UUID:
    """The id by which Fleetlore writes an agent, task or mission with a name of its own into tinytown's streams."""
    return UUID(derive_town_uuid(town, name))


def _to_uuid(value: UUID | str | None) -> UUID | None:
    if value is None or isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"an id is a UUID, not {value!r}; id_of_name(town, name) makes one from a name") from None


class RedisPipeline(Protocol):
    """Commands that are sent together."""

    def execute_command(self, *args: Any) -> Any:
        """Add a command."""

    def execute(self) -> Any:
        """Send all of them."""


class RedisConnection(Protocol):
    """What is needed of `redis.Redis` or `redis.asyncio.Redis`."""

    def pipeline(self, transaction: bool = ...) -> Any:
        """A pipeline."""


Entry: TypeAlias = tuple[str, TownEvent]
Now: TypeAlias = Any
"""The answer itself with `redis.Redis`, and an awaitable of it with `redis.asyncio.Redis`."""


class EventStream:
    """A town's event streams. Errors of the connection reach the caller."""

    def __init__(self, conn: RedisConnection, town: str) -> None:
        """`conn` is a `redis.asyncio.Redis`, whose methods are awaited here, too, or a `redis.Redis`."""
        self.conn, self.town = conn, town

    def emit(self, event: TownEvent) -> Now:
        """Write an event to the streams of the town, its agents and its mission, all or none; returns its id in the town's stream."""
        fields = ("event_type", event.event_type.value, "data", event.to_json())
        limits = {self._key(): TOWN_STREAM_MAXLEN}
        for agent in (event.agent_id, event.parent_agent_id, event.child_agent_id):
            if agent is not None:
                limits[self._key("agent", agent)] = AGENT_STREAM_MAXLEN
        if event.mission_id is not None:
            limits[self._key("mission", event.mission_id)] = MISSION_STREAM_MAXLEN
        commands = [("XADD", key, "MAXLEN", "~", most, "*", *fields) for key, most in limits.items()]
        return self._run(commands, lambda answers: _to_text(answers[0]))

    def read_town_events(self, last_id: str = "0-0", count: int = 100) -> Now:
        """Up to `count` pairs of id and event from `last_id` on, which is included (XRANGE); unreadable entries are skipped."""
        return self._read(self._key(), last_id, count)

    def read_agent_events(self, agent_id: UUID | str, last_id: str = "0-0", count: int = 100) -> Now:
        """The same of one agent, also as parent or child."""
        return self._read(self._key("agent", _to_uuid(agent_id)), last_id, count)

    def read_mission_events(self, mission_id: UUID | str, last_id: str = "0-0", count: int = 100) -> Now:
        """The same of one mission."""
        return self._read(self._key("mission", _to_uuid(mission_id)), last_id, count)

    def read_recent_town_events(self, count: int = 20) -> Now:
        """The newest `count` events of the town, oldest first."""
        command = ("XREVRANGE", self._key(), "+", "-", "COUNT", count)
        return self._run([command], lambda answers: _parse_entries(answers[0])[::-1])

    def _read(self, key: str, last_id: str, count: int) -> Now:
        return self._run([("XRANGE", key, last_id, "+", "COUNT", count)], lambda answers: _parse_entries(answers[0]))

    def _key(self, kind: str = "", id: UUID | None = None) -> str:
        return f"tt:{self.town}:events" + (f":{kind}:{id}" if id is not None else "")

    def _run(self, commands: Sequence[tuple[Any, ...]], finish: Callable[[Any], _T]) -> Now:
        pipeline: RedisPipeline = self.conn.pipeline(transaction=True)
        for command in commands:
            pipeline.execute_command(*command)
        answers = pipeline.execute()
        return _finish_later(answers, finish) if inspect.isawaitable(answers) else finish(answers)


async def _finish_later(answers: Awaitable[Any], finish: Callable[[Any], _T]) -> _T:
    return finish(await answers)


def _parse_entries(raw: Sequence[Any] | None) -> list[Entry]:
    found = []
    for id, fields in raw or ():  # a server answers nil to COUNT 0
        data = {_to_text(key): value for key, value in (fields or {}).items()}.get("data")
        try:
            found.append((_to_text(id), TownEvent.from_json(data)))  # type: ignore[arg-type]
        except (ValueError, TypeError):  # msgspec's errors are ValueErrors, too
            continue
    return found


def _to_text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
