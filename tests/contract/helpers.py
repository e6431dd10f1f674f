"""Small events and the ways in which the suite looks at a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fleetlore import Event
from fleetlore.log.async_recorder import Recorder
from tests.patience import PATIENCE


def make_event(text: str = "a commit", **fields: Any) -> Event:
    """An event that says only what the test is about."""
    return Event(**({"kind": "fleet.commit", "actor": "ada", "text": text} | fields))


async def texts(log: Recorder, scope: str = "town", **options: Any) -> list[str | None]:
    """The texts of what a scope holds."""
    return [event.text async for event in log.read(scope, **options)]


async def take(events: AsyncGenerator[Event, None], count: int) -> list[Event]:
    """So many events from a follower; it is closed afterwards."""
    taken: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            taken.append(event)
            if len(taken) == count:
                break
    await events.aclose()
    return taken
