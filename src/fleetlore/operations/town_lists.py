"""Agents, tasks, missions, messages and events of a town, as lists and one by one. `town_page.py` has all of it on one page."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fleetlore.errors import Invalid, NotFound
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import InvalidRequest, Name, Request
from fleetlore.operations.sources import resolve_scope
from fleetlore.operations.table import Argument
from fleetlore.operations.town import AgentName, MissionId, TaskId, choose_mailbox, find_own_mailbox, read_agent_messages
from fleetlore.town import commands, mission_commands
from fleetlore.views.town import schedule_key, sort_tasks, sorted_inbox
from fleetlore.views.town_missions import is_review_required
from fleetlore.views.town_state import (
    CONDUCTOR,
    ENDED_TASK_STATES,
    PERSON_MAILBOXES,
    Agent,
    AgentState,
    InboxMessage,
    Mission,
    MissionHelp,
    MissionItem,
    MissionState,
    Task,
    TownState,
)

LATELY = timedelta(days=1)
"""What ended longer ago is only listed on request."""
DISPATCHER = "dispatcher"
"""The lease of the dispatcher."""
HISTORY_KINDS = ("town.*", "work.*", "control.*")
AGENT_STATES: tuple[AgentState, ...] = ("error", "paused", "working", "starting", "draining", "idle", "cold", "stopped")
"""In the order of lists: those that need attention first."""
MISSION_STATES: tuple[MissionState, ...] = ("running", "blocked", "planning", "failed", "completed")


# --- agents


class ListAgents(Request, kw_only=True):
    """Which agents."""

    all: Annotated[bool, Meta(description="also agents that stopped more than a day ago")] = False


class TownAgents(Struct, kw_only=True):
    """Agents, those that need attention first."""

    town: str
    agents: list[Agent]
    titles: dict[str, str]
    """Task → title, of the tasks that they work on."""
    unread: dict[str, int]
    """Agent → its unread messages, if it has any."""
    hidden: int
    """How many more stopped more than a day ago."""


def list_agents(context: OperationContext, request: ListAgents) -> TownAgents:
    """Agents with state and current task."""
    with context.open_town() as town:
        return _describe_agents(context, town, everybody=request.all)


def _describe_agents(context: OperationContext, town: TownState, *, everybody: bool) -> TownAgents:
    now = context.now()
    shown = [agent for agent in town.agents.values() if everybody or not _is_long_stopped(agent, now)]
    shown.sort(key=lambda agent: (AGENT_STATES.index(agent.state), agent.name))
    return TownAgents(
        town=context.town,
        agents=deepcopy(shown),
        titles={task.id: task.title for agent in shown if (task := town.tasks.get(agent.task or "")) is not None},
        unread={agent.name: len(waiting) for agent in shown if (waiting := town.inboxes.get(agent.name))},
        hidden=len(town.agents) - len(shown),
    )


def _is_long_stopped(agent: Agent, now: datetime) -> bool:
    return agent.state == "stopped" and agent.seen_at is not None and now - agent.seen_at > LATELY


# --- tasks


class ListTasks(Request, kw_only=True):
    """Which tasks; without any, those that are open or ended within a day."""

    state: (
        Annotated[
            Literal["pending", "assigned", "running", "completed", "failed", "cancelled", "open", "over"],
            Meta(description="only tasks in this state; open and over stand for several"),
        ]
        | None
    ) = None
    agent: Annotated[Name, Meta(description="only tasks of this agent, or last held by it"), Argument(metavar="AGENT")] | None = None
    mission: Annotated[Name, Meta(description="only tasks of this mission"), Argument(metavar="ID")] | None = None
    all: Annotated[bool, Meta(description="also tasks that ended more than a day ago")] = False


class ListBacklog(Request, kw_only=True):
    """All pending tasks."""


class TownTasks(Struct, kw_only=True):
    """Tasks."""

    town: str
    tasks: list[Task]
    counts: dict[str, int]
    """State → all tasks in it."""
    hidden: int
    """How many more ended more than a day ago."""
    let_go: int
    """Older tasks that are only in the log."""


def list_tasks(context: OperationContext, request: ListTasks) -> TownTasks:
    """Tasks: running ones first, ended ones last."""
    now = context.now()
    with context.open_town() as town:
        mission = request.mission and _find_mission_id(context, town, request.mission)
        agent = request.agent and _find_agent_name(context, town, request.agent)
        found = [
            task
            for task in town.tasks.values()
            if request.state in (None, task.state, "over" if task.state in ENDED_TASK_STATES else "open")
            and mission in (None, task.mission)
            and agent in (None, task.agent, task.wanted)
        ]
        shown = sort_tasks([task for task in found if request.all or request.state or not _is_long_ended(task, now)])
        return _make_tasks(context, town, shown, hidden=len(found) - len(shown))


def list_backlog(context: OperationContext, request: ListBacklog) -> TownTasks:
    """Pending tasks in the order of assignment."""
    with context.open_town() as town:
        return _make_tasks(context, town, sorted((task for task in town.tasks.values() if task.state == "pending"), key=schedule_key))


def _make_tasks(context: OperationContext, town: TownState, shown: list[Task], *, hidden: int = 0) -> TownTasks:
    counts = Counter(task.state for task in town.tasks.values())
    return TownTasks(town=context.town, tasks=deepcopy(shown), counts=dict(sorted(counts.items())), hidden=hidden, let_go=town.let_go)


def _is_long_ended(task: Task, now: datetime) -> bool:
    return task.state in ENDED_TASK_STATES and task.ended_at is not None and now - task.ended_at > LATELY


def _find_agent_name(context: OperationContext, town: TownState, name: str) -> str:
    """By name or prefix in the town, else as it is shown anywhere."""
    try:
        return commands.find_agent(town, name).name
    except NotFound:
        return resolve_scope(context.source, f"agent:{name}").partition(":")[2]


def _find_mission_id(context: OperationContext, town: TownState, id: str) -> str:
    try:
        return mission_commands.find_mission(town, id).id
    except NotFound:
        return resolve_scope(context.source, f"mission:{id}").partition(":")[2]


class ShowTask(Request, kw_only=True):
    """Which task."""

    id: TaskId


def show_task(context: OperationContext, request: ShowTask) -> Task:
    """One task in detail."""
    with context.open_town() as town:
        return deepcopy(commands.find_task(town, request.id))


# --- missions


class ListMissions(Request, kw_only=True):
    """Which missions."""

    all: Annotated[bool, Meta(description="also archived missions")] = False


class MissionSummary(Struct, kw_only=True):
    """One mission in a list."""

    id: str
    title: str
    state: MissionState
    is_archived: bool
    reason: str
    help: MissionHelp | None
    max_parallel: int
    at: datetime | None
    moved_at: datetime | None
    ended_at: datetime | None
    items: int
    by_state: dict[str, int]
    """Items by what is shown: `in review`, `to fix`, `watched` and `stuck` are parts of other states."""
    item_states: dict[str, int]
    """Items by state."""


class TownMissions(Struct, kw_only=True):
    """Missions, those that ask for help first."""

    town: str
    missions: list[MissionSummary]
    hidden: int
    """How many more are archived."""


def list_missions(context: OperationContext, request: ListMissions) -> TownMissions:
    """Missions: asking for help, running, paused, ended."""
    with context.open_town() as town:
        shown = _summarise_missions(town, archived=request.all)
        return TownMissions(town=context.town, missions=shown, hidden=len(town.missions) - len(shown))


def _summarise_missions(town: TownState, *, archived: bool) -> list[MissionSummary]:
    shown = [mission for mission in town.missions.values() if archived or not mission.is_archived]
    shown.sort(key=lambda mission: (mission.help is None, MISSION_STATES.index(mission.state), -_last_change(mission)))
    return [summarise_mission(mission) for mission in shown]


def summarise_mission(mission: Mission) -> MissionSummary:
    """A mission as lists show it."""
    same = ("id", "title", "state", "is_archived", "reason", "max_parallel", "at", "moved_at", "ended_at")
    items = mission.items.values()
    return MissionSummary(
        **{name: getattr(mission, name) for name in same},
        help=deepcopy(mission.help),
        items=len(items),
        by_state=dict(Counter(name_item_state(mission, item) for item in items)),
        item_states=dict(sorted(Counter(item.state for item in items).items())),
    )


def name_item_state(mission: Mission, item: MissionItem) -> str:
    """The state of an item as it is shown: `blocked` after the work is review, fixing or watching."""
    if item.is_stuck and item.state != "done":
        return "stuck"
    if item.state != "blocked" or item.work is None:
        return item.state
    if item.verdict == "rejected":
        return "to fix"
    return "in review" if is_review_required(mission, item) and not item.verdict else "watched"


def _last_change(mission: Mission) -> float:
    return 0.0 if mission.moved_at is None else mission.moved_at.timestamp()


class ShowMission(Request, kw_only=True):
    """Which mission."""

    id: MissionId


class ShownMission(Struct, kw_only=True):
    """One mission in detail."""

    mission: Mission
    agents: dict[str, str]
    """Item → the agent that works on it, or did last."""
    stuck_task: str | None
    """A failed task that blocks an item, and can be retried."""


def show_mission(context: OperationContext, request: ShowMission) -> ShownMission:
    """One mission: its items, and what each waits for."""
    with context.open_town() as town:
        mission = mission_commands.find_mission(town, request.id)
        agents = {item.id: agent for item in mission.items.values() if (agent := _find_item_agent(town, item))}
        return ShownMission(mission=deepcopy(mission), agents=agents, stuck_task=_find_stuck_task(town, mission))


def _find_item_agent(town: TownState, item: MissionItem) -> str | None:
    task = town.tasks.get((item.review if item.work and not item.verdict and item.review else item.task) or "")
    if task is not None and task.state in ("assigned", "running"):
        return task.agent
    return item.authors[-1] if item.authors else None


def _find_stuck_task(town: TownState, mission: Mission) -> str | None:
    stuck = (id for item in mission.items.values() if item.is_stuck for id in (item.review, item.task))
    return next((task.id for id in stuck if (task := town.tasks.get(id or "")) is not None and task.state in ("failed", "cancelled")), None)


# --- messages


class ReadInbox(Request, kw_only=True):
    """Whose inbox."""

    name: (
        Annotated[
            Name,
            Meta(description="whose inbox (default: one's own; that of people is the conductor's)"),
            Argument(metavar="NAME", positional=True, help="whose inbox (default: the speaker's, see --as)"),
        ]
        | None
    ) = None


class TownMailbox(Struct, kw_only=True):
    """Unread messages, the most urgent first, then the oldest."""

    town: str
    inbox: str
    messages: list[InboxMessage]


def read_inbox(context: OperationContext, request: ReadInbox) -> TownMailbox:
    """Messages that were not acknowledged yet. Reading does not acknowledge them."""
    with context.open_town() as town:
        name = find_own_mailbox(context, town) if request.name is None else _choose_mailbox(context, town, request.name)
        if name not in town.agents and name not in PERSON_MAILBOXES:
            town = read_agent_messages(context, name)
        return TownMailbox(town=context.town, inbox=name, messages=deepcopy(list(sorted_inbox(town, name))))


def _choose_mailbox(context: OperationContext, town: TownState, name: str) -> str:
    try:
        return choose_mailbox(context, town, name)
    except NotFound:
        return resolve_scope(context.source, f"agent:{name}").partition(":")[2]


# --- all of it


class ReadStatus(Request, kw_only=True):
    """The status of the town."""

    all: Annotated[bool, Meta(description="all agents and missions, also those that ended long ago")] = False


class HelpWanted(Struct, kw_only=True):
    """A running mission that asks for help."""

    mission: str
    reason: str
    at: datetime | None


class StuckItem(Struct, kw_only=True):
    """An item that needs a person."""

    mission: str
    item: str
    reason: str


class WaitingForPerson(Struct, kw_only=True):
    """What waits for a person."""

    help: list[HelpWanted]
    stuck: list[StuckItem]
    messages: list[InboxMessage]


class TownStatus(TownAgents, kw_only=True):
    """The whole town: what waits for a person, agents, open tasks and missions."""

    now: datetime
    states: dict[str, int]
    """State → all agents in it."""
    tasks: dict[str, int]
    """State → tasks in it; `let_go` are only in the log."""
    open_tasks: list[Task]
    missions: list[MissionSummary]
    missions_total: int
    waiting: WaitingForPerson
    dispatcher: str | None
    """The holder of the dispatcher's lease."""
    refused: int
    """Events that were not valid at that point."""
    is_sealed: bool


