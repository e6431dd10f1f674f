"""Settings of graph sessions: models, databases and own graphs. They come from this machine's configuration, never from the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from fleetlore.graph.model import Graph


# --- External tools

ALL_DATABASES = "*"
"""In a graph: every database in the settings."""


class Toolbox:
    """The external tools that a graph may use and the settings provide."""

    def __init__(self, graph: Graph, settings: GraphSettings) -> None:
        setting = graph.tools.get("query_db", ())
        names = settings.databases if setting == ALL_DATABASES else _parse_database_names(setting)
        self.databases: Mapping[str, str] = {name: settings.databases[name] for name in names if name in settings.databases}
        """Name → address of the databases that the graph may query and that are configured here."""
        self.may_run_unconfined = graph.tools.get("run_python") == "unconfined"
        """Whether code of a model runs even where this system has no sandbox."""
        self.can_run_python = graph.tools.get("run_python") is True or self.may_run_unconfined
        """Whether the graph may run programs."""


def _parse_database_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return list(value)
    raise Invalid('tools.query_db: give names of databases, as in query_db = ["shop"]')


# --- Settings

DEFAULT_GRAPH = "seven"


class GraphSettings(Struct, frozen=True, kw_only=True):
    """The `[graph]` section of the user's settings."""

    default: str = DEFAULT_GRAPH
    """The graph of a new session."""
    minds: Mapping[str, str] = {}
    """Profile (`default`, `quick`, `strong`) → address of a model; the scripted model if empty."""
    databases: Mapping[str, str] = {}
    """Name → address; graphs and models use the name."""
    folder: str | None = None
    """Folder with own graphs."""
    proxy_header: str | None = None
    """Header in which a trusted proxy names the user; `None` if no proxy is trusted."""
    jwt: Mapping[str, str] = {}
    """How users are known by a signed token of their identity provider; `server/security/jwt.py` reads it."""
    turn_seconds: float = 300.0
    """A turn that takes longer is stopped; 0 for no limit."""
    most_sessions: int = 200
    idle_seconds: float = 3600.0
    """A session without a turn for so long, and without a listener, is closed; it can be opened again from the log."""
