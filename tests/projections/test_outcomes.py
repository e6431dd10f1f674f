"""Rows of sessions in the store: the same as a fold of the whole log, whatever happened in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore.events.envelope import Event
from fleetlore.log.connect import connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.public import list_sessions
from fleetlore.projections import outcomes
from fleetlore.projections.outcomes import OutcomeQuery, list_outcomes
from fleetlore.projections.store import ProjectionStore
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes.rules import OutcomeRules, default_rules
from fleetlore.views.prices import Prices

START = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)
NOW = START + timedelta(days=2)
RULES = default_rules()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path / 'log.db'}?sync=off").blocking() as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProjectionStore]:
    with ProjectionStore(str(tmp_path / "store.db")) as opened:
        yield opened


def a_turn(number: int, minute: int, text: str, *, ends: bool = True) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{number:08}", "run": f"{number:08}-run"}
    at = START + timedelta(minutes=minute)
    events = [
        Event(kind="prompt.submitted", at=at, text=text, data={"prompt": text}, **who),
        Event(kind="model.replied", at=at + timedelta(seconds=5), data={"said": f"{text} is done.", "model": "m", "output": 3}, **who),
    ]
    return [*events, Event(kind="session.turn_ended", at=at + timedelta(seconds=6), text="x", **who)] if ends else events


def listed(
    log: BlockingRecorder, store: ProjectionStore | None, wanted: OutcomeQuery = outcomes.ALL, rules: OutcomeRules = RULES
) -> list[bytes]:
    return list(list_outcomes(log, now=NOW, rules=rules, wanted=wanted, store=store))


def test_rows_are_the_same_as_a_fold(log: BlockingRecorder, store: ProjectionStore) -> None:
    for number in range(5):
        log.append(a_turn(number, number, f"Task {number}"))
        log.append(a_turn(0, 10 + number, f"More {number}", ends=number < 4))
        assert listed(log, store) == listed(log, None)
    assert len(listed(log, store)) == 5


def test_small_chunks_change_nothing(log: BlockingRecorder, store: ProjectionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "CHUNK", 2)
    for number in range(4):
        log.append(a_turn(number % 2, number, f"Task {number}"))
    assert listed(log, store) == listed(log, None)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (OutcomeQuery(since=START + timedelta(minutes=2)), 2),
        (OutcomeQuery(until=START + timedelta(minutes=2)), 2),
        (OutcomeQuery(runs=frozenset(("00000001-run", "nobody"))), 1),
        (OutcomeQuery(since=START + timedelta(minutes=2), runs=frozenset(("00000001-run",))), 0),
    ],
)
def test_a_part_of_them(log: BlockingRecorder, store: ProjectionStore, wanted: OutcomeQuery, expected: int) -> None:
    for number in range(4):
        log.append(a_turn(number, number, f"Task {number}"))
    assert listed(log, store, wanted) == listed(log, None, wanted)
    assert len(listed(log, store, wanted)) == expected


def test_erased_words_are_in_no_row(log: BlockingRecorder, store: ProjectionStore) -> None:
    log.append(a_turn(1, 0, "The secret plan"))
    log.append(a_turn(2, 1, "Another task"))
    assert any(b"secret plan" in row for row in listed(log, store))
    log.erase([event.id or "" for event in log.read("run:00000001-run")], "it was private")
    rows = listed(log, store)
    assert not any(b"secret plan" in row for row in rows)
    assert rows == listed(log, None)
    assert b"secret plan" not in Path(store.path).read_bytes()


def test_other_prices_make_other_rows(log: BlockingRecorder, store: ProjectionStore) -> None:
    log.append(a_turn(1, 0, "A task"))
    listed(log, store)
    dear = default_rules(Costs(Prices({"m": {"input": 1.0, "output": 1_000_000.0}})))
    assert listed(log, store, rules=dear) == listed(log, None, rules=dear)
    assert b'"usd":3.0' in listed(log, store, rules=dear)[0]


def test_a_damaged_row_is_made_again(log: BlockingRecorder, store: ProjectionStore) -> None:
    log.append(a_turn(1, 0, "A task"))
    listed(log, store)
    store.run_write(lambda connection: connection.execute("UPDATE sessions SET state = x'00'"), None)
    log.append(a_turn(1, 5, "More"))
    assert listed(log, store) == listed(log, None)
    assert listed(log, store) == listed(log, None)


def a_task(name: str, minute: int, *kinds: str) -> list[Event]:
    at = START + timedelta(minutes=minute)
    data = {"title": f"Task {name}", "result": "done"}
    return [Event(kind=kind, at=at + timedelta(seconds=place), agent="ada", task=name, data=data) for place, kind in enumerate(kinds)]


PERIODS = [
    OutcomeQuery(clip=True),
    OutcomeQuery(since=START + timedelta(minutes=2), clip=True),
    OutcomeQuery(until=START + timedelta(minutes=2), clip=True),
    OutcomeQuery(since=START + timedelta(minutes=2), until=START + timedelta(minutes=11), clip=True),
    OutcomeQuery(runs=frozenset(["00000000-run"]), tasks=frozenset(["t1"]), since=START + timedelta(minutes=2), clip=True),
]


@pytest.mark.parametrize("wanted", PERIODS)
def test_a_period_is_the_same_with_and_without_rows(log: BlockingRecorder, store: ProjectionStore, wanted: OutcomeQuery) -> None:
    for number in range(4):
        log.append([*a_turn(number, number, f"Task {number}"), *a_task(f"t{number}", number, "fleet.dispatch", "town.task_completed")])
        log.append([*a_turn(0, 10 + number, f"More {number}"), *a_task("t1", 10 + number, "work.reopened")])
        kept = outcomes.read_period(log, now=NOW, rules=RULES, wanted=wanted, store=store)
        assert kept == outcomes.read_period(log, now=NOW, rules=RULES, wanted=wanted)
        assert kept.sessions
        assert kept.tasks


def test_the_newest_time_is_found_in_sessions_and_tasks(log: BlockingRecorder, store: ProjectionStore) -> None:
    def newest(wanted: OutcomeQuery = outcomes.ALL) -> datetime | None:
        kept = outcomes.find_newest_time(log, now=NOW, rules=RULES, wanted=wanted, store=store)
        assert kept == outcomes.find_newest_time(log, now=NOW, rules=RULES, wanted=wanted)
        return kept

    assert newest() is None
    log.append(a_turn(1, 1, "Early"))
    assert newest() == START + timedelta(minutes=1, seconds=6)
    log.append(a_task("t1", 30, "town.task_completed"))
    assert newest() == START + timedelta(minutes=30)
    assert newest(OutcomeQuery(tasks=frozenset())) == START + timedelta(minutes=1, seconds=6)
    log.append(a_turn(2, 60 * 24 * 2 + 600, "From a clock that is ahead"))
    assert newest() == NOW


def test_a_scope_selects_sessions_and_tasks(log: BlockingRecorder) -> None:
    log.append([*a_turn(1, 1, "One"), *a_task("t1", 1, "town.task_completed"), *a_task("t2", 1, "town.task_completed")])
    assert outcomes.select_scope(log, "town") == outcomes.ALL
    assert outcomes.select_scope(log, "task:t2").tasks == frozenset(["t2"])
    assert outcomes.select_scope(log, "run:00000001-run").runs == frozenset(["00000001-run"])


def test_sessions_in_python(log: BlockingRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(3):
        log.append(a_turn(number, number, f"Task {number}"))
    assert [outcome.asked for outcome in list_sessions(log, now=NOW)] == ["Task 2", "Task 1", "Task 0"]
    assert [outcome.asked for outcome in list_sessions(log, scope="agent:claude-code/00000001", limit=5)] == ["Task 1"]
