"""Prepares the data edges of a graph for the engine: incoming counts and outgoing paths per role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fleetlore.graph.conditions import Test
from fleetlore.graph.model import Edge, Graph
from fleetlore.graph.turn import GraphTurn


class EdgePath(NamedTuple):
    """A data edge: its target, what it carries, and its condition."""

    target: str
    carries: str
    test: Test | None


class EdgePlan:
    """The edges of one run: those of the turn, or those after the reply."""

    def __init__(self, graph: Graph, test_of: Callable[[str], Test], *, after: bool) -> None:
        edges = [edge for edge in graph.edges if edge.type == "data" and edge.after == after]
        targets = {edge.target for edge in edges}
        self.incoming_counts = {role: sum(edge.target == role for edge in edges) for role in targets}
        """How many edges lead to each role."""
        self.outgoing_paths = {role: _build_paths(edges, role, test_of) for role in targets}
        """The paths from each role."""
        entry_sources = dict.fromkeys(edge.source for edge in edges if edge.source not in targets)
        self.entry_paths = {source: _build_paths(edges, source, test_of) for source in entry_sources}
        """The paths from outside the plan: from the user or, after the reply, from roles that ran in the turn."""


def _build_paths(edges: list[Edge], source: str, test_of: Callable[[str], Test]) -> tuple[EdgePath, ...]:
    return tuple(EdgePath(edge.target, edge.carries, _combine_tests(edge, test_of)) for edge in edges if edge.source == source)


def _combine_tests(edge: Edge, test_of: Callable[[str], Test]) -> Test | None:
    required = [test_of(name) for name in edge.when]
    excluded = [test_of(name) for name in edge.unless]
    if not required and not excluded:
        return None
    if len(required) == 1 and not excluded:
        return required[0]

    def test(output: Any, turn: GraphTurn) -> bool:
        return all(each(output, turn) for each in required) and not any(each(output, turn) for each in excluded)

    return test


def find_cycle(edges: list[Edge]) -> list[str] | None:
    """The roles of a cycle, with the first one repeated at the end; `None` if there is none."""
    targets_by_role: dict[str, list[str]] = {}
    for edge in edges:
        targets_by_role.setdefault(edge.source, []).append(edge.target)
    done: set[str] = set()
    for start in targets_by_role:
        path: list[str] = []
        if _has_cycle_from(start, targets_by_role, path, done):
            return path[path.index(path[-1]) :]
    return None


def _has_cycle_from(role: str, targets_by_role: dict[str, list[str]], path: list[str], done: set[str]) -> bool:
    """Depth-first search; if it finds a cycle, `path` ends with the role where the cycle closes."""
    if role in done:
        return False
    path.append(role)
    if role in path[:-1]:
        return True
    if any(_has_cycle_from(target, targets_by_role, path, done) for target in targets_by_role.get(role, ())):
        return True
    path.pop()
    done.add(role)
    return False
