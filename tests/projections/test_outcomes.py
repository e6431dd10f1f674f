"""Rows of sessions in the store: the same as a fold of the whole log, whatever happened in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

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


def test_a_first_fold_that_was_interrupted_continues(
    log: BlockingRecorder, store: ProjectionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "CHUNK", 3)
    for number in range(10):
        log.append(a_turn(number, number, f"Task {number}"))

    def stop_after_five_turns(done: int, total: int) -> None:
        if done >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(list_outcomes(log, now=NOW, rules=RULES, store=store, progress=stop_after_five_turns))
    folded: list[int] = []
    rows = list(list_outcomes(log, now=NOW, rules=RULES, store=store, progress=lambda done, total: folded.append(done)))
    assert folded[-1] == 15, "the first half was folded again"
    assert rows == listed(log, None)


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


def test_a_period_as_of_the_past_reads_only_its_own_sessions(
    log: BlockingRecorder, store: ProjectionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 520
    log.append_all([event for number in range(many) for event in a_turn(number, number * 2, f"Task {number}")])
    last = log.head()
    log.append(a_turn(3, 5000, "Later"))
    wanted = OutcomeQuery(since=START, until=START + timedelta(minutes=2 * many), upto=last)
    expected = outcomes.read_period(log, now=NOW, rules=RULES, wanted=wanted)
    outcomes.update_rows(log, store, RULES)
    scopes: list[str] = []
    read = BlockingRecorder.read

    def note_scope(self: BlockingRecorder, scope: str = "town", **options: Any) -> Any:
        if "kinds" not in options and options.get("after") is None:  # not the check for new events
            scopes.append(scope)
        return read(self, scope, **options)

    monkeypatch.setattr(BlockingRecorder, "read", note_scope)
    assert outcomes.read_period(log, now=NOW, rules=RULES, wanted=wanted, store=store) == expected
    assert "town" not in scopes
    assert len(scopes) == many


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


def a_commit(minute: int = 0, said: str = "All tests pass.") -> list[Event]:
    """A session that edits a file, commits it and claims that the tests pass, without running them."""
    who: dict[str, Any] = {"agent": "claude-code/1", "run": "session-1"}
    at = START + timedelta(minutes=minute)

    def a_call(number: int, tool: str, given: dict[str, Any], output: str) -> list[Event]:
        called = Event(id=f"00000000-0000-7000-8000-{minute:06}{number:06}", kind="tool.called", at=at + timedelta(seconds=number), **who)
        called = replace(called, data={"tool": tool, "call_id": f"call-{minute}-{number}", "input": given, "cwd": "/home/ada/shop"})
        result = Event(kind="tool.returned", at=at + timedelta(seconds=number, milliseconds=500), cause=called.id, **who)
        return [called, replace(result, data={"tool": tool, "call_id": f"call-{minute}-{number}", "output": output})]

    return [
        Event(kind="session.started", at=at, data={"program": "claude-code", "cwd": "/home/ada/shop"}, **who),
        Event(kind="prompt.submitted", at=at, text="Fix it", data={"prompt": "Fix it"}, **who),
        *a_call(1, "Write", {"file_path": "/home/ada/shop/a.py", "content": "x = 1"}, "ok"),
        *a_call(2, "Bash", {"command": "git commit -am 'Fix it'"}, "[main 3f2a9c1] Fix it\n 1 file changed"),
        Event(kind="model.replied", at=at + timedelta(seconds=3), data={"said": said, "model": "m", "output": 3}, **who),
        Event(kind="session.turn_ended", at=at + timedelta(seconds=4), text="x", **who),
    ]


def a_ci_result(conclusion: str, minute: int = 5, sha: str = "3f2a9c1d5e6f") -> Event:
    kind = "forge.check_succeeded" if conclusion == "success" else "fleet.error"
    data = {"check": "test (linux)", "conclusion": conclusion, "sha": sha, "branch": "main"}
    return Event(kind=kind, at=START + timedelta(minutes=minute), agent="ci", text="test (linux)", data=data)


def verdicts(log: BlockingRecorder, store: ProjectionStore | None) -> list[str]:
    (raw,) = listed(log, store)
    return [claim["verdict"] for claim in json.loads(raw)["claims"] if claim["where"] == "answer" and claim["kind"] == "tests_pass"]


@pytest.mark.parametrize(("conclusion", "verdict"), [("success", "supported"), ("failure", "contradicted")])
@pytest.mark.parametrize("is_first", [True, False])
def test_ci_decides_about_a_claim(log: BlockingRecorder, store: ProjectionStore, conclusion: str, verdict: str, is_first: bool) -> None:
    log.append([a_ci_result(conclusion)] if is_first else a_commit())
    verdicts_before = None if is_first else verdicts(log, store)
    log.append(a_commit() if is_first else [a_ci_result(conclusion)])
    assert verdicts_before in (None, ["unproven"])
    assert verdicts(log, store) == verdicts(log, None) == [verdict]


def test_ci_of_another_commit_says_nothing(log: BlockingRecorder, store: ProjectionStore) -> None:
    log.append([*a_commit(), a_ci_result("failure", sha="1111111aaaa")])
    assert verdicts(log, store) == verdicts(log, None) == ["unproven"]


@pytest.mark.parametrize(("met", "verdict"), [(True, "supported"), (False, "contradicted")])
def test_the_check_of_a_goal_decides_about_a_claim(log: BlockingRecorder, store: ProjectionStore, met: bool, verdict: str) -> None:
    goal = "0198b6a0-0000-7000-8000-000000000001"
    budget = {"max_turns": 5, "max_wall_time": "1h", "max_tokens": 1000, "max_consecutive_denies": 3}
    asked = {"id": goal, "description": "x", "acceptance": [{"kind": "shell_command", "command": "pytest -q"}], "budget": budget}
    failures = [] if met else [{"criterion_index": 0, "criterion_label": "pytest -q", "message": "exit 1"}]
    result = {"met": met, "failures": failures, "evaluated_at": "2026-11-17T09:05:00Z", "elapsed_ms": 5}
    who: dict[str, Any] = {"agent": "driver", "goal": goal}
    log.append([Event(kind="driver.goal_started", at=START, data={"goal": asked | {"workspace": "/home/ada/shop"}}, **who)])
    log.append(a_commit())
    log.append([Event(kind="driver.acceptance", at=START + timedelta(minutes=5), data={"goal_id": goal, "verdict": result}, **who)])
    assert verdicts(log, store) == verdicts(log, None) == [verdict]


def a_call(number: int, second: int, tool: str, given: dict[str, Any], output: str) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{number:08}", "run": f"{number:08}-run"}
    at, call_id = START + timedelta(seconds=second), f"0198b6a0-{second:04}-7000-8000-{number:012}"
    data = {"tool": tool, "call_id": f"toolu_{number}_{second}", "input": given, "cwd": "/home/ada/shop"}
    returned = {"tool": tool, "call_id": f"toolu_{number}_{second}", "output": output}
    return [
        Event(kind="tool.called", id=call_id, at=at, data=data, **who),
        Event(kind="tool.returned", at=at + timedelta(seconds=1), cause=call_id, data=returned, **who),
    ]


def a_claim(number: int, second: int, said: str) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{number:08}", "run": f"{number:08}-run"}
    at = START + timedelta(seconds=second)
    replied = Event(kind="model.replied", at=at, data={"said": said, "model": "m", "output": 3}, **who)
    return [replied, Event(kind="session.turn_ended", at=at + timedelta(seconds=1), text="x", **who)]


def judged_claims(log: BlockingRecorder, store: ProjectionStore | None) -> dict[str, str]:
    rows = {row["session"]: row for row in map(json.loads, listed(log, store))}
    return {claim["kind"]: claim["verdict"] for claim in rows["00000001-run"]["claims"] if claim["where"] == "answer"}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("second", "verdict"), [(30, "supported"), (5, "unproven"), (90, "unproven")])
def test_what_another_session_did_in_the_folder_supports_a_claim(
    log: BlockingRecorder, store: ProjectionStore, is_first: bool, second: int, verdict: str
) -> None:
    edit = {"file_path": "/home/ada/shop/a.py", "old_string": "x = 1", "new_string": "x = 2"}
    asked = a_turn(1, 0, "Set x", ends=False)[:1]
    own = [*asked, *a_call(1, 10, "Edit", edit, "updated"), *a_claim(1, 60, "All tests pass. Everything is committed.")]
    made = "[main 3f2a9c1] Set x\n 1 file changed"
    other = [
        *a_turn(2, 0, "Run the tests", ends=False)[:1],
        *a_call(2, second, "Bash", {"command": "pytest -q"}, "12 passed in 0.1s"),
        *a_call(2, second + 2, "Bash", {"command": "git commit -am 'Set x'"}, made),
    ]
    for events in (other, own) if is_first else (own, other):
        log.append(events)
        listed(log, store)
    assert judged_claims(log, store) == judged_claims(log, None) == {"tests_pass": verdict, "committed": verdict}
