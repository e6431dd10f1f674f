"""Names that people type: what they mean, and what is said where they mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.errors import AmbiguousName, Invalid, UnknownName
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.name_lookup import resolve_scope
from fleetlore.views import names, threads
from tests.views.goal_facts import started

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ONE, TWO = "0b5e1111-2222-4333-8444-555555555555", "0b5e9999-2222-4333-8444-555555555555"
GOAL = "7c0ffee1-2222-4333-8444-555555555555"


class LookupResult(NamedTuple):
    states: dict[str, Any]


class Log:
    """A log, and the views that names are looked up in; they are counted."""

    def __init__(self, log: BlockingRecorder) -> None:
        self.log, self.looks = log, 0

    def look(self) -> AbstractContextManager[LookupResult]:
        self.looks += 1
        known, recorded = names.initial(), threads.initial()
        for event in self.log.read():
            known, recorded = names.apply(known, event), threads.apply(recorded, event)
        return nullcontext(LookupResult({"names": known, "threads": recorded}))

    def find(self, scope: str, **options: Any) -> str:
        return resolve_scope(self.log, scope, self.look, **options)


def session(id: str, minute: int, project: str, prompt: str, **fields: Any) -> list[Event]:
    who: dict[str, Any] = {"agent": f"claude-code/{id[:8]}", "actor": "mira", "run": id}
    return [
        Event(kind="session.started", at=NOON + timedelta(minutes=minute), data={"project": project, "branch": "main"}, **who),
        Event(kind="prompt.submitted", at=NOON + timedelta(minutes=minute + 1), text=prompt, **who, **fields),
    ]


@pytest.fixture
def fleet() -> Iterator[Log]:
    with connect("memory:").blocking() as log:
        log.append_all(session(ONE, 0, "shop", "Fix the parser", task="PAY-12"))
        log.append_all(session(TWO, 10, "shop", "Write the docs"))
        log.append([replace(started(goal=GOAL), actor="mira", at=NOON)])
        log.append([Event(kind="fleet.commit", actor="ada", agent="ada", mission="launch", at=NOON)])
        log.append([Event(kind="fleet.commit", actor="agent-10", agent="agent-10", at=NOON)])
        yield Log(log)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("agent:shop", "agent:claude-code/0b5e1111"),
        ("agent:shop (2)", "agent:claude-code/0b5e9999"),
        ("agent:shop@main: Fix the parser", "agent:claude-code/0b5e1111"),
        ("agent:0b5e1111", "agent:claude-code/0b5e1111"),
        ("agent:claude-code/0b5e1", "agent:claude-code/0b5e1111"),
        (f"agent:{TWO}", "agent:claude-code/0b5e9999"),
        ("run:0b5e1111", f"run:{ONE}"),
        ("run:shop (2)", f"run:{TWO}"),
        ("run:claude-code/0b5e1111", f"run:{ONE}"),
        ("goal:7c0f", f"goal:{GOAL}"),
        ("goal:Mend the parser", f"goal:{GOAL}"),
    ],
)
def test_a_name_that_is_shown_and_the_beginning_of_an_id_are_accepted(fleet: Log, typed: str, meant: str) -> None:
    assert fleet.find(typed) == meant
    assert fleet.log.head(meant) is not None


@pytest.mark.parametrize("scope", ["town", "agent:ada", "mission:launch", "task:PAY-12", f"run:{ONE}", f"goal:{GOAL}"])
def test_a_name_of_the_log_is_found_without_a_look_at_views(fleet: Log, scope: str) -> None:
    assert (fleet.find(scope), fleet.looks) == (scope, 0)


@pytest.mark.parametrize(
    ("typed", "suggestion"),
    [
        ("agent:adda", "agent:ada"),
        ("agent:ADA", "agent:ada"),
        ("agent:shpo", "agent:shop"),
        ("agent:PAY-12", "task:PAY-12"),
        ("task:PAY-21", "task:PAY-12"),
        ("task:pay-12", "task:PAY-12"),
        ("mission:lunch", "mission:launch"),
        ("run:0b5e1111-2222-4333-8444-555555555556", f"run:{ONE}"),
        ("goal:Mend a parser", f"goal:{GOAL}"),
        ("run:0b5e1112", f"run:{ONE}"),
        ("agent:0b5e1112", "agent:shop"),
    ],
)
def test_a_name_that_nobody_has_is_an_error_with_near_ones(fleet: Log, typed: str, suggestion: str) -> None:
    with pytest.raises(UnknownName) as caught:
        fleet.find(typed)
    assert suggestion in caught.value.suggestions
    assert suggestion in str(caught.value)
    assert repr(typed.partition(":")[2]) in str(caught.value)
    assert fleet.find(typed, may_be_new=True) == typed


@pytest.mark.parametrize("typed", ["agent:qqqqqq", "task:qqqqqq", "source:qqqqqq", "mission:qqqqqq", "run:qqqqqq", "goal:qqqqqq"])
def test_where_nothing_is_near_it_says_where_to_look(fleet: Log, typed: str) -> None:
    with pytest.raises(UnknownName, match=r"is called 'qqqqqq' on this log; .+") as caught:
        fleet.find(typed)
    assert caught.value.suggestions == ()


def test_the_beginning_of_a_name_that_somebody_chose_is_not_that_name(fleet: Log) -> None:
    """Else `agent-1`, which is not there, would be answered with the work of `agent-10`."""
    with pytest.raises(UnknownName) as caught:
        fleet.find("agent:agent-1")
    assert caught.value.suggestions[0] == "agent:agent-10"


@pytest.mark.parametrize("typed", ["agent:0b5e", "run:0b5e"])
def test_several_that_are_meant_are_listed(fleet: Log, typed: str) -> None:
    with pytest.raises(AmbiguousName) as caught:
        fleet.find(typed)
    assert len(caught.value.candidates) == 2
    assert "shop@main: Fix the parser" in str(caught.value)
    with pytest.raises(AmbiguousName):
        fleet.find(typed, may_be_new=True)


def test_a_given_name_that_is_another_ones_short_name_is_ambiguous(fleet: Log) -> None:
    second = "claude-code/0b5e9999"
    fleet.log.append([Event(kind="agent.named", actor="mira", agent=second, data={"name": "shop"}, at=NOON + timedelta(hours=1))])
    with pytest.raises(AmbiguousName) as caught:
        fleet.find("agent:shop")
    assert set(caught.value.candidates) == {"agent:claude-code/0b5e1111", f"agent:{second}"}


def test_a_name_whose_events_were_trimmed_away_is_still_known(fleet: Log) -> None:
    looked = fleet.look()
    fleet.log.trim("9" * 16)
    assert resolve_scope(fleet.log, "agent:ada", lambda: looked) == "agent:ada"
    assert resolve_scope(fleet.log, "agent:shop", lambda: looked) == "agent:claude-code/0b5e1111"


@pytest.mark.parametrize("typed", ["planet:x", "agent:", "ada", "agent:a\nb"])
def test_what_is_no_scope_is_refused_as_before(fleet: Log, typed: str) -> None:
    with pytest.raises(Invalid, match="unknown scope"):
        fleet.find(typed)
