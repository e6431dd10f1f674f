"""Decides when a mission asks a person for help. The same reason is repeated only after an interval that doubles.

The dispatcher calls this on every tick, for each running mission.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.town import events
from fleetlore.town.planning import Proposal
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_payloads import MAX_TITLE_CHARS
from fleetlore.views.town_state import CONDUCTOR, Mission, Task, TownState

NO_AGENT_GRACE = timedelta(seconds=10)
"""How long a task may lack a suitable agent before the mission asks for help."""
STALLED_AFTER = timedelta(minutes=3)
"""How long a mission may go without progress."""
REPEAT_AFTER = timedelta(minutes=30)
MAX_BACKOFF_FACTOR = 8
MAX_REVIEW_ROUNDS = 5
"""Rejected reviews of one item before a person should look."""


def propose_dependency_questions(town: TownState) -> Iterator[Event]:
    """A question to the conductor for each task that depends on one that failed or was cancelled.

    Its id is derived from both tasks and the failure, so that it is asked once for each.
    """
    for dependency, dependents in town.waiting.items():
        failed = town.tasks.get(dependency)
        if failed is None or failed.state not in ("failed", "cancelled"):
            continue
        for id in dependents:
            task = town.tasks.get(id)
            if task is None or task.state != "pending" or task.mission is not None:  # missions ask by themselves
                continue
            reason = f": {failed.error}" if failed.error else ""
            ending = "failed" if failed.state == "failed" else "was cancelled"
            text = (
                f"{id} cannot start: it depends on {dependency}, which {ending}{reason}. "
                f"Retry that (`lore town task retry {dependency}`), or cancel this (`lore town task cancel {id}`)"
            )
            question = events.message_sent(events.DISPATCHER, CONDUCTOR, text, type="query", priority="high", task=id)
            key = "\0".join((id, dependency, failed.state, str(failed.epoch), str(failed.failures)))
            yield replace(question, id=derive_id("fleetlore.dependency", key.encode()))


def propose_help_requests(town: TownState, mission: Mission, now: datetime) -> Iterator[Proposal]:
    """Yield at most one request: the one that is due."""
    if mission.state != "running" or mission.is_remote or not mission.items:
        return
    # Truncated as the fold stores it: otherwise the comparison below would always find a new reason.
    reason = (find_help_reason(town, mission, now) or "")[:MAX_TITLE_CHARS].strip()
    if not reason or not _is_due(mission, reason, now):
        return
    attempt = mission.asked.attempt + 1 if mission.asked is not None and mission.asked.reason == reason else 1
    request = events.mission_help_needed(mission, reason, attempt)
    message = events.message_sent(
        events.DISPATCHER, CONDUCTOR, f"{mission.title or mission.id}: {reason}", type="query", mission=mission.id
    )
    yield Proposal(events=(request, message), mission=mission.id)


def _is_due(mission: Mission, reason: str, now: datetime) -> bool:
    last = mission.asked
    if last is None or last.at is None or last.reason != reason:
        return True
    factor = min(1 << min(last.attempt - 1, 10), MAX_BACKOFF_FACTOR)  # 1, 2, 4, …
    return now - last.at >= REPEAT_AFTER * factor


def find_help_reason(town: TownState, mission: Mission, now: datetime) -> str | None:
    """Why a mission cannot continue by itself; `None` if it can."""
    for item in mission.items.values():
        if item.is_stuck:
            return f"{item.id} is stuck: {item.reason}"
        if item.state == "blocked" and item.verdict == "rejected" and item.round >= MAX_REVIEW_ROUNDS:
            return f"{item.id} was rejected {item.round} times"
    idle = now - (mission.moved_at or now)
    if idle >= NO_AGENT_GRACE and (task := next(_find_unassignable_tasks(town, mission), None)) is not None:
        return f"no agent can take {task.id}: {_describe_missing_agent(task)}"
    if idle >= STALLED_AFTER and not _has_active_tasks(town, mission):
        return f"no progress since {mission.moved_at:%Y-%m-%d %H:%M} UTC"
    return None


def _find_unassignable_tasks(town: TownState, mission: Mission) -> Iterator[Task]:
    """Pending tasks that none of the running agents may take."""
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
    if task.wanted:
        return name == task.wanted
    return not task.roles or not agent.roles or not set(task.roles).isdisjoint(agent.roles)


def _describe_missing_agent(task: Task) -> str:
    if task.wanted:
        return f"it is for {task.wanted}, which is not running"
    role = " or ".join(task.roles) or "agent"
    exclusion = f" other than {', '.join(task.not_by)}" if task.not_by else ""
    command = f"lore worker --roles {task.roles[0]}" if task.roles else "lore worker"
    return f"no {role}{exclusion} is running; start one with `{command}`"


def _has_active_tasks(town: TownState, mission: Mission) -> bool:
    tasks = (town.tasks.get(id or "") for item in mission.items.values() for id in (item.task, item.review))
    return any(task is not None and task.state in ("assigned", "running") for task in tasks)
