"""A harness that writes the order of a turn into the workspace, and calls that work."""

from collections.abc import Mapping
from pathlib import Path

from fleetlore.events.goal_plan import Plan
from fleetlore.programs.harness import Ended, Heard, Order, Watch

LONGEST = 4096


class EchoHarness:
    """Takes turns without a model: offline, at once, for nothing."""

    name = "echo"
    has_sessions = False

    def __init__(self, plan: Plan, environ: Mapping[str, str]) -> None:
        self._model = plan.model or "echo-1"

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """One turn: tell that it goes on, do the work, say how it ended. What goes wrong is an `Ended`, too."""
        called_off = await watch(Heard(model=self._model, tokens=1, words="writing it down"))
        if called_off is not None:
            return Ended(how=called_off, tokens=1)
        try:
            with (Path(order.workspace) / "echo.txt").open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"turn {order.turn}: {order.prompt[:LONGEST]}\n")
        except OSError as error:
            return Ended(how="failed", error=str(error), tokens=1)
        return Ended(how="finished", words=f"wrote turn {order.turn} down", tokens=2, model=self._model)
