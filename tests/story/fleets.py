"""Events of fleets, towns and goals for tests of the story."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from fleetlore import Event

START = datetime(2026, 11, 16, 9, tzinfo=UTC)


def make_events(*rows: tuple[str, str, dict[str, Any]], minutes: float = 1, first_id: int = 1) -> list[Event]:
    """Events of (kind, agent, fields), some minutes apart."""
    return [
        Event(
            id=make_id(first_id + number - 1),
            kind=kind,
            actor=agent or "nobody",
            agent=agent or None,
            at=START + timedelta(minutes=minutes * number),
            **fields,
        )
        for number, (kind, agent, fields) in enumerate(rows, 1)
    ]


def make_id(number: int) -> str:
    return str(UUID(int=(7 << 76) | (2 << 62) | number))


def make_fleet_day(count: int = 600, agents: int = 5, tasks: int = 8, seed: int = 20261116) -> list[Event]:
    """Several agents on several tasks over a day; a fifth of it is stored late."""
    chance = Random(seed)
    events = list(_fleet_rows(chance, count, agents, tasks))
    late = timedelta(hours=3)
    return sorted(events, key=lambda event: (event.at or START) + late * (chance.random() < 0.2))


def _fleet_rows(chance: Random, count: int, agents: int, tasks: int) -> Iterator[Event]:
    kinds = (
        "fleet.dispatch",
        "fleet.commit",
        "fleet.commit",
        "fleet.push",
        "fleet.error",
        "fleet.recovery",
        "fleet.heartbeat",
        "fleet.idle",
    )
    for number in range(count):
        agent = f"agent-{chance.randrange(agents)}"
        task = f"t{chance.randrange(tasks)}" if tasks and chance.random() < 0.5 else None
        text = chance.choice((None, "Parse tabs", "Store results", "Rename the flag"))
        at = START + timedelta(seconds=40 * number)
        yield Event(id=make_id(number), kind=chance.choice(kinds), actor=agent, agent=agent, task=task, text=text, at=at)
