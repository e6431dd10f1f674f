"""Tools that show what happened in sessions: their outcome records."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fleetlore.errors import Invalid
from fleetlore.projections.outcomes import Wanted, runs_in, select_scope
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.reading import head
from fleetlore.server.mcp.sanitise import clock_of, going_on, line, page, quoted, told, with_dots
from fleetlore.server.mcp.sources import Caller, Source, meant
from fleetlore.server.queries import zone_of
from fleetlore.views.outcomes.record import CHECKS, Outcome

MOST_SESSIONS = 1000
"""The newest that can be paged through."""
MOST_ITEMS = 20
"""Of each list of one session."""


def sessions(source: Source, caller: Caller, ask: requests.Sessions) -> responses.Sessions:
    """What happened in sessions."""
    runs = runs_in(source.log, meant(source, ask.scope))
    with source.looking(None, ("calendar",)) as look:
        since = times.parse_since(ask.since, now=look.now, zone=zone_of(ask.tz))
        start = head(look)
    found = source.outcomes(Wanted(since=since, runs=runs, limit=MOST_SESSIONS))
    rows, next = page(found, _row, limit=ask.limit, page=ask.page)
    return responses.Sessions(**start, next=next, sessions=rows)


def _row(outcome: Outcome) -> responses.SessionRow:
    checks = {kind: getattr(outcome.checks, kind).result for kind in CHECKS}
    return responses.SessionRow(
        session=outcome.session,
        status=outcome.status,
        headline=line(outcome.headline),
        asked=line(outcome.asked),
        waiting_for=outcome.waiting_for,
        question=line(outcome.question),
        person=outcome.person,
        repo=outcome.repo,
        branch=outcome.branch,
        started=outcome.started,
        ended=outcome.ended,
        usd=outcome.usd,
        pushed=outcome.delivered.pushed,
        checks={kind: result for kind, result in checks.items() if result != "no_edit"},
        troubles=len(outcome.troubles),
        flags=len(outcome.flags),
        contradicted=sum(claim.verdict == "contradicted" for claim in outcome.claims),
    )


def sessions_told(answer: responses.Sessions) -> str:
    """Sessions as text."""
    return told(f"Sessions, the newest first ({len(answer.sessions)}):", quoted(*map(_row_told, answer.sessions)), going_on(answer.next))


def _row_told(row: responses.SessionRow) -> str:
    state = f"waiting for {row.waiting_for}" if row.waiting_for else row.status
    ended = clock_of(row.ended) if row.ended else None
    contradicted = f"{row.contradicted} contradicted claims" if row.contradicted else None
    return with_dots(row.session, state, ended, row.person, row.repo, row.branch, contradicted, row.headline)


def session(source: Source, caller: Caller, ask: requests.Session) -> responses.SessionDetail:
    """One session."""
    scope = meant(source, f"run:{ask.id}")
    with source.looking(None, ("calendar",)) as look:
        start = head(look)
    found = source.outcomes(Wanted(runs=runs_in(source.log, scope)))
    if not found:
        raise Invalid(f"id: {ask.id!r} is no session; the tool `sessions` lists them")
    outcome = found[0]
    delivered = outcome.delivered
    return responses.SessionDetail(
        **start,
        session=_row(outcome),
        outcome=line(outcome.outcome),
        answer=line(delivered.answer),
        commits=_lines(f"{commit.sha} {commit.subject}".strip() for commit in delivered.commits),
        pull_requests=_lines(f"{request.title} {request.url}".strip() for request in delivered.pull_requests),
        troubles=_lines(f"{one.what}{'' if one.resolved else ' (not resolved)'}" for one in outcome.troubles),
        corrections=_lines(one.prompt for one in outcome.corrections),
        flags=_lines(f"{one.flag}: {one.what}{'' if one.executed else ' (not executed)'}" for one in outcome.flags),
        claims=_lines(f"{one.verdict}: {one.text} ({one.why})" for one in outcome.claims),
        files=_lines(f"{one.path} +{one.added} -{one.removed}" for one in outcome.files),
        helpers=_lines(f"{one.role or one.agent} ({one.status}): {one.answer or one.asked}" for one in outcome.helpers),
    )


BRIEF_PARTS = ("delivered", "in_progress", "went_wrong", "check_this", "needs_you")


def brief(source: Source, caller: Caller, ask: requests.Brief) -> responses.Brief:
    """The brief of a period, or of the newest day with sessions."""
    scope, zone = meant(source, ask.scope), zone_of(ask.tz)
    with source.looking(None, ("calendar",)) as look:
        since = times.parse_since(ask.since, now=look.now, zone=zone)
        start = head(look)
    found = source.brief(select_scope(source.log, scope, Wanted(since=since)), zone)
    answer = responses.Brief(**start, title=found.title, bill=found.bill.text)
    for name in BRIEF_PARTS:
        setattr(answer, name, _lines(item.text for item in getattr(found, name)))
    return answer


def brief_told(answer: responses.Brief) -> str:
    """The brief as text."""
    rows = [with_dots(name.replace("_", " "), text) for name in BRIEF_PARTS for text in getattr(answer, name)]
    return told(f"The brief of {answer.title}:", quoted(*rows, answer.bill))


def _lines(texts: Iterable[str]) -> list[str]:
    return [line(text) for text in islice(texts, MOST_ITEMS)]


def session_told(answer: responses.SessionDetail) -> str:
    """One session as text."""
    names = ("commits", "pull_requests", "troubles", "corrections", "flags", "claims", "files", "helpers")
    rows = [with_dots(name.replace("_", " ").removesuffix("s"), text) for name in names for text in getattr(answer, name)]
    checks = [f"{kind} {result}" for kind, result in answer.session.checks.items()]
    return told("One session:", quoted(_row_told(answer.session), answer.outcome, *checks, *rows))
