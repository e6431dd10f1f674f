"""Gemini CLI as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fleetlore.programs.base import Program

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.programs.normalised import ToolCallReader


class GeminiCli(Program):
    """Gemini CLI 0.61."""

    name = "gemini-cli"
    title = "Gemini CLI"
    command = "gemini"
    home = "~/.gemini"
    recordings = ("tmp",)
    side_files = r"\.project_root|logs\.json|checkpoint-.*\.json|session-.*\.json"
    side_folders = frozenset(("tool-outputs", "plans", "tracker", "shadow-git"))
    deletes = "sessions older than 30 days (`general.sessionRetention` in settings.json)"

    def find_home(self, environ: Mapping[str, str] = os.environ) -> str:
        """`$GEMINI_CLI_HOME` names the folder that has `.gemini` in it."""
        above = environ.get("GEMINI_CLI_HOME")
        return os.path.join(above, ".gemini") if above else super().find_home(environ)

    def load_recording(self) -> Recording:
        """Reads `chats/session-….jsonl`."""
        from fleetlore.programs.gemini_cli.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """The header names the project by its hash."""
        return "projectHash" in record and "sessionId" in record

    def find_related(self, path: str, head: bytes) -> Iterable[str]:
        """A session and its sub-agents belong together; the folder of the sub-agents has the session's id."""
        from fleetlore.programs.recording_files import plain_name

        folders = plain_name(path).split(os.sep)
        if len(folders) > 2 and folders[-3] == "chats":
            yield f"session:{folders[-2][:8]}"
        else:
            yield f"session:{folders[-1][-8:]}"

    def helper_folders(self, path: str) -> Sequence[str]:
        """The folders of all sub-agents beside it: the name of a session's file has only the beginning of its id."""
        from fleetlore.programs.recording_files import plain_name

        folder, start = os.path.dirname(path), plain_name(path)[-8:]
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return tuple(os.path.join(folder, name) for name in names if name.startswith(start) and os.path.isdir(os.path.join(folder, name)))

    def load_telemetry(self) -> ProgramTelemetry:
        """Its log records."""
        from fleetlore.programs.gemini_cli.telemetry import TELEMETRY

        return TELEMETRY

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.gemini_cli.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`gemini --resume ID`."""
        return (self.command, "--resume", session)


PROGRAM = GeminiCli()
