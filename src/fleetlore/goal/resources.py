"""What one goal needs while it runs, and how it is opened: harness, workspace, acceptance checker, models, memory and prices.

`driver.py` uses the resources. The protocols name only what it calls, so that tests can pass stubs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from fleetlore import clock
from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal, LlmJudge, Verdict
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import Plan, read_plan
from fleetlore.goal import harnesses
from fleetlore.goal.acceptance.check import AcceptanceChecker
from fleetlore.goal.acceptance.judging_copy import TouchedFile
from fleetlore.goal.gate.decision import Decider
from fleetlore.goal.gate.permissions import InProcessGate
from fleetlore.goal.memory.folder import MemoryFolder, find_memory_folder
from fleetlore.goal.workspace.workspace import Workspace, open_workspace
from fleetlore.kernel.recorded_model import price_reply
from fleetlore.models.base import Model, ModelReply
from fleetlore.models.open import open_model
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


# --- opening


@asynccontextmanager
async def open_resources(
    goal: Goal,
    *,
    home: str,
    environ: Mapping[str, str] = os.environ,
    deciders: Sequence[Decider] = (),
    prices: Prices | None = None,
    expect: str | None = None,
) -> AsyncIterator[GoalResources]:
    """Open everything that the goal needs, and close it on exit.

    Raises `Invalid` if something is missing or wrong, before any work starts. `home` is the folder for workspaces and
    memories of goals. `expect` is the digest of the protected files that the log of a resumed goal recorded
    (`GoalState.verifiers`).
    """
    plan, price_table = read_plan(goal), prices or Prices()
    gate = InProcessGate(deciders)
    async with AsyncExitStack() as stack:
        pool = _ModelPool(stack, environ)
        agent_model = await pool.open(plan.mind) if plan.mind else None
        judge = await pool.open(plan.judge) if plan.judge else agent_model
        thinker = await pool.open(plan.memory.mind) if plan.memory and plan.memory.mind else agent_model
        _require_models(goal, plan, judge=judge, thinker=thinker, agent_model=agent_model)
        workspace = await asyncio.to_thread(open_workspace, goal.id, plan, goal.workspace or "", home)
        stack.callback(workspace.close)
        yield GoalResources(
            harness=_create_harness(plan, agent_model, workspace, gate, environ, price_table),
            workspace=workspace,
            verifiers=await asyncio.to_thread(AcceptanceChecker.capture, goal, plan, workspace, expect=expect),
            tool_gate=gate,
            judge=judge,
            memory=None if plan.memory is None else find_memory_folder(plan.memory, plan.agent, home),
            thinker=thinker,
            prices=price_table,
        )


class _ModelPool:
    """Opens each model address once."""

    def __init__(self, stack: AsyncExitStack, environ: Mapping[str, str]) -> None:
        self._stack, self._environ, self._models = stack, environ, dict[str, Model]()

    async def open(self, address: str) -> Model:
        if address not in self._models:
            model = await asyncio.to_thread(open_model, address, environ=self._environ)  # importing its library may take seconds
            self._models[address] = await self._stack.enter_async_context(model)
        return self._models[address]


def _require_models(goal: Goal, plan: Plan, *, judge: Model | None, thinker: Model | None, agent_model: Model | None) -> None:
    if plan.harness == "mind" and agent_model is None:
        raise Invalid('harness "mind" needs a `mind`, such as mind = "anthropic:claude-sonnet-5"')
    if judge is None and any(isinstance(each, LlmJudge) for each in goal.acceptance):
        raise Invalid('a criterion is judged by a model; name it with `judge`, such as judge = "openai:gpt-5-mini"')
    if thinker is None and plan.memory is not None and plan.memory.enabled:
        raise Invalid("[memory] needs a model that writes memories; name it with `mind` in that table")
    if plan.harness == "command" and not plan.command:
        raise Invalid('harness "command" needs a `command`, such as command = ["./agent.sh"]')


def _create_harness(
    plan: Plan, model: Model | None, workspace: Workspace, gate: InProcessGate, environ: Mapping[str, str], prices: Prices
) -> Harness:
    match plan.harness:
        case "command":
            from fleetlore.programs.command import KEPT_VARIABLES, CommandHarness

            return CommandHarness(plan.command, environ=environ, keep=(*KEPT_VARIABLES, *plan.variables))
        case "mind":
            assert model is not None
            return _create_model_harness(plan, model, workspace, gate, environ, prices)
    return harnesses.create_harness(plan, environ)


def _create_model_harness(
    plan: Plan, model: Model, workspace: Workspace, gate: InProcessGate, environ: Mapping[str, str], prices: Prices
) -> Harness:
    from fleetlore.goal.gate.rules import ToolRules
    from fleetlore.goal.model_harness import ModelHarness

    model_name = plan.model or model.name.partition(":")[2]

    rules = ToolRules(plan.permissions.allow, plan.permissions.deny, workspace=workspace.path)
    others_decide = plan.permissions.ask or bool(gate.deciders)

    def cost(input: int, output: int) -> float | None:
        price = prices.find_price(model_name, clock.now().date().isoformat())
        return None if price is None else price.compute_cost(TokenCounts(input, output, 0, 0)) / PICO

    def with_price(reply: ModelReply) -> ModelReply:
        return price_reply(reply, prices)

    return ModelHarness(
        model,
        folder=os.path.join(workspace.folder, "sessions"),
        permit=gate.permit,
        is_offered=lambda tool: rules.may_allow(tool, others_decide=others_decide),
        window=plan.compaction.context_window or 200_000,
        environ=environ,
        keep=plan.variables,
        add_price=with_price,
        estimate_cost=cost,
    )
