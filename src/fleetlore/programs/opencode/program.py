"""opencode as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.programs.normalised import ToolCallReader


class Opencode(Program):
    """opencode 1.18."""

    name = "opencode"
    title = "opencode"
    command = "opencode"
    home = "~/.local/share/opencode"
    recordings = ("opencode.db",)
    side_files = r"opencode.*\.db-(?:wal|shm)"
    deletes = "nothing by itself; deleting a session deletes its events"
    database_variable = "OPENCODE_DB"
    """The environment variable that names another database."""

    def find_home(self, environ: Mapping[str, str] = os.environ) -> str:
        """Its folder in `$XDG_DATA_HOME`."""
        data = environ.get("XDG_DATA_HOME")
        return os.path.join(data, os.path.basename(self.home)) if data else super().find_home(environ)

    def recording_folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """Its database."""
        named = environ.get(self.database_variable)
        return [os.path.join(self.find_home(environ), named)] if named else super().recording_folders(environ)

    def load_recording(self) -> Recording:
        """Reads the table of events in its database."""
        from fleetlore.programs.opencode.transcript import RECORDING

        return RECORDING

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.opencode.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`opencode --session ID`."""
        return (self.command, "--session", session)


PROGRAM = Opencode()
