"""`lore why`: who wrote a line of a file, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import OK

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.operations.why import ExplainedLines, FileExplanation, LineSession

_EXAMPLES = (
    ("lore why src/retry.py:12", "who wrote line 12, and what asked for it"),
    ("lore why src/retry.py:12-40", "the same for some lines"),
    ("lore why src/retry.py", "the whole file: a part for each edit, and who wrote how much"),
    ("lore why 1a2b3c4", "a commit; `#12` is a pull request that is merged or fetched here"),
    ("lore why src/retry.py --json | jq '.lines[] | select(.author == \"unknown\")'", "for programs"),
)
_NOTES = """\
A line is attributed to an agent only if a recorded edit wrote it. Otherwise it was written by hand,
if agents were recorded in this repository at that time, or its author is unknown. Nothing is guessed.
"""
MOST_DIFF_LINES = 12
LONGEST_TEXT = 300


def configure(parser: ArgumentParser) -> None:
    """Which lines."""
    parser.add_argument(
        "place", metavar="FILE[:LINE[-LINE]]|COMMIT|#PR", help="a file of a git repository or lines of it, a commit, or a pull request"
    )
    arguments.add_json(parser, "print one JSON object")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print the origin of each part of the file."""
    from fleetlore.cli.operations import print_read
    from fleetlore.cli.review import print_review
    from fleetlore.operations.why import ExplainLines, names_file

    if not names_file(args.place):
        print_review(args, args.place)
        return OK
    print_read(args, "why", ExplainLines(place=args.place), describe_file)
    return OK


def describe_file(found: FileExplanation) -> Iterator[str]:
    """The explanation as lines of text."""
    sessions = {session.session: session for session in found.sessions}
    shown: set[str] = set()
    for part in found.lines:
        yield from _describe_part(found.path, part, sessions, shown)
    counts = {
        author: sum(part.last - part.first + 1 for part in found.lines if part.author == author) for author in ("agent", "hand", "unknown")
    }
    total = sum(counts.values())
    if len(found.lines) > 1:
        words = {"agent": "written by agents", "hand": "by hand", "unknown": "unknown"}
        yield f"{total} lines: " + ", ".join(f"{count} {words[author]}" for author, count in counts.items() if count)


def _describe_part(path: str, part: ExplainedLines, sessions: dict[str, LineSession], shown: set[str]) -> Iterator[str]:
    place = f"{path}:{part.first}" + (f"-{part.last}" if part.last > part.first else "")
    words = {"agent": "written by an agent", "hand": "written by hand", "unknown": "unknown"}[part.author]
    yield place + f"  {words}" + ("" if part.author == "agent" else f": {part.why}")
    edit = part.edit
    if edit is not None:
        session = sessions.get(edit.session)
        who = ", ".join(
            filter(None, (edit.agent, session.person if session else None, f"launched by {edit.parent}" if edit.parent else ""))
        )
        yield f"  edit       {edit.at:%Y-%m-%d %H:%M:%S} UTC by {who}  [{edit.event[:8]}]"
        if edit.event not in shown:
            diff = edit.diff.splitlines()
            yield from (f"    {line}" for line in diff[:MOST_DIFF_LINES])
            if len(diff) > MOST_DIFF_LINES:
                yield f"    … {len(diff) - MOST_DIFF_LINES} more lines"
            shown.add(edit.event)
        yield f"  asked      {' '.join(edit.prompt.split())[:LONGEST_TEXT] or '(not recorded)'}"
        yield from (f"  meanwhile  {' '.join(prompt.split())[:LONGEST_TEXT]}" for prompt in edit.said_meanwhile)
        if edit.answer:
            yield f"  said       {' '.join(edit.answer.split())[:LONGEST_TEXT]}"
        if edit.allowed_by:
            yield f"  allowed    by {edit.allowed_by}"
        if edit.task or edit.mission:
            scopes = [f"{kind} {name}" for kind, name in (("task", edit.task), ("mission", edit.mission)) if name]
            yield f"  for        {' of '.join(scopes)}"
        if session is not None:
            cost = f", ${session.usd:.2f}" if session.usd is not None else ""
            yield f"  session    {session.session[:8]} {session.headline}{cost}"
            if session.session not in shown:
                yield from _describe_session(session)
                shown.add(session.session)
    if part.other is not None:
        yield f"  noted      {part.other.tool} {part.other.model}".rstrip() + (
            f", session {part.other.session}" if part.other.session else ""
        )
    if part.commit is not None:
        yield f"  commit     {part.commit.sha[:10]} {part.commit.subject} ({part.commit.author}, {part.commit.at:%Y-%m-%d})"
    if part.merge is not None:
        yield f"  merged     {part.merge.sha[:10]} {part.merge.subject} ({part.merge.author}, {part.merge.at:%Y-%m-%d})"
    yield ""


def _describe_session(session: LineSession) -> Iterator[str]:
    if session.checks:
        words = {"pass": "passed", "fail": "failed", "could_not_run": "could not run"}
        yield "  checks     " + ", ".join(f"{kind} {words[result]}" for kind, result in session.checks.items()) + " after its last edit"
    for claim in session.claims:
        if claim.verdict == "contradicted":
            yield f'  claim      contradicted: "{claim.text}" ({claim.why})'
    for request in session.pull_requests:
        yield f"  pull       {request}"
    for task in session.tasks:
        yield f"  task       {task}"
