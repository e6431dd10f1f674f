"""Agents, tasks, messages, missions and their items, as the town's page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypeVar, get_args

from msgspec import Struct

from fleetlore.operations.sources import ViewSnapshot
from fleetlore.views import names, town_state
from fleetlore.views.town_state import AgentState, ItemState, MissionState, TaskState, WatchState

MAX_TITLE_CHARS = 300
MAX_BODY_CHARS = 4_000

_T = TypeVar("_T")


class TownAgent(Struct, kw_only=True):
    """One agent of the town."""

    name: str
    shown: str
    state: AgentState
    type: str
    roles: list[str]
    harness: str
    parent: str | None
    run_by: str
    """The lease of the worker that runs it; empty if none does."""
    task: str | None
    doing: str
    """The title of its task."""
    queue: int
    """Assigned tasks that have not started."""
    inbox: int
    """Unacknowledged messages."""
    completed: int
    failed: int
    at: datetime | None
    seen_at: datetime | None
    reason: str
    wish: str
    """Pending control request: `interrupt`, `drain`, `kill` …"""


class TownTask(Struct, kw_only=True):
    """One card of the board."""

    id: str
    title: str
    state: TaskState
    roles: list[str]
    priority: str
    purpose: str
    mission: str | None
    item: str | None
    agent: str | None
    shown: str
    """The agent's display name."""
    wanted: str | None
    """The only agent that may take it."""
    attempt: int
    tries: int
    round: int
    at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    waits_for: int
    """Number of tasks that must be completed first."""
    error: str
    is_dead_letter: bool
    """Whether it failed too often and is not tried again."""


class TownMission(Struct, kw_only=True):
    """One mission in the list."""

    id: str
    title: str
    state: MissionState
    is_archived: bool
    items: int
    by_state: dict[ItemState, int]
    """Items by state."""
    stuck: int
    """Items that need a person."""
    reason: str
    at: datetime | None
    moved_at: datetime | None
    ended_at: datetime | None


class TownMessage(Struct, kw_only=True):
    """An unacknowledged message."""

    id: str
    sender: str
    shown: str
    to: str
    type: str
    priority: str
    body: str
    correlation: str | None
    task: str | None
    mission: str | None
    at: datetime | None


class TownItem(Struct, kw_only=True):
    """One item of a mission."""

    id: str
    title: str
    type: str
    state: ItemState
    depends_on: list[str]
    waits_for: list[str]
    """Dependencies that are not done."""
    roles: list[str]
    checks: list[str]
    source: str
    description: str
    task: str | None
    review: str | None
    agent: str | None
    shown: str
    round: int
    """How often changes were requested."""
    verdict: Literal["", "approved", "rejected"]
    awaits_verdict: bool
    """Whether its work is done and not reviewed."""
    approved_by: str | None
    is_stuck: bool
    reason: str
    artifacts: list[str]
    done_at: datetime | None


class TownWatch(Struct, kw_only=True):
    """A condition that a mission watches."""

    id: str
    type: str
    item: str | None
    target: str
    action: str
    state: WatchState
    until: datetime | None
    triggered: int


class TownNote(Struct, kw_only=True):
    """A note on a mission."""

    id: str
    at: datetime | None
    by: str
    text: str


class TownRows:
    """Makes rows from one snapshot of the town. Copies what the view holds, because the view changes later."""

    def __init__(self, snapshot: ViewSnapshot) -> None:
        self.snapshot = snapshot
        self.town: town_state.TownState = snapshot.states["town"]
        self._names = names.all_display_names(snapshot.states["names"])

    def display_name(self, agent: str | None) -> str:
        """The display name of an agent; "" for none."""
        return self._names.get(agent, agent) if agent else ""

    def agent_fields(self, agent: town_state.Agent) -> dict[str, Any]:
        """The fields of `TownAgent`."""
        task = self.town.tasks.get(agent.task or "")
        return {
            "name": agent.name,
            "shown": self.display_name(agent.name),
            "state": agent.state,
            "type": agent.type,
            "roles": list(agent.roles),
            "harness": agent.harness,
            "parent": agent.parent,
            "run_by": agent.lease,
            "task": agent.task,
            "doing": "" if task is None else task.title[:MAX_TITLE_CHARS],
            "queue": len(agent.queue),
            "inbox": len(self.town.inboxes.get(agent.name, ())),
            "completed": agent.completed,
            "failed": agent.failed,
            "at": agent.at,
            "seen_at": agent.seen_at,
            "reason": agent.reason,
            "wish": agent.wish,
        }

    def task_fields(self, task: town_state.Task) -> dict[str, Any]:
        """The fields of `TownTask`."""
        return {
            "id": task.id,
            "title": task.title[:MAX_TITLE_CHARS],
            "state": task.state,
            "roles": list(task.roles),
            "priority": task.priority,
            "purpose": task.purpose,
            "mission": task.mission,
            "item": task.item,
            "agent": task.agent,
            "shown": self.display_name(task.agent),
            "wanted": task.wanted,
            "attempt": task.attempt,
            "tries": task.tries,
            "round": task.round,
            "at": task.at,
            "started_at": task.started_at,
            "ended_at": task.ended_at,
            "waits_for": len(task.missing),
            "error": task.error[:MAX_TITLE_CHARS],
            "is_dead_letter": task.is_dead_letter,
        }

    def message_row(self, message: town_state.InboxMessage) -> TownMessage:
        """A message, with a shortened body."""
        return TownMessage(
            id=message.id,
            sender=message.sender,
            shown=self.display_name(message.sender),
            to=message.to,
            type=message.type,
            priority=message.priority,
            body=message.body[:MAX_BODY_CHARS],
            correlation=message.correlation,
            task=message.task,
            mission=message.mission,
            at=message.at,
        )


def mission_fields(mission: town_state.Mission) -> dict[str, Any]:
    """The fields of `TownMission`."""
    items = mission.items.values()
    return {
        "id": mission.id,
        "title": mission.title[:MAX_TITLE_CHARS],
        "state": mission.state,
        "is_archived": mission.is_archived,
        "items": len(items),
        "by_state": count_each(get_args(town_state.ItemState), (item.state for item in items)),
        "stuck": sum(item.is_stuck for item in items),
        "reason": mission.reason,
        "at": mission.at,
        "moved_at": mission.moved_at,
        "ended_at": mission.ended_at,
    }


def count_each(keys: Iterable[_T], values: Iterable[_T]) -> dict[_T, int]:
    """How often each key is among the values, zeros included."""
    return dict.fromkeys(keys, 0) | Counter(values)
