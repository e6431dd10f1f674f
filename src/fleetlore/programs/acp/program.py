"""Any agent that speaks the Agent Client Protocol, as a `Program`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleetlore.programs.base import HarnessFactory, Program

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording
    from fleetlore.dialects.wire import Record
    from fleetlore.events.goal_plan import Plan
    from fleetlore.programs.harness import Harness
    from fleetlore.programs.normalised import ToolCallReader


class AcpAgent(Program):
    """An agent of the Agent Client Protocol, version 1. It has no files of its own here: `lore acp` records it while it runs."""

    name = "acp"
    title = "Agent Client Protocol"
    command = ""
    home = "~/.local/state/fleetlore/acp"
    recordings = ()
    deletes = "nothing: `lore acp` writes to the log"
    asks_at_gate = True
    chooses_sessions = True

    def load_recording(self) -> Recording:
        """Reads captured messages, one a line."""
        from fleetlore.programs.acp.transcript import RECORDING

        return RECORDING

    def recognises(self, record: Record) -> bool:
        """A message with its time and sender."""
        return record.keys() == {"at", "from", "message"}

    def load_harness(self) -> HarnessFactory:
        """Starts the goal's command and gives it the turn's prompt."""
        from fleetlore.programs.acp.harness import AcpHarness

        def create(plan: Plan, environ: Mapping[str, str]) -> Harness:
            return AcpHarness(plan.command, environ, keep=plan.variables)

        return create

    def load_tool_calls(self) -> ToolCallReader:
        """By the kinds of calls."""
        from fleetlore.programs.acp.calls import TOOL_CALLS

        return TOOL_CALLS


PROGRAM = AcpAgent()
