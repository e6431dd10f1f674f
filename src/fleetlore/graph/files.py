"""Loads graphs from TOML, YAML or Python files (`GRAPH`). `Engine` validates them."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fleetlore.documents.document import Document, DocumentType, load_document, missing_fields, parse_document
from fleetlore.documents.validation import KeyPath
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.graph.checks import InvalidGraph
from fleetlore.graph.model import Edge, EdgeType, Graph

GRAPH_SUFFIXES = (".toml", ".yaml", ".yml", ".py")
_SHIPPED_GRAPHS = resources.files("fleetlore.graph") / "graphs"
GRAPH = DocumentType(
    suffixes=GRAPH_SUFFIXES[:-1],
    wrong_suffix=f"a graph is written in a file that ends in {', '.join(GRAPH_SUFFIXES)}",
    not_a_table="a graph is a table with name, nodes and edges; docs/graph.md shows one",
    error=InvalidGraph,
    max_bytes=1024 * 1024,
    too_large="that is no graph",
)


class _EdgeTable(Struct, kw_only=True, rename={"source": "from"}):
    """Keys of an `[[edges]]` table."""

    source: str
    to: str | tuple[str, ...]
    type: EdgeType = "data"
    carries: str | None = None
    when: str | tuple[str, ...] = ()
    unless: str | tuple[str, ...] = ()
    after: bool = False


def list_shipped_graphs() -> tuple[str, ...]:
    """Names of the graphs shipped with Fleetlore."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _SHIPPED_GRAPHS.iterdir() if entry.name.endswith(".toml")))


def load_graph(place: str, *, folder: str | None = None) -> Graph:
    """Load a graph by name (shipped, or in `folder`) or by the path of its file; raises `Invalid`."""
    if (named := find_graph(place, folder=folder)) is not None:
        return named
    path = Path(place).expanduser()
    if path.suffix not in GRAPH_SUFFIXES:
        known = ", ".join(list_graphs(folder))
        raise Invalid(f"no graph is called {place!r}; choose from {known}; or name a file, as in ./my.toml")
    return _read_file(path)


def find_graph(name: str, *, folder: str | None = None) -> Graph | None:
    """Find a graph by name only, never by path, because browsers may ask for any name. `None` if there is none."""
    if name in list_shipped_graphs():
        return from_text((_SHIPPED_GRAPHS / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")
    path = next((path for path in _list_own_files(folder) if path.stem == name), None)
    return None if path is None else msgspec.structs.replace(_read_file(path), name=name)  # sessions store this name


def list_graphs(folder: str | None = None) -> tuple[str, ...]:
    """Names of all graphs, shipped and in `folder`."""
    return tuple(dict.fromkeys((*list_shipped_graphs(), *(path.stem for path in _list_own_files(folder)))))


def _list_own_files(folder: str | None) -> Iterator[Path]:
    if folder is None:
        return
    try:
        yield from sorted(path for path in Path(folder).expanduser().iterdir() if path.suffix in GRAPH_SUFFIXES and path.is_file())
    except OSError as error:
        raise Invalid(f"{folder}: the folder of your graphs cannot be read ({error.strerror}); make it, or change graph.folder") from error


def _read_file(path: Path) -> Graph:
    try:
        if path.suffix == ".py":
            return _load_python(path)
        return _build_graph(load_document(str(path), GRAPH))
    except OSError as error:
        raise Invalid(f"{path}: cannot be read ({error.strerror}); see that it is there, and that you may read it") from error


def _load_python(path: Path) -> Graph:
    """Run the file and take its `GRAPH`."""
    try:
        graph = runpy.run_path(str(path), run_name=f"fleetlore_graph_{path.stem}").get("GRAPH")
    except (FleetloreError, OSError):
        raise
    except (Exception, SystemExit) as error:  # user code may raise anything, and one broken file must not hide the others
        raise Invalid(f"{path}: fails when it is run: {type(error).__name__}: {error}") from error
    if isinstance(graph, Graph):
        return msgspec.structs.replace(graph, source=str(path))
    if isinstance(graph, Mapping):
        return from_data(graph, str(path))
    raise Invalid(f"{path}: puts no graph into GRAPH; give it a Graph, or a dict as a TOML file would hold it")


def from_text(text: str, source: str) -> Graph:
    """Parse a graph from YAML or TOML, depending on the suffix of `source`; raises `InvalidGraph`."""
    return _build_graph(parse_document(text, source, GRAPH))


def from_data(data: Mapping[str, Any], source: str) -> Graph:
    """Build a graph from data as a TOML file would hold it; raises `InvalidGraph` with everything that does not fit."""
    return _build_graph(Document(source, data, GRAPH))


def _build_graph(document: Document) -> Graph:
    tables = document.root.get("edges", ())
    if not isinstance(tables, list | tuple):
        document.add_error(("edges",), "a list of tables is needed; write [[edges]] before each")
        tables = ()
    edges = tuple(edge for index, table in enumerate(tables) for edge in _build_edges(document, ("edges", index), table))
    data = {key: value for key, value in document.root.items() if key != "edges"}
    found = document.convert_fields((), data, Graph, without=("source",))
    for name in missing_fields(Graph, {**data, "edges": edges}):
        document.add_error((), f"{name} is missing")
    document.raise_if_invalid()
    return Graph(**found, edges=edges, source=document.source)


def _build_edges(document: Document, path: KeyPath, table: Any) -> Iterator[Edge]:
    """One edge per target: `to` may name several roles, which then run concurrently."""
    if not isinstance(table, Mapping) or "from" not in table or "to" not in table:
        document.add_error(path, 'a table with from and to is needed, as in { from = "input", to = "thinker" }')
    elif (edge := document.convert_value(path, table, _EdgeTable)) is not None:
        for target in _as_tuple(edge.to):
            yield Edge(
                source=edge.source,
                target=target,
                type=edge.type,
                carries=edge.source if edge.carries is None else edge.carries,
                when=_as_tuple(edge.when),
                unless=_as_tuple(edge.unless),
                after=edge.after,
            )


def _as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


__all__ = ["Edge", "find_graph", "from_data", "from_text", "list_graphs", "list_shipped_graphs", "load_graph"]
