"""Costs as a fold: what is counted, to whom it is put down, and that no order of arrival changes it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from fleetlore.events.envelope import Event, LogPlace, Origin
from fleetlore.views import costs
from fleetlore.views.cost_sums import (
    COST_DIMENSIONS,
    CostDimension,
    find_unpriced_models,
    restrict_spending,
    sum_by,
    sum_by_agent,
    sum_total,
)
from fleetlore.views.costs import Costs, Spending
from fleetlore.views.prices import Prices
from tests.strategies import events, json_values

NOON = datetime(2026, 11, 14, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPUS = {"model": "claude-opus-4-8", "input": 1_000, "output": 100}
PRICE = 0.0075
"""Of that reply."""


def reply(at: datetime = NOON, agent: str = "ada", run: str | None = "r1", task: str | None = None, **data: Any) -> Event:
    return Event(kind="model.replied", at=at, agent=agent, actor=agent, run=run, task=task, data=OPUS | data)


def folded(recorded: Iterable[Event], view: Costs | None = None) -> Spending:
    view = view or Costs()
    spending = view.initial()
    for event in recorded:
        spending = view.apply(spending, event)
    return spending


def spent(spending: Spending, dimension: CostDimension) -> dict[str | None, float | None]:
    return {key: amount.usd for key, amount in sum_by(spending, dimension).items()}


def everything(spending: Spending) -> Any:
    """All that can be read of costs."""
    assert sum_by_agent(spending) == {agent: amount for agent, amount in sum_by(spending, "agent").items() if agent is not None}
    return [sum_by(spending, dimension) for dimension in COST_DIMENSIONS], sum_total(spending), find_unpriced_models(spending)


def test_tokens_and_dollars_add_up() -> None:
    spending = folded([reply(cache_read=10_000), reply(cache_write=2_000, cache_write_1h=1_000)])
    amount = sum_total(spending)
    assert (amount.input, amount.output, amount.cache_read, amount.cache_write, amount.cache_write_1h) == (2_000, 200, 10_000, 2_000, 1_000)
    assert amount.usd == pytest.approx(2 * PRICE + 0.005 + 0.00625 + 0.01)


def test_what_the_source_says_that_it_cost_comes_before_the_table() -> None:
    assert sum_total(folded([reply(usd=1.25), reply(usd=0)])).usd == 1.25
    assert sum_total(folded([reply(model="mystery", usd=0.5)])).usd == 0.5
    assert find_unpriced_models(folded([reply(model="mystery", usd=0.5)])) == {}


def test_a_model_without_a_price_is_named_and_never_free() -> None:
    spending = folded([reply(model="mystery"), reply(model=None), reply()])
    assert find_unpriced_models(spending) == {"mystery": 1_100, "unknown": 1_100}
    assert spent(spending, "model") == {"mystery": None, "unknown": None, "claude-opus-4-8": PRICE}
    assert sum_total(spending).usd == PRICE


def test_users_prices_are_counted_with() -> None:
    view = Costs(Prices({"claude-opus-4-8": {"input": 1.0, "output": 10.0}}))
    assert sum_total(folded([reply()], view)).usd == 0.002
    assert view.name != Costs().name, "a checkpoint is not used with other prices"


def test_the_fast_mode_is_a_model_of_its_own() -> None:
    assert spent(folded([reply(speed="fast")]), "model") == {"claude-opus-4-8-fast": 2 * PRICE}


def test_costs_are_reported_by_agent_model_and_session() -> None:
    spending = folded([reply(), reply(agent="bo", run=None), reply(agent="bo", model="claude-haiku-4-5")])
    assert spent(spending, "agent") == {"ada": PRICE, "bo": pytest.approx(PRICE + 0.0015)}
    assert spent(spending, "model") == {"claude-opus-4-8": 2 * PRICE, "claude-haiku-4-5": 0.0015}
    assert spent(spending, "session") == {"r1": pytest.approx(PRICE + 0.0015), None: PRICE}


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        ("UTC", ["2026-11-13", "2026-11-14"]),
        ("Europe/Berlin", ["2026-11-14"]),
        ("Asia/Kathmandu", ["2026-11-14"]),
        ("America/New_York", ["2026-11-13"]),
    ],
)
def test_days_are_those_of_any_time_zone(zone: str, days: list[str]) -> None:
    spending = folded([reply(at=datetime(2026, 11, 13, 23, 30, tzinfo=UTC)), reply(at=datetime(2026, 11, 14, 0, 10, tzinfo=UTC))])
    assert sorted(sum_by(spending, "day", zone=ZoneInfo(zone)), key=str) == days


def test_what_a_session_says_of_itself_holds_for_replies_before_and_after_it() -> None:
    started = Event(kind="session.started", at=NOON, agent="ada", run="r1", data={"project": "app", "person": "mira", "branch": "main"})
    for recorded in ([started, reply()], [reply(), started]):
        assert spent(folded(recorded), "project") == {"app": PRICE}
        assert spent(folded(recorded), "person") == {"mira": PRICE}
    moved = Event(kind="session.started", at=NOON + HOUR, agent="ada", run="r1", data={"project": "web", "person": 7})
    for recorded in ([started, moved, reply()], [moved, reply(), started]):
        assert (spent(folded(recorded), "project"), spent(folded(recorded), "person")) == ({"web": PRICE}, {"mira": PRICE})


def test_a_sub_agent_spends_for_its_session() -> None:
    started = Event(kind="session.started", at=NOON, agent="ada", run="r1", data={"project": "app"})
    assert spent(folded([started, reply(), reply(agent="helper")]), "project") == {"app": 2 * PRICE}


def claim(task: str, at: datetime, run: str = "r1") -> Event:
    return Event(kind="prompt.submitted", at=at, agent="ada", run=run, task=task)


def test_a_run_is_bound_to_a_task_and_what_came_before_belongs_to_it() -> None:
    recorded = [reply(at=NOON - HOUR), claim("t1", NOON), reply(at=NOON + HOUR), reply(run="r2"), reply(task="t9", run="r3")]
    assert spent(folded(recorded), "task") == {"t1": 2 * PRICE, None: PRICE, "t9": PRICE}
    assert spent(folded(reversed(recorded)), "task") == {"t1": 2 * PRICE, None: PRICE, "t9": PRICE}


def test_a_run_that_goes_on_to_another_task_spends_for_that() -> None:
    recorded = [
        claim("t1", NOON),
        reply(at=NOON + HOUR),
        claim("t2", NOON + 2 * HOUR),
        reply(at=NOON + 3 * HOUR),
        reply(at=NOON + 4 * HOUR),
    ]
    assert spent(folded(recorded), "task") == {"t1": PRICE, "t2": 2 * PRICE}
    assert spent(folded(reversed(recorded)), "task") == {"t1": PRICE, "t2": 2 * PRICE}


def test_a_part_of_a_reply_counts_until_the_whole_of_it_comes() -> None:
    part = reply(output=1, partial=True, message_id="m1", request_id="q1")
    longer = reply(output=60, partial=True, message_id="m1", request_id="q1")
    whole = reply(message_id="m1", request_id="q1")
    other = reply(message_id="m1", request_id="q2")
    assert sum_total(folded([part])).output == 1
    assert sum_total(folded([longer, part])).output == 60
    spending = folded([part, other, longer, whole])
    assert (sum_total(spending).output, spending.open) == (200, {})
    by_id = folded([reply(output=1, partial=True, whole="x"), msgspec.structs.replace(reply(), id="x")])
    assert sum_total(by_id).output == 100, "where the source names no message, the whole's id is known beforehand"


def test_a_part_that_comes_after_its_whole_counts_for_nothing() -> None:
    part = reply(output=1, partial=True, message_id="m1", request_id="q1")
    whole = reply(message_id="m1", request_id="q1")
    assert everything(folded([whole, part])) == everything(folded([part, whole]))
    named = msgspec.structs.replace(reply(message_id="m2"), id="x")
    assert sum_total(folded([named, reply(output=1, partial=True, whole="x")])).output == 100


def test_a_model_with_any_name_is_one_of_its_own() -> None:
    recorded = [reply(model="a\x1fb"), reply(model="a", task="b")]
    assert everything(folded(recorded)) == everything(folded(reversed(recorded)))
    assert set(sum_by(folded(recorded), "task")) == {"b"}
    assert set(sum_by(folded(recorded), "model")) == {"a", "a b"}


def test_some_of_the_replies_are_put_down_as_all_events_say() -> None:
    view = Costs()
    part = reply(at=NOON + HOUR, partial=True, message_id="m1")
    recorded = [reply(), claim("t1", NOON), reply(at=NOON + HOUR), part]
    some = restrict_spending(folded(recorded, view), folded(recorded[2:], view))
    assert spent(some, "task") == {"t1": 2 * PRICE}
    whole_came = folded([*recorded, reply(at=NOON + 2 * HOUR, message_id="m1")], view)
    assert spent(restrict_spending(whole_came, folded(recorded[2:], view)), "task") == {"t1": PRICE}, "it is counted where its whole is"


def test_what_was_trimmed_away_before_is_counted_once() -> None:
    cut = Event(kind="log.trimmed", at=NOON, position="7", data={"before": "5", "input": 10, "output": 20, "usd": 1.5})
    fresh = folded([msgspec.structs.replace(reply(), position="6"), cut])
    assert (sum_total(fresh).input, sum_total(fresh).usd) == (1_010, 1.5 + PRICE)
    assert spent(fresh, "day") == {"2026-11-14": PRICE, None: 1.5}
    knew_all = folded([msgspec.structs.replace(reply(), position="1"), cut])
    assert sum_total(knew_all).usd == PRICE
    shipped = msgspec.structs.replace(cut, origin=Origin(dialect="x", log=LogPlace(id="other", position="9")))
    assert sum_total(folded([msgspec.structs.replace(reply(), position="6"), shipped])).usd == PRICE, "another log's own affair"
    without_price = msgspec.structs.replace(cut, data={"before": "5", "input": 10})
    assert find_unpriced_models(folded([without_price])) == {"unknown": 10}


def test_memory_does_not_grow_with_replies() -> None:
    spending = folded(reply(at=NOON + timedelta(seconds=n % 3_600), message_id=f"m{n}") for n in range(5_000))
    assert sum(len(run.cells) for run in spending.runs.values()) == 4, "one for each quarter of an hour"
    assert len(msgspec.json.encode(spending)) < 15_000
    assert sum_total(spending).output == 500_000


def test_other_events_that_speak_of_tokens_are_not_counted() -> None:
    recorded = [
        Event(kind="agent.returned", at=NOON, agent="ada", child="bo", run="r1", data={"tokens": 5_000}),
        Event(kind="driver.progress", at=NOON, actor="nexo", goal="g", data={"usage": {"tokens": 5_000}}),
        Event(kind="model.called", at=NOON, agent="ada", data={"prompt_tokens": 5_000}),
    ]
    assert sum_total(folded(recorded)).tokens == 0


@pytest.mark.parametrize("nonsense", [-5, True, "12", 1.5, float("nan"), float("inf"), 10**30, None, [], {}])
def test_a_figure_that_is_none_is_left_out(nonsense: Any) -> None:
    spending = folded([reply(input=nonsense, cache_read=nonsense, cache_write_1h=nonsense, message_id=nonsense, partial=nonsense)])
    assert (sum_total(spending).input, sum_total(spending).output) == (0, 100)
    if isinstance(nonsense, float | int) and not isinstance(nonsense, bool) and 0 <= nonsense < 100:
        return
    assert sum_total(folded([reply(usd=nonsense)])).usd == PRICE


def any_reply() -> st.SearchStrategy[Event]:
    keys = st.sampled_from(["model", "input", "output", "cache_read", "cache_write", "usd", "partial", "message_id", "whole", "speed"])
    data = st.dictionaries(keys, json_values() | st.floats(), max_size=6)
    return st.builds(lambda event, data: msgspec.structs.replace(event, kind="model.replied", data=data), events(), data)


@settings(max_examples=60, deadline=None)
@for_all(st.lists(events() | any_reply(), max_size=6))
def test_no_event_breaks_it_and_the_state_goes_through_json(recorded: list[Event]) -> None:
    spending = folded(recorded)
    again = msgspec.json.decode(msgspec.json.encode(spending), type=Spending)
    assert everything(again) == everything(spending)


AT = st.integers(0, 200).map(lambda quarters: NOON + timedelta(minutes=10 * quarters))


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Replies, sessions and tasks of a few runs, at times that are often the same."""
    runs, tasks = st.sampled_from(["r1", "r2", None]), st.sampled_from(["t1", "t2", None])
    origin = st.none() | st.builds(Origin, dialect=st.just("x"), source=st.sampled_from(["a", "b"]), n=st.integers(1, 3))
    replies = st.builds(
        lambda at, agent, run, task, model, origin, n: msgspec.structs.replace(
            reply(at=at, agent=agent, run=run, task=task, model=model, input=n, message_id=f"w{n}"), origin=origin
        ),
        AT,
        st.sampled_from(["ada", "bo"]),
        runs,
        tasks,
        st.sampled_from(["claude-opus-4-8", "claude-sonnet-4-5", "mystery"]),
        origin,
        st.integers(1, 400_000),
    )
    parts = st.builds(
        lambda at, run, n, m: reply(at=at, run=run, output=n, partial=True, message_id=f"w{m}"),
        AT,
        runs,
        st.integers(0, 9),
        st.integers(0, 2),
    )
    started = st.builds(
        lambda at, run, project, person: Event(
            kind="session.started", at=at, agent="ada", run=run, data={"project": project, "person": person}
        ),
        AT,
        runs,
        st.sampled_from(["app", "web", None]),
        st.sampled_from(["mira", "noor"]),
    )
    claims = st.builds(lambda at, run, task: Event(kind="tool.called", at=at, agent="ada", run=run, task=task), AT, runs, tasks)
    return draw(st.lists(replies | parts | started | claims, max_size=14))


