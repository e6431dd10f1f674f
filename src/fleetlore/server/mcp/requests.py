"""What each tool can be asked, as types: a tool's input schema is made of them, and anything else is refused with a reason."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Kinds = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=20)]
PAGE = "What `next` said in the answer before: the same question again, with this, goes on from there."
Page = Annotated[str, Meta(max_length=100, pattern="^[0-9]+$", description=PAGE)]
SCOPE = "Whose: town (everybody), agent:X, task:X, mission:X, goal:X, run:X or source:X; X is a name or a short id as other tools give it."
Scope = Annotated[str, Meta(max_length=500, description=SCOPE)]
SINCE = "Only from then on: 30m, 2h, 3d or 1w for that long ago, today, or a time such as 2026-11-15T20:00:00Z."
When = Annotated[str, Meta(max_length=40, description=SINCE)]
Zone = Annotated[str, Meta(max_length=60, description="A time zone such as Europe/Berlin: where days begin, and which times are told.")]

LONGEST_BODY = 8000
ANSWERS = "The id of the message that this answers. If that one waits in your inbox, it is acknowledged."


class Ask(Struct, kw_only=True, forbid_unknown_fields=True):
    """A question."""


class Fleet(Ask, kw_only=True):
    """Who does what."""

    standing: (
        Annotated[
            Literal["needs you", "silent", "working", "idle", "ended"], Meta(description="Only those; `needs you` waits for a person.")
        ]
        | None
    ) = None
    everybody: Annotated[bool, Meta(description="Also those that gave no sign of life for a day.")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class Story(Ask, kw_only=True):
    """What happened."""

    scope: Scope = "town"
    since: When | None = None
    detail: Annotated[Literal["headline", "story", "full"], Meta(description="How much of it is told.")] = "story"
    limit: Annotated[int, Meta(ge=1, le=1500, description="At most so many events, the newest, are told of.")] = 300
    tz: Zone = "UTC"
    page: Page | None = None


class Arcs(Ask, kw_only=True):
    """Patterns."""

    state: Literal["open", "closed", "all"] = "open"
    kind: Annotated[Kinds, Meta(description="Kinds of arcs such as rescue, struggle or stall; all unless told.")] = field(
        default_factory=list
    )
    limit: Annotated[int, Meta(ge=1, le=200)] = 30
    page: Page | None = None


class Tasks(Ask, kw_only=True):
    """The board."""

    state: Annotated[
        Literal["open", "over", "all", "pending", "assigned", "running", "completed", "failed", "cancelled"],
        Meta(description="Which: by their state, or those that are open, or over."),
    ] = "open"
    agent: Annotated[Name, Meta(description="Only those that this agent has, or had last.")] | None = None
    mission: Annotated[Name, Meta(description="Only those of this mission.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class Task(Ask, kw_only=True):
    """One task."""

    id: Annotated[Name, Meta(description="The task's id, as `tasks` gives it.")]


class Missions(Ask, kw_only=True):
    """Missions."""

    state: Annotated[
        Literal["open", "all", "planning", "running", "blocked", "completed", "failed"],
        Meta(description="Which: by their state, or those that are neither completed nor failed."),
    ] = "open"
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class Mission(Ask, kw_only=True):
    """One mission."""

    id: Annotated[Name, Meta(description="The mission's id, as `missions` gives it.")]


class Inbox(Ask, kw_only=True):
    """Messages."""

    agent: Annotated[Name, Meta(description="Whose; the asker's own unless told.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class Costs(Ask, kw_only=True):
    """What it cost."""

    by: Annotated[Literal["day", "agent", "model", "task", "session", "project", "person"], Meta(description="Added up by.")] = "agent"
    since: When | None = None
    tz: Zone = "UTC"
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    page: Page | None = None


class Sessions(Ask, kw_only=True):
    """What happened in sessions."""

    scope: Scope = "town"
    since: When | None = None
    tz: Zone = "UTC"
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class Brief(Ask, kw_only=True):
    """The brief of a period."""

    scope: Scope = "town"
    since: When | None = None
    tz: Zone = "UTC"


class Session(Ask, kw_only=True):
    """One session."""

    id: Annotated[Name, Meta(description="The session's id, or how it begins.")]


class Search(Ask, kw_only=True):
    """Words."""

    q: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S", description='Words that must all be there; "in quotes": together.')]
    scope: Scope = "town"
    kind: Annotated[Kinds, Meta(description="Kinds such as fleet.commit, or families such as tool.*; all unless told.")] = field(
        default_factory=list
    )
    since: When | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Page | None = None


class Events(Ask, kw_only=True):
    """Stored events."""

    scope: Scope = "town"
    kind: Annotated[Kinds, Meta(description="Kinds such as fleet.commit, or families such as tool.*; all unless told.")] = field(
        default_factory=list
    )
    since: When | None = None
    order: Annotated[Literal["newest", "oldest"], Meta(description="Which come first.")] = "newest"
    data: Annotated[bool, Meta(description="With the payload of each.")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 30
    page: Page | None = None


class Send(Ask, kw_only=True):
    """A message."""

    to: Annotated[Name, Meta(description="The agent that it is for, by the name that `fleet` gives; `conductor` is the person.")]
    body: Annotated[str, Meta(min_length=1, max_length=LONGEST_BODY, pattern=r"\S", description="What to say.")]
    type: Annotated[Literal["task", "query", "info", "confirmation"], Meta(description="What kind of message it is.")] = "info"
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    correlation: Annotated[str, Meta(min_length=1, max_length=200, description=ANSWERS)] | None = None
    task: Annotated[Name, Meta(description="The task that it is about.")] | None = None


class Note(Ask, kw_only=True):
    """A note."""

    mission: Annotated[Name, Meta(description="The mission's id, as `missions` gives it.")]
    text: Annotated[str, Meta(min_length=1, max_length=2000, pattern=r"\S", description="What to note.")]
