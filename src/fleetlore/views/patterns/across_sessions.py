"""Patterns across sessions, by the rules that `patterns.toml` names: pure functions of their outcome records.

Both need sessions that are close in time: two that work at once, or one that begins soon after another has given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from posixpath import basename
from typing import Any, NamedTuple

from fleetlore.views.outcomes.facts import Source
from fleetlore.views.outcomes.record import ChangedFile, Outcome
from fleetlore.views.patterns.kinds import own_kinds
from fleetlore.views.patterns.model import MOST_EVIDENCE, Finding

Bounds = Mapping[str, Any]
Rule = Callable[[Sequence[Outcome], Bounds], Iterator[Finding]]
LONGEST_BOUND = timedelta(hours=12)
"""To find what ended after a time, sessions that ended so long before it are needed, too."""
_OLDEST = datetime.min.replace(tzinfo=UTC)


def find_patterns_across(records: Sequence[Outcome]) -> list[Finding]:
    """The patterns of several sessions, in the order of their end."""
    records = sorted(records, key=lambda record: (record.started or _OLDEST, record.session))
    found: list[Finding] = []
    for kind in own_kinds().values():
        if kind.sessions:
            for finding in RULES[kind.sessions["rule"]](records, kind.sessions):
                finding.kind = kind.kind
                found.append(finding)
    return sorted(found, key=lambda finding: (finding.last_at, finding.first_at, finding.kind, finding.thread))


def find_record_patterns(records: Sequence[Outcome]) -> list[Finding]:
    """All patterns of sessions: of each one, and across them."""
    return [*(finding for record in records for finding in record.patterns), *find_patterns_across(records)]


class _Touch(NamedTuple):
    record: Outcome
    file: ChangedFile
    first: datetime
    last: datetime


def _find_shared_files(records: Sequence[Outcome], bounds: Bounds) -> Iterator[Finding]:
    """Two sessions that run at the same time and edit the same file, one soon after the other."""
    near = timedelta(seconds=bounds["within"])
    touches: dict[str, list[_Touch]] = {}
    for record in records:
        for file in record.files:
            if record.folder and file.first_at is not None and file.last_at is not None:
                path = file.path if file.path.startswith("/") else f"{record.folder.rstrip('/')}/{file.path}"
                touches.setdefault(path, []).append(_Touch(record, file, file.first_at, file.last_at))
    pairs: dict[tuple[str, str], list[tuple[_Touch, _Touch]]] = {}
    for touched in touches.values():
        for place, one in enumerate(touched):
            for other in touched[place + 1 :]:
                if _are_active_together(one.record, other.record) and one.first <= other.last + near and other.first <= one.last + near:
                    pairs.setdefault((one.record.session, other.record.session), []).append((one, other))
    for shared in pairs.values():
        one, other = shared[0]
        moments = sorted(
            moment
            for pair in shared
            for touch in pair
            if touch.file.evidence
            for moment in ((touch.first, touch.file.evidence[0].event), (touch.last, touch.file.evidence[-1].event))
        )
        if not moments:
            continue
        names = sorted({basename(touch.file.path) for pair in shared for touch in pair})
        yield _make_finding(
            f"run:{one.record.session}",
            [one.record.agent, other.record.agent],
            [id for _, id in moments],
            min(touch.first for pair in shared for touch in pair),
            moments[-1][0],
            note=f"both edited {', '.join(names[:3])}" + (f" and {len(names) - 3} more files" if len(names) > 3 else ""),
        )


def _are_active_together(one: Outcome, other: Outcome) -> bool:
    if one.started is None or one.ended is None or other.started is None or other.ended is None or one.session == other.session:
        return False
    return one.started < other.ended and other.started < one.ended


def _find_repeated_requests(records: Sequence[Outcome], bounds: Bounds) -> Iterator[Finding]:
    """A session that delivered nothing, and a later one in the same repository that is asked for the same."""
    within = timedelta(seconds=bounds["within"])
    waiting: dict[tuple[str, str], Outcome] = {}
    for record in records:
        request = " ".join(record.asked.lower().split())
        if len(request.split()) < bounds["words"] or not record.repo or record.started is None or record.ended is None:
            continue
        key = (record.repo, request)
        before = waiting.pop(key, None)
        asked = _first_event(record.evidence.get("asked", ()))
        if before is not None and before.ended is not None and asked:
            is_soon = before.ended <= record.started <= before.ended + within
            evidence = [
                id for id in (_first_event(before.evidence.get("asked", ())), _first_event(before.evidence.get("status", ())), asked) if id
            ]
            if is_soon:
                agents = [before.agent, record.agent]
                yield _make_finding(f"run:{record.session}", agents, evidence, before.ended, record.started, note="with the same request")
        if not _has_delivered(record):
            waiting[key] = record


def _first_event(sources: Sequence[Source]) -> str:
    return sources[0].event if sources else ""


def _has_delivered(record: Outcome) -> bool:
    delivered = record.delivered
    return bool(delivered.commits or delivered.pull_requests or delivered.pushed) or (record.status == "finished" and not record.troubles)


def _make_finding(thread: str, agents: Sequence[str], evidence: Sequence[str], first: datetime, last: datetime, *, note: str) -> Finding:
    ids = list(dict.fromkeys(evidence))
    return Finding(
        kind="",
        thread=thread,
        agents=list(dict.fromkeys(agent for agent in agents if agent)),
        state="closed",
        first=ids[0],
        last=ids[-1],
        evidence=ids[:MOST_EVIDENCE],
        count=len(ids),
        first_at=first,
        last_at=last,
        note=note,
    )


RULES: Mapping[str, Rule] = {"same_files": _find_shared_files, "same_request": _find_repeated_requests}
"""Rule → its function."""
