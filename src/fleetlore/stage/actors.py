"""Who answers for whom: the prompter where an agent has a script, and minds opened by their addresses for the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from fleetlore.models.base import Model
from fleetlore.models.open import open_model
from fleetlore.stage.scenario import StageScenario
from fleetlore.stage.scripted_agents import SCRIPTED_MODEL_NAME, ScriptContext, ScriptedAgentModel

SCRIPTED_ADDRESSES = ("scripted", "scripted:", SCRIPTED_MODEL_NAME)
"""Addresses that mean the scenario's own words."""


class StageModels:
    """The minds of a cast; whoever has none is prompted."""

    def __init__(self, minds: Mapping[str, Model]) -> None:
        self._models = minds

    def model_name(self, agent: str) -> str:
        """What its mind is called."""
        mind = self._models.get(agent)
        return SCRIPTED_MODEL_NAME if mind is None else mind.name

    def select_model(self, cue: ScriptContext) -> Model:
        """Who answers in this turn."""
        return self._models.get(cue.manifest.name) or ScriptedAgentModel(cue)


def model_addresses(scenario: StageScenario, override: str | None = None) -> dict[str, str]:
    """Name → the address of its mind; one for all, where that is asked for."""
    return {manifest.name: override or manifest.mind for manifest in scenario.cast}


@asynccontextmanager
async def open_stage_models(scenario: StageScenario, override: str | None = None) -> AsyncIterator[StageModels]:
    """The minds of a scenario, opened once each."""
    wanted = model_addresses(scenario, override)
    async with AsyncExitStack() as stack:
        opened: dict[str, Model] = {}
        for address in dict.fromkeys(wanted.values()):
            if address not in SCRIPTED_ADDRESSES:
                # Its client library takes a second or two to load: nobody else is to wait for that.
                mind = await asyncio.to_thread(open_model, address)
                opened[address] = await stack.enter_async_context(mind)
        yield StageModels({name: opened[address] for name, address in wanted.items() if address in opened})
