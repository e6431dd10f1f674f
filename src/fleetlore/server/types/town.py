"""What `/api/town` answers, as types: agents, the board, missions, what waits for whom, and all of one of them."""

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
    """The lease of whoever runs it; empty while nobody does."""
    task: str | None
    doing: str
    """The title of its task."""
    queue: int
    """Tasks that were given to it, and are not begun."""
    inbox: int
    """Messages that wait for it."""
    completed: int
    failed: int
    at: datetime | None
    seen_at: datetime | None
    reason: str
    wish: str
    """What it was asked to do, and has not done yet."""


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
    """What that agent is called."""
    wanted: str | None
    """The one agent that it is for."""
    attempt: int
    tries: int
    round: int
    at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    waits_for: int
    """Tasks that must be completed before it can begin."""
    error: str
    is_dead_letter: bool
    """Whether it was tried so often that it was put aside."""


class TownColumn(Struct, kw_only=True):
    """The tasks of one state, as many as are shown."""

    state: TaskState
    total: int
    tasks: list[TownTask]


class TownMission(Struct, kw_only=True):
    """One mission in short."""

    id: str
    title: str
    state: MissionState
    is_archived: bool
    items: int
    by_state: dict[ItemState, int]
    """How many of them stand how."""
    stuck: int
    """Items for which only a person can do something."""
    reason: str
    at: datetime | None
    moved_at: datetime | None
    ended_at: datetime | None


class TownHelp(Struct, kw_only=True):
    """A mission that waits for a person."""

    mission: str
    title: str
    reason: str
    attempt: int
    """How often it has asked."""
    at: datetime | None


class TownMessage(Struct, kw_only=True):
    """A message that nobody has used yet."""

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
    """What waits for somebody: the most urgent first."""

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
    """Of these, what is not done."""
    roles: list[str]
    checks: list[str]
    source: str
    description: str
    task: str | None
    review: str | None
    agent: str | None
    shown: str
    round: int
    """How often changes were asked for."""
    verdict: Literal["", "approved", "rejected"]
    awaits_verdict: bool
    """Whether its work is done, and nobody has judged it."""
    approved_by: str | None
    is_stuck: bool
    reason: str
    artifacts: list[str]
    done_at: datetime | None


class TownWatch(Struct, kw_only=True):
    """What a mission watches for."""

    id: str
    type: str
    item: str | None
    target: str
    action: str
    state: WatchState
    until: datetime | None
    triggered: int


class TownNote(Struct, kw_only=True):
    """Words about a mission."""

    id: str
    at: datetime | None
    by: str
    text: str


class MissionPage(TownMission, kw_only=True):
    """All of one mission."""

    max_parallel: int
    needs_review: bool
    watches_pulls: bool
    tries: int
    work: list[TownItem]
    left_out: int
    """Items that are not shown."""
    watches: list[TownWatch]
    watches_left_out: int
    notes: list[TownNote]
    can: list[str]


class TaskPage(TownTask, kw_only=True):
    """All of one task."""

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
    """Facts told of it that were not believed."""
    can: list[str]


class AgentPage(TownAgent, kw_only=True):
    """All of one agent."""

    spawn_mode: str
    tasks: list[TownTask]
    """What it works on, what waits for it, and what it did last."""
    messages: list[TownMessage]
    can: list[str]


class Town(Head, kw_only=True):
    """A town that shares work."""

    now: datetime
    agents: list[TownAgent]
    """Those that a person should look at first; as many as are shown."""
    agents_by_state: dict[AgentState, int]
    agents_total: int
    board: list[TownColumn]
    missions: list[TownMission]
    missions_total: int
    archived: int
    help: list[TownHelp]
    inboxes: list[TownInbox]
    """The persons' first."""
    inboxes_total: int
    let_go: int
    """Ended tasks that are only in the log."""
    refused: int
    """Facts that were not believed."""
    mission: MissionPage | None
    task: TaskPage | None
    agent: AgentPage | None
