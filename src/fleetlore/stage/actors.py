"""Opens the models of a cast: by address, or scripted for agents that play from their script. The conductor asks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from fleetlore.models.base import Model
from fleetlore.models.open import open_model
from fleetlore.stage.scenario import StageScenario
from fleetlore.stage.scripted_agents import SCRIPTED_MODEL_NAME, ScriptContext, ScriptedAgentModel

SCRIPTED_ADDRESSES = ("scripted", "scripted:", SCRIPTED_MODEL_NAME)
"""Addresses that mean the agent's script in the scenario."""


class StageModels:
    """The models of a cast; agents without one answer from their script."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models

    def model_name(self, agent: str) -> str:
        """The name of an agent's model."""
        model = self._models.get(agent)
        return SCRIPTED_MODEL_NAME if model is None else model.name

    def select_model(self, context: ScriptContext) -> Model:
        """The model that answers this turn."""
        return self._models.get(context.manifest.name) or ScriptedAgentModel(context)


def model_addresses(scenario: StageScenario, override: str | None = None) -> dict[str, str]:
    """Agent name → address of its model; `override` is used for all agents."""
    return {manifest.name: override or manifest.mind for manifest in scenario.cast}


@asynccontextmanager
async def open_stage_models(scenario: StageScenario, override: str | None = None) -> AsyncIterator[StageModels]:
    """Open the models of a scenario, each address once; they are closed on exit."""
    addresses = model_addresses(scenario, override)
    async with AsyncExitStack() as stack:
        opened: dict[str, Model] = {}
        for address in dict.fromkeys(addresses.values()):
            if address not in SCRIPTED_ADDRESSES:
                # In a thread: importing the client library takes a second or two.
                model = await asyncio.to_thread(open_model, address)
                opened[address] = await stack.enter_async_context(model)
        yield StageModels({name: opened[address] for name, address in addresses.items() if address in opened})
