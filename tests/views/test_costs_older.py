"""Costs of an endless log: the newest tasks and sessions are listed, older ones are in every sum, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all

from fleetlore.events.envelope import Event
from fleetlore.views import costs
from fleetlore.views.cost_sums import (
    COST_DIMENSIONS,
    RUN_DIMENSIONS,
    find_unpriced_models,
    iterate_older_lines,
    sum_by,
    sum_by_agent,
    sum_by_dimensions,
    sum_total,
)
from fleetlore.views.costs import MAX_HELD_ENTRIES, PRUNED_EVERY, Costs, Spending
from tests.views.test_costs import NOON, PRICE, folded, reply, streams

EXACT = ("agent", *(dimension for dimension in COST_DIMENSIONS if dimension not in RUN_DIMENSIONS))


def finished(tasks: int) -> Iterator[Event]:
    """So many tasks of ten agents, eight in a session, one a second."""
    for number in range(tasks):
        agent, run = f"agent-{number % 10}", f"run-{number % 10}-{number // 80}"
        at = NOON + timedelta(seconds=number % 3_600)
        if number % 80 < 10:
            yield Event(kind="session.started", at=at, agent=agent, run=run, data={"project": f"p{number % 3}"})
        yield reply(at=at, agent=agent, run=run, task=f"t{number}")


def size(spending: Spending) -> int:
    return len(msgspec.json.encode(spending))


def test_a_hundred_thousand_finished_tasks_leave_as_much_behind_as_ten_thousand_do() -> None:
    some, many = folded(finished(10_000)), folded(finished(100_000))
    assert size(many) < size(some) * 1.1
    assert sum(run.size for run in many.runs.values()) <= MAX_HELD_ENTRIES + PRUNED_EVERY
    assert sum_total(many).input == 100_000 * 1_000


def test_the_newest_tasks_are_told_apart_and_the_older_ones_are_one_sum() -> None:
    spending = folded(finished(20_000))
    sums = sum_by(spending, "task")
    older = sum(line.cell.amount.pico for line in iterate_older_lines(spending))
    assert sums["t19999"].usd == PRICE
    assert "t0" not in sums
    assert sums[None].pico == older > 0
    assert sum(amount.pico for amount in sums.values()) == sum_total(spending).pico


@pytest.mark.parametrize("dimension", EXACT)
def test_sums_are_the_same_as_if_all_were_told_apart(dimension: str) -> None:
    spending, whole = folded(finished(12_000)), folded(finished(12_000), Costs().unpruned)
    assert spending.older
    assert not whole.older
    for other in EXACT:
        assert sum_by_dimensions(spending, (dimension, other)) == sum_by_dimensions(whole, (dimension, other))  # type: ignore[arg-type]
    assert len(sum_by(whole, "task")) == 12_000, "which knows every one"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@for_all(streams())
def test_whatever_comes_no_reply_is_lost_or_counted_twice(monkeypatch: pytest.MonkeyPatch, recorded: list[Event]) -> None:
    monkeypatch.setattr(costs, "PRUNED_EVERY", 2)
    spending, whole = folded(recorded, Costs(most_held=4)), folded(recorded, Costs().unpruned)
    for dimension in ("agent", "day", "model"):
        assert sum_by(spending, dimension) == sum_by(whole, dimension)
    assert sum_by_agent(spending) == sum_by_agent(whole)
    assert (sum_total(spending), find_unpriced_models(spending)) == (sum_total(whole), find_unpriced_models(whole))
    again = msgspec.json.decode(msgspec.json.encode(spending), type=Spending)
    assert sum_by_dimensions(again, COST_DIMENSIONS) == sum_by_dimensions(spending, COST_DIMENSIONS)


def test_one_session_that_never_ends_is_held_by_its_newest_quarters_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "PRUNED_EVERY", 10)
    recorded = [reply(at=NOON + timedelta(minutes=15 * n), task=f"t{n}" if n % 2 else None) for n in range(1_000)]
    spending = folded(recorded, Costs(most_held=100))
    assert sum(run.size for run in spending.runs.values()) <= 100 + 10
    assert (sum_by(spending, "task")["t997"].usd, sum_total(spending).input) == (2 * PRICE, 1_000_000), (
        "with the quarter after it, still bound to it"
    )
    assert sum_by(spending, "day") == sum_by(folded(recorded), "day")


def test_what_was_printed_of_older_sessions_is_put_down_to_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "PRUNED_EVERY", 2)
    recorded = [reply(run=f"r{n}", source="exec") for n in range(20)]
    spending = folded(recorded, Costs(most_held=4))
    assert spending.older
    assert sum_by_agent(spending)["ada"].input == sum_by(spending, "agent")["ada"].input == 20_000


def test_sessions_of_years_leave_little_more_behind_than_those_of_months() -> None:
    def sessions(days: int) -> Iterator[Event]:
        for number in range(days * 24):
            yield reply(at=NOON + timedelta(hours=number), agent=f"claude-code/{number:08x}", run=f"{number:08x}")

    months, years = folded(sessions(100), Costs(most_held=500)), folded(sessions(700), Costs(most_held=500))
    assert size(years) < size(months) * 1.5
    assert sum_total(years).input == 700 * 24 * 1_000
    assert sum_by(years, "day") == sum_by(folded(sessions(700), Costs().unpruned), "day"), "days in UTC are exact"
    assert sum_by(years, "agent")[None].input > 600 * 24 * 1_000, "agents of older sessions are one sum"
    assert sum_by_agent(years)[f"claude-code/{700 * 24 - 1:08x}"].input == 1_000


def test_prices_and_the_whole_have_checkpoints_of_their_own() -> None:
    view = Costs()
    assert view.unpruned.name != view.name
    assert view.unpruned.unpruned is view.unpruned is view.unpruned
