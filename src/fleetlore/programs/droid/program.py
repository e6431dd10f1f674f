"""Droid as a `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class Droid(Program):
    """Factory's Droid 0.225."""

    name = "droid"
    title = "Droid"
    command = "droid"
    home = "~/.factory"
    side_files = r".*\.settings\.json(?:\.bak)?"
    deletes = "nothing that we know of"

    def load_recording(self) -> Recording:
        """Reads `sessions/FOLDER/SESSION.jsonl`."""
        from fleetlore.programs.droid.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """The header."""
        return record.get("type") == "session_start" and {"id", "title"} <= record.keys()

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.droid.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`droid --resume ID`."""
        return (self.command, "--resume", session)


PROGRAM = Droid()