@settings(max_examples=150, deadline=None)
@for_all(streams(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(recorded: list[Event], random: Any) -> None:
    shuffled = list(recorded)
    random.shuffle(shuffled)
    assert everything(folded(shuffled)) == everything(folded(recorded))


def test_the_module_itself_is_a_view_with_the_usual_prices() -> None:
    assert sum_total(costs.apply(costs.initial(), reply())).usd == PRICE


def test_what_a_program_printed_counts_only_where_its_recording_is_not_there() -> None:
    printed = reply(source="exec", input=100, output=10)
    kept = reply(input=60, output=4)
    assert sum_total(folded([printed])).input == 100
    assert sum_total(folded([printed, kept])).input == sum_total(folded([kept, printed])).input == 60


@pytest.mark.parametrize(
    ("data", "project", "person"),
    [
        ({"cwd": "/home/mira/parcel-api", "project": "parcel-api"}, "parcel-api", "mira"),
        ({"cwd": "/Users/mira/parcel-api-worktrees/fix-cap", "project": "fix-cap"}, "parcel-api", "mira"),
        ({"cwd": "/home/runner/work/parcel-api", "project": "parcel-api"}, "parcel-api", None),
        ({"cwd": "/home/mira/parcel-api", "project": "parcel-api", "person": "Mira S."}, "parcel-api", "Mira S."),
        ({"cwd": 7, "project": "parcel-api"}, "parcel-api", None),
    ],
)
def test_project_and_person_follow_from_the_folder(data: dict[str, Any], project: str, person: str | None) -> None:
    spending = folded([Event(kind="session.started", at=NOON, agent="ada", run="r1", data=data), reply(usd=1.0)])
    assert (spent(spending, "project"), spent(spending, "person")) == ({project: 1.0}, {person: 1.0})
