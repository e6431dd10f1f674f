"""Who and what a goal needs to be pursued: an agent, a place to work in, those who check, and what is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fleetlore.events.driver_types import Goal, Verdict
from fleetlore.events.envelope import Event
from fleetlore.goal.gate.permissions import InProcessGate
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.models.base import Model
from fleetlore.programs import registry
from fleetlore.programs.harness import Harness
from fleetlore.views.goal_state import GoalState
from fleetlore.views.prices import PICO, Prices, TokenCounts

MAX_MEMORY_CHARS = 6_000


class SavedCheckpoint(Protocol):
    """A checkpoint."""

    @property
    def sha(self) -> str:
        """Its name."""


class DiffSummary(Protocol):
    """What is different."""

    @property
    def stat(self) -> str:
        """In short."""


class TurnWorkspace(Protocol):
    """Where the agent works. Its verbs block."""

    @property
    def path(self) -> str:
        """The folder."""

    def checkpoint(self, turn: int) -> SavedCheckpoint:
        """Keep everything as it is."""

    def roll_back(self, sha: str) -> None:
        """Have everything as it was."""

    def tree(self) -> str:
        """A digest of everything."""

    def diff(self, sha: str) -> DiffSummary:
        """What changed since a checkpoint."""


class AcceptanceResult(Protocol):
    """What a check came to."""

    @property
    def verdict(self) -> Verdict:
        """As the log tells it."""

    @property
    def put_back(self) -> Sequence[str]:
        """Protected files that had been changed."""


class CriteriaChecker(Protocol):
    """Those who check a goal's criteria, out of the agent's reach."""

    @property
    def start(self) -> str:
        """The checkpoint before the first turn."""

    @property
    def digest(self) -> str:
        """Of what the criteria are checked with."""

    async def check(self, goal: Goal, place: Any, *, judge: Model | None, cancel: asyncio.Event, words: str = "") -> AcceptanceResult:
        """Every criterion, each with its evidence."""


@dataclass(kw_only=True)
class GoalResources:
    """One goal's."""

    harness: Harness
    workspace: TurnWorkspace
    verifiers: CriteriaChecker
    tool_gate: InProcessGate = field(default_factory=InProcessGate)
    judge: Model | None = None
    memory: MemoryFolder | None = None
    thinker: Model | None = None
    """Who says what is worth keeping."""
    prices: Prices = field(default_factory=Prices)

    def reply_cost(self, replied: Event) -> float:
        """What a `model.replied` cost in US dollars: as it says, else by the table; nought where neither is known."""
        data = replied.data
        if isinstance(said := data.get("usd"), int | float):
            return max(0.0, float(said))
        at, model = replied.at, data.get("model")
        price = self.prices.find_price(model, at.date().isoformat()) if isinstance(model, str) and at is not None else None
        counts = (data.get(name) for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h"))
        return 0.0 if price is None else price.compute_cost(TokenCounts(*(each if isinstance(each, int) else 0 for each in counts))) / PICO

    @property
    def can_choose_session(self) -> bool:
        """Whether a session's id is ours to choose."""
        program = registry.find_program(self.harness.name)
        return self.harness.has_sessions and not (program is not None and program.chooses_sessions)

    def render_memory(self, about: str) -> str:
        """What the agent remembers of other goals, nearest to this one first. Blocks."""
        return "" if self.memory is None else self.memory.render_plain(MAX_MEMORY_CHARS, about=about)

    def diff_since_start(self, goal: GoalState) -> str:
        """What changed in the workspace since the goal began. Blocks."""
        return self.workspace.diff(goal.first_checkpoint).stat if goal.first_checkpoint else ""
