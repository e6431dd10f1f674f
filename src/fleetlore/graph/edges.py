"""The data edges of a graph, made ready to be walked: for each role how many lead to it, and where it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fleetlore.graph.conditions import Test
from fleetlore.graph.model import Edge, Graph
from fleetlore.graph.turn import GraphTurn


class EdgePath(NamedTuple):
    """A data edge, as it is walked."""

    target: str
    carries: str
    test: Test | None


class EdgePlan:
    """One walk: that of the turn, or that of what comes after the reply."""

    def __init__(self, graph: Graph, test_of: Callable[[str], Test], *, after: bool) -> None:
        edges = [edge for edge in graph.edges if edge.type == "data" and edge.after == after]
        targets = {edge.target for edge in edges}
        self.incoming_counts = {role: sum(edge.target == role for edge in edges) for role in targets}
        """How many edges lead to each role."""
        self.outgoing_paths = {role: _build_paths(edges, role, test_of) for role in targets}
        """Where each role leads."""
        outside = dict.fromkeys(edge.source for edge in edges if edge.source not in targets)
        self.entry_paths = {source: _build_paths(edges, source, test_of) for source in outside}
        """Where the walk comes from: the user, or, after the reply, what the turn's own walk has made."""


def _build_paths(edges: list[Edge], source: str, test_of: Callable[[str], Test]) -> tuple[EdgePath, ...]:
    return tuple(EdgePath(edge.target, edge.carries, _combine_tests(edge, test_of)) for edge in edges if edge.source == source)


def _combine_tests(edge: Edge, test_of: Callable[[str], Test]) -> Test | None:
    holding = [test_of(name) for name in edge.when]
    failing = [test_of(name) for name in edge.unless]
    if not holding and not failing:
        return None
    if len(holding) == 1 and not failing:
        return holding[0]

    def test(made: Any, turn: GraphTurn) -> bool:
        return all(each(made, turn) for each in holding) and not any(each(made, turn) for each in failing)

    return test


def find_cycle(edges: list[Edge]) -> list[str] | None:
    """The roles of a circle among some edges, the first one again at its end; `None` if there is none."""
    leads: dict[str, list[str]] = {}
    for edge in edges:
        leads.setdefault(edge.source, []).append(edge.target)
    done: set[str] = set()
    for start in leads:
        path: list[str] = []
        if _has_cycle_from(start, leads, path, done):
            return path[path.index(path[-1]) :]
    return None


def _has_cycle_from(role: str, leads: dict[str, list[str]], path: list[str], done: set[str]) -> bool:
    """Walk on from a role; where the way comes back to itself, `path` ends with the role that it came back to."""
    if role in done:
        return False
    path.append(role)
    if role in path[:-1]:
        return True
    if any(_has_cycle_from(target, leads, path, done) for target in leads.get(role, ())):
        return True
    path.pop()
    done.add(role)
    return False
