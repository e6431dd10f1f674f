"""Decides what the dispatcher does next: assign tasks, create tasks for mission items, complete missions, ask a person for help.

Pure functions of the town's state. Their cost depends on waiting tasks and idle agents, not on what has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.events.envelope import LONGEST_NAME, Event
from fleetlore.events.ids import derive_id
from fleetlore.log.base import Expect
from fleetlore.town import events as town_events
from fleetlore.views.town_agents import INACTIVE_STATES
from fleetlore.views.town_missions import is_review_required
from fleetlore.views.town_payloads import MAX_TITLE_CHARS
from fleetlore.views.town_state import CONDUCTOR, ENDED_TASK_STATES, PRIORITIES, Agent, Mission, MissionItem, MissionWatch, Task, TownState

DONE = "done"
REVIEWER_ROLE = "reviewer"
"""An agent with only this role gets nothing but reviews: authors cannot review their own work."""


class Proposal(Struct, frozen=True, kw_only=True):
    """Events to append together if `expect` holds."""

    events: tuple[Event, ...]
    expect: Expect | None = None
    task: str = ""
    """The task, agent and mission that the proposal reserves until the log shows its events."""
    agent: str = ""
    epoch: int | None = None
    """For an assignment: the task's epoch before it. `None` if the proposal creates the task, or names none."""
    mission: str = ""

    def is_still_valid(self, task: Task | None) -> bool:
        """Whether the proposal still applies to the task as read from its own scope."""
        if self.epoch is None:
            return task is None or task.at is None
        return task is not None and task.state == "pending" and task.epoch == self.epoch


# --- assignments


def propose_assignments(town: TownState, *, taken: Collection[str] = (), busy: Collection[str] = ()) -> Iterator[Proposal]:
    """Yield assignments for idle agents by priority, then first in, first out. `taken` tasks and `busy` agents are skipped."""
    idle_agents = _IdleAgents(town, busy)
    assigned = set(taken)
    for priority in PRIORITIES:
        for key in list(town.queues):
            for id in town.queues[key].get(priority, ()):
                task = town.tasks.get(id)
                if task is None or id in assigned or _is_mission_paused(town, task):
                    continue
                agent = idle_agents.take_agent(task, key)
                if agent is not None:
                    assigned.add(id)
                    yield _propose_assignment(town, task, agent)
                elif not task.not_by:
                    break  # no agent is left for the rest of this queue either


def _is_mission_paused(town: TownState, task: Task) -> bool:
    mission = town.missions.get(task.mission or "")
    return mission is not None and task.item is not None and mission.state != "running"


class _IdleAgents:
    """Idle agents by role. A taken agent is skipped from then on, without a scan for each task."""

    def __init__(self, town: TownState, busy: Collection[str]) -> None:
        self._town, self._taken_agents = town, set(busy)
        self._by_role: dict[str, list[str]] = {}

    def take_agent(self, task: Task, key: str) -> Agent | None:
        """Take the wanted or preferred agent, else one with the role, else one without roles."""
        name = self._find_named_agent(task.wanted, task.prefer) if task.wanted or task.prefer else None
        if name is None and not task.wanted:
            roles = [key, ""] if key else ["", *(role for role in self._town.idle if role != REVIEWER_ROLE)]
            name = next((name for role in roles for name in self._idle_agents_with_role(role) if name not in task.not_by), None)
        if name is None:
            return None
        self._taken_agents.add(name)
        return self._town.agents[name]

    def _find_named_agent(self, *names: str | None) -> str | None:
        for name in names:
            agent = self._town.agents.get(name or "")
            if (
                agent is not None
                and agent.name not in self._taken_agents
                and agent.name in self._town.idle.get((agent.roles or [""])[0], ())
            ):
                return agent.name
        return None

    def _idle_agents_with_role(self, role: str) -> Iterator[str]:
        if role not in self._by_role:
            self._by_role[role] = list(self._town.idle.get(role, ()))[::-1]
        waiting = self._by_role[role]
        while waiting and waiting[-1] in self._taken_agents:
            waiting.pop()
        return (name for name in reversed(waiting) if name not in self._taken_agents)


