"""When a mission asks a person for help, and how often: the same reason again only after a while that doubles."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from fleetlore.town import events
from fleetlore.town.planning import Proposal
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_payloads import MAX_TITLE_CHARS
from fleetlore.views.town_state import CONDUCTOR, Mission, Task, TownState

NO_AGENT_GRACE = timedelta(seconds=10)
"""How long nobody may be there for a task before that is a reason."""
STALLED_AFTER = timedelta(minutes=3)
"""How long nothing may move."""
REPEAT_AFTER = timedelta(minutes=30)
MAX_BACKOFF_FACTOR = 8
MAX_REVIEW_ROUNDS = 5
"""Reviews of one item after which a person should look."""


def propose_help_requests(town: TownState, mission: Mission, now: datetime) -> Iterator[Proposal]:
    """The call for help that is due, if there is one."""
    if mission.state != "running" or mission.is_from_afar or not mission.items:
        return
    reason = (find_help_reason(town, mission, now) or "")[
        :MAX_TITLE_CHARS
    ].strip()  # as the fold keeps it: else it would always be a new one
    if not reason or not _is_due(mission, reason, now):
        return
    attempt = mission.asked.attempt + 1 if mission.asked is not None and mission.asked.reason == reason else 1
    told = events.mission_help_needed(mission, reason, attempt)
    message = events.message_sent(
        events.DISPATCHER, CONDUCTOR, f"{mission.title or mission.id}: {reason}", type="query", mission=mission.id
    )
    yield Proposal(events=(told, message), mission=mission.id)


def _is_due(mission: Mission, reason: str, now: datetime) -> bool:
    asked = mission.asked
    if asked is None or asked.at is None or asked.reason != reason:
        return True
    times = min(1 << min(asked.attempt - 1, 10), MAX_BACKOFF_FACTOR)
    return now - asked.at >= REPEAT_AFTER * times


def find_help_reason(town: TownState, mission: Mission, now: datetime) -> str | None:
    """Why a mission cannot go on by itself."""
    for item in mission.items.values():
        if item.is_stuck:
            return f"{item.id} is stuck: {item.reason}"
        if item.state == "blocked" and item.verdict == "rejected" and item.round >= MAX_REVIEW_ROUNDS:
            return f"{item.id} was sent back {item.round} times"
    since = now - (mission.moved_at or now)
    if since >= NO_AGENT_GRACE and (lonely := next(_find_unassignable_tasks(town, mission), None)) is not None:
        return f"nobody can take {lonely.id}: {_describe_missing_agent(lonely)}"
    if since >= STALLED_AFTER and not _has_active_tasks(town, mission):
        return f"nothing has moved since {mission.moved_at:%Y-%m-%d %H:%M} UTC"
    return None


def _find_unassignable_tasks(town: TownState, mission: Mission) -> Iterator[Task]:
    """Tasks that nobody who is there could ever take."""
    for item in mission.items.values():
        for id in (item.task, item.review):
            task = town.tasks.get(id or "")
            if task is not None and task.state == "pending" and not any(_can_take_task(town, task, name) for name in _present_agents(town)):
                yield task


def _present_agents(town: TownState) -> list[str]:
    return [name for agents in town.holdings.values() for name in agents]


def _can_take_task(town: TownState, task: Task, name: str) -> bool:
    agent = town.agents[name]
    if agent.state in INACTIVE_STATES or name in task.not_by:
        return False
    return name == task.wanted if task.wanted else not task.roles or not agent.roles or not set(task.roles).isdisjoint(agent.roles)


def _describe_missing_agent(task: Task) -> str:
    if task.wanted:
        return f"it is for {task.wanted}, who is not there"
    who = " or ".join(task.roles) or "agent"
    apart = f" other than {', '.join(task.not_by)}" if task.not_by else ""
    return f"no {who}{apart} is there; start one with `lore worker --roles {(task.roles or ['…'])[0]}`"


def _has_active_tasks(town: TownState, mission: Mission) -> bool:
    tasks = (town.tasks.get(id or "") for item in mission.items.values() for id in (item.task, item.review))
    return any(task is not None and task.state in ("assigned", "running") for task in tasks)
