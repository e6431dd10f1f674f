"""Codex as a `Program`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import HarnessFactory, Program, ProgramApprovals, ProgramHooks

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.events.goal_plan import Plan
    from fleetlore.programs.harness import Harness
    from fleetlore.programs.hook_settings import HookFile
    from fleetlore.programs.normalised import ToolCallReader
    from fleetlore.programs.prompt_history import PromptHistory


class Codex(Program):
    """Codex CLI."""

    name = "codex"
    title = "Codex"
    command = "codex"
    home = "~/.codex"
    home_variable = "CODEX_HOME"
    recordings = ("sessions", "archived_sessions")
    side_files = r".*\.(?:de)?compress\.\d+\.\d+\.tmp"
    """Rollouts during compression: Codex compresses those that were not used for a week."""
    install_note = "When Codex next starts, it asks you to review new hooks: choose “Trust all and continue”; it runs no hooks before that."
    chooses_sessions = True
    deletes = "nothing by itself; it may compress rollouts that were not used for 7 days, which are read as well"

    def load_recording(self) -> Recording:
        """Reads rollouts, and the output of `codex exec --json`."""
        from fleetlore.programs.codex.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """Records of a rollout have a `payload`, those of `codex exec --json` dotted types, and prompts of `history.jsonl` a `ts`."""
        name = record.get("type")
        if "record_type" in record or {"session_id", "ts", "text"} == record.keys():
            return True
        return isinstance(name, str) and ("payload" in record or name in ("thread.started", "turn.started", "item.completed"))

    def load_prompt_history(self) -> PromptHistory:
        """`history.jsonl`."""
        from fleetlore.programs.codex.messages import PROMPT_HISTORY

        return PROMPT_HISTORY

    def find_related(self, path: str, head: bytes) -> Iterable[str]:
        """A thread, the threads of its sub-agents and its forks belong together."""
        from fleetlore.programs.codex.discover import find_keys

        return find_keys(head)

    def load_hooks(self) -> ProgramHooks:
        """Reads its calls of `lore hook codex`."""
        from fleetlore.programs.codex.hooks import HOOKS

        return HOOKS

    def hook_file(self, project: str | None = None) -> HookFile:
        """`hooks.json`."""
        from fleetlore.programs.codex import settings

        return settings.find_hook_file(self.find_home() if project is None else os.path.join(project, ".codex"))

    def load_approvals(self) -> ProgramApprovals:
        """Its PermissionRequest hook."""
        from fleetlore.programs.codex.hooks import APPROVALS

        return APPROVALS

    def load_harness(self) -> HarnessFactory:
        """Runs `codex exec`, one process per turn."""
        from fleetlore.programs.codex.harness import CodexHarness

        def create(plan: Plan, environ: Mapping[str, str]) -> Harness:
            return CodexHarness(plan.command or (self.command,), environ, keep=plan.variables, sandbox=plan.sandbox)

        return create

    def load_telemetry(self) -> ProgramTelemetry:
        """Its log records."""
        from fleetlore.programs.codex.telemetry import TELEMETRY

        return TELEMETRY

    def load_tool_calls(self) -> ToolCallReader:
        """Its tools."""
        from fleetlore.programs.codex.calls import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """`codex resume ID`."""
        return (self.command, "resume", session)


PROGRAM = Codex()
