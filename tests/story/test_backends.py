"""The same events give the same brief and the same story on every backend, whatever the order in which they were stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from fleetlore import Event, connect
from fleetlore.projections.runner import Runner
from fleetlore.projections.time_index import TIME_INDEX_VIEW
from fleetlore.story import reading
from fleetlore.story.brief_formats import FORMATS as BRIEF_FORMATS
from fleetlore.story.story_formats import FORMATS, STREAMS
from fleetlore.views.outcomes.rules import default_rules
from tests.contract.conftest import BACKENDS, address
from tests.story.fleets import START, make_events, make_fleet_day

NOW = START + timedelta(days=1)
AGENT = "claude-code/5e551011"


def make_log() -> list[Event]:
    """A session, and a day of a fleet of which a part is stored late."""
    who = {"run": "5e551011-aaaa"}
    session = make_events(
        ("session.started", AGENT, {**who, "data": {"project": "app", "program": "claude-code"}}),
        ("prompt.submitted", AGENT, {**who, "text": "Fix the parser", "data": {"prompt": "Fix the parser"}}),
        ("session.turn_ended", AGENT, {**who, "text": "The parser accepts tabs now."}),
        first_id=10_000,
    )
    return [*session, *make_fleet_day(600)]


def write_all(url: str, stored: Sequence[Event]) -> dict[str, str]:
    with connect(url).blocking() as log:
        log.append_all(stored)
        index = Runner(log, TIME_INDEX_VIEW).catch_up().state
        found = reading.read_records(log, now=NOW, zone=UTC, rules=default_rules(), newest_day=True)
        events = reading.PeriodEvents(log, index, since=found.since, until=found.until)
        book = reading.read_book(events, found, index, UTC)
        texts = {
            detail: FORMATS["json"](reading.make_period_story(found, UTC, book=book, detail=detail)) for detail in ("headline", "story")
        }
        full = "".join(STREAMS["json"](reading.write_full_story(events, "Monday", found, UTC)))
        return {**texts, "full": full, "brief": BRIEF_FORMATS["json"](reading.make_period_brief(found, UTC))}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_the_same_text(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stored = make_log()
    written = write_all(address(backend, request, tmp_path), stored)
    assert written == write_all("memory:", sorted(stored, key=lambda event: event.at or START))
    assert "The parser accepts tabs now" in written["story"]
