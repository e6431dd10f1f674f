"""A harness that writes the prompt of a turn into the workspace and reports success."""

from collections.abc import Mapping
from pathlib import Path

from fleetlore.events.goal_plan import Plan
from fleetlore.programs.harness import TurnResult, TurnProgress, TurnRequest, Watch

LONGEST = 4096


class EchoHarness:
    """Takes turns without a model: offline, at once, for nothing."""

    name = "echo"
    has_sessions = False

    def __init__(self, plan: Plan, environ: Mapping[str, str]) -> None:
        self._model = plan.model or "echo-1"

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Report progress, do the work, return the result. A failure is a `TurnResult`, too."""
        called_off = await watch(TurnProgress(model=self._model, tokens=1, words="writing it down"))
        if called_off is not None:
            return TurnResult(how=called_off, tokens=1)
        try:
            with (Path(request.workspace) / "echo.txt").open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"turn {request.turn}: {request.prompt[:LONGEST]}\n")
        except OSError as error:
            return TurnResult(how="failed", error=str(error), tokens=1)
        return TurnResult(how="finished", words=f"wrote turn {request.turn} down", tokens=2, model=self._model)
