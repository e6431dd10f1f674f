"""A graph drawn: as text, as a Mermaid flowchart, as a graph for Graphviz. Names are quoted, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from fleetlore.graph.model import USER, Edge, Graph

_ARROWS = {"data": "──▶", "context": "┄┄▷", "state": "══▷"}
_MERMAID = {"data": "-->", "context": "-.->", "state": "==>"}
_DOT = {"data": "solid", "context": "dashed", "state": "dotted"}


def as_text(graph: Graph) -> Iterator[str]:
    """Role by role, where each leads."""
    yield f"{graph.name}: {graph.description}".rstrip(": ")
    for role in (USER, *graph.nodes):
        made = f" ({graph.nodes[role]})" if role in graph.nodes else ""
        yield f"{role}{made}"
        for edge in graph.edges:
            if edge.source == role:
                yield f"  {_ARROWS[edge.type]} {edge.target}  {_edge_label(edge)}"


def as_mermaid(graph: Graph) -> Iterator[str]:
    """A flowchart, as forges show it in Markdown."""
    yield "flowchart LR"
    ids = {role: f"n{number}" for number, role in enumerate((USER, *graph.nodes))}
    yield f"  {ids[USER]}(({_quote_mermaid(USER)}))"
    for role, name in graph.nodes.items():
        yield f"  {ids[role]}[{_quote_mermaid(f'{role}<br/>{name}')}]"
    for edge in graph.edges:
        yield f"  {ids[edge.source]} {_MERMAID[edge.type]}|{_quote_mermaid(_edge_label(edge))}| {ids[edge.target]}"


def as_dot(graph: Graph) -> Iterator[str]:
    """For `dot -Tsvg`."""
    yield f"digraph {json.dumps(graph.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    yield f"  {json.dumps(USER)} [shape=circle];"
    for role, name in graph.nodes.items():
        words = json.dumps(f"{role}\n{name}")
        yield f"  {json.dumps(role)} [label={words}];"
    for edge in graph.edges:
        loose = "" if edge.type == "data" else ", constraint=false"
        way = f"{json.dumps(edge.source)} -> {json.dumps(edge.target)}"
        yield f"  {way} [label={json.dumps(_edge_label(edge))}, style={_DOT[edge.type]}{loose}];"
    yield "}"


def _edge_label(edge: Edge) -> str:
    conditions = [*(f"if {name}" for name in edge.when), *(f"unless {name}" for name in edge.unless)]
    return ", ".join([edge.carries, *conditions, *(["after the reply"] if edge.after else [])])


def _quote_mermaid(text: str) -> str:
    """Within Mermaid's quotes: its own entities for what would end them."""
    return '"' + text.replace("#", "#35;").replace('"', "#quot;").replace("\n", " ") + '"'


FORMATS: Mapping[str, Callable[[Graph], Iterator[str]]] = {"text": as_text, "mermaid": as_mermaid, "dot": as_dot}
