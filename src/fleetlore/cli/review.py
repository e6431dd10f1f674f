"""`lore review`: a report for a pull request: who wrote it, at what cost, and what to check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import OK

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.operations.review import ChangeReview, ReviewedSession
    from fleetlore.operations.why import Author

_EXAMPLES = (
    ("lore review", "what this branch adds to the main one"),
    ("lore review main..HEAD > review.md", "a report to paste into a pull request"),
    ("lore review 1a2b3c4", "one commit; `#12` is a pull request that is merged or fetched here"),
    ("lore review HEAD --format git-ai | git notes --ref=ai add -F - HEAD", "keep the authors as git-ai does"),
    ("lore review --json | jq .authors", "for programs"),
)
_NOTES = """\
Lines are attributed as by `lore why`: to an agent only if a recorded edit wrote them.
"""
MOST_FILES = 40
_CHECK_WORDS = {"pass": "passed", "fail": "**failed**", "could_not_run": "could not run", "not_run": "not run after the last edit"}
_AUTHOR_WORDS: dict[Author, str] = {"agent": "by agents", "hand": "by hand", "unknown": "unknown"}


def configure(parser: ArgumentParser) -> None:
    """Which commits."""
    parser.add_argument(
        "range", metavar="BASE..HEAD", nargs="?", default="", help="commits, or one commit (default: what HEAD adds to the main branch)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=tuple(_WRITERS), default="markdown", help="for people, or authorship for other tools (markdown)")
    arguments.add_json(form, "print one JSON object")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print the report."""
    print_review(args, args.range, args.format)
    return OK


def print_review(args: Namespace, range: str, format: str = "markdown") -> None:
    """Print who wrote some commits."""
    from fleetlore.cli.operations import print_read
    from fleetlore.operations.review import ReviewRange

    print_read(args, "review", ReviewRange(range=range), _WRITERS[format])


def _write_note(review: ChangeReview) -> Iterator[str]:
    from fleetlore import __version__
    from fleetlore.operations.authorship import write_git_ai_note
    from fleetlore.operations.review import list_written_ranges

    yield from write_git_ai_note(review.head, list_written_ranges(review), __version__).splitlines()


def _write_trace(review: ChangeReview) -> Iterator[str]:
    import json

    from fleetlore import __version__
    from fleetlore.operations.authorship import write_agent_trace
    from fleetlore.operations.review import list_written_ranges

    record = write_agent_trace(review.head, review.commits[0].at, list_written_ranges(review), __version__)
    yield json.dumps(record, ensure_ascii=False)


def write_report(review: ChangeReview) -> Iterator[str]:
    """The report as Markdown. Text of events is escaped."""
    total = sum(review.authors.values())
    yield f"## Who wrote {review.base[:10]}..{review.head[:10]}"
    yield ""
    shares = ", ".join(f"{review.authors[name]} {words}" for name, words in _AUTHOR_WORDS.items() if review.authors.get(name))
    costs = [session.usd for session in review.sessions if session.usd is not None]
    cost = f" The sessions behind them cost ${sum(costs):.2f}." if costs else ""
    parts = (_count_noun(total, "added line"), _count_noun(len(review.files), "file"), _count_noun(len(review.commits), "commit"))
    yield "{} in {} and {}: ".format(*parts) + f"{shares or 'none'}.{cost}"
    for session in review.sessions:
        yield ""
        yield from _write_session(session)
    if review.files:
        yield ""
        yield "| file | added lines | by agents | by hand | unknown |"
        yield "|---|---|---|---|---|"
        for file in sorted(review.files, key=lambda each: -each.lines)[:MOST_FILES]:
            counts = " | ".join(str(file.authors.get(name, 0)) for name in _AUTHOR_WORDS)
            yield f"| {_escape_text(file.path)} | {file.lines} | {counts} |"
        if len(review.files) > MOST_FILES:
            yield f"\nand {len(review.files) - MOST_FILES} more files"
    if review.left_out:
        yield f"\n{review.left_out} files were not looked at."


def _write_session(session: ReviewedSession) -> Iterator[str]:
    who = ", ".join(filter(None, (session.program, session.person, f"${session.usd:.2f}" if session.usd is not None else "")))
    yield f"### {_escape_text(session.headline or session.name)}"
    yield ""
    asked = _escape_text(session.asked) or "not recorded"
    yield f"Session `{session.session[:8]}` ({_escape_text(who)}) wrote {session.lines} lines. Asked: {asked}"
    yield ""
    for kind in ("tests", "lint", "types", "build"):
        check = getattr(session.checks, kind)
        if check.result in _CHECK_WORDS and (check.result != "not_run" or check.earlier or kind == "tests"):
            detail = ", ".join(filter(None, (check.counts, check.reason)))
            yield f"- {kind.capitalize()} {_CHECK_WORDS[check.result]}" + (f" ({_escape_text(detail)})" if detail else "")
    for flag in session.flags:
        yield f"- **Risk** {flag.flag.replace('_', ' ')}: {_escape_text(flag.what)}{'' if flag.executed else ' (not executed)'}"
    for claim in session.claims:
        verdict = "**Contradicted**" if claim.verdict == "contradicted" else "Unproven"
        yield f'- {verdict}: "{_escape_text(claim.text)}" ({_escape_text(claim.why)})'


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _escape_text(text: str) -> str:
    from fleetlore.story.brief_formats import escape_markdown

    return escape_markdown(" ".join(text.split()))


_WRITERS = {"markdown": write_report, "git-ai": _write_note, "agent-trace": _write_trace}
