"""Opens the resources that a goal's plan asks for: harness or model, workspace, acceptance checker and memory.

Called by the CLI and the worker before they start a `Driver`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from fleetlore import clock
from fleetlore.errors import Invalid
from fleetlore.events.driver_types import Goal, LlmJudge
from fleetlore.events.goal_plan import Plan, plan_of
from fleetlore.goal import harnesses
from fleetlore.goal.acceptance.check import AcceptanceChecker
from fleetlore.goal.gate.decision import Decider
from fleetlore.goal.gate.permissions import InProcessGate
from fleetlore.goal.memory.folder import find_memory_folder
from fleetlore.goal.resources import GoalResources
from fleetlore.goal.workspace.workspace import Workspace, open_workspace
from fleetlore.kernel.recorded_model import price_reply
from fleetlore.models.base import Model, ModelReply
from fleetlore.models.open import open_model
from fleetlore.programs.harness import Harness
from fleetlore.views.prices import PICO, Prices, TokenCounts


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
    plan, price_table = plan_of(goal), prices or Prices()
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
