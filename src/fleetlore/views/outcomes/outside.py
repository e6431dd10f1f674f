"""Evidence about a session from outside of it: CI results of its commits, goal checks and other sessions in its folder.

Such evidence is found by keys: the commit, the folder, or the folder on a day. A session has the keys of its commits and of
its folder; what is recorded under one of them, before or after the session's own events, is given to it: as a result of CI, or
as a fact of the workspace.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.outcomes.attempts import kind_of_job
from fleetlore.views.outcomes.check_commands import find_checks
from fleetlore.views.outcomes.claims import GOAL_CHECK
from fleetlore.views.outcomes.facts import CheckKind, CheckResult, CheckRun, Source, WorkspaceFact
from fleetlore.views.outcomes.session import SessionState, keep_in_order, to_microseconds
from fleetlore.views.outcomes.shell import parse_script

LEAST_SHA = 7
MOST_KEYS = 200
_GOAL_STARTED, _GOAL_CHECKED = "driver.goal_started", "driver.acceptance"
_CI_RESULTS: Mapping[str, CheckResult] = {"fleet.error": "fail", "fleet.recovery": "pass", "forge.check_succeeded": "pass"}
KINDS = frozenset((_GOAL_STARTED, _GOAL_CHECKED, *_CI_RESULTS))
"""The kinds of events that can be evidence about sessions that they are not part of."""


class GoalChecks(Struct, frozen=True):
    """What a goal is checked by: the folder and the commands, each with its kind of check."""

    folder: str
    commands: tuple[tuple[str, CheckKind], ...]


class OutsideEvidence(Struct):
    """Evidence by key, and the goals that later events speak of."""

    runs: dict[str, list[CheckRun]] = field(default_factory=dict)
    goals: dict[str, GoalChecks] = field(default_factory=dict)
    facts: dict[str, list[WorkspaceFact]] = field(default_factory=dict)


def read_outside(event: Event, goals: dict[str, GoalChecks]) -> list[tuple[str, CheckRun]]:
    """The results that an event shows, each with its key. Remembers what a goal is checked by."""
    if event.kind == _GOAL_STARTED:
        _remember_goal(event.data, goals)
        return []
    if event.kind == _GOAL_CHECKED:
        return _read_verdict(event, goals)
    sha, name = event.data.get("sha"), event.data.get("check")
    if not isinstance(sha, str) or len(sha) < LEAST_SHA or not isinstance(name, str) or not name or event.at is None:
        return []
    result = _CI_RESULTS[event.kind]
    return [(_key_of_commit(sha), CheckRun(to_microseconds(event.at), _make_source(event), kind_of_job(name), result, name[:200]))]


def _remember_goal(data: Mapping[str, Any], goals: dict[str, GoalChecks]) -> None:
    goal = data.get("goal")
    if not isinstance(goal, Mapping) or not isinstance(goal.get("workspace"), str):
        return
    found: list[tuple[str, CheckKind]] = []
    criteria = goal.get("acceptance")
    for criterion in criteria if isinstance(criteria, list | tuple) else ():
        command = criterion.get("command") if isinstance(criterion, Mapping) else None
        kinds = [c.kind for part in parse_script(command) for c in find_checks(part.words)] if isinstance(command, str) else []
        found.append((str(command or ""), next((kind for kind in kinds if kind != "mixed"), "tests")))
    goals[str(goal.get("id"))] = GoalChecks(goal["workspace"], tuple(found))


def _read_verdict(event: Event, goals: Mapping[str, GoalChecks]) -> list[tuple[str, CheckRun]]:
    goal, verdict = goals.get(str(event.data.get("goal_id"))), event.data.get("verdict")
    if goal is None or not isinstance(verdict, Mapping) or event.at is None:
        return []
    failures = verdict.get("failures")
    failed = {one.get("criterion_index") for one in failures if isinstance(one, Mapping)} if isinstance(failures, list | tuple) else set()
    step, source = to_microseconds(event.at), _make_source(event)
    return [
        (key_of_folder(goal.folder), CheckRun(step, source, kind, "fail" if number in failed else "pass", f"{GOAL_CHECK}{command[:180]}"))
        for number, (command, kind) in enumerate(goal.commands)
        if command and (number in failed or verdict.get("met") is True)
    ]


def _make_source(event: Event) -> Source:
    return Source(event.id or "", event.id or "")


def _key_of_commit(sha: str) -> str:
    return f"sha:{sha[:LEAST_SHA].lower()}"


def key_of_folder(folder: str) -> str:
    """The key of a workspace."""
    return f"folder:{posixpath.normpath(folder.replace(chr(92), '/'))}"


def keys_of_session(state: SessionState) -> list[str]:
    """What evidence from outside can be about: the session's newest commits, and its folder."""
    keys = [_key_of_commit(commit.sha) for commit in state.commits[-MOST_KEYS:] if len(commit.sha) >= LEAST_SHA]
    return list(dict.fromkeys([*keys, *([key_of_folder(state.cwd)] if state.cwd else [])]))


def add_evidence(state: SessionState, runs: Iterable[CheckRun]) -> bool:
    """Give the session what is recorded about it elsewhere; whether that is news."""
    known = {run.source.event for run in state.ci}
    first = to_microseconds(state.started) if state.started is not None else 0
    news = [run for run in sorted(runs, key=lambda run: run.step) if run.source.event not in known and run.step >= first]
    keep_in_order(state.ci, news)
    return bool(news)


DAY = 86_400_000_000
"""Microseconds."""
MOST_DAYS = 14
MOST_SHARED = 50


def keys_of_workspace(state: SessionState) -> list[str]:
    """The folder on each day of the session, the newest days if there are many."""
    if not state.cwd or state.started is None or state.ended is None:
        return []
    first, last = to_microseconds(state.started) // DAY, to_microseconds(state.ended) // DAY
    return [_key_of_day(state.cwd, day) for day in range(max(first, last - MOST_DAYS), last + 1)]


def _key_of_day(folder: str, day: int) -> str:
    return f"work:{day}:{key_of_folder(folder)}"


def share_facts(state: SessionState) -> list[tuple[str, WorkspaceFact]]:
    """The newest facts that other sessions of the folder can use, each with its key; nothing if none is new."""
    count = len(state.checks) + len(state.commits) + len(state.pushes)
    if not state.cwd or count == state.published:
        return []
    state.published = count
    facts = [
        *(
            WorkspaceFact(run.step, run.source, run.kind, run.command[:200])
            for run in state.checks[-MOST_SHARED:]
            if run.result == "pass" and run.whole and not run.cached
        ),
        *(
            WorkspaceFact(one.step, one.source, "commit", one.subject[:200], one.sha)
            for one in state.commits[-MOST_SHARED:]
            if not one.undone
        ),
        *(WorkspaceFact(one.step, one.source, "push", one.branch) for one in state.pushes[-MOST_SHARED:]),
    ]
    return [(_key_of_day(state.cwd, fact.step // DAY), fact) for fact in facts]


def add_nearby(state: SessionState, facts: Iterable[WorkspaceFact]) -> bool:
    """Give the session what others did in its folder; whether that is news."""
    own = {one.source.event for known in (state.checks, state.commits, state.pushes, state.nearby) for one in known}
    news = {(fact.source.event, fact.act): fact for fact in facts if fact.source.event not in own}
    keep_in_order(state.nearby, sorted(news.values(), key=lambda fact: fact.step))
    return bool(news)
