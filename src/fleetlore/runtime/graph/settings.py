"""What sessions are run with: minds, databases and graphs of one's own. All of it comes from this machine, nothing from the log."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

DEFAULT_GRAPH = "seven"


class Settings(Struct, frozen=True, kw_only=True):
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
