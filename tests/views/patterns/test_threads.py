"""Patterns in the events of a task, an agent or a git history: what matches, and what nearly does."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.dialects.git import commit_event_id
from fleetlore.events.envelope import Origin
from fleetlore.views.patterns import Finding
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.kinds import all_kinds
from tests.contract.conftest import BACKENDS, address

START = datetime(2026, 11, 16, 9, tzinfo=UTC)
FIVE = ("struggle_and_recovery", "silent_grind", "abandon_then_retry", "solo_sprint", "fleet_convergence")
DAY = 24 * 60


def event(kind: str, agent: str, minute: float, task: str | None = "t1", **fields: object) -> Event:
    number = int(minute * 60)
    made = Event(id=f"00000000-0000-7000-8000-{number:012x}", at=START + timedelta(minutes=minute), kind=kind, actor=agent, agent=agent)
    return replace(made, task=task, **fields)


def line(script: str, task: str | None = "t1") -> list[Event]:
    """`ada:dispatch@0 ada:commit@5`: fleet events with their minutes; a kind with a dot is taken as it is."""
    events = []
    for word in script.split():
        who, _, rest = word.partition(":")
        kind, _, minute = rest.partition("@")
        events.append(event(kind if "." in kind else f"fleet.{kind}", who, float(minute), task))
    return events


def find(events: Iterable[Event], *, after: float = 60 * 24 * 30) -> list[Finding]:
    """The patterns in some events as of so many minutes after the start."""
    state = pattern_fold.initial()
    for each in events:
        state = pattern_fold.apply(state, each)
    return sorted(pattern_fold.find_patterns(state, START + timedelta(minutes=after)), key=pattern_fold.sort_key)


def kinds(found: Iterable[Finding]) -> list[str]:
    return [f"{finding.state} {finding.kind}" for finding in found]


def test_the_five_of_the_ancestor_exist_with_their_names() -> None:
    assert tuple(all_kinds())[:5] == FIVE
    assert all(kind.name and kind.closed and kind.open for kind in all_kinds().values())


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        ("struggle_and_recovery", "ada:error@0 ada:commit@3 ada:recovery@10"),
        ("silent_grind", "ada:commit@0 ada:commit@10 ada:commit@20 ada:push@30 ada:commit@40"),
        ("abandon_then_retry", "ada:abandon@0 bo:dispatch@30"),
        ("abandon_then_retry", "ada:dispatch@0 ada:abandon@20 ada:dispatch@30"),
        ("solo_sprint", "ada:dispatch@0 ada:commit@5 ada:pr_open@9 ada:pr_merge@20"),
        ("solo_sprint", "ada:town.task_assigned@0 ada:work.started@5 ada:town.task_completed@20"),
        ("fleet_convergence", "ada:dispatch@0 bo:dispatch@5 ada:collab@10"),
        ("fleet_convergence", "ada:collab@0 bo:collab@5"),
    ],
)
def test_what_matches(kind: str, script: str) -> None:
    assert f"closed {kind}" in kinds(find(line(script)))


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        ("struggle_and_recovery", "ada:error@0 bo:recovery@10"),  # another agent
        ("struggle_and_recovery", f"ada:error@0 ada:recovery@{DAY + 1}"),  # a day later
        ("struggle_and_recovery", "ada:error@0 ada:abandon@5 ada:recovery@10"),
        ("silent_grind", "ada:commit@0 ada:commit@10 ada:commit@20 ada:commit@30"),  # four
        ("silent_grind", "ada:commit@0 ada:commit@1 ada:commit@2 ada:commit@3 ada:commit@4"),  # in four minutes
        ("silent_grind", "ada:commit@0 ada:commit@60 ada:commit@120 ada:commit@180 ada:commit@240"),  # with long pauses
        ("silent_grind", "ada:commit@0 ada:commit@10 ada:error@15 ada:commit@20 ada:commit@30 ada:commit@40"),
        ("silent_grind", "ada:commit@0 ada:commit@10 bo:commit@15 ada:commit@20 ada:commit@30 ada:commit@40"),
        ("abandon_then_retry", f"ada:abandon@0 bo:dispatch@{8 * DAY}"),  # a week later
        ("abandon_then_retry", "ada:abandon@0 bo:pr_merge@10 bo:dispatch@30"),  # delivered in between
        ("solo_sprint", "ada:dispatch@0 bo:commit@5 ada:commit@6 ada:pr_merge@20"),  # not alone
        ("solo_sprint", "ada:dispatch@0 ada:commit@5 ada:error@7 ada:pr_merge@20"),  # not without trouble
        ("solo_sprint", "ada:dispatch@0 ada:pr_merge@20"),  # no work
        ("solo_sprint", f"ada:dispatch@0 ada:commit@5 ada:pr_merge@{DAY + 1}"),  # not within a day
        ("fleet_convergence", "ada:dispatch@0 ada:commit@5 ada:collab@10"),  # one agent
        ("fleet_convergence", f"ada:dispatch@0 bo:dispatch@5 ada:collab@{10 * 60}"),  # not at the same time
        ("fleet_convergence", f"ada:collab@0 bo:collab@{4 * 60}"),
    ],
)
def test_what_nearly_matches(kind: str, script: str) -> None:
    assert f"closed {kind}" not in kinds(find(line(script)))


def test_what_is_open_closes_or_expires_with_time() -> None:
    grind = line("ada:commit@0 ada:commit@10 ada:commit@20 ada:commit@30 ada:commit@40")
    assert kinds(find(grind, after=41)) == ["open silent_grind"]
    assert kinds(find(grind, after=120)) == ["closed silent_grind"]
    struggle = line("ada:error@0")
    assert kinds(find(struggle, after=60)) == ["open struggle_and_recovery"]
    assert find(struggle, after=DAY + 1) == [], "a trouble that nobody mentions any more is none"


def test_a_task_that_is_taken_away_and_given_out_again_is_a_retry() -> None:
    taken = event("work.updated", "mayor", 10, old_state="in_progress", new_state="open", data={"field": "assignee, status"})
    given, again = event("fleet.dispatch", "ada", 0), event("fleet.dispatch", "bo", 11)
    [retry] = find([given, replace(taken, agent=None), again])
    assert (retry.kind, retry.agents, retry.note) == ("abandon_then_retry", ["ada", "bo"], "by another agent")
    assert retry.evidence == [given.id, taken.id, again.id]


def test_a_closing_without_work_is_no_delivery() -> None:
    work = line("ada:town.task_assigned@0 ada:work.started@5")
    closed = event("town.task_completed", "ada", 20, data={"result": "Stale: no activity since March"})
    assert kinds(find([*work, replace(closed, data={"result": "Implemented and tested"})])) == ["closed solo_sprint"]
    assert find([*work, closed]) == []


def test_fleet_events_are_joined_by_the_issue_that_they_name() -> None:
    given = [event("fleet.dispatch", who, minute, None, data={"issue_number": 42}) for minute, who in enumerate(("ada", "bo"))]
    found = find([*given, event("fleet.collab", "ada", 5, None, text="issue #42")])
    assert [(one.kind, one.thread, one.agents) for one in found] == [("fleet_convergence", "task:#42", ["ada", "bo"])]
    retry = [event("fleet.abandon", "ada", 0, None, text="issue #7"), event("fleet.dispatch", "bo", 5, None, text="issue #7: again")]
    assert [(one.kind, one.thread) for one in find(retry)] == [("abandon_then_retry", "task:#7")]
    sprint = [given[0], *line("ada:commit@5 ada:pr_open@6 ada:pr_merge@7", None)]
    assert [(one.kind, one.thread) for one in find(sprint)] == [("solo_sprint", "task:#42")]


def commit(number: int, author: str, minute: float, parents: list[int], kind: str = "fleet.commit", task: str | None = None) -> Event:
    made = event(kind, author, minute, task, data={"sha": f"{number:040x}", "parents": [f"{each:040x}" for each in parents]})
    return replace(made, id=commit_event_id(f"{number:040x}"), origin=Origin(dialect="git"))


def branch(*authors: str, minutes: float = 20) -> list[Event]:
    """A pull request with one commit of each author, merged by kim."""
    commits = [commit(1, "kim", 0, [])]
    for number, author in enumerate(authors, 2):
        commits.append(commit(number, author, (number - 1) * minutes, [number - 1]))
    last = len(commits)
    return [*commits, commit(90, "kim", last * minutes, [1, last], "fleet.pr_merge", "#5")]


def test_the_commits_of_a_pull_request_belong_to_it() -> None:
    [alone] = [one for one in find(branch("Ann Lee", "Ann Lee", "Ann Lee")) if one.thread == "task:#5"]
    assert (alone.kind, alone.agents[0], alone.count) == ("solo_sprint", "Ann Lee", 4)
    [both] = [one for one in find(branch("Ann Lee", "Bo Ray", "Ann Lee")) if one.thread == "task:#5"]
    assert (both.kind, both.agents) == ("fleet_convergence", ["Ann Lee", "Bo Ray"])
    assert find(branch("Ann Lee", "Bo Ray", minutes=300)) == [], "five hours apart"
    assert find(branch("Ann Lee", "annlee7")) == [], "two names of one person"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ann Lee", "Ann Lee", True),
        ("Ann Lee", "annlee7", True),
        ("Ann Lee", "alee-ann", True),
        ("Ann Lee", "Lee, Ann", True),
        ("Ann Lee", "Ann B. Lee", True),
        ("Ann", "Ann Lee", True),
        ("Ann Lee", "Joanna Smith", False),
        ("Kim Park", "Parker Jones", False),
        ("John Smith", "John Doe", False),
        ("dependabot[bot]", "renovate[bot]", False),
        ("42", "Ann Lee", False),
    ],
)
def test_two_names_of_one_person(one: str, other: str, same: bool) -> None:
    assert pattern_fold.is_same_person(one, other) is same
    assert pattern_fold.is_same_person(other, one) is same


def test_a_reverted_commit_that_comes_back_is_a_struggle_and_an_unrelated_fix_is_none() -> None:
    revert = replace(commit(2, "Ann", 10, [1], "fleet.error"), cause=commit_event_id(f"{1:040x}"))
    again = replace(commit(3, "Ann", 60, [2], "fleet.recovery"), cause=revert.id)
    assert kinds(find([revert, again])) == ["closed struggle_and_recovery"]
    assert kinds(find([revert, replace(again, cause=commit_event_id(f"{77:040x}"))])) == []


def test_private_events_never_appear() -> None:
    hidden = replace(event("fleet.error", "ada", 0), visibility="private")
    assert find([hidden, event("fleet.recovery", "ada", 5)]) == []
    found = find([hidden, *line("ada:error@1 ada:recovery@5")])
    assert all(hidden.id not in finding.evidence for finding in found)
    assert len(found) == 1


SCRIPT = st.lists(
    st.tuples(
        st.sampled_from(("ada", "bo")),
        st.sampled_from(("dispatch", "commit", "push", "pr_open", "pr_merge", "error", "recovery", "abandon", "collab", "idle")),
        st.integers(0, 40),
        st.sampled_from(("t1", "t2", None)),
    ),
    max_size=60,
)


@given(SCRIPT, st.integers(0, 60))
def test_a_fold_in_pieces_is_the_fold_at_once_in_whatever_order(words: list[tuple[str, str, int, str | None]], cut: int) -> None:
    minute, events = 0, []
    for who, kind, gap, task in words:
        minute += gap + 1
        events.append(event(f"fleet.{kind}", who, minute, task))
    at_once = find(events, after=minute)
    state = pattern_fold.initial()
    for number, each in enumerate(events):
        if number == cut:
            list(pattern_fold.find_patterns(state, START))
            state = pattern_fold.decode(pattern_fold.encode(state))
        state = pattern_fold.apply(state, each)
    assert sorted(pattern_fold.find_patterns(state, START + timedelta(minutes=minute)), key=pattern_fold.sort_key) == at_once
    named = [each for each in events if each.task is not None]
    assert find(reversed(named), after=minute) == find(named, after=minute), "the order of arrival does not matter"


KINDS = ("fleet.dispatch", "fleet.collab", "work.updated", "town.task_completed", "fleet.pr_merge")
ANY = st.none() | st.integers() | st.text(max_size=9) | st.lists(st.text(max_size=3), max_size=3)
STORED = st.builds(
    Event,
    kind=st.sampled_from(KINDS),
    id=st.uuids().map(str),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    agent=st.none() | st.text(max_size=5),
    actor=st.just("x"),
    cause=st.none() | st.just("y"),
    text=st.none() | st.text(max_size=20),
    data=st.dictionaries(st.sampled_from(("issue_number", "result", "parents", "sha")), ANY),
    origin=st.sampled_from((None, Origin(dialect="git"))),
)


@given(st.lists(STORED, max_size=20))
def test_a_stored_event_never_breaks_the_fold(events: list[Event]) -> None:
    find(events)


def test_an_old_thread_is_cut_and_its_findings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_fold, "MOST_STEPS", 40)
    monkeypatch.setattr(pattern_fold, "MOST_THREADS", 4)
    rounds = [line(f"ada:error@{100 * number} ada:recovery@{100 * number + 5}") for number in range(60)]
    assert kinds(find([each for events in rounds for each in events])) == ["closed struggle_and_recovery"] * 60
    tasks = [line(f"ada:error@{100 * number} ada:recovery@{100 * number + 5}", f"t{number}") for number in range(20)]
    assert kinds(find([each for events in tasks for each in events])) == ["closed struggle_and_recovery"] * 20


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_the_same_findings(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stored = [*line("ada:error@0 ada:recovery@9 ada:abandon@20 bo:dispatch@30"), *line("ada:dispatch@1 bo:dispatch@5 ada:collab@10", "t2")]
    with connect(address(backend, request, tmp_path)).blocking() as log:
        log.append_all(stored)
        found = find(log.read())
    assert found == find(stored)
    assert len(found) == 3
