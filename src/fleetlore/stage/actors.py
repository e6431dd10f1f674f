"""Who answers for whom: the prompter where an agent has a script, and minds opened by their addresses for the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from fleetlore.models.base import Mind
from fleetlore.models.open import open_mind
from fleetlore.stage.scenario import Scenario
from fleetlore.stage.scripted_agents import NAME, Cue, Prompter

SCRIPTED = ("scripted", "scripted:", NAME)
"""Addresses that mean the scenario's own words."""


class Troupe:
    """The minds of a cast; whoever has none is prompted."""

    def __init__(self, minds: Mapping[str, Mind]) -> None:
        self._minds = minds

    def name_of(self, agent: str) -> str:
        """What its mind is called."""
        mind = self._minds.get(agent)
        return NAME if mind is None else mind.name

    def mind_for(self, cue: Cue) -> Mind:
        """Who answers in this turn."""
        return self._minds.get(cue.manifest.name) or Prompter(cue)


def addresses(scenario: Scenario, override: str | None = None) -> dict[str, str]:
    """Name → the address of its mind; one for all, where that is asked for."""
    return {manifest.name: override or manifest.mind for manifest in scenario.cast}


@asynccontextmanager
async def troupe_of(scenario: Scenario, override: str | None = None) -> AsyncIterator[Troupe]:
    """The minds of a scenario, opened once each."""
    wanted = addresses(scenario, override)
    async with AsyncExitStack() as stack:
        opened: dict[str, Mind] = {}
        for address in dict.fromkeys(wanted.values()):
            if address not in SCRIPTED:
                # Its client library takes a second or two to load: nobody else is to wait for that.
                mind = await asyncio.to_thread(open_mind, address)
                opened[address] = await stack.enter_async_context(mind)
        yield Troupe({name: opened[address] for name, address in wanted.items() if address in opened})
