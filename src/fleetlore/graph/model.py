"""A graph as data: nodes by role, and edges that say who follows whom, with what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

USER = "user"
"""Where every turn begins: what edges from here carry is what the user said or pressed."""
REQUIRED_ROLES = ("input", "output")
"""Roles that every graph has: somebody who hears, and somebody who answers."""

EdgeType: TypeAlias = Literal["data", "context", "state"]
Durability: TypeAlias = Literal["turn", "node"]
"""When a turn waits for the disk, besides before every outward act: at its end, or after each node."""


class Edge(Struct, frozen=True, kw_only=True):
    """From one role to another.

    `data` drives the run: when the source has finished and the conditions hold, what it made is carried to the target, which runs once all
    that can reach it has. `context` puts what the source has to say into the target's prompt. `state` lets the target look at what the
    source keeps.
    """

    source: str
    target: str
    type: EdgeType = "data"
    carries: str
    """The name under which the target finds it."""
    when: tuple[str, ...] = ()
    """Conditions that must hold."""
    unless: tuple[str, ...] = ()
    """Conditions of which none may hold."""
    after: bool = False
    """Of a data edge: followed once the reply is given, and nobody waits for it."""


class Graph(Struct, frozen=True, kw_only=True):
    """One agent's way of thinking."""

    name: str
    description: str = ""
    agent: str = "guide"
    """Its agent's name on the log."""
    persona: str = ""
    """Who the agent is; put before every prompt."""
    nodes: Mapping[str, str]
    """Role → the versioned name of what does it."""
    edges: tuple[Edge, ...]
    conditions: Mapping[str, Mapping[str, Any]] = {}
    """Name → what must hold, as `conditions.py` reads it."""
    words: Mapping[str, tuple[str, ...]] = {}
    """Lists of words that decide, by name; they are matched as whole words."""
    minds: Mapping[str, str] = {}
    """Role → the profile of the mind that it asks; `default` where nothing is said."""
    tools: Mapping[str, Any] = {}
    """`query_db`: the databases that may be asked, `*` for all; `run_python`: true where programs may be run. Else there is neither."""
    options: Mapping[str, Mapping[str, Any]] = {}
    """Role → what its implementation can be told."""
    history_tokens: int = 4000
    """As much of what was said goes into a prompt."""
    durable: Durability = "turn"
    source: str = ""
    """The file that it was read from."""

    def edges_into(self, role: str, kind: EdgeType) -> tuple[Edge, ...]:
        """The edges of one type that lead to a role."""
        return tuple(edge for edge in self.edges if edge.target == role and edge.type == kind)
