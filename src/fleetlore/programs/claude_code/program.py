"""Claude Code as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fleetlore.programs.base import HarnessFactory, LiveSession, Program, ProgramApprovals, ProgramHooks

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.events.goal_plan import Plan
    from fleetlore.programs.harness import Harness
    from fleetlore.programs.hook_settings import HookFile
    from fleetlore.programs.normalised import ToolCallReader
    from fleetlore.programs.prompt_history import PromptHistory


class ClaudeCode(Program):
    """Claude Code 2.1."""

    name = "claude-code"
    title = "Claude Code"
    command = "claude"
    home = "~/.claude"
    home_variable = "CLAUDE_CONFIG_DIR"
    recordings = ("projects",)
    side_files = r".*\.meta\.json|sessions-index\.json"
    """Metadata of sub-agents (read with their transcripts), and lists of sessions."""
    side_folders = frozenset(("tool-results", "memory", "session-memory", "workflows"))
    """Large outputs, notes and scripts."""
    live_folders = ("sessions", "jobs")
    asks_at_gate = True
    deletes = "transcripts that were not written to for 30 days (`cleanupPeriodDays` in settings.json); prompts stay in history.jsonl"

    def load_recording(self) -> Recording:
        """Reads transcripts, and the output of `claude -p --output-format stream-json`."""
        from fleetlore.programs.claude_code.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """Rows name their session, and messages have `content`. Others: summaries, snapshots of files, and prompts of `history.jsonl`."""
        if any(
            keys <= record.keys() for keys in ({"type", "summary", "leafUuid"}, {"type", "messageId", "snapshot"}, {"display", "project"})
        ):
            return True
        message = record.get("message")
        is_row = isinstance(record.get("type"), str) and isinstance(record.get("sessionId", record.get("session_id")), str)
        return is_row and "systemPayload" not in record and not (isinstance(message, dict) and "parts" in message)

    def load_prompt_history(self) -> PromptHistory:
        """`history.jsonl`, of which Claude Code deletes nothing."""
        from fleetlore.programs.claude_code.prompts import PROMPT_HISTORY

        return PROMPT_HISTORY

    def helper_folders(self, path: str) -> Sequence[str]:
        """Sub-agents have a folder beside the session's transcript."""
        from fleetlore.programs.claude_code.discover import helper_folder

        return (helper_folder(path),)

    def find_related(self, path: str, head: bytes) -> Iterable[str]:
        """A session, its sub-agents and its forks belong together."""
        from fleetlore.programs.claude_code.discover import find_keys

        return find_keys(path, head)

    def load_hooks(self) -> ProgramHooks:
        """Reads its calls of `lore hook claude-code`."""
        from fleetlore.programs.claude_code.hooks import HOOKS

        return HOOKS

    def hook_file(self, project: str | None = None) -> HookFile:
        """`settings.json`."""
        from fleetlore.programs.claude_code import settings

        return settings.find_hook_file(self.find_home() if project is None else os.path.join(project, ".claude"))

    def read_live_sessions(self, environ: Mapping[str, str] = os.environ) -> Iterable[LiveSession]:
        """By its state files."""
        from fleetlore.programs.claude_code.live import read_live_sessions

        return read_live_sessions(self.find_home(environ))

    def load_approvals(self) -> ProgramApprovals:
        """Its PermissionRequest hook."""
        from fleetlore.programs.claude_code.hooks import APPROVALS

        return APPROVALS

    def load_harness(self) -> HarnessFactory:
        """Runs `claude -p`, one process per turn."""
        from fleetlore.programs.claude_code.harness import ClaudeCodeHarness

        def create(plan: Plan, environ: Mapping[str, str]) -> Harness:
            command = plan.command or (self.command,)
            return ClaudeCodeHarness(command, environ, keep=plan.variables, trusts_workspace=plan.trusts_workspace)

        return create

    def load_telemetry(self) -> ProgramTelemetry:
        """Its log records."""
        from fleetlore.programs.claude_code.telemetry import TELEMETRY

        return TELEMETRY

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.claude_code.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`claude --resume ID`."""
        return (self.command, "--resume", session)


PROGRAM = ClaudeCode()
