"""Qwen Code as a `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class QwenCode(Program):
    """Qwen Code 0.15."""

    name = "qwen-code"
    title = "Qwen Code"
    command = "qwen"
    home = "~/.qwen"
    home_variable = "QWEN_HOME"
    recordings = ("projects",)
    side_files = r"meta\.json|.*\.runtime\.json|extract-cursor\.json"
    side_folders = frozenset(("memory", "tmp"))
    deletes = "nothing that we know of"

    def load_recording(self) -> Recording:
        """Reads `projects/PROJECT/chats/SESSION.jsonl`."""
        from fleetlore.programs.qwen_code.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """Messages have `parts`, and notes of the program a `systemPayload`."""
        message = record.get("message")
        return "sessionId" in record and ("systemPayload" in record or (isinstance(message, dict) and "parts" in message))

    def load_telemetry(self) -> ProgramTelemetry:
        """Its log records."""
        from fleetlore.programs.qwen_code.telemetry import TELEMETRY

        return TELEMETRY

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.qwen_code.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`qwen --resume ID`."""
        return (self.command, "--resume", session)


PROGRAM = QwenCode()
