"""Validates a graph and resolves its names. Reports all problems at once, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fleetlore.errors import Invalid
from fleetlore.events.envelope import is_name
from fleetlore.graph.conditions import InvalidCondition, Test, parse_condition
from fleetlore.graph.edges import find_cycle
from fleetlore.graph.model import REQUIRED_ROLES, USER, Edge, Graph
from fleetlore.graph.node import Node
from fleetlore.graph.registry import Registry


class InvalidGraph(Invalid):
    """A graph that cannot run; `problems` has everything that was found, each with its file."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class ResolvedGraph(NamedTuple):
    """The implementations and conditions that a graph's names refer to."""

    nodes: dict[str, type[Node]]
    conditions: dict[str, Test]

    def find_condition(self, name: str) -> Test:
        """The test of a condition."""
        return self.conditions[name]


def check_graph(graph: Graph, registry: Registry) -> ResolvedGraph:
    """Resolve the names of a graph; raises `InvalidGraph` with everything that is wrong."""
    implementations = {name: implementation for name in graph.nodes.values() if (implementation := registry.find_node(name)) is not None}
    tests, problems = _resolve_conditions(graph, implementations, registry)
    problems = [
        *_check_roles(graph, implementations, registry),
        *problems,
        *(problem for edge in graph.edges for problem in _check_edge(graph, edge, tests)),
        *_check_paths(graph),
        *_check_options(graph, implementations),
    ]
    if problems:
        raise InvalidGraph([f"{graph.source or graph.name}: {problem}" for problem in problems])
    return ResolvedGraph(implementations, tests)


def _check_roles(graph: Graph, implementations: dict[str, type[Node]], registry: Registry) -> Iterator[str]:
    if not is_name(graph.agent):
        yield "agent: the name must have 1 to 200 bytes and no control characters"
    for role in REQUIRED_ROLES:
        if role not in graph.nodes:
            yield f'the role {role} is missing; every graph has one: add {role} = "{role}_v1" to [nodes]'
    for role, name in graph.nodes.items():
        if role == USER:
            yield f"no node may be called {USER}: edges from there carry what the user said"
        if name not in implementations:
            known = ", ".join(registry.list_nodes())
            yield f"{role}: no implementation is called {name!r}; choose from {known}; others register with @node(…)"
        elif missing := [needed for needed in implementations[name].needs if needed not in graph.nodes]:
            yield f"{role}: {name} needs the role {missing[0]}, which the graph does not have; add it to [nodes]"


def _resolve_conditions(graph: Graph, implementations: dict[str, type[Node]], registry: Registry) -> tuple[dict[str, Test], list[str]]:
    """Every condition that an edge names or the graph defines, and the problems found."""
    tests: dict[str, Test] = {name: test for implementation in implementations.values() for name, test in implementation.conditions.items()}
    problems: list[str] = []
    for name in dict.fromkeys(name for edge in graph.edges for name in (*edge.when, *edge.unless)):
        if name not in graph.conditions and (test := registry.find_condition(name)) is not None:
            tests[name] = test
    for name, definition in graph.conditions.items():
        try:
            tests[name] = parse_condition(definition, graph.words)
        except InvalidCondition as error:
            problems.append(f"condition {name}: {error}")
            tests[name] = lambda output, turn: False
    return tests, problems


def _check_edge(graph: Graph, edge: Edge, tests: dict[str, Test]) -> Iterator[str]:
    label = f"the edge {edge.source} → {edge.target}"
    if edge.target not in graph.nodes:
        yield f"{label} leads to nowhere: there is no node {edge.target}; choose from {', '.join(graph.nodes)}"
    if edge.source not in graph.nodes and edge.source != USER:
        yield f"{label} comes from nowhere: there is no node {edge.source}; choose from {USER}, {', '.join(graph.nodes)}"
    if edge.source == USER and edge.type != "data":
        yield f"{label}: only data comes from the {USER}, no {edge.type}"
    if edge.type != "data" and (edge.when or edge.unless or edge.after):
        yield f"{label}: conditions and `after` belong to data edges; a {edge.type} edge always holds"
    for name in (*edge.when, *edge.unless):
        if name not in tests:
            yield f"{label}: no condition is called {name!r}; known: {', '.join(sorted(tests)) or 'none'}; write one under [conditions]"


def _check_paths(graph: Graph) -> Iterator[str]:
    """Cycles, unreachable roles and duplicate edges."""
    for after in (False, True):
        edges = [edge for edge in graph.edges if edge.type == "data" and edge.after == after]
        if (cycle := find_cycle(edges)) is not None:
            yield f"data goes in a circle: {' → '.join(cycle)}; take an edge away, or mark one `after`, or make it a context or state edge"
        elif not after:
            yield from _check_reachability(edges)
    seen_keys: set[tuple[str, str, str, str]] = set()
    for edge in graph.edges:
        key = (edge.source, edge.target, edge.type, edge.carries)
        if key in seen_keys:
            yield f"the {edge.type} edge {edge.source} → {edge.target} that carries {edge.carries} is there twice; take one away"
        seen_keys.add(key)


def _check_reachability(edges: list[Edge]) -> Iterator[str]:
    reached, targets = {USER}, {edge.target for edge in edges}
    while newly_reached := {edge.target for edge in edges if edge.source in reached} - reached:
        reached |= newly_reached
    for role in dict.fromkeys(edge.source for edge in edges if edge.source not in reached):
        reason = "nothing that runs leads to it" if role in targets else "no data edge leads to it"
        yield f"{role} leads on, but never runs: {reason}; add one that comes from the {USER} or from a node that runs"


def _check_options(graph: Graph, implementations: dict[str, type[Node]]) -> Iterator[str]:
    for table, names in (("options", graph.options), ("minds", graph.minds)):
        for role in names:
            if role not in graph.nodes:
                yield f"{table}.{role}: unknown node; choose from {', '.join(graph.nodes)}"
    for role, options in graph.options.items():
        implementation = implementations.get(graph.nodes.get(role, ""))
        for key in options:
            if implementation is not None and key not in implementation.options:
                known = ", ".join(implementation.options) or "none"
                yield f"options.{role}.{key}: {graph.nodes[role]} has no such option; choose from {known}"
