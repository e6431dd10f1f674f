"""Findings of patterns in the log, each with a sentence and its source events. `arc` is the older word for a pattern's finding.

`list_arcs` is a page of findings for the HTTP API and MCP; `find_patterns` gives all findings of a scope to the CLI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from fleetlore.log.base import TOWN, Position
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Kinds, Scope, Time
from fleetlore.operations.request import InvalidRequest, Request
from fleetlore.operations.sources import ViewSource, resolve_scope
from fleetlore.projections.outcomes import OutcomeQuery, runs_in
from fleetlore.projections.thread_events import Selection, read_selection, select_thread
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.across_sessions import LONGEST_BOUND, find_record_patterns
from fleetlore.views.patterns.fold import PatternState
from fleetlore.views.patterns.kinds import all_kinds, describe_unknown, is_shown
from fleetlore.views.patterns.model import Finding
from fleetlore.views.patterns.wording import describe_finding
from fleetlore.views.thread_names import Naming

MAX_SESSIONS = 300
"""Only so many sessions, the newest, are searched for patterns."""


class ListArcs(AsOfRequest, kw_only=True):
    """Arcs."""

    state: Literal["open", "closed", "all"] = "all"
    kind: Kinds = field(default_factory=list)
    hidden: Annotated[bool, Meta(description="Whether to list the kinds that stories and pages leave out (docs/patterns.md).")] = True
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class ArcRow(Struct, kw_only=True):
    """One arc and its source events."""

    kind: str
    thread: str
    title: str
    agents: list[str]
    state: Literal["open", "closed"]
    first: str
    last: str
    evidence: list[str]
    count: int
    first_at: datetime
    last_at: datetime
    note: str
    text: str


class ArcsPage(Head, kw_only=True):
    """Arcs: open ones first, then the newest."""

    arcs: list[ArcRow]
    counts: dict[str, int]


def list_arcs(context: OperationContext, request: ListArcs) -> ArcsPage:
    """Open findings first, then closed ones, newest first."""
    _check_kinds(request.kind)
    position = context.source.resolve_position(request.as_of)
    sessions = read_session_patterns(context.source, position)
    with context.source.snapshot(position, ("arcs", "names")) as snapshot:
        patterns: PatternState = snapshot.states["arcs"]
        found = [*pattern_fold.find_patterns(patterns, snapshot.now), *sessions]
        counts = Counter(patterns.dropped) + Counter(finding.kind for finding in found if finding.state == "closed")
        found = [
            finding
            for finding in found
            if request.state in ("all", finding.state)
            and (not request.kind or finding.kind in request.kind)
            and (request.hidden or is_shown(finding.kind))
        ]
        found.sort(key=pattern_fold.sort_key, reverse=True)
        found.sort(key=lambda finding: finding.state == "closed")
        rows = build_arc_rows(found[: request.limit], snapshot.naming)
        return ArcsPage(**snapshot.head_fields(), arcs=rows, counts=dict(sorted(counts.items())))


def _check_kinds(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in all_kinds():
            raise InvalidRequest(f"kind: {describe_unknown(kind)}")


# --- all patterns of a scope


class FindPatterns(Request, kw_only=True):
    """Which patterns."""

    scope: Scope = "town"
    since: Annotated[Time, Meta(description="only those that ended or went on since")] | None = None
    kind: Kinds = field(default_factory=list)
    open: Annotated[bool, Meta(description="only those that are still open")] = False
    now: Annotated[Time, Meta(description="the moment as of which something is open (the newest event's)")] | None = None


class FoundPatterns(Struct, kw_only=True):
    """Closed patterns in the order of their end, then open ones."""

    patterns: list[Finding]


def find_patterns(context: OperationContext, request: FindPatterns) -> FoundPatterns:
    """The patterns of a scope that ended or continued since a time.

    Recent ones of the whole town come from the view that is kept current; for all others, the events of the scope are read.
    """
    _check_kinds(request.kind)
    scope, now = resolve_scope(context.source, request.scope), request.now
    if now is None:
        with context.source.open_view("calendar") as (calendar, _):
            now = calendar.newest or context.now()
    found = _find_in_threads(context, scope, now, is_recent=request.since is not None)
    found += _find_in_sessions(context, scope, now, request.since)
    found = [
        finding
        for finding in found
        if (request.since is None or finding.last_at >= request.since)
        and finding.last_at <= now
        and (not request.kind or finding.kind in request.kind)
        and (finding.state == "open" or not request.open)
    ]
    found.sort(key=lambda finding: (finding.state == "open", *pattern_fold.sort_key(finding)))
    return FoundPatterns(patterns=found)


def _find_in_threads(context: OperationContext, scope: str, now: datetime, *, is_recent: bool) -> list[Finding]:
    if is_recent and scope == TOWN:
        with context.source.open_view("arcs") as (current, _):
            return list(pattern_fold.find_patterns(current, now))
    selection: Selection = scope
    if scope.startswith("task:"):
        with context.source.open_view("threads") as (threads, _):
            selection = select_thread(scope, threads)
    state = PatternState(is_bounded=False)
    with context.source.show_progress() as show:
        for done, event in enumerate(read_selection(context.log, selection)):
            if event.at is None or event.at <= now:
                pattern_fold.apply(state, event)
            if show is not None and done % 1000 == 999:
                show(done, 0)
    return list(pattern_fold.find_patterns(state, now))


def _find_in_sessions(context: OperationContext, scope: str, now: datetime, since: datetime | None) -> list[Finding]:
    wanted = OutcomeQuery(None if since is None else since - LONGEST_BOUND, None, runs_in(context.log, scope))
    return find_record_patterns(context.source.find_outcomes(wanted, now))


def read_session_patterns(
    source: ViewSource, position: Position | None, since: datetime | None = None, until: datetime | None = None
) -> list[Finding]:
    """The patterns of the newest sessions in a period. With a position, only those whose events were stored by then."""
    earlier = None
    if since is not None:
        try:
            earlier = since - LONGEST_BOUND
        except OverflowError:
            earlier = since
    found = find_record_patterns(source.find_outcomes(OutcomeQuery(earlier, until, limit=MAX_SESSIONS)))
    if position is None or not found:
        return found
    ids = list({id for finding in found for id in (finding.first, finding.last)})
    positions = {event.id: event.position or "" for event in source.log.get(ids)}
    unknown = "~"  # sorts after every position
    return [finding for finding in found if all(positions.get(id, unknown) <= position for id in (finding.first, finding.last))]


def build_arc_rows(findings: Iterable[Finding], naming: Naming) -> list[ArcRow]:
    """Findings as rows, with titles and sentences."""
    return [
        ArcRow(
            kind=finding.kind,
            thread=finding.thread,
            title=naming.title(finding.thread),
            agents=list(finding.agents),
            state=finding.state,
            first=finding.first,
            last=finding.last,
            evidence=list(finding.evidence),
            count=finding.count,
            first_at=finding.first_at,
            last_at=finding.last_at,
            note=finding.note,
            text=f"{describe_finding(finding, naming)}.",
        )
        for finding in findings
    ]
