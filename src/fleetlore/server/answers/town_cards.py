"""Fields of agents, tasks, messages and missions, shared by the lists (`town.py`) and the detail pages (`town_detail.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from fleetlore.operations.sources import ViewSnapshot
from fleetlore.server.types.town import TownMessage
from fleetlore.views import names, town_state

MAX_TITLE_CHARS = 300
MAX_BODY_CHARS = 4_000

_T = TypeVar("_T")


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
