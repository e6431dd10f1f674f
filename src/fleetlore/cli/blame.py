"""`lore blame`: the agent, person or commit behind each line, for people and for editors that read `git blame --porcelain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments
from fleetlore.cli.main import OK

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.operations.why import ExplainedLines, FileExplanation

_EXAMPLES = (
    ("lore blame src/retry.py", "each line with its agent and prompt, its author, or `unknown`"),
    ("lore blame src/retry.py --porcelain", "for editors: as `git blame --line-porcelain`, with agents as authors"),
)
UNCOMMITTED = "0" * 40
LONGEST_NAME = 24


def configure(parser: ArgumentParser) -> None:
    """Which file."""
    parser.add_argument("place", metavar="FILE[:LINE[-LINE]]", help="a file of a git repository, or lines of it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--porcelain", "--line-porcelain", action="store_true", help="print what git prints with --line-porcelain")
    arguments.add_json(form, "print one JSON object, as `lore why` does")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print each line with its author."""
    from fleetlore.cli.operations import print_read
    from fleetlore.operations.why import ExplainLines

    print_read(args, "why", ExplainLines(place=args.place), describe_porcelain if args.porcelain else describe_lines)
    return OK


def describe_lines(found: FileExplanation) -> Iterator[str]:
    """Each line with the commit, the author, the time and the text."""
    width = len(str(found.lines[-1].last)) if found.lines else 1
    for part in found.lines:
        at = part.edit.at if part.edit is not None else part.commit.at if part.commit is not None else None
        head = f"{(part.commit.sha if part.commit is not None else UNCOMMITTED)[:8]} {find_name(part)[:LONGEST_NAME]:<{LONGEST_NAME}}"
        for number, text in enumerate(part.text.split("\n"), part.first):
            yield f"{head} {f'{at:%Y-%m-%d %H:%M}' if at is not None else '':<16} {number:>{width}}) {text}"


def describe_porcelain(found: FileExplanation) -> Iterator[str]:
    """Each line with a whole header, as `git blame --line-porcelain` prints it. The author is the agent; the summary is the prompt."""
    for part in found.lines:
        sha = part.commit.sha if part.commit is not None else UNCOMMITTED
        at = part.edit.at if part.edit is not None else part.commit.at if part.commit is not None else None
        seconds = int(at.timestamp()) if at is not None else 0
        committer = part.commit.author if part.commit is not None else "Not Committed Yet"
        summary = part.edit.prompt if part.edit is not None else part.commit.subject if part.commit is not None else part.why
        for offset, text in enumerate(part.text.split("\n")):
            yield f"{sha} {part.first + offset} {part.first + offset}" + (f" {part.last - part.first + 1}" if not offset else "")
            yield f"author {find_name(part)}"
            yield f"author-mail <{part.author}>"
            yield f"author-time {seconds}"
            yield "author-tz +0000"
            yield f"committer {committer}"
            yield f"committer-mail <{'commit' if part.commit is not None else 'not.committed.yet'}>"
            yield f"committer-time {int(part.commit.at.timestamp()) if part.commit is not None else seconds}"
            yield "committer-tz +0000"
            yield f"summary {' '.join(summary.split())[:200]}"
            yield f"filename {found.path}"
            yield f"\t{text}"


def find_name(part: ExplainedLines) -> str:
    """Who wrote lines: an agent, a person, or `unknown`."""
    if part.author == "agent":
        return part.edit.agent if part.edit is not None else part.other.tool if part.other is not None else "agent"
    if part.author == "hand":
        return part.commit.author if part.commit is not None else "by hand"
    return "unknown"