def _propose_assignment(town: TownState, task: Task, agent: Agent) -> Proposal:
    events: list[Event] = []
    mission = town.missions.get(task.mission or "")
    item = None if mission is None else mission.items.get(task.item or "")
    if mission is not None and item is not None and task.purpose == "review":
        events.append(town_events.reviewer_handoff(task, agent.name, author=item.authors[-1] if item.authors else None))
    elif mission is not None and item is not None:
        events.append(town_events.mission_item_event("assigned", mission, item, item.title, agent=agent.name, task=task.id))
    events.append(town_events.task_assigned(task, agent))
    return Proposal(events=tuple(events), expect=Expect(f"task:{task.id}", task.position), task=task.id, agent=agent.name, epoch=task.epoch)


# --- missions


def propose_for_mission(town: TownState, mission: Mission) -> Iterator[Proposal]:
    """Yield what a mission needs now: items to promote, tasks to create, reviews, fixes, completion."""
    if mission.state != "running" or mission.is_remote:
        return
    free_slots = mission.max_parallel - sum(_is_in_progress(town, item) for item in mission.items.values())
    for item in mission.items.values():
        if item.state == "pending" and not item.missing:
            yield Proposal(
                events=(town_events.mission_item_event("promoted", mission, item, f"{item.title or item.id} can start"),),
                mission=mission.id,
            )
        elif item.state == "ready" and item.task is None and free_slots > 0:
            free_slots -= 1
            yield _propose_item_task(town, mission, item)
        elif item.state == "blocked" and item.work is not None and not item.is_stuck:
            yield from _propose_after_work(town, mission, item)
    if mission.items and all(item.state == DONE for item in mission.items.values()) and _has_no_open_watches(mission):
        ended = town_events.mission_state_changed(
            mission, "running", "completed", by=town_events.DISPATCHER, text=f"all {len(mission.items)} items are done"
        )
        yield Proposal(events=(ended,), mission=mission.id)


def _is_in_progress(town: TownState, item: MissionItem) -> bool:
    return item.state in ("assigned", "running") or (item.state == "ready" and item.task is not None)


def _has_no_open_watches(mission: Mission) -> bool:
    return all(watch.state == DONE for watch in mission.watches.values())


def item_task_id(town: TownState, mission: Mission, item: MissionItem, purpose: str = "", number: int = 0) -> str:
    """The id of an item's task. It is derived from the item, so that no task is created twice."""
    suffix = f"/{purpose}-{number}" if purpose else ""
    name = f"{mission.id}/{item.id}{suffix}"
    existing = town.tasks.get(name)
    is_taken = existing is not None and existing.at is not None and (existing.mission, existing.item) != (mission.id, item.id)
    if len(name.encode()) <= LONGEST_NAME and not is_taken:
        return name
    unique = "\n".join((mission.id, item.id))  # names contain no newline, so two items never collide
    return f"{sha256(unique.encode()).hexdigest()[:16]}{suffix or '/work'}"


def _propose_item_task(town: TownState, mission: Mission, item: MissionItem) -> Proposal:
    created = town_events.task_created(
        item_task_id(town, mission, item),
        title=item.title or item.id,
        by=town_events.DISPATCHER,
        description=item.description,
        roles=item.roles,
        checks=item.checks,
        tries=mission.tries,
        mission=mission.id,
        item=item.id,
        purpose="work",
    )
    return _propose_task_creation(created, mission)


def _propose_task_creation(created: Event, mission: Mission, *before: Event) -> Proposal:
    return Proposal(events=(*before, created), expect=Expect(f"task:{created.task}", None), task=created.task or "", mission=mission.id)


