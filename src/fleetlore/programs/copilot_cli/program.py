"""Copilot CLI as a `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class CopilotCli(Program):
    """GitHub Copilot CLI 1.0."""

    name = "copilot-cli"
    title = "Copilot CLI"
    command = "copilot"
    home = "~/.copilot"
    home_variable = "COPILOT_HOME"
    recordings = ("session-state",)
    side_files = r"workspace\.yaml|\.workspace-fork\.lock|vscode\.metadata\.json|plan\.md|session\.db.*|inuse\..*\.lock"
    side_folders = frozenset(("checkpoints", "files", "research", "rewind-snapshots", "rewind-file-snapshots", ".session-operation-locks"))
    deletes = "nothing that we know of"

    def load_recording(self) -> Recording:
        """Reads `session-state/SESSION/events.jsonl`."""
        from fleetlore.programs.copilot_cli.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """Events have dotted types and name the event before."""
        return isinstance(name := record.get("type"), str) and "." in name and "parentId" in record and "data" in record

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.copilot_cli.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`copilot --resume=ID`."""
        return (self.command, f"--resume={session}")


PROGRAM = CopilotCli()
