"""Response types of the API. The OpenAPI document is made of them; the control room's `shapes.ts` must agree."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from fleetlore.operations.reading import Head as Head
from fleetlore.views.agent_status_rules import AgentStanding
from fleetlore.views.session_status import Status, WaitingFor


class Meta(Struct, kw_only=True):
    """About this server and its log."""

    town: str
    log: str
    version: str
    head: str | None
    events: int
    first_at: datetime | None
    last_at: datetime | None
    caught_up: bool
    done: int
    total: int
    token_needed_to_read: bool
    scopes_of_token: list[str]
    sealed: bool
    silent_after_seconds: float


class Events(Struct, kw_only=True):
    """Stored events, each as canonical JSON with its position."""

    events: list[dict[str, Any]]
    next: str | None
    """The next page's `before` (newest first) or `after` (oldest first)."""


class AgentCard(Struct, kw_only=True):
    """One agent."""

    name: str
    shown: str
    standing: AgentStanding
    at_rest: bool
    """Whether it had no event for a day and needs nobody."""
    since: datetime | None
    doing: str
    kind: str
    last_seen: datetime | None
    task: str | None
    mission: str | None
    goal: str | None
    run: str | None
    session: str | None
    """Its newest session."""
    status: Status | None
    """The status of that session, as `/api/sessions` has it."""
    waiting_for: WaitingFor | None
    question: str | None
    """The open question that it waits with."""
    parent: str | None
    events: int
    beats: list[tuple[datetime, str]]
    """The newest, oldest first."""
    tokens: int
    usd: float | None
    last_id: str | None
    last_position: str | None


class Asking(Struct, kw_only=True):
    """A mission that asks for help."""

    mission: str
    text: str
    since: datetime


class Fleet(Head, kw_only=True):
    """All agents, those that need a person first."""

    now: datetime
    counts: dict[str, int]
    """By standing, without inactive agents."""
    at_rest: int
    agents: list[AgentCard]
    asking: list[Asking]


class ThreadRow(Struct, kw_only=True):
    """One story thread."""

    key: str
    title: str
    state: Literal["open", "closed"]
    mission: str | None
    agents: dict[str, int]
    counts: dict[str, int]
    first_at: datetime | None
    last_at: datetime | None
    events: int
    stalled_seconds: float | None


class Threads(Head, kw_only=True):
    """Threads, the most recently active first."""

    threads: list[ThreadRow]
    total: int


class ArcRow(Struct, kw_only=True):
    """One arc and its source events."""

    kind: str
    thread: str
    title: str
    agents: list[str]
    state: Literal["open", "closed"]
    first: str
    last: str
    evidence: list[str]
    count: int
    first_at: datetime
    last_at: datetime
    note: str
    text: str


class ArcsPage(Head, kw_only=True):
    """Arcs: open ones first, then the newest."""

    arcs: list[ArcRow]
    counts: dict[str, int]


class LaneRow(Struct, kw_only=True):
    """One agent on the timeline."""

    agent: str
    shown: str
    standing: AgentStanding
    total: int
    buckets: list[tuple[int, list[int]]]
    """Bucket number, and its events by family."""


class Mark(Struct, kw_only=True):
    """One event on the timeline."""

    id: str
    at: datetime
    agent: str
    beat: str | None
    family: str
    kind: str
    text: str
    cause: str | None
    position: str | None


class ArcSpan(ArcRow, kw_only=True):
    """An arc on the timeline."""

    lanes: list[str]


class TimelinePage(Head, kw_only=True):
    """Events by agent and time in one window."""

    from_: datetime | None = field(name="from")
    to: datetime | None
    first_at: datetime | None
    last_at: datetime | None
    exact: bool
    bucket_seconds: float
    families: list[str]
    lanes: list[LaneRow]
    marks: list[Mark]
    links: list[tuple[str, str]]
    arcs: list[ArcSpan]
    more_lanes: int


class SearchHits(Struct, kw_only=True):
    """Search results, newest first."""

    events: list[dict[str, Any]]
    indexing: bool
    """Whether older events are still being indexed and may be missing."""


class Ready(Struct, kw_only=True):
    """Whether the server is ready."""

    ready: bool
    caught_up: bool
    done: int
    total: int
    detail: str
