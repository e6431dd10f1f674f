"""`lore import`: take in files that other fleets wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import dialects
from fleetlore.cli import arguments, opening, progress, summary

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.intake.files import Read

SUMMARY = "take in records that other fleets wrote, merged by time"

_EXAMPLES = (
    ("lore import nexus chronicle.jsonl", "one file"),
    ("lore import tinytown town-*.jsonl", "several, merged by the time of each record; their order does not matter"),
    ("zcat old.jsonl.gz | lore import nexo -", "from standard input"),
)
_NOTES = """\
One record a line. Importing the same file again stores nothing. A line that is no record is kept
as log.rejected with its number and the reason; the rest goes in.
Exit code: 0 all lines in or already there, 1 failed, 2 bad arguments, 3 some lines rejected.
"""


def configure(parser: ArgumentParser) -> None:
    """The dialect and the files."""
    parser.add_argument("dialect", metavar="DIALECT", help=f"how the records are written: {', '.join(dialects.NAMES)}")
    parser.add_argument("files", metavar="FILE", nargs="+", help="files of one record a line; - is standard input")
    arguments.add_json(parser, "print the counts as JSON")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Open everything, then merge and store."""
    from fleetlore.intake.deposit import Deposit
    from fleetlore.intake.files import open_all, read_all
    from fleetlore.log.admission import Admission

    dialect = dialects.find(args.dialect)
    settings = opening.settings_of(args)
    rejections = summary.Rejections()
    with open_all(args.files) as sources, opening.open_log(args, settings=settings) as log:
        admission = Admission(redactor=opening.redactor_of(settings))
        deposit = Deposit(log, dialect=dialect.name, admission=admission, on_rejected=rejections.add)
        with progress.bar("importing", bytes=True) as show:
            on_read = _counting(show, sum(source.size for source in sources))
            deposit.put_all(read_all(sources, dialect, on_read=on_read))
    rejections.end()
    return summary.end(deposit.tally, json=args.json, verb="imported")


def _counting(show: progress.Progress, total: int) -> Read:
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        show(done, total)

    return add
