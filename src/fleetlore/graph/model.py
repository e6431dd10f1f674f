"""A graph as data: nodes by role, and edges between them. Loaded by `files.py`, run by `engine.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

USER = "user"
"""The start of every turn: edges from here carry what the user said or pressed."""
REQUIRED_ROLES = ("input", "output")
"""Roles that every graph has."""

EdgeType: TypeAlias = Literal["data", "context", "state"]
Durability: TypeAlias = Literal["turn", "node"]
"""When a turn waits for storage, besides before every external action: at its end, or after each node."""


class Edge(Struct, frozen=True, kw_only=True):
    """An edge from one role to another.

    `data` edges drive the run: when the source has finished and the conditions hold, its output is passed to the target, which runs once
    all its incoming edges are decided. `context` adds the source's context to the target's prompt. `state` lets the target read the
    source's state.
    """

    source: str
    target: str
    type: EdgeType = "data"
    carries: str
    """The name under which the target finds it."""
    when: tuple[str, ...] = ()
    """Conditions that must all hold."""
    unless: tuple[str, ...] = ()
    """Conditions of which none may hold."""
    after: bool = False
    """Followed after the reply is sent, without delaying it (data edges only)."""


class Graph(Struct, frozen=True, kw_only=True):
    """A chat agent."""

    name: str
    description: str = ""
    agent: str = "guide"
    """The agent's name in the log."""
    persona: str = ""
    """Who the agent is; starts every system prompt."""
    nodes: Mapping[str, str]
    """Role → versioned name of its implementation."""
    edges: tuple[Edge, ...]
    conditions: Mapping[str, Mapping[str, Any]] = {}
    """Name → condition, in the format of `conditions.py`."""
    words: Mapping[str, tuple[str, ...]] = {}
    """Word lists for conditions; matched as whole words."""
    minds: Mapping[str, str] = {}
    """Role → profile of its model; `default` if a role is not listed."""
    tools: Mapping[str, Any] = {}
    """`query_db`: names of the databases it may query, `*` for all; `run_python`: true to allow programs. Both are off by default."""
    options: Mapping[str, Mapping[str, Any]] = {}
    """Role → options of its implementation."""
    history_tokens: int = 4000
    """Tokens of history that go into a prompt."""
    durable: Durability = "turn"
    source: str = ""
    """The file it was loaded from."""

    def edges_into(self, role: str, kind: EdgeType) -> tuple[Edge, ...]:
        """The edges of one type that lead to a role."""
        return tuple(edge for edge in self.edges if edge.target == role and edge.type == kind)
