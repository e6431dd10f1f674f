"""What one goal needs while it runs: harness, workspace, acceptance checker, models, memory and prices.

`setup.py` opens these resources, `driver.py` uses them. The protocols name only what the driver calls, so that tests
can pass stubs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from fleetlore.events.driver_types import Goal, Verdict
from fleetlore.events.envelope import Event
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.gate.permissions import InProcessGate
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.models.base import Model
from fleetlore.programs import registry
from fleetlore.programs.harness import Harness
from fleetlore.views.goal_state import GoalState
from fleetlore.views.prices import PICO, Prices, TokenCounts

MAX_MEMORY_CHARS = 6_000

RunBlocking: TypeAlias = Callable[..., Awaitable[Any]]
"""Runs a function that blocks and returns its result: `asyncio.to_thread`, unless a simulation replaces it."""


class SavedCheckpoint(Protocol):
    """A saved state of the workspace."""

    @property
    def sha(self) -> str:
        """The commit that holds it."""


class DiffSummary(Protocol):
    """The changes since a checkpoint."""

    @property
    def stat(self) -> str:
        """Changed files and line counts, like `git diff --stat`."""


class TurnWorkspace(Protocol):
    """The folder in which the agent works. All methods block."""

    @property
    def path(self) -> str:
        """The folder."""

    def checkpoint(self, turn: int) -> SavedCheckpoint:
        """Save the current state of all files."""

    def roll_back(self, sha: str) -> None:
        """Restore all files from a checkpoint."""

    def compute_digest(self) -> str:
        """A digest of all files; it changes when any of them does."""

    def diff(self, sha: str) -> DiffSummary:
        """The changes since a checkpoint."""


class AcceptanceResult(Protocol):
    """The result of checking a goal's criteria."""

    @property
    def verdict(self) -> Verdict:
        """The verdict as the log stores it."""

    @property
    def touched(self) -> Sequence[TouchedFile]:
        """Judging files that the agent changed."""

    @property
    def walls(self) -> Sequence[str] | None:
        """The walls of the sandbox that commands ran in; `None` if no command ran."""


class CriteriaChecker(Protocol):
    """Checks a goal's criteria, using files that the agent cannot change."""

    @property
    def start(self) -> str:
        """The checkpoint before the first turn."""

    @property
    def digest(self) -> str:
        """Digest of the protected files that the criteria are checked with."""

    async def check(self, goal: Goal, workspace: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> AcceptanceResult:
        """Check every criterion and collect its evidence. `words` is the agent's last message."""


@dataclass(kw_only=True)
class GoalResources:
    """What the driver of one goal works with."""

    harness: Harness
    workspace: TurnWorkspace
    verifiers: CriteriaChecker
    tool_gate: InProcessGate = field(default_factory=InProcessGate)
    judge: Model | None = None
    memory: MemoryFolder | None = None
    thinker: Model | None = None
    """The model that extracts and consolidates memories."""
    prices: Prices = field(default_factory=Prices)

    def reply_cost(self, replied: Event) -> float:
        """Cost of a `model.replied` event in US dollars: as reported, else from the price table, else 0."""
        data = replied.data
        if isinstance(reported := data.get("usd"), int | float):
            return max(0.0, float(reported))
        at, model = replied.at, data.get("model")
        price = self.prices.find_price(model, at.date().isoformat()) if isinstance(model, str) and at is not None else None
        counts = (data.get(name) for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h"))
        return (
            0.0 if price is None else price.compute_cost(TokenCounts(*(count if isinstance(count, int) else 0 for count in counts))) / PICO
        )

    @property
    def can_choose_session(self) -> bool:
        """Whether we choose the id of a new session. Some programs choose their own."""
        program = registry.find_program(self.harness.name)
        return self.harness.has_sessions and not (program is not None and program.chooses_sessions)

    def render_memory(self, about: str) -> str:
        """Memories from other goals as text, the most relevant to `about` first. Blocks."""
        return "" if self.memory is None else self.memory.render_plain(MAX_MEMORY_CHARS, about=about)

    def diff_since_start(self, goal: GoalState) -> str:
        """Summary of all changes in the workspace since the goal started. Blocks."""
        return self.workspace.diff(goal.first_checkpoint).stat if goal.first_checkpoint else ""
