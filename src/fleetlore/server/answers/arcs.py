"""The response of `/api/arcs`: patterns in the log, each with a sentence and its source events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, Protocol

from fleetlore.log.base import Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.sources import ViewSnapshot
from fleetlore.projections.outcomes import OutcomeQuery
from fleetlore.server.types.common import ArcRow, ArcsPage
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.patterns import book as pattern_book
from fleetlore.views.patterns.across_sessions import LONGEST_BOUND, find_record_patterns
from fleetlore.views.patterns.book import PatternBook
from fleetlore.views.patterns.kinds import is_shown
from fleetlore.views.patterns.model import Finding
from fleetlore.views.patterns.wording import describe_finding
from fleetlore.views.thread_names import Naming

NEEDS = ("arcs", "names")
"""Views that the snapshot must contain."""
MOST_SESSIONS = 300
"""Patterns of sessions are read from the newest so many."""
State = Literal["open", "closed", "all"]


class RecordSource(Protocol):
    """What has outcome records of sessions."""

    @property
    def log(self) -> BlockingRecorder:
        """The log."""

    def find_outcomes(self, wanted: OutcomeQuery) -> list[Outcome]:
        """The outcome records of sessions, the newest first."""


def read_session_patterns(
    source: RecordSource, position: Position | None, since: datetime | None = None, until: datetime | None = None
) -> list[Finding]:
    """The patterns of the newest sessions in a period; of the past, those whose events were all stored by then."""
    earlier = None
    if since is not None:
        try:
            earlier = since - LONGEST_BOUND
        except OverflowError:
            earlier = since
    found = find_record_patterns(source.find_outcomes(OutcomeQuery(earlier, until, limit=MOST_SESSIONS)))
    if position is None or not found:
        return found
    ids = list({id for finding in found for id in (finding.first, finding.last)})
    positions = {event.id: event.position or "" for event in source.log.get(ids)}
    return [finding for finding in found if all(positions.get(id, "~") <= position for id in (finding.first, finding.last))]


def build_arcs(
    snapshot: ViewSnapshot, sessions: Sequence[Finding], *, state: State, kinds: Sequence[str], limit: int, hidden: bool = True
) -> ArcsPage:
    """Open findings first, then closed ones, newest first. `hidden` includes the kinds that pages leave out."""
    book: PatternBook = snapshot.states["arcs"]
    found = [*pattern_book.find_patterns(book, snapshot.now), *sessions]
    counts = Counter(book.dropped) + Counter(finding.kind for finding in found if finding.state == "closed")
    found = [
        finding
        for finding in found
        if state in ("all", finding.state) and (not kinds or finding.kind in kinds) and (hidden or is_shown(finding.kind))
    ]
    found.sort(key=pattern_book.sort_key, reverse=True)
    found.sort(key=lambda finding: finding.state == "closed")
    return ArcsPage(**snapshot.head_fields(), arcs=build_arc_rows(found[:limit], snapshot.naming), counts=dict(sorted(counts.items())))


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
