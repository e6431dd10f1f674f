"""Responses of the MCP tools, as types. The output schemas are made of them.

Rows are structs of the operations where those are short enough. The others here are a selection of the fields of an operation's
struct, because a model pays for every byte: docs/decisions/0017-rows-for-models.md has the sizes. They add no facts.
Texts from the log (`doing`, `title`, `text`, `body` …) are sanitised and shortened: data, never instructions. Names and ids are as in
the log, so that they can be used as arguments.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from fleetlore.operations.agents import Asking
from fleetlore.operations.arcs import ArcRow
from fleetlore.views.town_state import InboxMessage, MissionNote


class ToolResponse(Struct, kw_only=True, omit_defaults=True):
    """A response as of a position of the log."""

    as_of: str | None = None
    """The newest position that it includes; `null` for an empty log."""
    reading: bool = False
    """Whether the log is still being read, so that newer events may be missing."""
    next: str | None = None
    """The `page` argument for the next page; `null` if this is the last."""


class AgentRow(Struct, kw_only=True, omit_defaults=True):
    """One agent."""

    name: str
    standing: str
    shown: str = ""
    """Its display name, if that differs from its name."""
    doing: str = ""
    since: datetime | None = None
    last_seen: datetime | None = None
    task: str | None = None
    mission: str | None = None
    goal: str | None = None
    parent: str | None = None
    session: str | None = None
    """Its newest session."""
    status: str | None = None
    """Of that session, as the tool `sessions` has it: running, finished, failed or interrupted."""
    waiting_for: str | None = None
    """person, permission or helpers."""
    question: str | None = None
    """The open question that it waits with."""


class FleetResponse(ToolResponse, kw_only=True):
    """All agents, those that need a person first."""

    now: datetime
    counts: dict[str, int]
    agents: list[AgentRow]
    asking: list[Asking] = field(default_factory=list)


class ChapterText(Struct, kw_only=True):
    """One paragraph of the story."""

    title: str
    sentences: list[str]
    first_at: datetime | None = None
    last_at: datetime | None = None


class StoryResponse(ToolResponse, kw_only=True):
    """What happened, in order of time; in full detail `next` leads to earlier events."""

    opening: str
    chapters: list[ChapterText]
    closing: str = ""
    left_out: int = 0
    """Sentences at the beginning that did not fit."""


class ArcsResponse(ToolResponse, kw_only=True):
    """Arcs: open ones first, then the newest."""

    arcs: list[ArcRow]
    counts: dict[str, int]


class TaskRow(Struct, kw_only=True, omit_defaults=True):
    """A task in a list."""

    id: str
    state: str
    title: str
    priority: str
    purpose: str = "work"
    agent: str | None = None
    mission: str | None = None
    waits_for: list[str] = field(default_factory=list)
    """Tasks that must be completed first."""
    attempt: int = 0
    dead_letter: bool = False
    """Whether it failed too often and is not tried again."""


class TasksResponse(ToolResponse, kw_only=True):
    """Tasks: running ones first, then waiting ones, then ended ones."""

    tasks: list[TaskRow]
    counts: dict[str, int]


class TaskResponse(ToolResponse, kw_only=True):
    """Details of one task."""

    task: TaskRow
    description: str = ""
    roles: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    depends_on: list[str] = field(default_factory=list)
    parent_task: str | None = None
    of: str | None = None
    by: str = ""
    epoch: int = 0
    tries: int = 0
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: str = ""
    error: str = ""
    recent: list[EventRow] = field(default_factory=list)
    """Its newest events, newest first."""


class MissionRow(Struct, kw_only=True, omit_defaults=True):
    """A mission in a list."""

    id: str
    state: str
    title: str
    items: dict[str, int] = field(default_factory=dict)
    """Number of items by state."""
    help: str = ""
    """Why it asks a person for help."""
    reason: str = ""
    archived: bool = False
    moved_at: datetime | None = None


class MissionsResponse(ToolResponse, kw_only=True):
    """Missions: those that ask for help first, then the most recently changed."""

    missions: list[MissionRow]


class MissionItemRow(Struct, kw_only=True, omit_defaults=True):
    """One item of a mission."""

    id: str
    state: str
    title: str
    type: str
    waits_for: list[str] = field(default_factory=list)
    task: str | None = None
    verdict: str = ""
    approved_by: str | None = None
    reason: str = ""
    stuck: bool = False
    """Whether it needs a person."""


class MissionResponse(ToolResponse, kw_only=True):
    """Details of one mission."""

    mission: MissionRow
    items: list[MissionItemRow]
    notes: list[MissionNote] = field(default_factory=list)
    """The newest, newest first."""
    left_out: int = 0
    """Items and notes that did not fit."""


class InboxResponse(ToolResponse, kw_only=True):
    """Messages for an agent: urgent ones first, then the oldest. Reading does not acknowledge them."""

    agent: str
    messages: list[InboxMessage]
    waiting: int


class CostRow(Struct, kw_only=True, omit_defaults=True):
    """Costs of one agent, day, model and so on."""

    key: str | None
    tokens: int
    usd: float | None
    shown: str = ""


class CostsResponse(ToolResponse, kw_only=True):
    """Costs; models without a known price are not included in the dollars."""

    by: str
    total: CostRow
    rows: list[CostRow]
    unpriced: dict[str, int] = field(default_factory=dict)
    """Model → tokens without a known price."""
    prices: str = ""
    """The date of the price list."""
    older: CostRow | None = None
    """By task or session: the sum of older ones, which are not kept one by one. It is included in the row without a key."""


class SessionRow(Struct, kw_only=True, omit_defaults=True):
    """One session: what was asked and its outcome."""

    session: str
    status: str
    headline: str
    asked: str = ""
    waiting_for: str | None = None
    question: str = ""
    person: str | None = None
    repo: str | None = None
    branch: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    usd: float | None = None
    pushed: bool = False
    checks: dict[str, str] = field(default_factory=dict)
    """tests, lint, types, build: pass, fail, could_not_run or not_run after the last edit."""
    troubles: int = 0
    flags: int = 0
    contradicted: int = 0
    """Claims that the records contradict."""


class SessionsResponse(ToolResponse, kw_only=True):
    """Sessions, the newest first."""

    sessions: list[SessionRow]


class BriefResponse(ToolResponse, kw_only=True):
    """What a period delivered, what went wrong, what to check and who needs a person."""

    title: str
    delivered: list[str] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)
    in_progress: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    went_wrong: list[str] = field(default_factory=list)
    check_this: list[str] = field(default_factory=list)
    needs_you: list[str] = field(default_factory=list)
    bill: str = ""


class SessionResponse(ToolResponse, kw_only=True):
    """Details of one session."""

    session: SessionRow
    outcome: str
    answer: str = ""
    commits: list[str] = field(default_factory=list)
    pull_requests: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    """Each with its verdict: supported, contradicted or unproven."""
    files: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)


class EventRow(Struct, kw_only=True, omit_defaults=True):
    """One event."""

    id: str
    position: str
    kind: str
    actor: str
    at: datetime | None = None
    text: str = ""
    scopes: dict[str, str] = field(default_factory=dict)
    """agent, parent, child, task, mission, goal, run: those that the event names."""
    state: str = ""
    """For a transition: old and new state."""
    visibility: str = "public"
    data: Any = None


class EventsResponse(ToolResponse, kw_only=True):
    """Events."""

    events: list[EventRow]
    indexing: bool = False
    """For a search: whether older events are still being indexed, and may be missing."""
    hidden: int = 0
    """Number of private events of others that were left out."""
