"""What a period did to a task: closed by work, without a change, as not wanted, failed, given out again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.events.envelope import Event
from fleetlore.views import task_outcomes
from fleetlore.views.task_outcomes import TaskOutcome, make_task_outcome

START = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


def fold(*events: Event) -> task_outcomes.TaskState:
    state = task_outcomes.begin_task("t1")
    for event in events:
        task_outcomes.apply(state, event)
    return state


def step(kind: str, minute: int = 0, **fields: Any) -> Event:
    return Event(
        id=f"00000000-0000-7000-8000-{minute:012}", kind=kind, at=START + timedelta(minutes=minute), task="t1", actor="x", **fields
    )


def outcome(*events: Event) -> TaskOutcome:
    found = make_task_outcome(fold(*events))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", "closed"),
        ("Merged to main", "closed"),
        ("Fixed: removed the stale fallback", "closed"),
        ("Added 4 patterns of junk titles", "closed"),
        ("Verified: the purge is correct, no changes needed", "closed"),
        ("no-changes: the test was fixed by another commit", "no_change"),
        ("Completed with no code changes", "no_change"),
        ("Already merged to main", "no_change"),
        ("Fixed in earlier commit", "no_change"),
        ("The log is lost. Root cause fixed in shop-a1b2. Will run it again.", "no_change"),
        ("Fixed: a field was missing, resolved in shop-x0z9", "no_change"),
        ("Fixed in pre-commit", "closed"),
        ("Tests pass now, likely fixed by upstream", "no_change"),
        ("Wrong framing. The problem is the queue.", "dropped"),
        ("Stale backlog, shipped or superseded", "dropped"),
        ("Duplicate of t2", "dropped"),
        ("Noise/pollution", "dropped"),
        ("A log of a plugin, not a real issue", "dropped"),
        ("not_planned", "dropped"),
    ],
)
def test_the_words_of_a_closing_say_what_it_was(reason: str, expected: str) -> None:
    assert outcome(step("town.task_completed", data={"result": reason})).result == expected


def test_a_task_is_named_by_its_title_and_by_who_worked_on_it_not_by_who_closed_it() -> None:
    found = outcome(
        step("work.task_created", 0, data={"title": "Fix the  parser"}),
        step("fleet.dispatch", 1, agent="town/ada"),
        step("town.task_completed", 2, agent="town/merge-queue", data={"result": "Merged"}),
    )
    assert (found.title, found.agent, found.result) == ("Fix the parser", "town/ada", "closed")


def test_a_task_that_is_given_out_and_done_again_is_repeated_work() -> None:
    done = {"data": {"field": "notes", "new": "Implemented: the parser"}}
    first = [step("fleet.dispatch", 1, agent="ada"), step("work.updated", 2, **done), step("work.updated", 3, **done)]
    once = [*first, step("town.task_completed", 4, data={"result": "Merged"})]
    assert outcome(*once).flags == []
    assert outcome(*once, step("fleet.dispatch", 5, agent="finn")).flags == []
    (flag,) = outcome(*once, step("fleet.dispatch", 5, agent="finn"), step("work.updated", 6, **done)).flags
    assert (flag.flag, flag.what, len(flag.evidence)) == ("repeated_work", "done 2 times", 2)


def test_giving_out_again_and_reports_are_counted() -> None:
    found = outcome(
        step("fleet.dispatch", 1, agent="ada"),
        step("work.updated", 2, data={"field": "notes", "new": "Implemented: the parser"}),
        step("fleet.dispatch", 3, agent="finn"),
        step("work.updated", 4, data={"field": "notes", "new": "Looking around"}),
        step("town.task_assigned", 5, agent="ada"),
    )
    assert (found.result, found.given, found.agents, found.reported) == ("open", 3, ["ada", "finn"], 1)


def test_a_task_that_is_taken_away_is_released_and_the_next_gift_is_a_retry() -> None:
    found = outcome(
        step("fleet.dispatch", 1, agent="ada"),
        step("work.updated", 2, data={"field": "notes", "new": "Implemented: 7 s -> 2.5 s"}),
        step("work.updated", 3, data={"field": "assignee, status", "released": "ada"}),
        step("fleet.dispatch", 4, agent="ada"),
        step("work.lease_lost", 5, agent="ada"),
    )
    assert (found.result, found.given, found.released, found.reported) == ("open", 2, 2, 1)
    assert found.notes == ["Implemented: 7 s -> 2.5 s"]


def test_a_task_that_was_only_created_is_open_if_it_is_asked_for() -> None:
    state = fold(step("work.task_created", 0, data={"title": "Fix the parser"}))
    assert make_task_outcome(state) is None
    found = make_task_outcome(state, is_wanted=True)
    assert found is not None
    assert (found.title, found.result, found.given) == ("Fix the parser", "open", 0)


def test_only_what_happened_in_the_period_counts() -> None:
    state = fold(
        step("town.task_completed", 1, data={"result": "Done"}), step("work.reopened", 60), step("fleet.dispatch", 61, agent="ada")
    )
    before = make_task_outcome(state, None, START + timedelta(minutes=30))
    after = make_task_outcome(state, START + timedelta(minutes=30), None)
    assert before is not None
    assert before.result == "closed"
    assert after is not None
    assert (after.result, after.given) == ("reopened", 1)
    assert make_task_outcome(state, START + timedelta(minutes=90), None) is None


def test_a_short_reason_is_whole_and_a_long_one_says_that_it_goes_on() -> None:
    short = "The worker lost its notes. Fixed in t9"
    assert outcome(step("town.task_completed", data={"result": short})).reason == short
    long = f"The worker lost its notes. {'And then it lost some more of them. ' * 5}"
    assert outcome(step("town.task_completed", data={"result": long})).reason == "The worker lost its notes…"


def test_a_second_closing_without_a_reason_does_not_hide_the_first() -> None:
    assert outcome(step("town.task_completed", 1, data={"result": "Duplicate of t2"}), step("town.task_completed", 2)).result == "dropped"


def test_pull_requests_are_merged_or_not_and_their_checks_count_until_they_pass() -> None:
    opened = step("fleet.pr_open", 1, agent="ada", data={"title": "Tabs", "number": 2})
    failed = step("fleet.error", 2, agent="ada", data={"check": "lint"})
    assert outcome(opened, failed).failed_check == "lint"
    assert outcome(opened, failed, step("forge.check_succeeded", 3, data={"check": "lint"})).failed_check == ""
    assert outcome(opened, failed, step("fleet.pr_merge", 4, agent="ada")).result == "merged"
    assert outcome(opened, step("fleet.abandon", 4, agent="ada", data={"number": 2})).result == "not_merged"


def test_an_agent_that_lets_its_task_go_has_not_closed_it() -> None:
    assert outcome(step("fleet.dispatch", 1, agent="ada"), step("fleet.abandon", 2, agent="ada")).result == "open"


def test_private_words_are_in_no_outcome() -> None:
    state = fold(step("town.task_completed", 1, visibility="private", data={"result": "my secret thought", "title": "secret"}))
    assert make_task_outcome(state) is None
    assert state.title == ""


_values = st.none() | st.text(max_size=40) | st.integers() | st.lists(st.text(max_size=5), max_size=2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(task_outcomes.KINDS)),
            st.dictionaries(st.sampled_from(["title", "result", "reason", "new", "field", "check", "number", "error"]), _values),
            st.integers(0, 1000),
        ),
        max_size=20,
    )
)
def test_whatever_is_stored_folds(rows: list[tuple[str, dict[str, Any], int]]) -> None:
    state = fold(*(step(kind, minute, agent="ada", data=data) for kind, data, minute in rows))
    found = make_task_outcome(state)
    assert found is None or found.at == max(one.at for one in state.steps if one.at <= found.at)
    assert [one.at for one in state.steps] == sorted(one.at for one in state.steps)


def test_issues_of_different_repositories_are_different_tasks() -> None:
    shop, web = (Event(kind="work.task_created", task="#1", mission=mission) for mission in ("acme/shop", "acme/web"))
    assert [task_outcomes.name_task(event) for event in (shop, web)] == ["acme/shop#1", "acme/web#1"]
    assert task_outcomes.name_task(Event(kind="work.task_created", task="sh-1", mission="acme/shop")) == "sh-1"
