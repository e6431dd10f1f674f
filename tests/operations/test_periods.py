"""The brief names everybody who waits now, as Now does: also goals and agents of a town, which are no sessions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from fleetlore import Event
from fleetlore.operations.context import OperationContext, open_context
from fleetlore.operations.fleet import ReadFleet, read_fleet
from fleetlore.operations.periods import ReadBrief, make_brief, read_brief

NOW = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperationContext]:
    monkeypatch.chdir(tmp_path)
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="mira", now=lambda: NOW) as made:
        made.log.append(
            [
                Event(kind="prompt.submitted", agent="ada", run="s1", at=NOW - timedelta(minutes=21), data={"prompt": "Ship it"}),
                asks("ada", "May I push?", minutes=20, run="s1"),
                asks("kaya", "may it use shell: make release?", minutes=10),
                Event(
                    kind="town.mission_help_needed",
                    actor="dispatcher",
                    text="No key for staging",
                    at=NOW - timedelta(minutes=5),
                    mission="rate-limits",
                ),
            ]
        )
        yield made


def asks(agent: str, text: str, *, minutes: int, run: str | None = None) -> Event:
    return Event(kind="session.waiting", agent=agent, run=run, text=text, at=NOW - timedelta(minutes=minutes), data={"why": "permission"})


def test_the_brief_of_today_has_a_line_for_everybody_whom_now_counts(context: OperationContext) -> None:
    fleet = read_fleet(context, ReadFleet())
    brief = read_brief(context, ReadBrief(day=NOW.date())).brief
    assert fleet.counts["needs you"] + len(fleet.asking) == len(brief.needs_you) == 3
    assert [line.text for line in brief.needs_you[1:]] == [
        "kaya: may it use shell: make release?",
        "Mission rate-limits asks for help: No key for staging",
    ]
    [source] = brief.needs_you[1].evidence
    assert [found.agent for found in context.log.get([source.event])] == ["kaya"]
    assert make_brief(context, ReadBrief(day=NOW.date())) == brief


def test_a_brief_of_another_day_or_of_one_agent_has_only_its_own(context: OperationContext) -> None:
    assert read_brief(context, ReadBrief(day=date(2026, 11, 16))).brief.needs_you == []
    assert len(read_brief(context, ReadBrief(day=NOW.date(), agent="ada")).brief.needs_you) == 1