def read_status(context: OperationContext, request: ReadStatus) -> TownStatus:
    """What waits for a person, agents, open tasks and missions."""
    lease = None if context.source.coordination is None else context.source.coordination.find_lease(DISPATCHER)
    with context.open_town() as town:
        agents = _describe_agents(context, town, everybody=request.all)
        tasks: dict[str, int] = dict(Counter(task.state for task in town.tasks.values()))
        return TownStatus(
            **{name: getattr(agents, name) for name in agents.__struct_fields__},
            now=context.now(),
            states=dict(Counter(agent.state for agent in town.agents.values())),
            tasks=tasks | ({"let_go": town.let_go} if town.let_go else {}),
            open_tasks=deepcopy(sort_tasks(task for task in town.tasks.values() if task.state not in ENDED_TASK_STATES)),
            missions=_summarise_missions(town, archived=request.all),
            missions_total=len(town.missions),
            waiting=_find_waiting(town),
            dispatcher=None if lease is None else lease.holder,
            refused=town.refused,
            is_sealed=context.is_sealed(),
        )


def _find_waiting(town: TownState) -> WaitingForPerson:
    running = [mission for mission in town.missions.values() if mission.state == "running"]
    return WaitingForPerson(
        help=[HelpWanted(mission=each.id, reason=each.help.reason, at=each.help.at) for each in running if each.help is not None],
        stuck=[
            StuckItem(mission=mission.id, item=item.id, reason=item.reason)
            for mission in running
            for item in mission.items.values()
            if item.is_stuck and item.state != "done"
        ],
        messages=deepcopy(list(sorted_inbox(town, CONDUCTOR))),
    )


