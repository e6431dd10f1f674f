"""The cards of which the town's page is made: an agent, a task, a message, a mission, each as it is shown anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from fleetlore.server.types.town import TownMessage
from fleetlore.server.view_cache import Look
from fleetlore.views import names, town_state

LONGEST_TITLE = 300
LONGEST_BODY = 4_000

_T = TypeVar("_T")


class Shown:
    """One look at the town, by which everything is shown. What the view holds is copied: it goes on meanwhile."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.town: town_state.TownState = look.states["town"]
        self._names = names.all_display_names(look.states["names"])

    def name(self, agent: str | None) -> str:
        """What people call an agent."""
        return self._names.get(agent, agent) if agent else ""

    def agent(self, agent: town_state.Agent) -> dict[str, Any]:
        """The fields of an agent."""
        task = self.town.tasks.get(agent.task or "")
        return {
            "name": agent.name,
            "shown": self.name(agent.name),
            "state": agent.state,
            "type": agent.type,
            "roles": list(agent.roles),
            "harness": agent.harness,
            "parent": agent.parent,
            "run_by": agent.lease,
            "task": agent.task,
            "doing": "" if task is None else task.title[:LONGEST_TITLE],
            "queue": len(agent.queue),
            "inbox": len(self.town.inboxes.get(agent.name, ())),
            "completed": agent.completed,
            "failed": agent.failed,
            "at": agent.at,
            "seen_at": agent.seen_at,
            "reason": agent.reason,
            "wish": agent.wish,
        }

    def task(self, task: town_state.Task) -> dict[str, Any]:
        """The fields of a card."""
        return {
            "id": task.id,
            "title": task.title[:LONGEST_TITLE],
            "state": task.state,
            "roles": list(task.roles),
            "priority": task.priority,
            "purpose": task.purpose,
            "mission": task.mission,
            "item": task.item,
            "agent": task.agent,
            "shown": self.name(task.agent),
            "wanted": task.wanted,
            "attempt": task.attempt,
            "tries": task.tries,
            "round": task.round,
            "at": task.at,
            "started_at": task.started_at,
            "ended_at": task.ended_at,
            "waits_for": len(task.missing),
            "error": task.error[:LONGEST_TITLE],
            "is_dead_letter": task.is_dead_letter,
        }

    def message(self, message: town_state.InboxMessage) -> TownMessage:
        """A message that waits."""
        return TownMessage(
            id=message.id,
            sender=message.sender,
            shown=self.name(message.sender),
            to=message.to,
            type=message.type,
            priority=message.priority,
            body=message.body[:LONGEST_BODY],
            correlation=message.correlation,
            task=message.task,
            mission=message.mission,
            at=message.at,
        )


def mission_of(mission: town_state.Mission) -> dict[str, Any]:
    """The fields of a mission in short."""
    items = mission.items.values()
    return {
        "id": mission.id,
        "title": mission.title[:LONGEST_TITLE],
        "state": mission.state,
        "is_archived": mission.is_archived,
        "items": len(items),
        "by_state": counts(get_args(town_state.ItemState), (item.state for item in items)),
        "stuck": sum(item.is_stuck for item in items),
        "reason": mission.reason,
        "at": mission.at,
        "moved_at": mission.moved_at,
        "ended_at": mission.ended_at,
    }


def counts(all: Iterable[_T], found: Iterable[_T]) -> dict[_T, int]:
    """How often each is found."""
    return dict.fromkeys(all, 0) | Counter(found)
