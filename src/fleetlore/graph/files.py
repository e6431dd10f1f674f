"""Loads graphs from TOML, YAML or Python files (`GRAPH`). `Engine` validates them."""

from __future__ import annotations

import runpy
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import msgspec

from fleetlore.documents.validation import to_plain_values
from fleetlore.documents.yaml_lines import ParsedYaml
from fleetlore.errors import FleetloreError, Invalid
from fleetlore.graph.checks import InvalidGraph
from fleetlore.graph.model import Edge, EdgeType, Graph

GRAPH_SUFFIXES = (".toml", ".yaml", ".yml", ".py")
_SHIPPED_GRAPHS = resources.files("fleetlore.graph") / "graphs"
_EDGE_KEYS = ("from", "to", "type", "carries", "when", "unless", "after")
_GRAPH_KEYS = tuple(name for name in Graph.__struct_fields__ if name != "source")


def shipped() -> tuple[str, ...]:
    """Names of the graphs shipped with Fleetlore."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _SHIPPED_GRAPHS.iterdir() if entry.name.endswith(".toml")))


def load(place: str, *, folder: str | None = None) -> Graph:
    """Load a graph by name (shipped, or in `folder`) or by the path of its file; raises `Invalid`."""
    if (named := find(place, folder=folder)) is not None:
        return named
    path = Path(place).expanduser()
    if path.suffix not in GRAPH_SUFFIXES:
        known = ", ".join(names(folder))
        raise Invalid(f"no graph is called {place!r}; known are {known}; or name a file, as in ./my.toml")
    return _read_file(path)


def find(name: str, *, folder: str | None = None) -> Graph | None:
    """Find a graph by name only, never by path, because browsers may ask for any name. `None` if there is none."""
    if name in shipped():
        return from_text((_SHIPPED_GRAPHS / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")
    path = next((path for path in _list_own_files(folder) if path.stem == name), None)
    return None if path is None else msgspec.structs.replace(_read_file(path), name=name)  # sessions store this name


def names(folder: str | None = None) -> tuple[str, ...]:
    """Names of all graphs, shipped and in `folder`."""
    return tuple(dict.fromkeys((*shipped(), *(path.stem for path in _list_own_files(folder)))))


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
        return from_text(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: is not UTF-8 text; save it as such") from error
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
    """Parse a graph from YAML or TOML, depending on the suffix of `source`; raises `Invalid`."""
    data = _parse_yaml(text, source) if source.endswith((".yaml", ".yml")) else _parse_toml(text, source)
    if not isinstance(data, dict):
        raise Invalid(f"{source}: a graph is a table with name, nodes and edges; docs/graph.md shows one")
    return from_data(data, source)


def _parse_yaml(text: str, source: str) -> Any:
    document = ParsedYaml(source, text)
    document.raise_if_invalid()
    return document.root


def _parse_toml(text: str, source: str) -> Any:
    try:
        return to_plain_values(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{source}: not TOML: {error}; mend it") from error


def from_data(data: Mapping[str, Any], source: str) -> Graph:
    """Build a graph from parsed data; raises `InvalidGraph` with what does not match."""
    problems = [f"no such key: {key}; known are {', '.join(_GRAPH_KEYS)}" for key in data if key not in _GRAPH_KEYS]
    edge_tables = data.get("edges", ())
    if not isinstance(edge_tables, list | tuple):
        problems.append("edges: a list of tables is needed; write [[edges]] before each")
        edge_tables = ()
    edges = [edge for number, table in enumerate(edge_tables, 1) for edge in _parse_edges(table, number, problems)]
    if problems:
        raise InvalidGraph(source, problems)
    try:
        return msgspec.convert({**data, "edges": edges, "source": source}, Graph)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        location = path.rstrip("`").lstrip(".") or "the graph"
        raise InvalidGraph(source, [f"{location}: {reason}"]) from error


def _parse_edges(table: Any, number: int, problems: list[str]) -> Iterator[dict[str, Any]]:
    """One edge per target: `to` may name several roles, which then run concurrently."""
    if not isinstance(table, Mapping) or "from" not in table or "to" not in table:
        problems.append(f'edge {number}: a table with from and to is needed, as in {{ from = "input", to = "thinker" }}')
        return
    if unknown := [key for key in table if key not in _EDGE_KEYS]:
        problems.append(f"edge {number}: no such key: {unknown[0]}; known are {', '.join(_EDGE_KEYS)}")
    if table.get("type", "data") not in get_args(EdgeType):
        problems.append(f"edge {number}: no such type: {table['type']!r}; known are {', '.join(get_args(EdgeType))}")
        return
    for target in _as_list(table["to"]):
        yield {
            "source": table["from"],
            "target": target,
            "type": table.get("type", "data"),
            "carries": table.get("carries", table["from"]),
            "when": _as_list(table.get("when", ())),
            "unless": _as_list(table.get("unless", ())),
            "after": table.get("after", False),
        }


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


__all__ = ["Edge", "find", "from_data", "from_text", "load", "names", "shipped"]