# --- history


class ReadHistory(Request, kw_only=True):
    """Whose events, and how many."""

    agent: Annotated[AgentName, Argument(positional=True, group="what", help="only events of this agent")] | None = None
    mission: Annotated[MissionId, Argument(group="what", help="only events of this mission")] | None = None
    task: Annotated[TaskId, Argument(group="what", help="only events of this task")] | None = None
    last: Annotated[int, Meta(ge=0, description="number of newest events (30)"), Argument(flag="-n --last", metavar="N")] = 30


class TownHistory(Struct, kw_only=True):
    """Events of the town, oldest first."""

    scope: str
    events: list[Event]
    position: str | None
    """The log's head before they were read: `log.follow` goes on from there."""


def read_history(context: OperationContext, request: ReadHistory) -> TownHistory:
    """The newest events of the town: of all, of an agent, a mission or a task."""
    if sum(value is not None for value in (request.agent, request.mission, request.task)) > 1:
        raise InvalidRequest("say agent, mission or task, only one of them")
    scope, head = _choose_history(context, request), context.log.head()
    newest = list(context.log.read(scope, kinds=HISTORY_KINDS, newest_first=True, limit=request.last)) if request.last else []
    position = max(newest[0].position or "" if newest else "", head or "") or None
    return TownHistory(scope=scope, events=newest[::-1], position=position)


def _choose_history(context: OperationContext, request: ReadHistory) -> str:
    """The scope to show. An exact name in the log is accepted even if the town dropped it."""
    for kind, name in (("agent", request.agent), ("mission", request.mission), ("task", request.task)):
        if name is None:
            continue
        with suppress(Invalid):  # not a valid scope: the lookup below reports it
            if context.log.head(f"{kind}:{name}") is not None:
                return f"{kind}:{name}"
        with context.open_town() as town:
            if kind == "agent":
                return f"agent:{commands.find_agent(town, name).name}"
            return (
                f"mission:{mission_commands.find_mission(town, name).id}"
                if kind == "mission"
                else f"task:{commands.find_task(town, name).id}"
            )
    return TOWN
