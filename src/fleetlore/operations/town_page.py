"""The town on one page: agents, board, missions, help requests and inboxes, each list bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import nsmallest
from typing import Annotated, get_args

from msgspec import Meta, Struct

from fleetlore.operations import town_detail
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.operations.town_detail import AgentPage, MissionPage, TaskPage
from fleetlore.operations.town_rows import (
    MAX_TITLE_CHARS,
    TownAgent,
    TownMessage,
    TownMission,
    TownRows,
    TownTask,
    count_each,
    mission_fields,
)
from fleetlore.views import town_state
from fleetlore.views.town import sorted_inbox
from fleetlore.views.town_state import PERSON_MAILBOXES, PRIORITIES, AgentState, MissionState, TaskState

MAX_AGENTS = 200
MAX_CARDS = 50
"""Per column of the board."""
MAX_CARDS_OF_ONE_COLUMN = 500
"""For the column that the query names in `more`."""
MAX_MISSIONS = 60
MAX_INBOXES = 30
MAX_MESSAGES = 10
MAX_MESSAGES_FOR_PERSONS = 50

_AGENT_STATE_ORDER: tuple[AgentState, ...] = ("error", "paused", "working", "starting", "draining", "idle", "cold", "stopped")
"""Agents that need attention come first."""
_MISSION_STATE_ORDER: tuple[MissionState, ...] = ("blocked", "running", "planning", "failed", "completed")


class ReadTown(AsOfRequest, kw_only=True):
    """A town."""

    mission: Annotated[str, Meta(max_length=500, description="Which to show all of; the board is then its own.")] | None = None
    task: Annotated[str, Meta(max_length=500, description="Which to show all of.")] | None = None
    agent: Annotated[str, Meta(max_length=500, description="Which to show all of.")] | None = None
    more: Annotated[TaskState, Meta(description="The column of the board to show more of.")] | None = None


class TownColumn(Struct, kw_only=True):
    """The first tasks in one state."""

    state: TaskState
    total: int
    tasks: list[TownTask]


class TownHelp(Struct, kw_only=True):
    """A mission that asks for help."""

    mission: str
    title: str
    reason: str
    attempt: int
    """How often it has asked."""
    at: datetime | None


class TownInbox(Struct, kw_only=True):
    """The messages of one mailbox, the most urgent first."""

    name: str
    shown: str
    is_person: bool
    total: int
    urgent: int
    messages: list[TownMessage]


class TownPage(Head, kw_only=True):
    """The state of the town."""

    now: datetime
    agents: list[TownAgent]
    """The first agents, those that need attention before others."""
    agents_by_state: dict[AgentState, int]
    agents_total: int
    board: list[TownColumn]
    missions: list[TownMission]
    missions_total: int
    archived: int
    help: list[TownHelp]
    inboxes: list[TownInbox]
    """Those of people first."""
    inboxes_total: int
    let_go: int
    """Ended tasks that the view dropped; their events are still in the log."""
    refused: int
    """Events that were not trusted."""
    mission: MissionPage | None
    task: TaskPage | None
    agent: AgentPage | None


def read_town(context: OperationContext, request: ReadTown) -> TownPage:
    """The town, and the details of the given mission, task and agent. With a mission, the board shows only its tasks."""
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("town", "names")) as snapshot:
        return _build_town(snapshot, request)


def _build_town(snapshot: ViewSnapshot, request: ReadTown) -> TownPage:
    rows = TownRows(snapshot)
    town = rows.town
    agents = nsmallest(MAX_AGENTS, town.agents.values(), key=_agent_rank)
    open_missions = [each for each in town.missions.values() if not each.is_archived]
    return TownPage(
        **snapshot.head_fields(),
        now=snapshot.now,
        agents=[TownAgent(**rows.agent_fields(each)) for each in agents],
        agents_by_state=count_each(_AGENT_STATE_ORDER, (each.state for each in town.agents.values())),
        agents_total=len(town.agents),
        board=list(_board_columns(rows, request.mission, request.more)),
        missions=[TownMission(**mission_fields(each)) for each in nsmallest(MAX_MISSIONS, open_missions, key=_mission_rank)],
        missions_total=len(open_missions),
        archived=len(town.missions) - len(open_missions),
        help=_help_rows(open_missions),
        inboxes=_inbox_rows(rows),
        inboxes_total=len(town.inboxes),
        let_go=town.let_go,
        refused=town.refused,
        mission=town_detail.build_mission_page(rows, town.missions.get(request.mission or "")),
        task=town_detail.build_task_page(rows, town.tasks.get(request.task or "")),
        agent=town_detail.build_agent_page(rows, town.agents.get(request.agent or "")),
    )


def _agent_rank(agent: town_state.Agent) -> tuple[int, float]:
    return _AGENT_STATE_ORDER.index(agent.state), -_to_timestamp(agent.seen_at)


def _mission_rank(mission: town_state.Mission) -> tuple[bool, int, float]:
    return mission.help is None, _MISSION_STATE_ORDER.index(mission.state), -_to_timestamp(mission.moved_at)


def _to_timestamp(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


# --- the board


def _board_columns(rows: TownRows, mission: str | None, more: TaskState | None) -> Iterator[TownColumn]:
    columns: dict[TaskState, list[town_state.Task]] = {state: [] for state in get_args(TaskState)}
    for task in rows.town.tasks.values():
        if mission is None or task.mission == mission:
            columns[task.state].append(task)
    for state, tasks in columns.items():
        first = nsmallest(MAX_CARDS_OF_ONE_COLUMN if state == more else MAX_CARDS, tasks, key=_SORT_KEYS[state])
        yield TownColumn(
            state=state,
            total=len(tasks) + (rows.town.dropped.get(state, 0) if mission is None else 0),
            tasks=[TownTask(**rows.task_fields(each)) for each in first],
        )


def _schedule_key(task: town_state.Task) -> tuple[float, ...]:
    """Tasks that can start in the order of assignment, then those that wait for others."""
    return bool(task.missing), PRIORITIES.index(task.priority), _to_timestamp(task.at)


def _running_key(task: town_state.Task) -> tuple[float, ...]:
    return (_to_timestamp(task.started_at or task.at),)


def _ended_key(task: town_state.Task) -> tuple[float, ...]:
    return (-_to_timestamp(task.ended_at),)


_SORT_KEYS: dict[TaskState, Callable[[town_state.Task], tuple[float, ...]]] = {
    "pending": _schedule_key,
    "assigned": _schedule_key,
    "running": _running_key,
    "completed": _ended_key,
    "failed": _ended_key,
    "cancelled": _ended_key,
}


# --- help requests and inboxes


def _help_rows(missions: Iterable[town_state.Mission]) -> list[TownHelp]:
    found = [
        TownHelp(mission=each.id, title=each.title[:MAX_TITLE_CHARS], reason=each.help.reason, attempt=each.help.attempt, at=each.help.at)
        for each in missions
        if each.help is not None
    ]
    return sorted(found, key=lambda each: _to_timestamp(each.at))[:MAX_MISSIONS]


def _inbox_rows(rows: TownRows) -> list[TownInbox]:
    boxes = rows.town.inboxes
    first = nsmallest(MAX_INBOXES, boxes, key=lambda name: (name not in PERSON_MAILBOXES, -len(boxes[name]), name))
    return [_inbox_row(rows, name) for name in first]


def _inbox_row(rows: TownRows, name: str) -> TownInbox:
    waiting, is_person = list(sorted_inbox(rows.town, name)), name in PERSON_MAILBOXES
    return TownInbox(
        name=name,
        shown=rows.display_name(name),
        is_person=is_person,
        total=len(waiting),
        urgent=sum(message.priority == "urgent" for message in waiting),
        messages=[rows.message_row(each) for each in waiting[: MAX_MESSAGES_FOR_PERSONS if is_person else MAX_MESSAGES]],
    )
