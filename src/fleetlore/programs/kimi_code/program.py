"""Kimi Code as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class KimiCode(Program):
    """Kimi Code 2.1."""

    name = "kimi-code"
    title = "Kimi Code"
    command = "kimi"
    home = "~/.kimi-code"
    home_variable = "KIMI_CODE_HOME"
    side_files = r"state\.json"
    side_folders = frozenset((".index-cache", ".index-dirty", "file-history", "notify", "logs"))
    deletes = "nothing that we know of"

    def load_recording(self) -> Recording:
        """Reads `sessions/FOLDER/SESSION/agents/AGENT/wire.jsonl`."""
        from fleetlore.programs.kimi_code.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """The header, or a record that names its agent."""
        is_header = record.get("type") == "metadata" and "protocol_version" in record
        return is_header or ("agentId" in record and "time" in record and "." in str(record.get("type")))

    def find_related(self, path: str, head: bytes) -> Iterable[str]:
        """A session and its sub-agents belong together."""
        yield f"session:{os.path.dirname(os.path.dirname(path))}"

    def helper_folders(self, path: str) -> Sequence[str]:
        """The folders of the sub-agents beside that of the session's own agent."""
        own = os.path.dirname(path)
        agents = os.path.dirname(own)
        names = sorted(os.listdir(agents)) if os.path.basename(own) == "main" else []
        return tuple(os.path.join(agents, name) for name in names if name != "main" and os.path.isdir(os.path.join(agents, name)))

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.kimi_code.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`kimi --session ID`."""
        return (self.command, "--session", session)


PROGRAM = KimiCode()
