"""Arguments of the MCP tools, as types. The input schemas are made of them, so docstrings and descriptions are read by models."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from fleetlore.operations.request import Request

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Kinds = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=20)]
PAGE = "What `next` said in the answer before: the same question again, with this, goes on from there."
Page = Annotated[str, Meta(max_length=100, pattern="^[0-9]+$", description=PAGE)]
SCOPE = "Whose: town (everybody), agent:X, task:X, mission:X, goal:X, run:X or source:X; X is a name or a short id as other tools give it."
Scope = Annotated[str, Meta(max_length=500, description=SCOPE)]
SINCE = "Only from then on: 30m, 2h, 3d or 1w for that long ago, today, or a time such as 2026-11-15T20:00:00Z."
When = Annotated[str, Meta(max_length=40, description=SINCE)]
Zone = Annotated[
    str, Meta(max_length=60, description="A time zone such as Europe/Berlin: where days begin, and the zone of the times shown.")
]


class ToolRequest(Request, kw_only=True):
    """Arguments of a tool."""


class FleetRequest(ToolRequest, kw_only=True):
    """Which agents to list."""

    standing: (
        Annotated[
            Literal["needs you", "silent", "working", "idle", "ended"], Meta(description="Only those; `needs you` waits for a person.")
        ]
        | None
    ) = None
    everybody: Annotated[bool, Meta(description="Also those that gave no sign of life for a day.")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class StoryRequest(ToolRequest, kw_only=True):
    """Which period or events, and how much to say."""

    scope: Scope = "town"
    since: When | None = None
    detail: Annotated[Literal["headline", "story", "full"], Meta(description="One line each, paragraphs, or every event.")] = "story"
    limit: Annotated[int, Meta(ge=1, le=1500, description="In full detail, events of a page.")] = 300
    tz: Zone = "UTC"
    page: Page | None = None


class ArcsRequest(ToolRequest, kw_only=True):
    """Which arcs to list."""

    state: Literal["open", "closed", "all"] = "open"
    kind: Annotated[Kinds, Meta(description="Kinds of arcs such as rescue, struggle or stall; all by default.")] = field(
        default_factory=list
    )
    limit: Annotated[int, Meta(ge=1, le=200)] = 30
    page: Page | None = None


class TasksRequest(ToolRequest, kw_only=True):
    """Which tasks to list."""

    state: Annotated[
        Literal["open", "over", "all", "pending", "assigned", "running", "completed", "failed", "cancelled"],
        Meta(description="Which: by their state, or those that are open, or over."),
    ] = "open"
    agent: Annotated[Name, Meta(description="Only those that this agent has, or had last.")] | None = None
    mission: Annotated[Name, Meta(description="Only those of this mission.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class TaskRequest(ToolRequest, kw_only=True):
    """Which task to show."""

    id: Annotated[Name, Meta(description="The task's id, as `tasks` gives it.")]


class MissionsRequest(ToolRequest, kw_only=True):
    """Which missions to list."""

    state: Annotated[
        Literal["open", "all", "planning", "running", "blocked", "completed", "failed"],
        Meta(description="Which: by their state, or those that are neither completed nor failed."),
    ] = "open"
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class MissionRequest(ToolRequest, kw_only=True):
    """Which mission to show."""

    id: Annotated[Name, Meta(description="The mission's id, as `missions` gives it.")]


class InboxRequest(ToolRequest, kw_only=True):
    """Whose inbox to read."""

    agent: Annotated[Name, Meta(description="Whose; your own by default.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class CostsRequest(ToolRequest, kw_only=True):
    """Which costs to add up."""

    by: Annotated[Literal["day", "agent", "model", "task", "session", "project", "person"], Meta(description="Added up by.")] = "agent"
    since: When | None = None
    tz: Zone = "UTC"
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class SessionsRequest(ToolRequest, kw_only=True):
    """Which sessions to list."""

    scope: Scope = "town"
    since: When | None = None
    tz: Zone = "UTC"
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class BriefRequest(ToolRequest, kw_only=True):
    """Which period to sum up."""

    scope: Scope = "town"
    since: When | None = None
    tz: Zone = "UTC"


class SessionRequest(ToolRequest, kw_only=True):
    """Which session to show."""

    id: Annotated[Name, Meta(description="The session's id, or how it begins.")]


class SearchRequest(ToolRequest, kw_only=True):
    """What to search for."""

    q: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S", description='Words that must all be there; "in quotes": together.')]
    scope: Scope = "town"
    kind: Annotated[Kinds, Meta(description="Kinds such as fleet.commit, or families such as tool.*; all by default.")] = field(
        default_factory=list
    )
    since: When | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class EventsRequest(ToolRequest, kw_only=True):
    """Which events to list."""

    scope: Scope = "town"
    kind: Annotated[Kinds, Meta(description="Kinds such as fleet.commit, or families such as tool.*; all by default.")] = field(
        default_factory=list
    )
    since: When | None = None
    order: Annotated[Literal["newest", "oldest"], Meta(description="Which come first.")] = "newest"
    data: Annotated[bool, Meta(description="With the payload of each.")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 30
    page: Page | None = None
