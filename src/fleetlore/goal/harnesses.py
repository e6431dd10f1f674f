"""Harnesses by name: coding agents (`programs/registry.py`), `command`, `mind`, and what packages add as `fleetlore.harnesses`.

A package offers something that is called with the goal's plan and the environment, and returns a `programs.harness.Harness`: a class with
these two arguments will do. The file of a goal names it, `harness = "echo"`. Whatever the harness of a package raises is a failed turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetlore.errors import Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.plugins import ExtensionPoint
from fleetlore.programs import registry
from fleetlore.programs.base import HarnessFactory
from fleetlore.programs.harness import Ended, Harness, Order, Watch
from fleetlore.redact import Redactor

BUILTIN_HARNESSES = (*registry.BUILTIN_NAMES, *registry.OTHER_HARNESSES)


def _require_factory(name: str, thing: Any) -> HarnessFactory:
    if not callable(thing):
        raise TypeError(f"something to call with a plan and an environment is needed, not {type(thing).__name__}")
    hire: HarnessFactory = thing
    return hire


HARNESSES: ExtensionPoint[HarnessFactory] = ExtensionPoint("fleetlore.harnesses", _require_factory, ours=BUILTIN_HARNESSES)


def known_harnesses() -> tuple[str, ...]:
    """Every harness that a goal can name."""
    added = [program.name for program in registry.list_driven() if program.name not in BUILTIN_HARNESSES]
    return (*BUILTIN_HARNESSES, *added, *HARNESSES.list_names())


def find_factory(name: str) -> HarnessFactory | None:
    """What makes the harness of a coding agent, or of a package; `BrokenExtension` where it cannot be used."""
    program = registry.find_program(name)
    factory = None if program is None else program.load_harness()
    return factory or HARNESSES.find_by_name(name)


def create_harness(plan: Plan, environ: Mapping[str, str]) -> Harness:
    """The harness of a coding agent or of a package; `Invalid` where there is none of that name."""
    found = find_factory(plan.harness)
    if found is None:
        raise Invalid(f"no harness is called {plan.harness!r}; known are {', '.join(known_harnesses())}; install the package that has it")
    if plan.harness in registry.BUILTIN_NAMES:
        return found(plan, environ)
    try:
        return GuardedHarness(plan.harness, found(plan, environ))
    except Exception as error:
        raise Invalid(f"the harness {plan.harness!r} cannot be used: {_describe_error(error)}") from error


class GuardedHarness:
    """A harness that never raises."""

    def __init__(self, name: str, harness: Harness) -> None:
        self.name, self.has_sessions, self._harness = name, bool(harness.has_sessions), harness

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """The turn, whatever becomes of it."""
        try:
            ended = await self._harness.take_turn(order, watch)
        except Exception as error:  # noqa: BLE001  # others' code: the driver goes on by what it says
            return Ended(how="failed", error=_describe_error(error))
        return ended if isinstance(ended, Ended) else Ended(how="no_result", error=f"it answered {type(ended).__name__}, and no Ended")


def _describe_error(error: Exception) -> str:
    told: str = Redactor().redact_value(f"{type(error).__name__}: {error}"[:1000])[0]
    return told
