"""The same events are told in the same words, wherever they are kept and in whatever order they were stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.chronicle.formats.text import Text
from fleetlore.chronicle.narrate import Telling
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.teller import Tale, tell
from fleetlore.projections.chronology import Chronology
from tests.chronicle.scripts import KINDS, START, events
from tests.chronicle.telling import told
from tests.contract.conftest import BACKENDS, address

DEEDS = [beat for beat, (kind, _) in KINDS.items() if not kind.startswith("driver.")]
"""Those that a log takes without any data."""


def story(count: int = 1500) -> list[Event]:
    """Several agents on several tasks, over two days; a fifth of it is stored late."""
    chance = Random(20261116)
    words = " ".join(f"{chance.choice(('ada', 'bo', 'cy'))}:{chance.choice(DEEDS)}" for _ in range(count))
    placed = [
        replace(event, task=f"t{chance.randrange(20)}", mission=chance.choice((None, "m1", "m2")), text=chance.choice((None, "so it goes")))
        for event in events(words, minutes=1.5)
    ]
    late = timedelta(hours=3)
    return sorted(placed, key=lambda event: (event.at or START) + late * (chance.random() < 0.2))


def told_from(url: str, stored: Sequence[Event]) -> str:
    overview = Overview()
    with connect(url).blocking() as log, Chronology(log, "town") as chronology:
        log.append_all(stored)
        chronology.scan_events(overview.see)
        return "".join(tell(Tale(overview, chronology.iterate_in_order()), Telling("full"), Text(detail="full")))


def test_what_is_seen_some_at_a_time_is_what_is_seen_one_by_one() -> None:
    one_by_one, at_once = Overview(), Overview()
    with connect("memory:").blocking() as log, Chronology(log, "town") as first, Chronology(log, "town") as second:
        log.append_all(story())
        first.scan_events(one_by_one.see)
        second.scan_batches(at_once.see_all)
        assert list(first.iterate_in_order()) == list(second.iterate_in_order())
    assert at_once.summary(0) == one_by_one.summary(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_tells_the_same(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stored = story()
    assert told_from(address(backend, request, tmp_path), stored) == told(stored, detail="full")
