"""`lore import`: take in files that other fleets wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetlore import dialects
from fleetlore.cli import arguments, opening, progress, summary

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.dialects.base import Dialect
    from fleetlore.intake.deposit import Item
    from fleetlore.intake.files import Read

SUMMARY = "take in records that other fleets wrote, merged by time"
_OF_REPOSITORIES = "git"

_EXAMPLES = (
    ("lore import nexus chronicle.jsonl", "one file"),
    ("lore import tinytown town-*.jsonl", "several, merged by the time of each record; their order does not matter"),
    ("zcat old.jsonl.gz | lore import nexo -", "from standard input"),
    ("lore import git . ../other", "the history of repositories: their authors as agents"),
)
_NOTES = """\
One record a line. Importing the same file again stores nothing. A line that is no record is kept
as log.rejected with its number and the reason; the rest goes in.
With git, a directory is a repository whose history is read; a file is what `lore export git` wrote.
Exit code: 0 all lines in or already there, 1 failed, 2 bad arguments, 3 some lines rejected.
"""


def configure(parser: ArgumentParser) -> None:
    """The dialect and the files."""
    parser.add_argument("dialect", metavar="DIALECT", help=f"how the records are written: {', '.join(dialects.NAMES)}")
    parser.add_argument("files", metavar="FILE", nargs="+", help="files of one record a line; - is standard input; for git: repositories")
    arguments.add_json(parser, "print the counts as JSON")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Open everything, then merge and store."""
    from fleetlore.intake.deposit import Deposit
    from fleetlore.log.admission import Admission

    dialect = dialects.find(args.dialect)
    settings = opening.settings_of(args)
    rejections = summary.Rejections()
    with (
        progress.bar("importing", bytes=dialect.name != _OF_REPOSITORIES) as show,
        _items(args.files, dialect, show) as items,
        opening.open_log(args, settings=settings) as log,
    ):
        admission = Admission(redactor=opening.redactor_of(settings))
        deposit = Deposit(log, dialect=dialect.name, admission=admission, on_rejected=rejections.add)
        deposit.put_all(items)
    rejections.end()
    return summary.end(deposit.tally, json=args.json, verb="imported")


@contextmanager
def _items(paths: Sequence[str], dialect: Dialect, show: progress.Progress) -> Iterator[Iterable[Item]]:
    """What the inputs hold, merged by time; all of them can be opened, or nothing is read."""
    from fleetlore.intake import files

    if dialect.name == _OF_REPOSITORIES:
        from fleetlore.intake import git

        with git.open_all(paths, on_commit=show) as sources:
            yield files.read_all(sources, dialect)
        return
    with files.open_all(paths) as sources:
        yield files.read_all(sources, dialect, on_read=_counting(show, sum(source.size for source in sources)))


def _counting(show: progress.Progress, total: int) -> Read:
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        show(done, total)

    return add
