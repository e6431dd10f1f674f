"""Finds harnesses by name: coding agents (`programs/registry.py`), `command`, `mind`, and installed ones (`fleetlore.harnesses`).

A package registers a callable that takes the goal's plan and the environment and returns a `programs.harness.Harness`;
a class with two constructor arguments is enough. A goal names it with `harness = "echo"`. Whatever such a harness
raises becomes a failed turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetlore.errors import Invalid
from fleetlore.events.goal_plan import Plan
from fleetlore.plugins import ExtensionPoint
from fleetlore.programs import registry
from fleetlore.programs.base import HarnessFactory
from fleetlore.programs.harness import Harness, TurnRequest, TurnResult, Watch
from fleetlore.redact import Redactor

BUILTIN_HARNESSES = (*registry.DRIVEN_NAMES, *registry.OTHER_HARNESSES)


def _require_factory(name: str, candidate: Any) -> HarnessFactory:
    if not callable(candidate):
        raise TypeError(f"something to call with a plan and an environment is needed, not {type(candidate).__name__}")
    factory: HarnessFactory = candidate
    return factory


HARNESSES: ExtensionPoint[HarnessFactory] = ExtensionPoint("fleetlore.harnesses", _require_factory, builtin_names=BUILTIN_HARNESSES)


def known_harnesses() -> tuple[str, ...]:
    """The names of all harnesses that a goal can use."""
    added = [program.name for program in registry.list_driven() if program.name not in BUILTIN_HARNESSES]
    return (*BUILTIN_HARNESSES, *added, *HARNESSES.list_names())


def find_factory(name: str) -> HarnessFactory | None:
    """The factory of a coding agent's harness or of an installed one. Raises `BrokenExtension` if it cannot be loaded."""
    program = registry.find_program(name)
    factory = None if program is None else program.load_harness()
    return factory or HARNESSES.find_by_name(name)


def create_harness(plan: Plan, environ: Mapping[str, str]) -> Harness:
    """Create the harness of a coding agent or of a package. Raises `Invalid` if none has that name or it cannot be created."""
    factory = find_factory(plan.harness)
    if factory is None:
        raise Invalid(f"no harness is called {plan.harness!r}; choose from {', '.join(known_harnesses())}; install the package that has it")
    if plan.harness in registry.DRIVEN_NAMES:
        return factory(plan, environ)
    try:
        return GuardedHarness(plan.harness, factory(plan, environ))
    except Exception as error:
        raise Invalid(f"the harness {plan.harness!r} cannot be used: {_describe_error(error)}") from error


class GuardedHarness:
    """Wraps another package's harness: an exception or a wrong return value becomes a failed turn."""

    def __init__(self, name: str, harness: Harness) -> None:
        self.name, self.has_sessions, self._harness = name, bool(harness.has_sessions), harness

    async def take_turn(self, turn_request: TurnRequest, watch: Watch) -> TurnResult:
        """Run the turn and always return a `TurnResult`."""
        try:
            result = await self._harness.take_turn(turn_request, watch)
        except Exception as error:  # noqa: BLE001  # third-party code may raise anything
            return TurnResult(how="failed", error=_describe_error(error))
        return (
            result
            if isinstance(result, TurnResult)
            else TurnResult(how="no_result", error=f"it answered {type(result).__name__}, not a TurnResult")
        )


def _describe_error(error: Exception) -> str:
    message: str = Redactor().redact_value(f"{type(error).__name__}: {error}"[:1000])[0]
    return message
