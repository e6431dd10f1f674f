"""What sessions are run with: minds, databases and graphs of one's own. All of it comes from this machine, nothing from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.graph.model import Graph


# --- What an agent can do outside: ask a database, run a program. Which databases there are is known to this machine alone.

ALL_DATABASES = "*"
"""In a graph: every database that the settings name."""


class Toolbox:
    """The outward tools of one graph, as the settings allow them."""

    def __init__(self, graph: Graph, settings: GraphSettings) -> None:
        named = graph.tools.get("query_db", ())
        wanted = settings.databases if named == ALL_DATABASES else _parse_database_names(named)
        self.databases: Mapping[str, str] = {name: settings.databases[name] for name in wanted if name in settings.databases}
        """Name → address, of those that the graph may ask and that are set up here."""
        self.can_run_python = graph.tools.get("run_python") is True
        """Whether the graph lets programs be run."""


def _parse_database_names(said: Any) -> list[str]:
    if isinstance(said, str):
        return [said]
    if isinstance(said, list | tuple) and all(isinstance(name, str) for name in said):
        return list(said)
    raise Invalid('tools.query_db: names of databases are needed, as in query_db = ["shop"]')


# ---

DEFAULT_GRAPH = "seven"


class GraphSettings(Struct, frozen=True, kw_only=True):
    """As `[graph]` of the user's settings file has it."""

    default: str = DEFAULT_GRAPH
    """The graph of a new session."""
    minds: Mapping[str, str] = {}
    """Profile (`default`, `quick`, `strong`) → the address of a mind; without any, the one that follows a script."""
    databases: Mapping[str, str] = {}
    """Name → address; graphs and models say the name."""
    folder: str | None = None
    """Where graphs of one's own are."""
    proxy_header: str | None = None
    """The header in which a trusted proxy says who the user is; `None`: no proxy is trusted."""
    most_sessions: int = 200
    idle_seconds: float = 3600.0
    """After so long without a turn, and with nobody listening, a session is closed; it opens again from the log."""
