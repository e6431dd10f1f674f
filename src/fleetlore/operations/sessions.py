"""What happened in sessions and tasks: their outcome records, one of them, and the claims in them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from fleetlore.errors import Invalid, UnknownName
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Scope, Time, choose_scope, read_head
from fleetlore.operations.request import Request
from fleetlore.operations.sources import resolve_scope
from fleetlore.operations.transcripts import write_resume_command, write_stop_command
from fleetlore.projections.outcomes import OutcomeQuery, runs_in
from fleetlore.views.described_calls import find_text
from fleetlore.views.outcomes.record import JudgedClaim, Outcome
from fleetlore.views.task_outcomes import TaskOutcome

Verdict = Literal["supported", "contradicted", "unproven"]
_HEADING = re.compile(r"#{1,6} \S|\*\*[^*]+\*\*:?$")
_NUMBERED = re.compile(r"(?:\d|[A-Ha-h])[.)] \S")
MAX_CHOICES, MAX_CHOICE_CHARS, MAX_QUESTION_CHARS = 6, 160, 600
_SCOPED = re.compile(r"(?:run|task|agent|goal|mission):.")


# --- all sessions


class ListSessions(AsOfRequest, kw_only=True):
    """Which sessions."""

    scope: Scope = "town"
    since: Annotated[Time, Meta(description="Sessions that were active then or later.")] | None = None
    until: Annotated[Time, Meta(description="Sessions that began before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = 100
    """`None`, which only programs can say, is for all."""


class SessionsPage(Head, kw_only=True):
    """The outcome records of sessions, the newest first."""

    sessions: list[Outcome]
    more: bool
    """Whether there are older ones."""


def list_sessions(context: OperationContext, request: ListSessions) -> SessionsPage:
    """The outcome records of sessions, the newest first."""
    head = read_head(context, context.source.resolve_position(request.as_of))
    most = None if request.limit is None else request.limit + 1
    found = find_sessions(context, replace(request, limit=most))
    return SessionsPage(**head, sessions=found[: request.limit], more=request.limit is not None and len(found) > request.limit)


def find_sessions(context: OperationContext, request: ListSessions) -> list[Outcome]:
    """The records alone, without the time and place of the log's head, which takes longer to find."""
    position = context.source.resolve_position(request.as_of)
    runs = runs_in(context.log, choose_scope(context, request.scope))
    return context.source.find_outcomes(OutcomeQuery(request.since, request.until, runs, request.limit, position))


# --- one session


class GetSession(AsOfRequest, kw_only=True):
    """Which session."""

    id: Annotated[str, Meta(min_length=1, description="The session's, or how it begins")]


class SessionPage(Head, kw_only=True):
    """The outcome record of one session."""

    session: Outcome
    resume: str = ""
    """The command that continues it in its program; empty if there is none."""
    stop: str = ""
    """The command that ends its process; empty unless it runs on the server's machine and its program says so."""
    question_text: str = ""
    """What belongs to its open question: the choices that the message names, as Markdown lines, and the paragraph that asks."""


def get_session(context: OperationContext, request: GetSession) -> SessionPage:
    """One session, by its id or its beginning."""
    position = context.source.resolve_position(request.as_of)
    scope = resolve_scope(context.source, f"run:{request.id}")
    head = read_head(context, position)
    found = context.source.find_outcomes(OutcomeQuery(runs=runs_in(context.log, scope), upto=position))
    if not found:
        raise UnknownName("run", request.id, [], "`lore sessions --all` and /api/sessions list the sessions")
    stop = write_stop_command(found[0]) if request.as_of is None else ""
    resume, question = write_resume_command(found[0]), _read_question(context, found[0])
    return SessionPage(**head, session=found[0], resume=resume, stop=stop, question_text=question)


def _read_question(context: OperationContext, outcome: Outcome) -> str:
    evidence = outcome.evidence.get("question", [])
    events = context.log.get([evidence[-1].event]) if outcome.waiting_for == "person" and evidence else []
    return outline_question(find_text(events[0])) if events else ""


def outline_question(message: str) -> str:
    """The headings or numbered points of a message that asks, and its last paragraph."""
    *before, last = [part.strip() for part in re.split(r"\n\s*\n", message.strip())]
    lines = [line.strip() for part in before for line in part.splitlines()]
    choices = [line.lstrip("# ") for line in lines if _HEADING.match(line)] or [line for line in lines if _NUMBERED.match(line)]
    found = [f"- {line.strip('* ')[:MAX_CHOICE_CHARS]}" for line in choices[-MAX_CHOICES:]]
    return "\n".join([*found, *([""] if found else []), last[-MAX_QUESTION_CHARS:]])


# --- a session, a task or an agent


class ShowRecord(Request, kw_only=True):
    """Which session, task or agent."""

    name: Annotated[str, Meta(max_length=500, description="a session's id or its beginning, an agent, or a task")]


class ShownRecord(Struct, frozen=True, kw_only=True):
    """A task, if one was asked for, and the sessions that belong to it or to an agent; or one session."""

    scope: str
    """What was found, such as `run:0b5e1111…`."""
    task: TaskOutcome | None = None
    sessions: list[Outcome] = field(default_factory=list)


def show_record(context: OperationContext, request: ShowRecord) -> ShownRecord:
    """Everything that is known about one session, or about a task or an agent and its sessions."""
    scope = _find_scope(context, request.name)
    kind, _, name = scope.partition(":")
    tasks = context.source.list_tasks(OutcomeQuery(tasks=frozenset((name,)))) if kind == "task" else []
    sessions = context.source.find_outcomes(OutcomeQuery(runs=runs_in(context.log, scope)))
    return ShownRecord(scope=scope, task=tasks[0] if tasks else None, sessions=sessions)


def _find_scope(context: OperationContext, name: str) -> str:
    """The scope that is meant: a session, else an agent, else a task."""
    if _SCOPED.match(name):
        return resolve_scope(context.source, name)
    if not name.strip():
        raise Invalid("which session? `lore sessions` lists them")
    for kind in ("run", "agent", "task"):
        try:
            return resolve_scope(context.source, f"{kind}:{name}")
        except UnknownName:
            continue
    raise UnknownName("run", name, [], "`lore sessions --all` lists the sessions")


# --- claims


class ListClaims(ListSessions, kw_only=True):
    """Which claims."""

    verdict: list[Verdict] = field(default_factory=list)
    """Only these; all unless given."""


class SessionClaims(Struct, frozen=True, kw_only=True):
    """The claims of one session, the contradicted first."""

    session: str
    agent: str
    name: str
    claims: list[JudgedClaim]
    contradicted: int
    """How many claims of the session are contradicted, asked for or not."""


class ClaimsPage(Head, kw_only=True):
    """What agents claimed about their work, and what the records say about it."""

    sessions: list[SessionClaims]
    more: bool
    """Whether there are older sessions."""


def list_claims(context: OperationContext, request: ListClaims) -> ClaimsPage:
    """What agents claimed, by session, the newest first; sessions without claims are left out."""
    page = list_sessions(context, request)
    found = []
    for one in page.sessions:
        wanted = [claim for claim in one.claims if not request.verdict or claim.verdict in request.verdict]
        contradicted = sum(claim.verdict == "contradicted" for claim in one.claims)
        if wanted or contradicted:
            found.append(SessionClaims(session=one.session, agent=one.agent, name=one.name, claims=wanted, contradicted=contradicted))
    return ClaimsPage(as_of=page.as_of, at=page.at, live=page.live, caught_up=page.caught_up, sessions=found, more=page.more)
