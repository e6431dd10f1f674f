"""Sprig as a `Program`: where it keeps its transcripts, and which module has which part."""

from collections.abc import Mapping

from fleetlore.dialects.recording import Recording
from fleetlore.events.goal_plan import Plan
from fleetlore.programs.base import HarnessFactory, Program
from fleetlore.programs.harness import Harness
from fleetlore.programs.normalised import ToolCallReader


class Sprig(Program):
    """A part that is left out (hooks, settings file, telemetry) is one that the agent does not have."""

    name = "sprig"
    title = "Sprig"
    command = "sprig"
    home = "~/.sprig"
    home_variable = "SPRIG_HOME"
    recordings = ("sessions",)

    def load_recording(self) -> Recording:
        """The transcript reader. Parts are imported here, because most commands need none of them."""
        from fleetlore_sprig.transcript import RECORDING

        return RECORDING

    def load_harness(self) -> HarnessFactory:
        """What drives it. The goal's file may say where the program is: `command = ["/opt/sprig"]`."""
        from fleetlore_sprig.harness import SprigHarness

        def create(plan: Plan, environ: Mapping[str, str]) -> Harness:
            return SprigHarness(plan.command or (self.command,), environ, keep=plan.variables)

        return create

    def load_tool_calls(self) -> ToolCallReader:
        """What its tools do."""
        from fleetlore_sprig.transcript import TOOL_CALLS

        return TOOL_CALLS

    def resume_command(self, session: str) -> tuple[str, ...]:
        """How a person continues a session."""
        return (self.command, "run", "--resume", session)


PROGRAM = Sprig()
