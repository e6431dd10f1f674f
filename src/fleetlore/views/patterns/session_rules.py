"""Patterns in one session, by the rules that `patterns.toml` names: pure functions of the session's facts.

Only steps of the session's own turns count. A pattern is closed when it is found: what a session leaves unfinished is a trouble of
its record, not a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from fleetlore.views.outcomes.corrections import find_corrections
from fleetlore.views.outcomes.facts import CallStep, PullRequestOpened, PushMade, Source, TroubleFact
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.patterns.kinds import own_kinds
from fleetlore.views.patterns.model import MOST_EVIDENCE, Finding
from fleetlore.views.session_status import EPOCH

VERSION = 3
"""Raised with every change of the rules: stored records of another version are made again."""
CHECKS = ("tests", "lint", "types", "build")
Bounds = Mapping[str, Any]
Rule = Callable[[SessionState, Sequence[TroubleFact], Bounds], Iterator[Finding]]


def find_session_patterns(state: SessionState, troubles: Sequence[TroubleFact]) -> list[Finding]:
    """The patterns in a session, in the order of their end."""
    found: list[Finding] = []
    for kind in own_kinds().values():
        if kind.session:
            for finding in RULES[kind.session["rule"]](state, troubles, kind.session):
                finding.kind = kind.kind
                found.append(finding)
    return sorted(found, key=lambda finding: (finding.last_at, finding.first_at, finding.kind))


def _make_time(step: int) -> datetime:
    return EPOCH + timedelta(microseconds=step)


def _make_finding(state: SessionState, sources: Sequence[Source], first: int, last: int, *, count: int, note: str = "") -> Finding:
    ids = list(dict.fromkeys(source.event for source in sources))
    if len(ids) > MOST_EVIDENCE:
        ids = [*ids[: MOST_EVIDENCE // 2], *ids[-MOST_EVIDENCE // 2 :]]
    return Finding(
        kind="",
        thread=f"run:{state.run}",
        agents=[state.agent] if state.agent else [],
        state="closed",
        first=ids[0],
        last=ids[-1],
        evidence=ids,
        count=max(count, len(ids)),
        first_at=_make_time(first),
        last_at=_make_time(last),
        note=note,
    )


def make_open_struggle(state: SessionState, trouble: TroubleFact) -> Finding:
    """A trouble that a running session has not solved yet."""
    last = next((failure.step for failure in reversed(state.failures) if failure.step >= trouble.step), trouble.step)
    finding = _make_finding(state, trouble.evidence, trouble.step, last, count=trouble.attempts, note=trouble.what)
    finding.kind, finding.state = "struggle_and_recovery", "open"
    return finding


def _find_recoveries(state: SessionState, troubles: Sequence[TroubleFact], bounds: Bounds) -> Iterator[Finding]:
    """A trouble that took more than one attempt or some time, and was fixed."""
    sources = {call.step: call.source for call in state.calls} | {run.step: run.source for run in state.checks}
    for trouble in troubles:
        if trouble.ended is None or not trouble.evidence or (fix := sources.get(trouble.ended)) is None:
            continue
        if not trouble.ran or re.fullmatch(bounds["names"], trouble.name) is None:
            continue
        if trouble.name in CHECKS and not _is_passed_again(state, trouble):
            continue
        seconds = (trouble.ended - trouble.step) / 1e6
        if not 0 <= seconds <= bounds["within"] or (trouble.attempts < bounds["attempts"] and seconds <= bounds["longer"]):
            continue
        if seconds < bounds["shortest"]:
            continue  # the output of one failure was looked at twice
        cited = _cite_results(state, (*trouble.evidence, fix))
        yield _make_finding(state, cited, trouble.step, trouble.ended, count=trouble.attempts + 1, note=trouble.what)


def _cite_results(state: SessionState, sources: Sequence[Source]) -> list[Source]:
    """The calls, each with its result: a reader cannot see from a call that it failed."""
    results = {call.source.event: call.result for call in state.calls if call.result}
    return [
        source for cited in sources for source in (cited, *([Source(results[cited.event], cited.source)] if cited.event in results else []))
    ]


def _is_passed_again(state: SessionState, trouble: TroubleFact) -> bool:
    """Whether what failed passed in the end: all of it, or the same command. Another selection of tests proves nothing."""
    runs = [run for run in state.checks if run.kind == trouble.name]
    failed = {_name_run(run.command) for run in runs if run.result == "fail" and trouble.step <= run.step < (trouble.ended or 0)}
    fixes = [run for run in runs if run.step == trouble.ended and run.result == "pass"]
    return any(run.whole or _name_run(run.command) in failed for run in fixes)


def _name_run(command: str) -> str:
    """A command without what shows only a part of its output."""
    return " ".join(re.split(r"(?:2>&1|\||;|&&\s*echo)", command, maxsplit=1)[0].split())


def _find_long_turns(state: SessionState, troubles: Sequence[TroubleFact], bounds: Bounds) -> Iterator[Finding]:
    """A turn of many calls in a row without a word from the person and without trouble, up to its answer."""
    turns: dict[int, list[CallStep]] = {}
    for call in state.calls:
        if not call.helper:
            turns.setdefault(call.turn, []).append(call)
    disturbed = {prompt.turn for prompt in state.prompts if prompt.mid_turn or prompt.refuses is not None}
    denied = {call.turn for call in state.calls if call.state in ("denied", "interrupted")}
    answers = {answer.turn: answer for answer in state.answers}
    for turn, calls in turns.items():
        if turn not in answers or turn in disturbed or turn in denied or len(calls) < bounds["calls"]:
            continue
        first, last = calls[0], calls[-1]
        if (last.at - first.at).total_seconds() < bounds["longer"]:
            continue
        if any((after.at - before.at).total_seconds() > bounds["pause"] for before, after in pairwise(calls)):
            continue
        if any(first.step <= trouble.step <= last.step for trouble in troubles) or any(_asks_person(call.tool) for call in calls):
            continue
        asked = [prompt.source for prompt in state.prompts if prompt.turn == turn][:1]
        sources = [*asked, *(call.source for call in calls), answers[turn].source]
        yield _make_finding(state, sources, first.step, last.step, count=len(calls), note="one request, no question, no refusal")


def _find_straight_deliveries(state: SessionState, troubles: Sequence[TroubleFact], bounds: Bounds) -> Iterator[Finding]:
    """From the request to a pushed commit or a pull request, without trouble, correction, refusal or helper."""
    handed_over: list[PushMade | PullRequestOpened] = [*state.pushes, *state.pull_requests]
    if not (state.prompts and state.edits and state.commits and handed_over) or state.helpers:
        return
    end = min(delivery.step for delivery in handed_over)
    written = {call.source.event for call in state.calls if call.kind == "edit"}
    edits = [edit for edit in state.edits if edit.covered and edit.step < end and edit.source.event in written]
    asked = [prompt for prompt in state.prompts if edits and prompt.step < edits[0].step]
    if not asked or any(
        prompt.step < end and len(prompt.text.split()) > bounds["words"] for prompt in state.prompts if prompt not in asked
    ):
        return  # more was asked on the way
    request = asked[-1]
    commits = [commit for commit in state.commits if request.step < commit.step <= end and not commit.rewritten]
    if not edits or not commits or commits[0].step < edits[0].step or (end - request.step) / 1e6 > bounds["within"]:
        return
    steps = [request.step, *(call.step for call in state.calls if request.step < call.step <= end)]
    if any((after - before) / 1e6 > bounds["pause"] for before, after in pairwise(steps)):
        return
    if any(trouble.step <= end for trouble in troubles) or any(prompt.refuses is not None for prompt in state.prompts if prompt.step < end):
        return
    if any(call.state in ("denied", "interrupted") for call in state.calls if call.step <= end):
        return
    if any(correction.step <= end for correction in find_corrections(state.prompts, state.answers, state.edits)):
        return
    delivered = [delivery.source for delivery in handed_over if delivery.step == end]
    sources = [request.source, edits[0].source, *(commit.source for commit in commits), *delivered]
    yield _make_finding(state, sources, request.step, end, count=len(steps))


def _asks_person(tool: str) -> bool:
    """Whether a tool asks the person something."""
    return tool.lower().startswith("ask") or "question" in tool.lower()


RULES: Mapping[str, Rule] = {
    "trouble": _find_recoveries,
    "long_turn": _find_long_turns,
    "straight_delivery": _find_straight_deliveries,
}
"""Rule → its function."""
