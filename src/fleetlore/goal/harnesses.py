"""Harnesses by name: ours, and those of installed packages, under the entry point `fleetlore.harnesses`.

A package offers something that is called with the goal's plan and the environment, and gives a `minds.harness.Harness`: a class of two
arguments is one. The file of a goal names it, `harness = "echo"`. It is held to the seam's law: whatever it raises is a turn that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fleetlore.errors import Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.plugins import Point
from fleetlore.programs.harness import Ended, Harness, Order, Watch
from fleetlore.redact import Redactor

OURS = ("claude-code", "codex", "command", "mind")
Hire: TypeAlias = Callable[[Plan, Mapping[str, str]], Harness]


def _fit(name: str, thing: Any) -> Hire:
    if not callable(thing):
        raise TypeError(f"something to call with a plan and an environment is needed, not {type(thing).__name__}")
    hire: Hire = thing
    return hire


HARNESSES: Point[Hire] = Point("fleetlore.harnesses", _fit, ours=OURS)


def known() -> tuple[str, ...]:
    """Every harness that a goal can name."""
    return (*OURS, *HARNESSES.names())


def hire(plan: Plan, environ: Mapping[str, str]) -> Harness:
    """The harness of an installed package; `Invalid` where there is none of that name."""
    found = HARNESSES.find(plan.harness)
    if found is None:
        raise Invalid(f"no harness is called {plan.harness!r}; known are {', '.join(known())}; install the package that has it")
    try:
        return Guarded(plan.harness, found(plan, environ))
    except Exception as error:
        raise Invalid(f"the harness {plan.harness!r} cannot be used: {_told(error)}") from error


class Guarded:
    """A harness that never raises."""

    def __init__(self, name: str, harness: Harness) -> None:
        self.name, self.has_sessions, self._harness = name, bool(harness.has_sessions), harness

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """The turn, whatever becomes of it."""
        try:
            ended = await self._harness.take_turn(order, watch)
        except Exception as error:  # noqa: BLE001  # others' code: the driver goes on by what it says
            return Ended(how="failed", error=_told(error))
        return ended if isinstance(ended, Ended) else Ended(how="no_result", error=f"it answered {type(ended).__name__}, and no Ended")


def _told(error: Exception) -> str:
    told: str = Redactor().clean(f"{type(error).__name__}: {error}"[:1000])[0]
    return told