def _propose_after_work(town: TownState, mission: Mission, item: MissionItem) -> Iterator[Proposal]:
    if item.verdict == "rejected":
        yield from _propose_fix(town, mission, item)
    elif is_review_required(mission, item) and item.verdict != "approved":
        yield from _propose_review(town, mission, item)
    elif _unwatched_pull_requests(mission, item):
        yield Proposal(events=tuple(_build_watch_events(mission, item)), mission=mission.id)
    elif all(watch.state == DONE for watch in mission.watches.values() if watch.item == item.id):
        review_fields: dict[str, Any] = {"task": item.work, "reviewed": True} if item.verdict == "approved" else {}
        done = town_events.mission_item_event(
            "completed", mission, item, f"{item.title or item.id} is done", by_agents=item.authors, **review_fields
        )
        yield Proposal(events=(done,), mission=mission.id)


def _propose_review(town: TownState, mission: Mission, item: MissionItem) -> Iterator[Proposal]:
    if item.reviewed == item.work:
        return
    id = item_task_id(town, mission, item, "review", item.reviews + 1)
    created = town_events.task_created(
        id,
        title=f"Review {item.title or item.id}",
        by=town_events.DISPATCHER,
        roles=[REVIEWER_ROLE],
        tries=mission.tries,
        mission=mission.id,
        item=item.id,
        purpose="review",
        of=item.work,
        round=item.round + 1,
        not_by=list(item.authors),
    )
    yield _propose_task_creation(created, mission)


def build_fix_task(mission: Mission, item: MissionItem, id: str, title: str) -> Event:
    """The task to fix an item's work, preferably by its last author."""
    return town_events.task_created(
        id,
        title=title,
        by=town_events.DISPATCHER,
        description=item.description,
        roles=item.roles,
        checks=item.checks,
        parent_task=item.work,
        tries=mission.tries,
        mission=mission.id,
        item=item.id,
        purpose="fix",
        of=item.work,
        round=item.round,
        prefer=item.authors[-1] if item.authors else None,
    )


def _propose_fix(town: TownState, mission: Mission, item: MissionItem) -> Iterator[Proposal]:
    id = item_task_id(town, mission, item, "fix", item.round)
    if item.task == id:
        return
    title = f"Fix {item.title or item.id}: {item.reason}" if item.reason else f"Fix {item.title or item.id}"
    created = build_fix_task(mission, item, id, title)
    reason = item.reason or "changes requested"
    blocked = town_events.mission_item_event(
        "blocked", mission, item, f"changes requested: {item.reason}", reason=reason, fix=id, task=item.work
    )
    yield _propose_task_creation(created, mission, blocked)


# --- watches


def _unwatched_pull_requests(mission: Mission, item: MissionItem) -> list[str]:
    return [pull for pull in item.artifacts if watch_id(pull, "merge") not in mission.watches] if mission.watches_pulls else []


def watch_id(target: str, type: str) -> str:
    """The id of a watch on a pull request."""
    return f"{target} {type}"


def _build_watch_events(mission: Mission, item: MissionItem) -> Iterator[Event]:
    for pull in _unwatched_pull_requests(mission, item):
        for type, action in (("checks", "fix"), ("merge", "advance")):
            yield Event(
                kind="work.watch_added",
                actor=town_events.DISPATCHER,
                mission=mission.id,
                text=f"watching the {type} of {pull}",
                data={"watch": watch_id(pull, type), "type": type, "item": item.id, "target": pull, "action": action},
            )


# --- pull requests that missions watch: a failed check creates a fix task, a merge completes the item


SNOOZE_DURATION = timedelta(minutes=3)
"""How long a watch is paused after it created a fix task."""
_FORGE_KINDS = {"fleet.error": "checks", "fleet.pr_merge": "merge", "fleet.abandon": "closed"}


