"""Response types of `/api/chat` and `/api/graph/*`. All texts are untrusted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from fleetlore.server.types.common import Head
from fleetlore.views.conversation_state import Screen, UiControl


class GraphNode(Struct, kw_only=True):
    """One node: its role and the versioned name of its implementation; `user` starts every turn and has none."""

    name: str
    implementation: str


class GraphEdge(Struct, kw_only=True):
    """From one node to another."""

    source: str
    target: str
    type: str
    """`data` drives the turn; the target reads `context` and checks `state`."""
    carries: str
    condition: str
    """When the edge is taken, in words; empty: always."""
    after: bool
    """Whether it is taken after the reply."""


class GraphShape(Struct, kw_only=True):
    """A graph to draw."""

    name: str
    description: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphList(Struct, kw_only=True):
    """The graphs that a session can have."""

    graphs: list[GraphShape]
    default: str
    """The graph of a new session."""


class GraphActive(Struct, kw_only=True):
    """The graph of a session, or the default."""

    session: str | None
    graph: GraphShape


class ChatSession(Struct, kw_only=True):
    """One of the caller's sessions."""

    session: str
    title: str
    """The first kept message of the user."""
    graph: str
    at: datetime | None
    """The user's last activity."""
    turns: int


class Chat(Head, kw_only=True):
    """A chat session, and the list of the caller's sessions."""

    identity: str
    """The caller's identity."""
    screen: Screen | None
    """`null` if the caller has no such session."""
    sessions: list[ChatSession]
    """The caller's sessions, newest first."""


class ChatReply(Struct, kw_only=True):
    """The result of a turn."""

    session: str
    text: str
    """The reply; empty if only the screen changed."""
    controls: list[UiControl]
    state: dict[str, Any]
    error: str | None
    """Why the turn failed; the session can be continued."""


class ChatStanding(Struct, kw_only=True):
    """A session after a change."""

    session: str
    screen: Screen
