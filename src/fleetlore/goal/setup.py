"""From a goal's plan to its crew: the agent's program or mind, its workspace, those who check, and its memory."""

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
from fleetlore.goal.memory.folder import memory_folder_of
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
    """All that the goal needs; what is missing or wrong is said before anything is begun. `home` is where goals keep what is theirs.

    `expect` is what the log of a goal that is taken up again says of the files that check it: `GoalState.verifiers`.
    """
    plan, table = plan_of(goal), prices or Prices()
    doorkeeper = InProcessGate(deciders)
    async with AsyncExitStack() as stack:
        minds = _ModelPool(stack, environ)
        own = await minds.open(plan.mind) if plan.mind else None
        judge = await minds.open(plan.judge) if plan.judge else own
        thinker = await minds.open(plan.memory.mind) if plan.memory and plan.memory.mind else own
        _require_models(goal, plan, judge=judge, thinker=thinker, own=own)
        workspace = await asyncio.to_thread(open_workspace, goal.id, plan, goal.workspace or "", home)
        stack.callback(workspace.close)
        yield GoalResources(
            harness=_create_harness(plan, own, workspace, doorkeeper, environ, table),
            workspace=workspace,
            verifiers=await asyncio.to_thread(AcceptanceChecker.capture, goal, plan, workspace, expect=expect),
            tool_gate=doorkeeper,
            judge=judge,
            memory=None if plan.memory is None else memory_folder_of(plan.memory, plan.agent, home),
            thinker=thinker,
            prices=table,
        )


class _ModelPool:
    """Opens each address once."""

    def __init__(self, stack: AsyncExitStack, environ: Mapping[str, str]) -> None:
        self._stack, self._environ, self._models = stack, environ, dict[str, Model]()

    async def open(self, address: str) -> Model:
        if address not in self._models:
            mind = await asyncio.to_thread(open_model, address, environ=self._environ)  # its library may take seconds to load
            self._models[address] = await self._stack.enter_async_context(mind)
        return self._models[address]


def _require_models(goal: Goal, plan: Plan, *, judge: Model | None, thinker: Model | None, own: Model | None) -> None:
    if plan.harness == "mind" and own is None:
        raise Invalid('harness "mind" needs a `mind`, such as mind = "anthropic:claude-sonnet-5"')
    if judge is None and any(isinstance(each, LlmJudge) for each in goal.acceptance):
        raise Invalid('a criterion is judged by a model; say which with `judge`, such as judge = "openai:gpt-5-mini"')
    if thinker is None and plan.memory is not None and plan.memory.enabled:
        raise Invalid("[memory] needs a mind that says what is worth keeping; name it with `mind` in that table")
    if plan.harness == "command" and not plan.command:
        raise Invalid('harness "command" needs a `command`, such as command = ["./agent.sh"]')


def _create_harness(
    plan: Plan, mind: Model | None, workspace: Workspace, doorkeeper: InProcessGate, environ: Mapping[str, str], prices: Prices
) -> Harness:
    match plan.harness:
        case "command":
            from fleetlore.programs.command import KEPT_VARIABLES, CommandHarness

            return CommandHarness(plan.command, environ=environ, keep=(*KEPT_VARIABLES, *plan.variables))
        case "mind":
            assert mind is not None
            return _create_model_harness(plan, mind, workspace, doorkeeper, environ, prices)
    return harnesses.create_harness(plan, environ)


def _create_model_harness(
    plan: Plan, mind: Model, workspace: Workspace, doorkeeper: InProcessGate, environ: Mapping[str, str], prices: Prices
) -> Harness:
    from fleetlore.goal.model_harness import ModelHarness

    model = plan.model or mind.name.partition(":")[2]

    def cost(input: int, output: int) -> float | None:
        price = prices.find_price(model, clock.now().date().isoformat())
        return None if price is None else price.compute_cost(TokenCounts(input, output, 0, 0)) / PICO

    def with_price(reply: ModelReply) -> ModelReply:
        return price_reply(reply, prices)

    return ModelHarness(
        mind,
        folder=os.path.join(workspace.folder, "sessions"),
        permit=doorkeeper.permit,
        window=plan.compaction.context_window or 200_000,
        environ=environ,
        keep=plan.variables,
        add_price=with_price,
        estimate_cost=cost,
    )
