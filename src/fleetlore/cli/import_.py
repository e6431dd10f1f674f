"""`lore import`: import files written by other fleets and programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, progress, summary
from fleetlore.dialects.registry import find_dialect, list_dialects
from fleetlore.errors import Invalid
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.dialects.base import Dialect
    from fleetlore.ingest.batch_writer import ImportItem

_OF_REPOSITORIES = "git"
"""The dialect whose inputs are repositories, not files."""

_EXAMPLES = (
    ("lore import claude-code", "every session of yours that Claude Code has kept"),
    ("lore import codex ~/.codex/sessions/2026/11", "a folder of recordings, or single files"),
    ("lore import nexus chronicle.jsonl", "one file"),
    ("lore import tinytown town-*.jsonl", "several, merged by the time of each record; their order does not matter"),
    ("zcat old.jsonl.gz | lore import nexo -", "from standard input"),
    ("lore import git . ../other", "the history of repositories: their authors as agents"),
)
_NOTES = """\
One record per line; forge and otlp also accept a file that is one document. Importing the same file
again stores nothing. A line that is not a record is stored as log.rejected with its number and the
reason; the rest is imported. Lines that only repeat others are folded; imported, already there,
folded and rejected add up to all lines.
With git, a directory is a repository whose history is read; a file is what `lore export git` wrote.
For coding agents, files compressed with zstd (.jsonl.zst) are read, too. Files that cannot be read
are listed with the reason, and the others are imported.
Exit code: 0 all lines imported or already there, 1 failed, 2 bad arguments, 3 some lines rejected
or files not read.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    known = ", ".join((*registry.list_recordings(), *list_dialects()))
    parser.add_argument("dialect", metavar="DIALECT", help=f"how the records are written: {known}")
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="files of one record a line; - is standard input; for git: repositories; for coding agents also folders, or nothing: then "
        "where the program keeps yours",
    )
    arguments.add_redact(parser)
    arguments.add_json(parser, "print the counts as JSON")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Open all inputs, merge their records by time, and store them."""
    name = args.dialect.replace("_", "-")
    if name in registry.list_recordings():
        from fleetlore.cli import import_recordings

        return import_recordings.import_recordings(args, name)
    dialect = find_dialect(args.dialect)
    if not args.files:
        raise Invalid(f"name the files: `lore import {dialect.name} FILE…`; - is standard input")
    settings = open_log.settings_of(args)
    with (
        progress.show_progress("importing", bytes=dialect.name != _OF_REPOSITORIES) as show,
        _read_inputs(args.files, dialect, show) as items,
        open_log.open_log(args, settings=settings) as log,
        summary.import_with_summary(log, dialect.name, settings, json=args.json) as outcome,
    ):
        outcome.deposit.write_all(items)
    return outcome.code


@contextmanager
def _read_inputs(paths: Sequence[str], dialect: Dialect, show: progress.Progress) -> Iterator[Iterable[ImportItem]]:
    """Yield the records of all inputs, merged by time. All inputs are opened before the first is read."""
    from fleetlore.ingest import files

    if dialect.name == _OF_REPOSITORIES:
        from fleetlore.ingest import git

        with git.open_git_sources(paths, on_commit=show) as sources:
            yield files.read_sources(sources, dialect)
        return
    with files.open_sources(paths) as sources:
        yield files.read_sources(sources, dialect, on_read=progress.count_bytes(show, sum(source.size for source in sources)))
