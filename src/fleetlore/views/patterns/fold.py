"""Fold events into the steps of each thread, and find patterns in them when asked. A view: `initial`, `apply`, `VERSION`.

Steps are kept in the order of time, so an event that arrives late counts where it belongs. A thread keeps its newest steps; findings
in older ones are kept as they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import permutations
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.dialects.git import commit_event_id
from fleetlore.events.envelope import Event
from fleetlore.views.patterns.chronicle import Chronicle, add_event, find_arcs, find_arcs_of_thread, is_chronicle
from fleetlore.views.patterns.kinds import event_patterns
from fleetlore.views.patterns.matching import Matched, match_steps, settle_findings
from fleetlore.views.patterns.model import Finding
from fleetlore.views.patterns.steps import BRANCH, PatternStep, find_thread, is_git, read_step

VERSION = 11
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""
MOST_STEPS = 400
"""A thread with more steps is cut to half of them."""
MOST_THREADS = 3000
"""With a quarter more threads than these, the oldest are dropped."""
MOST_CLOSED = 1000
MOST_NAMES = 2000
MOST_PARENTS, MOST_BRANCH, MOST_BASE = 8, 100, 600
"""Commits that are looked at to tell those of a branch from those before it."""
_PROGRESS, _BRANCH = frozenset(("progress",)), frozenset((BRANCH,))
_Value = TypeVar("_Value")


class HistoryCommit(Struct, array_like=True, gc=False):
    """A commit of a git history."""

    thread: str
    step: PatternStep
    parents: tuple[str, ...]
    """The events of its parents."""
    helpers: list[PatternStep] = []
    """Steps of its co-authors."""


class PatternState(Struct, kw_only=True):
    """The steps of every thread, and what was found in those that are no longer kept."""

    threads: dict[str, list[PatternStep]] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    """Agent → the issue that it was given last."""
    commits: dict[str, HistoryCommit] = field(default_factory=dict)
    """Id of a commit's event → the commit; the newest."""
    closed: list[Finding] = field(default_factory=list)
    """Findings in steps that are no longer kept, oldest first."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Kind → findings that are no longer kept themselves."""
    chronicle: Chronicle = field(default_factory=Chronicle)
    """Events of nexus chronicles, which have rules of their own."""
    is_bounded: bool = True
    """Whether old threads are dropped; not if the whole log is asked for at once."""
    last: str | None = None
    """The thread of the newest event, if it is a step."""
    cache: dict[str, Matched] = field(default_factory=dict)
    """Thread → what its steps come to; not encoded."""


def initial() -> PatternState:
    """The state before the first event."""
    return PatternState()


def apply(state: PatternState, event: Event) -> PatternState:
    """The state after one more event. Changes it in place; never raises."""
    if is_chronicle(event):
        state.last = add_event(state.chronicle, event, is_bounded=state.is_bounded)
        return state
    step = read_step(event)
    if step is None:
        state.last = None
        return state
    if is_git(event) and not step.cause and (parents := _list_parents(event)):
        step = replace(step, cause=parents[0])  # a row of commits is one on top of the other
    thread = find_thread(event, state.current, state.commits)
    if event.kind.startswith("fleet."):
        _follow_work(state, event, thread, step)
        if event.kind == "fleet.pr_merge" and is_git(event):
            for step_of_branch in _list_branch_steps(state, event):
                _add_step(state, thread, step_of_branch)
    if not (is_git(event) and _is_no_work(state, step, thread)):
        _add_step(state, thread, step)
    state.last = thread if thread in state.threads else None
    if len(state.threads) > MOST_THREADS * 1.25 and state.is_bounded:
        _drop_threads(state)
    return state


def _is_no_work(state: PatternState, step: PatternStep, thread: str) -> bool:
    """Whether a commit says nothing about its author's work: the main branch merged into another, a bot's update."""
    commit = state.commits.get(step.id)
    is_merge = commit is not None and len(commit.parents) > 1 and step.signs == _PROGRESS
    return is_merge or (step.who.endswith("[bot]") and thread.startswith("agent:"))


