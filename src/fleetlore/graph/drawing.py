"""Draws a graph as text, as a Mermaid flowchart or as Graphviz input. Names are quoted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from fleetlore.graph.model import USER, Edge, Graph

_ARROWS = {"data": "──▶", "context": "┄┄▷", "state": "══▷"}
_MERMAID = {"data": "-->", "context": "-.->", "state": "==>"}
_DOT = {"data": "solid", "context": "dashed", "state": "dotted"}


def as_text(graph: Graph) -> Iterator[str]:
    """One block per role, with its outgoing edges."""
    yield f"{graph.name}: {graph.description}".rstrip(": ")
    for role in (USER, *graph.nodes):
        implementation = f" ({graph.nodes[role]})" if role in graph.nodes else ""
        yield f"{role}{implementation}"
        for edge in graph.edges:
            if edge.source == role:
                yield f"  {_ARROWS[edge.type]} {edge.target}  {_edge_label(edge)}"


def as_mermaid(graph: Graph) -> Iterator[str]:
    """A Mermaid flowchart."""
    yield "flowchart LR"
    ids = {role: f"n{number}" for number, role in enumerate((USER, *graph.nodes))}
    yield f"  {ids[USER]}(({_quote_mermaid(USER)}))"
    for role, name in graph.nodes.items():
        yield f"  {ids[role]}[{_quote_mermaid(f'{role}<br/>{name}')}]"
    for edge in graph.edges:
        yield f"  {ids[edge.source]} {_MERMAID[edge.type]}|{_quote_mermaid(_edge_label(edge))}| {ids[edge.target]}"


def as_dot(graph: Graph) -> Iterator[str]:
    """Input for `dot -Tsvg`."""
    yield f"digraph {json.dumps(graph.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    yield f"  {json.dumps(USER)} [shape=circle];"
    for role, name in graph.nodes.items():
        label = json.dumps(f"{role}\n{name}")
        yield f"  {json.dumps(role)} [label={label}];"
    for edge in graph.edges:
        constraint = "" if edge.type == "data" else ", constraint=false"
        arrow = f"{json.dumps(edge.source)} -> {json.dumps(edge.target)}"
        yield f"  {arrow} [label={json.dumps(_edge_label(edge))}, style={_DOT[edge.type]}{constraint}];"
    yield "}"


def _edge_label(edge: Edge) -> str:
    conditions = [*(f"if {name}" for name in edge.when), *(f"unless {name}" for name in edge.unless)]
    return ", ".join([edge.carries, *conditions, *(["after the reply"] if edge.after else [])])


def _quote_mermaid(text: str) -> str:
    """Quote for Mermaid; its own entities replace characters that would end the string."""
    return '"' + text.replace("#", "#35;").replace('"', "#quot;").replace("\n", " ") + '"'


FORMATS: Mapping[str, Callable[[Graph], Iterator[str]]] = {"text": as_text, "mermaid": as_mermaid, "dot": as_dot}