def propose_for_forge_event(town: TownState, event: Event, now: datetime) -> Iterator[Proposal]:
    """Yield what follows for missions from one event of a forge about a pull request."""
    trigger = _FORGE_KINDS.get(event.kind)
    if trigger is None or event.origin is None or event.origin.dialect != "forge":
        return
    for mission in town.missions.values():
        if mission.state != "running" or mission.is_remote:
            continue
        for watch in mission.watches.values():
            if watch.state != "done" and not _is_snoozed(watch, now) and _is_about_watch(watch, event):
                yield from _propose_for_watch(town, mission, watch, trigger, event, now)


def _is_about_watch(watch: MissionWatch, event: Event) -> bool:
    repository, _, number = watch.target.rpartition("#")
    return f"#{number}" in {event.task, *_pull_request_names(event.data.get("pulls"))} and event.mission in (None, repository)


def _pull_request_names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


def _is_snoozed(watch: MissionWatch, now: datetime) -> bool:
    return watch.state == "snoozed" and watch.until is not None and now < watch.until


def _propose_for_watch(
    town: TownState, mission: Mission, watch: MissionWatch, trigger: str, event: Event, now: datetime
) -> Iterator[Proposal]:
    item = mission.items.get(watch.item or "")
    if item is None or item.state == "done":
        return
    if trigger == "merge":
        yield Proposal(events=(_build_triggered_event(mission, watch, "advance", event),), mission=mission.id)
    elif watch.type == "checks" and trigger == "checks":
        open_task = town.tasks.get(item.task or "")
        if open_task is None or open_task.state in ENDED_TASK_STATES:
            yield _propose_watch_fix(town, mission, watch, item, event, now)
    elif watch.type == "merge" and trigger == "closed":
        reason = f"{watch.target} was closed without being merged"
        blocked = town_events.mission_item_event("blocked", mission, item, reason, reason=reason, task=item.work)
        yield Proposal(
            events=(_build_triggered_event(mission, watch, "ask", event), blocked, town_events.mission_help_needed(mission, reason, 1)),
            mission=mission.id,
        )


def _propose_watch_fix(town: TownState, mission: Mission, watch: MissionWatch, item: MissionItem, event: Event, now: datetime) -> Proposal:
    id = item_task_id(town, mission, item, "mend", 1 + sum(each.triggered for each in mission.watches.values() if each.item == item.id))
    created = build_fix_task(mission, item, id, f"Fix {watch.target}: {event.text or 'a check failed'}")
    snoozed = _build_watch_event(
        "work.watch_snoozed", mission, watch, "paused while it is fixed", until=(now + SNOOZE_DURATION).isoformat()
    )
    events = (_build_triggered_event(mission, watch, "fix", event), snoozed, created)
    return Proposal(events=events, expect=Expect(f"task:{id}", None), task=id, mission=mission.id)


def _build_triggered_event(mission: Mission, watch: MissionWatch, action: str, event: Event) -> Event:
    return _build_watch_event(
        "town.mission_watch_triggered", mission, watch, event.text or watch.target, item=watch.item, action=action, cause=event.id
    )


def _build_watch_event(kind: str, mission: Mission, watch: MissionWatch, text: str, cause: str | None = None, **extra: Any) -> Event:
    data = {"watch": watch.id, **{name: value for name, value in extra.items() if value is not None}}
    return Event(kind=kind, actor=town_events.DISPATCHER, mission=mission.id, cause=cause, text=town_events.truncate_line(text), data=data)


# --- help: when a mission asks a person; the same reason is repeated only after an interval that doubles


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
            question = town_events.message_sent(town_events.DISPATCHER, CONDUCTOR, text, type="query", priority="high", task=id)
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
    request = town_events.mission_help_needed(mission, reason, attempt)
    message = town_events.message_sent(
        town_events.DISPATCHER, CONDUCTOR, f"{mission.title or mission.id}: {reason}", type="query", mission=mission.id
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