def _add_step(state: PatternState, thread: str, step: PatternStep) -> None:
    steps = state.threads.get(thread)
    if steps is None:
        steps = state.threads[thread] = []
    if not steps or steps[-1].at < step.at:
        steps.append(step)
    elif all(known.id != step.id for known in steps[bisect_left(steps, step.at, key=_step_time) :]):
        insort(steps, step, key=_step_order)
    state.cache.pop(thread, None)
    if len(steps) > MOST_STEPS and state.is_bounded:
        _cut_thread(state, thread)


def _step_time(step: PatternStep) -> datetime:
    return step.at


def _step_order(step: PatternStep) -> tuple[datetime, tuple[str, int, str]]:
    return step.at, step.place


def _follow_work(state: PatternState, event: Event, thread: str, step: PatternStep) -> None:
    """Remember who was given which issue, and the commits with their co-authors."""
    agent = event.agent or ""
    if event.kind == "fleet.dispatch" and agent and thread.startswith("task:") and event.task is None:
        _remember_name(state.current, agent, thread)
    elif event.kind in ("fleet.pr_merge", "fleet.abandon") and state.current.get(agent) == thread:
        del state.current[agent]
    if event.kind == "fleet.collab" and step.cause:
        commit = state.commits.get(step.cause)
        if commit is not None:
            commit.helpers.append(step)
    elif is_git(event):
        _remember_name(state.commits, step.id, HistoryCommit(thread, step, tuple(_list_parents(event)), []))
    elif event.kind == "fleet.commit":
        _remember_name(state.commits, step.id, HistoryCommit(thread, step, (), []))


def _list_parents(event: Event) -> list[str]:
    """The events of a commit's parents."""
    parents = event.data.get("parents")
    return [commit_event_id(sha) for sha in parents[:MOST_PARENTS] if isinstance(sha, str)] if isinstance(parents, list) else []


def _remember_name(names: dict[str, _Value], key: str, value: _Value) -> None:
    names.pop(key, None)
    names[key] = value
    if len(names) > MOST_NAMES:
        del names[next(iter(names))]


def _list_branch_steps(state: PatternState, event: Event) -> list[PatternStep]:
    """The commits that a pull request brings in, as far as they are known, with their co-authors.

    They can be reached from the merge's second parent, not from the first. Merges are not work on the branch, and a commit with
    the number of another pull request came from there. One person often commits by two names, such as `Ann Lee` and `annlee`.
    """
    merge = state.commits.get(event.id or "")
    if merge is None or len(merge.parents) != 2 or not merge.thread.startswith("task:#"):
        return []
    base = _list_ancestors(state, merge.parents[0], frozenset(), MOST_BASE)
    branch = _list_ancestors(state, merge.parents[1], base.keys(), MOST_BRANCH + 1)
    if len(branch) > MOST_BRANCH:
        return []
    own = [
        commit
        for commit in branch.values()
        if commit.step.signs == _PROGRESS and len(commit.parents) < 2 and commit.thread in (merge.thread, f"agent:{commit.step.who}")
    ]
    own.sort(key=lambda commit: (commit.step.at, commit.step.id))
    authors: list[str] = []
    steps: list[PatternStep] = []
    for commit in own:
        author = next((name for name in authors if is_same_person(name, commit.step.who)), commit.step.who)
        authors.append(author)
        steps += [replace(commit.step, signs=_BRANCH, who=author), *commit.helpers]
    return steps


def is_same_person(one: str, other: str) -> bool:
    """Whether two names of authors are of one person: one has all words of the other, or a login of both, as `annlee` and `alee`."""
    first, second = _list_name_words(one), _list_name_words(other)
    if one == other or not first or not second:
        return one == other
    is_part = first <= second or second <= first
    return is_part or not _list_logins(first).isdisjoint(second) or not _list_logins(second).isdisjoint(first)


