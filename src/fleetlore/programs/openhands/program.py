"""OpenHands as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class OpenHands(Program):
    """The CLI of OpenHands 1.x, and what else is built on its SDK."""

    name = "openhands"
    title = "OpenHands"
    command = "openhands"
    home = "~/.openhands"
    home_variable = "OPENHANDS_PERSISTENCE_DIR"
    recordings = ("conversations",)
    side_files = r"event-\d{5,}-[0-9a-f-]+\.json|TASKS\.json|\.eventlog\.lock"
    side_folders = frozenset(("events", "observations"))
    deletes = "nothing by itself"

    def recording_folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """Its conversations; `$OPENHANDS_CONVERSATIONS_DIR` names another folder."""
        named = environ.get("OPENHANDS_CONVERSATIONS_DIR")
        return [named] if named else super().recording_folders(environ)

    def load_recording(self) -> Recording:
        """Reads `conversations/ID/base_state.json` and `events/` beside it."""
        from fleetlore.programs.openhands.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """The state of a conversation, or an event."""
        if {"agent", "workspace", "persistence_dir"} <= record.keys():
            return True
        return {"id", "timestamp", "source", "kind"} <= record.keys() and str(record["kind"]).endswith("Event")

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.openhands.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`openhands --resume ID`."""
        return (self.command, "--resume", session)


PROGRAM = OpenHands()
