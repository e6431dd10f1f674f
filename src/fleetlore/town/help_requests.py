"""When a mission asks a person for help, and how often: the same reason again only after a while that doubles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from fleetlore.town import events
from fleetlore.town.planning import Move
from fleetlore.views.town_agents import GONE
from fleetlore.views.town_payloads import LONGEST_TITLE
from fleetlore.views.town_state import CONDUCTOR, Mission, Task, Town

AT_ONCE = timedelta(seconds=10)
"""How long nobody may be there for a task before that is a reason."""
STILL = timedelta(minutes=3)
"""How long nothing may move."""
AGAIN = timedelta(minutes=30)
MOST_TIMES = 8
MOST_ROUNDS = 5
"""Reviews of one item after which a person should look."""


def calls(town: Town, mission: Mission, now: datetime) -> Iterator[Move]:
    """The call for help that is due, if there is one."""
    if mission.state != "running" or mission.is_from_afar or not mission.items:
        return
    reason = (reason_for(town, mission, now) or "")[:LONGEST_TITLE].strip()  # as the fold keeps it: else it would always be a new one
    if not reason or not _is_due(mission, reason, now):
        return
    attempt = mission.asked.attempt + 1 if mission.asked is not None and mission.asked.reason == reason else 1
    told = events.help_needed(mission, reason, attempt)
    message = events.message(events.DISPATCHER, CONDUCTOR, f"{mission.title or mission.id}: {reason}", type="query", mission=mission.id)
    yield Move(events=(told, message), mission=mission.id)


def _is_due(mission: Mission, reason: str, now: datetime) -> bool:
    asked = mission.asked
    if asked is None or asked.at is None or asked.reason != reason:
        return True
    times = min(1 << min(asked.attempt - 1, 10), MOST_TIMES)
    return now - asked.at >= AGAIN * times


def reason_for(town: Town, mission: Mission, now: datetime) -> str | None:
    """Why a mission cannot go on by itself."""
    for item in mission.items.values():
        if item.is_stuck:
            return f"{item.id} is stuck: {item.reason}"
        if item.state == "blocked" and item.verdict == "rejected" and item.round >= MOST_ROUNDS:
            return f"{item.id} was sent back {item.round} times"
    since = now - (mission.moved_at or now)
    if since >= AT_ONCE and (lonely := next(_lonely(town, mission), None)) is not None:
        return f"nobody can take {lonely.id}: {_wanted(lonely)}"
    if since >= STILL and not _is_busy(town, mission):
        return f"nothing has moved since {mission.moved_at:%Y-%m-%d %H:%M} UTC"
    return None


def _lonely(town: Town, mission: Mission) -> Iterator[Task]:
    """Tasks that nobody who is there could ever take."""
    for item in mission.items.values():
        for id in (item.task, item.review):
            task = town.tasks.get(id or "")
            if task is not None and task.state == "pending" and not any(_could(town, task, name) for name in _present(town)):
                yield task


def _present(town: Town) -> list[str]:
    return [name for agents in town.holdings.values() for name in agents]


def _could(town: Town, task: Task, name: str) -> bool:
    agent = town.agents[name]
    if agent.state in GONE or name in task.not_by:
        return False
    return name == task.wanted if task.wanted else not task.roles or not agent.roles or not set(task.roles).isdisjoint(agent.roles)


def _wanted(task: Task) -> str:
    if task.wanted:
        return f"it is for {task.wanted}, who is not there"
    who = " or ".join(task.roles) or "agent"
    apart = f" other than {', '.join(task.not_by)}" if task.not_by else ""
    return f"no {who}{apart} is there; start one with `lore worker --roles {(task.roles or ['…'])[0]}`"


def _is_busy(town: Town, mission: Mission) -> bool:
    tasks = (town.tasks.get(id or "") for item in mission.items.values() for id in (item.task, item.review))
    return any(task is not None and task.state in ("assigned", "running") for task in tasks)
