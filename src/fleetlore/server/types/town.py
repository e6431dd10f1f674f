"""Response types of `/api/town`: agents, board, missions, inboxes, and details of one mission, task or agent."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from fleetlore.server.types.common import Head
from fleetlore.views.town_state import AgentState, ItemState, MissionState, TaskState, WatchState


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
    """A command that it has not carried out yet."""


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


class TownColumn(Struct, kw_only=True):
    """The first tasks in one state."""

    state: TaskState
    total: int
    tasks: list[TownTask]


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


class TownHelp(Struct, kw_only=True):
    """A mission that asks for help."""

    mission: str
    title: str
    reason: str
    attempt: int
    """How often it has asked."""
    at: datetime | None


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


class TownInbox(Struct, kw_only=True):
    """The messages of one mailbox, the most urgent first."""

    name: str
    shown: str
    is_person: bool
    total: int
    urgent: int
    messages: list[TownMessage]


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


class MissionPage(TownMission, kw_only=True):
    """Details of one mission."""

    max_parallel: int
    needs_review: bool
    watches_pulls: bool
    tries: int
    work: list[TownItem]
    left_out: int
    """Number of items that are not shown."""
    watches: list[TownWatch]
    watches_left_out: int
    notes: list[TownNote]
    can: list[str]


class TaskPage(TownTask, kw_only=True):
    """Details of one task."""

    description: str
    result: str
    tags: list[str]
    checks: list[str]
    depends_on: list[str]
    missing: list[str]
    parent_task: str | None
    of: str | None
    not_by: list[str]
    epoch: int
    run_by: str
    by: str
    refused: int
    """Events about it that were not trusted."""
    can: list[str]


class AgentPage(TownAgent, kw_only=True):
    """Details of one agent."""

    spawn_mode: str
    tasks: list[TownTask]
    """Its current, assigned and last tasks."""
    messages: list[TownMessage]
    can: list[str]


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
    """Ended tasks that the view dropped; their events are still on the log."""
    refused: int
    """Events that were not trusted."""
    mission: MissionPage | None
    task: TaskPage | None
    agent: AgentPage | None
