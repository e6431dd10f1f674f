"""What an agent can do outside: ask a database, run a program. Which databases there are is known to this machine alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.runtime.graph.model import Graph
    from fleetlore.runtime.graph.settings import Settings

EVERY = "*"
"""In a graph: every database that the settings name."""


class Toolbox:
    """The outward tools of one graph, as the settings allow them."""

    def __init__(self, graph: Graph, settings: Settings) -> None:
        named = graph.tools.get("query_db", ())
        wanted = settings.databases if named == EVERY else _names(named)
        self.databases: Mapping[str, str] = {name: settings.databases[name] for name in wanted if name in settings.databases}
        """Name → address, of those that the graph may ask and that are set up here."""
        self.runs_python = graph.tools.get("run_python") is True
        """Whether the graph lets programs be run."""


def _names(said: Any) -> list[str]:
    if isinstance(said, str):
        return [said]
    if isinstance(said, list | tuple) and all(isinstance(name, str) for name in said):
        return list(said)
    raise Invalid('tools.query_db: names of databases are needed, as in query_db = ["shop"]')