def _list_name_words(name: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{2,}", name[:200].casefold().removesuffix("[bot]")))


def _list_logins(words: set[str]) -> set[str]:
    """The logins that people make of two words of their name: both, or an initial and the other."""
    return {start + second for first, second in permutations(words, 2) for start in (first, first[0])}


def _list_ancestors(state: PatternState, id: str, without: Collection[str], most: int) -> dict[str, HistoryCommit]:
    found: dict[str, HistoryCommit] = {}
    waiting = deque([id])
    while waiting and len(found) < most:
        id = waiting.popleft()
        commit = state.commits.get(id)
        if commit is not None and id not in found and id not in without:
            found[id] = commit
            waiting += commit.parents
    return found


def _match_thread(state: PatternState, thread: str) -> Matched:
    found = state.cache.get(thread)
    if found is None:
        found = state.cache[thread] = match_steps(thread, state.threads[thread], event_patterns())
    return found


def _archive_findings(state: PatternState, findings: list[Finding]) -> None:
    state.closed += findings
    for finding in state.closed[: max(0, len(state.closed) - MOST_CLOSED)]:
        state.dropped[finding.kind] = state.dropped.get(finding.kind, 0) + 1
    del state.closed[:-MOST_CLOSED]


def _cut_thread(state: PatternState, thread: str) -> None:
    """Drop the older half of a thread's steps, but none of a finding that goes on after them."""
    steps = state.threads[thread]
    findings = list(settle_findings(thread, _match_thread(state, thread), steps[-1].at))
    cut = steps[len(steps) // 2].at
    for finding in sorted(findings, key=lambda one: one.first_at, reverse=True):
        if finding.first_at < cut <= finding.last_at and finding.first_at > steps[0].at:
            cut = finding.first_at
    _archive_findings(state, [finding for finding in findings if finding.last_at < cut and finding.state == "closed"])
    kept = [step for step in steps if step.at >= cut]
    state.threads[thread] = kept if len(kept) < len(steps) else steps[len(steps) // 2 :]
    state.cache.pop(thread, None)


def _drop_threads(state: PatternState) -> None:
    by_age = sorted(state.threads, key=lambda thread: (state.threads[thread][-1].at, thread))
    newest = state.threads[by_age[-1]][-1].at
    gone: list[Finding] = []
    for thread in by_age[:-MOST_THREADS]:
        gone += [finding for finding in settle_findings(thread, _match_thread(state, thread), newest) if finding.state == "closed"]
        del state.threads[thread]
        state.cache.pop(thread, None)
    _archive_findings(state, sorted(gone, key=sort_key))


def find_patterns(state: PatternState, now: datetime) -> Iterator[Finding]:
    """All findings as of a time; in no order."""
    yield from state.closed
    yield from find_arcs(state.chronicle)
    for thread in state.threads:
        yield from settle_findings(thread, _match_thread(state, thread), now)


def find_in_thread(state: PatternState, thread: str, now: datetime) -> Iterator[Finding]:
    """The findings of one thread."""
    yield from find_arcs_of_thread(state.chronicle, thread)
    if thread in state.threads:
        yield from settle_findings(thread, _match_thread(state, thread), now)


def last_thread(state: PatternState) -> str | None:
    """The thread of the newest event; `None` if it is no step."""
    return state.last


def sort_key(finding: Finding) -> tuple[datetime, datetime, str, str, str]:
    """The order of findings: by their end."""
    return finding.last_at, finding.first_at, finding.kind, finding.thread, finding.last


def encode(state: PatternState) -> bytes:
    """The state as bytes."""
    return msgspec.json.encode(replace(state, cache={}))


def decode(raw: bytes) -> PatternState:
    """The state that was encoded."""
    return msgspec.json.decode(raw, type=PatternState)
