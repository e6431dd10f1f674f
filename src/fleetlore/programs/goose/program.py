"""Goose as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.programs.normalised import ToolCallReader


class Goose(Program):
    """Goose 1.34."""

    name = "goose"
    title = "Goose"
    command = "goose"
    home = "~/.local/share/goose"
    recordings = ("sessions/sessions.db",)
    side_files = r"sessions\.db-(?:wal|shm)"
    deletes = "nothing by itself; `goose session remove` deletes the rows of a session"

    def find_home(self, environ: Mapping[str, str] = os.environ) -> str:
        """`$GOOSE_PATH_ROOT/data`, else `$XDG_DATA_HOME/goose`."""
        root, data = environ.get("GOOSE_PATH_ROOT"), environ.get("XDG_DATA_HOME")
        if root:
            return os.path.join(root, "data")
        return os.path.join(data, "goose") if data else super().find_home(environ)

    def load_recording(self) -> Recording:
        """Reads the tables of sessions and messages in `sessions.db`."""
        from fleetlore.programs.goose.transcript import RECORDING

        return RECORDING

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.goose.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`goose session --resume --session-id ID`."""
        return (self.command, "session", "--resume", "--session-id", session)


PROGRAM = Goose()
