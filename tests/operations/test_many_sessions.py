"""A log with more sessions than the views keep apart: the older ones are found by their ids, and costs are right to the cent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.errors import AmbiguousName
from fleetlore.operations import costs as operation
from fleetlore.operations.context import OperationContext, open_context
from fleetlore.operations.costs import CostReport, ReadCosts, report_costs
from fleetlore.operations.sources import resolve_scope
from fleetlore.views import costs, names

START = datetime(2026, 11, 1, tzinfo=UTC)
SESSIONS = 60


def run_of(number: int) -> str:
    return f"{number // 2:04x}{number:04x}-0000-4000-8000-000000000000"


def a_session(number: int) -> Iterator[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{run_of(number)[:8]}", "run": run_of(number)}
    at = START + timedelta(hours=number)
    yield Event(kind="session.started", at=at, data={"cwd": f"/home/mira/src/shop-{number % 2}", "project": f"shop-{number % 2}"}, **who)
    yield Event(kind="prompt.submitted", at=at, text="Round the total", data={"prompt": "Round the total"}, **who)
    yield Event(kind="model.replied", at=at + timedelta(minutes=1), data={"model": "m", "input": 10, "output": 1, "usd": 0.5}, **who)
    yield Event(kind="session.turn_ended", at=at + timedelta(minutes=2), text="Done.", **who)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperationContext]:
    monkeypatch.setattr(names, "MAX_AGENTS", 10)
    monkeypatch.setattr(names, "PRUNED_EVERY", 3)
    monkeypatch.setattr(costs.Costs.__init__, "__kwdefaults__", {"most_held": 20})
    monkeypatch.setattr(costs, "PRUNED_EVERY", 3)
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="mira") as opened:
        for number in range(SESSIONS):
            opened.log.append(list(a_session(number)))
        with opened.source.open_view("costs") as (spending, _):
            assert spending.older
        yield opened


@pytest.mark.parametrize("typed", [run_of(3)[:8], run_of(3)[:12], f"claude-code/{run_of(3)[:8]}"])
def test_an_old_session_is_found_by_its_id(context: OperationContext, typed: str) -> None:
    assert resolve_scope(context.source, f"run:{typed}") == f"run:{run_of(3)}"


def test_an_id_that_several_old_sessions_have_is_ambiguous(context: OperationContext) -> None:
    with pytest.raises(AmbiguousName):
        resolve_scope(context.source, f"run:{run_of(3)[:6]}")


def report(context: OperationContext, by: str, scope: str = "town", since: datetime | None = None) -> CostReport:
    return report_costs(context, ReadCosts(by=by, since=since), scope)


@pytest.mark.parametrize("most_read", [1000, 2])
def test_costs_of_a_period_know_the_projects_of_old_sessions(
    context: OperationContext, monkeypatch: pytest.MonkeyPatch, most_read: int
) -> None:
    monkeypatch.setattr(operation, "MOST_READ_RUNS", most_read)
    found = report(context, "project", since=START + timedelta(hours=SESSIONS - 50))
    assert {row.key: row.amount.usd for row in found.rows} == {"shop-0": 12.5, "shop-1": 12.5}


def test_costs_of_one_old_session_and_of_each_agent_are_known(context: OperationContext) -> None:
    [row] = report(context, "model", f"run:{run_of(3)}").rows
    assert row.amount.usd == 0.5
    assert len(report(context, "agent").rows) == SESSIONS
    assert report(context, "day").total.usd == SESSIONS * 0.5
