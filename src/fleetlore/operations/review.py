"""Who wrote a commit or a pull request: the sessions behind its lines, their checks, flags, claims and costs."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.ingest import git_files
from fleetlore.ingest.git_files import BlamedCommit, Repository, TrackedFile
from fleetlore.operations.authorship import WrittenRange
from fleetlore.operations.context import OperationContext
from fleetlore.operations.request import Request
from fleetlore.operations.why import Author, FileExplainer, RecordedSessions
from fleetlore.views.outcomes.facts import RiskFlag
from fleetlore.views.outcomes.record import Checks, JudgedClaim, Outcome

MOST_FILES = 500
MOST_FILES_ELSEWHERE = 50
"""For HTTP and MCP, where somebody waits for the answer."""


_pull_request = re.compile(r"(?:(?:PR|pr|pull) ?)?#(?P<number>\d{1,9})|https?://\S{1,500}/pulls?/(?P<address>\d{1,9})(?:/\S{0,200})?")


class ReviewRange(Request, kw_only=True):
    """Which commits."""

    range: Annotated[
        str,
        Meta(
            max_length=1000,
            description="BASE..HEAD, a commit, or a pull request (#12 or its address); by default what HEAD adds to the main branch",
        ),
    ] = ""


class AuthoredRange(Struct, frozen=True, kw_only=True):
    """Added lines that follow each other, with their author."""

    first: int
    last: int
    author: Author
    session: str = ""
    model: str = ""
    tool: str = ""
    """The coding agent."""
    person: str = ""
    """The author of the commit, for lines written by hand."""


class FileAuthors(Struct, frozen=True, kw_only=True):
    """Who wrote the added lines of one file."""

    path: str
    lines: int
    authors: dict[Author, int]
    sessions: dict[str, int]
    """Lines by session."""
    ranges: list[AuthoredRange] = field(default_factory=list)
    """The added lines, as they are numbered at the last commit."""


class ReviewedSession(Struct, frozen=True, kw_only=True):
    """A session that wrote some of the lines."""

    session: str
    name: str
    headline: str
    asked: str
    person: str | None
    program: str | None
    usd: float | None
    lines: int
    checks: Checks
    flags: list[RiskFlag]
    claims: list[JudgedClaim]
    """Those that are contradicted or unproven."""


class ChangeReview(Struct, frozen=True, kw_only=True):
    """Who wrote the lines that commits added."""

    base: str
    head: str
    commits: list[BlamedCommit]
    files: list[FileAuthors]
    sessions: list[ReviewedSession]
    authors: dict[Author, int]
    """Added lines by author."""
    left_out: int
    """Files that were not looked at, because there are too many."""


def review_range(context: OperationContext, request: ReviewRange) -> ChangeReview:
    """Who wrote the lines of some commits, and what is known about the sessions that did."""
    repository = git_files.find_repository(".")
    base, head = find_range(repository, request.range)
    commits = git_files.list_commits(repository, base, head)
    if not commits:
        raise Invalid(f"no commits in {base[:10]}..{head[:10]}")
    ours = {commit.sha for commit in commits}
    changes = git_files.list_changes(repository, base, head)
    sessions = RecordedSessions(context, repository)
    most = MOST_FILES if context.via in ("terminal", "api") else MOST_FILES_ELSEWHERE
    files = [_review_file(context, sessions, TrackedFile(repository, change.path, head), ours) for change in changes[:most]]
    lines: Counter[str] = Counter()
    authors: Counter[Author] = Counter()
    for file in files:
        lines.update(file.sessions)
        authors.update(file.authors)
    wrote = [_review_session(sessions.by_run[run], count) for run, count in lines.most_common() if run in sessions.by_run]
    return ChangeReview(
        base=base, head=head, commits=commits, files=files, sessions=wrote, authors=dict(authors), left_out=len(changes[most:])
    )


def find_range(repository: Repository, text: str) -> tuple[str, str]:
    """The commits that a text names: base and head."""
    if found := _pull_request.fullmatch(text):
        base, head = git_files.find_pull_request(repository, found["number"] or found["address"])
        if not head:
            raise Invalid(
                f"pull request {found['number'] or found['address']} is neither merged nor fetched here; give its commits as BASE..HEAD"
            )
    elif ".." in text:
        names = text.replace("...", "..").split("..")
        base, head = (git_files.find_commit(repository, name or "HEAD") for name in names[:2])
    elif text:
        head = git_files.find_commit(repository, text)
        base = git_files.find_commit(repository, f"{text}^") or git_files.EMPTY_TREE
    else:
        head = git_files.find_commit(repository, "HEAD")
        base = git_files.find_base(repository, head)
    if not head or not base:
        raise Invalid(f"{text or 'HEAD'}: no such commits here; give BASE..HEAD, such as main..HEAD")
    return base, head


def _review_file(context: OperationContext, sessions: RecordedSessions, file: TrackedFile, commits: set[str]) -> FileAuthors:
    """The lines of a file that these commits added."""
    authors: Counter[Author] = Counter()
    wrote: Counter[str] = Counter()
    ranges: list[AuthoredRange] = []
    for part in FileExplainer(context, sessions, file).explain().lines:
        if part.commit is None or part.commit.sha not in commits:
            continue
        count = part.last - part.first + 1
        authors[part.author] += count
        made = AuthoredRange(first=part.first, last=part.last, author=part.author)
        if part.edit is not None:
            wrote[part.edit.session] += count
            outcome = sessions.by_run.get(part.edit.session)
            tool = outcome.program if outcome is not None else None
            made = replace(made, session=part.edit.session, model=part.edit.model, tool=tool or "")
        elif part.other is not None:
            made = replace(made, session=part.other.session or part.other.tool, model=part.other.model, tool=part.other.tool)
        elif part.author == "hand":
            made = replace(made, person=part.commit.author)
        ranges.append(made)
    return FileAuthors(path=file.path, lines=authors.total(), authors=dict(authors), sessions=dict(wrote), ranges=ranges)


def _review_session(outcome: Outcome, lines: int) -> ReviewedSession:
    return ReviewedSession(
        session=outcome.session,
        name=outcome.name,
        headline=outcome.headline,
        asked=outcome.asked,
        person=outcome.person,
        program=outcome.program,
        usd=outcome.usd,
        lines=lines,
        checks=outcome.checks,
        flags=outcome.flags,
        claims=[claim for claim in outcome.claims if claim.verdict != "supported"],
    )


def list_written_ranges(review: ChangeReview) -> list[WrittenRange]:
    """The lines with a known author, for other tools."""
    return [
        WrittenRange(file.path, each.first, each.last, each.session, each.tool, each.model, each.person)
        for file in review.files
        for each in file.ranges
        if each.author != "unknown"
    ]
