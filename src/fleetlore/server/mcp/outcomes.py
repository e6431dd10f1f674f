"""MCP tools for outcome records of sessions: `sessions`, `session` and `brief`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fleetlore.operations import periods, sessions
from fleetlore.operations.reading import parse_time_zone
from fleetlore.operations.sources import ViewSource
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.reading import head_fields
from fleetlore.server.mcp.sanitise import clean_line, format_time, join_fields, join_parts, next_page_hint, page_rows, quote_lines
from fleetlore.views.outcomes.record import CHECKS, JudgedClaim, Outcome

MAX_SESSIONS = 1000
"""Only this many of the newest sessions can be paged through."""
MAX_ITEMS = 20
"""In each list of one session; a line after the last one says how many more there are."""


def list_sessions(source: ViewSource, caller: Caller, request: requests.SessionsRequest) -> responses.SessionsResponse:
    """The tool `sessions`."""
    since = times.parse_since(request.since, now=source.now(), zone=parse_time_zone(request.tz))
    wanted = sessions.ListSessions(scope=request.scope, since=since, limit=MAX_SESSIONS)
    found = sessions.list_sessions(caller.open_context(source), wanted)
    rows, next = page_rows(found.sessions, _session_row, limit=request.limit, page=request.page)
    return responses.SessionsResponse(**head_fields(found), next=next, sessions=rows)


def _session_row(outcome: Outcome) -> responses.SessionRow:
    checks = {kind: getattr(outcome.checks, kind).result for kind in CHECKS}
    return responses.SessionRow(
        session=outcome.session,
        status=outcome.status,
        headline=clean_line(outcome.headline),
        asked=clean_line(outcome.asked),
        waiting_for=outcome.waiting_for,
        question=clean_line(outcome.question),
        person=outcome.person and clean_line(outcome.person),
        repo=outcome.repo and clean_line(outcome.repo),
        branch=outcome.branch and clean_line(outcome.branch),
        started=outcome.started,
        ended=outcome.ended,
        usd=outcome.usd,
        pushed=outcome.delivered.pushed,
        checks={kind: result for kind, result in checks.items() if result != "no_edit"},
        troubles=len(outcome.troubles),
        flags=len(outcome.flags),
        contradicted=sum(claim.verdict == "contradicted" for claim in outcome.claims),
    )


def render_sessions(response: responses.SessionsResponse) -> str:
    """Sessions as text."""
    return join_parts(
        f"Sessions, newest first ({len(response.sessions)} on this page):",
        quote_lines(*map(_render_session_row, response.sessions)),
        next_page_hint(response.next),
    )


def _render_session_row(row: responses.SessionRow) -> str:
    state = f"waiting for {row.waiting_for}" if row.waiting_for else row.status
    ended = format_time(row.ended) if row.ended else None
    contradicted = f"{row.contradicted} contradicted claim{'' if row.contradicted == 1 else 's'}" if row.contradicted else None
    question = f"question: {row.question}" if row.question and row.question not in row.headline else None
    return join_fields(row.session, state, ended, row.person, row.repo, row.branch, contradicted, row.headline, question)


BRIEF_PARTS = ("delivered", "committed", "in_progress", "answered", "went_wrong", "check_this", "needs_you")


def make_brief(source: ViewSource, caller: Caller, request: requests.BriefRequest) -> responses.BriefResponse:
    """The tool `brief`."""
    since = times.parse_since(request.since, now=source.now(), zone=parse_time_zone(request.tz))
    read = periods.read_brief(caller.open_context(source), periods.ReadBrief(scope=request.scope, since=since, tz=request.tz))
    found = read.brief
    response = responses.BriefResponse(**head_fields(read), title=found.title, bill=found.bill.text)
    for name in BRIEF_PARTS:
        setattr(response, name, _clean_lines(item.text for item in getattr(found, name)))
    return response


def render_brief(response: responses.BriefResponse) -> str:
    """The brief as text."""
    rows = [join_fields(name.replace("_", " "), text) for name in BRIEF_PARTS for text in getattr(response, name)]
    return join_parts(f"The brief of {response.title}:", quote_lines(*rows, response.bill))


def get_session(source: ViewSource, caller: Caller, request: requests.SessionRequest) -> responses.SessionResponse:
    """The tool `session`; `Invalid` for an unknown id."""
    found = sessions.get_session(caller.open_context(source), sessions.GetSession(id=request.id))
    outcome = found.session
    delivered = outcome.delivered
    return responses.SessionResponse(
        **head_fields(found),
        session=_session_row(outcome),
        outcome=clean_line(outcome.outcome),
        answer=clean_line(delivered.answer),
        commits=_clean_lines(f"{commit.sha} {commit.subject}".strip() for commit in delivered.commits),
        pull_requests=_clean_lines(f"{pull.title} {pull.url}".strip() for pull in delivered.pull_requests),
        troubles=_clean_lines(f"{one.what}{'' if one.resolved else ' (not resolved)'}" for one in outcome.troubles),
        corrections=_clean_lines(one.prompt for one in outcome.corrections),
        flags=_clean_lines(f"{one.flag}: {one.what}{'' if one.executed else ' (not executed)'}" for one in outcome.flags),
        claims=_list_claims(outcome.claims),
        files=_clean_lines(f"{one.path} +{one.added} -{one.removed}" for one in outcome.files),
        helpers=_clean_lines(f"{one.role or one.agent} ({one.status}): {one.answer or one.asked}" for one in outcome.helpers),
    )


def _list_claims(claims: Iterable[JudgedClaim]) -> list[str]:
    """The claims, contradicted ones first: a long list is cut."""
    ordered = sorted(claims, key=lambda claim: claim.verdict != "contradicted")
    return _clean_lines(f"{claim.verdict}: {claim.text} ({claim.why})" for claim in ordered)


def _clean_lines(texts: Iterable[str]) -> list[str]:
    rest = iter(texts)
    lines = [clean_line(text) for text in islice(rest, MAX_ITEMS)]
    left = sum(1 for _ in rest)
    return [*lines, f"… and {left:,} more"] if left else lines


def render_session(response: responses.SessionResponse) -> str:
    """One session as text."""
    names = ("commits", "pull_requests", "troubles", "corrections", "flags", "claims", "files", "helpers")
    rows = [join_fields(name.replace("_", " ").removesuffix("s"), text) for name in names for text in getattr(response, name)]
    checks = [f"{kind} {result}" for kind, result in response.session.checks.items()]
    asked = join_fields("asked", response.session.asked) if response.session.asked else ""
    answer = join_fields("answer", response.answer) if response.answer else ""
    lines = (_render_session_row(response.session), asked, response.outcome, answer, *checks, *rows)
    return join_parts("One session:", quote_lines(*lines))
