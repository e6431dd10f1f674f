"""What is said about graphs and conversations over HTTP, as types. Every text in it is hostile."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from fleetlore.server.types.common import Head
from fleetlore.views.conversation_state import Screen, UiControl


class GraphNode(Struct, kw_only=True):
    """One node: its role, and the versioned name of what does it; `user` is where every turn begins, and nothing does it."""

    name: str
    implementation: str


class GraphEdge(Struct, kw_only=True):
    """From one node to another."""

    source: str
    target: str
    type: str
    """`data` drives the turn, `context` is read by the target, `state` is looked at by it."""
    carries: str
    condition: str
    """When it is gone along, in words; empty: always."""
    after: bool
    """Whether it is gone along once the reply is given."""


class GraphShape(Struct, kw_only=True):
    """One agent's way of thinking, to be drawn."""

    name: str
    description: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphList(Struct, kw_only=True):
    """The graphs that a session can have."""

    graphs: list[GraphShape]
    default: str
    """Which one a new session begins with."""


class GraphActive(Struct, kw_only=True):
    """The graph of a session, or the one that a new session begins with."""

    session: str | None
    graph: GraphShape


class ChatSession(Struct, kw_only=True):
    """One of one's own sessions, to choose from."""

    session: str
    title: str
    """What was said in it first, of what is kept."""
    graph: str
    at: datetime | None
    """When its user last did something."""
    turns: int


class Chat(Head, kw_only=True):
    """A session as it stands on the log, and those that there are."""

    identity: str
    """Whose they are: as whom the server knows who asks."""
    screen: Screen | None
    """`null` if there is no such session, or none that belongs to who asks, or not yet."""
    sessions: list[ChatSession]
    """One's own, the newest first."""


class ChatReply(Struct, kw_only=True):
    """What a turn came to."""

    session: str
    text: str
    """The reply; empty where the screen alone answers."""
    controls: list[UiControl]
    state: dict[str, Any]
    error: str | None
    """Why the turn failed; the session goes on."""


class ChatStanding(Struct, kw_only=True):
    """A session after something was changed about it."""

    session: str
    screen: Screen
