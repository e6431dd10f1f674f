"""pi as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class Pi(Program):
    """pi 0.73."""

    name = "pi"
    title = "pi"
    command = "pi"
    home = "~/.pi/agent"
    home_variable = "PI_CODING_AGENT_DIR"
    deletes = "nothing by itself"

    def recording_folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """Its sessions; `$PI_CODING_AGENT_SESSION_DIR` names another folder."""
        named = environ.get("PI_CODING_AGENT_SESSION_DIR")
        return [named] if named else super().recording_folders(environ)

    def load_recording(self) -> Recording:
        """Reads `sessions/FOLDER/TIME_ID.jsonl`."""
        from fleetlore.programs.pi.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """The header."""
        return record.get("type") == "session" and {"id", "timestamp", "cwd"} <= record.keys() and "createdAt" not in record

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.pi.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`pi --session ID`."""
        return (self.command, "--session", session)


PROGRAM = Pi()
