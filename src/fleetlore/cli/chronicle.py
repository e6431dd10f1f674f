"""`lore chronicle`: the story of something that is no log yet: a repository's history."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, progress, summary
from fleetlore.cli.tell import command
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.log.recorder import BlockingRecorder

SUMMARY = "tell the history of a git repository"

_EXAMPLES = (
    ("lore chronicle git .", "the whole history of the repository here"),
    ("lore chronicle git ~/src/app ~/src/lib --since 1w", "two repositories, the last week"),
    ("lore chronicle git . --detail headline --format html --out history.html", "a page"),
)
_NOTES = """\
Authors are the agents, a revert is a setback, what mends it a recovery, a version's tag a milestone. Nothing is kept: your log is
not touched, and --log and --town mean nothing here. `lore import git` takes a history into a log.
"""


def configure(parser: ArgumentParser) -> None:
    """What to tell, and how."""
    parser.add_argument("source", metavar="git", choices=("git",), help="what it is the history of")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="repositories")
    command.add_options(parser)
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Read the history into a log that is thrown away, and tell that."""
    with _read(args.paths) as log:
        command.tell(log, args, scope="town", whole=True)
    return 0


@contextmanager
def _read(paths: Sequence[str]) -> Iterator[BlockingRecorder]:
    from fleetlore import dialects
    from fleetlore.ingest import files, git
    from fleetlore.ingest.batch_writer import BatchWriter
    from fleetlore.log.admission import Admission
    from fleetlore.log.connect import connect

    rejections = summary.Rejections()
    with TemporaryDirectory(prefix="fleetlore-") as folder, connect(f"sqlite:{folder}/history.db?sync=normal").blocking() as log:
        with progress.bar("reading commits") as show, git.open_git_sources(paths, on_commit=show) as sources:
            deposit = BatchWriter(log, dialect="git", admission=Admission(), on_rejected=rejections.add)
            deposit.write_all(files.read_sources(sources, dialects.find("git")))
        rejections.end()
        if log.head() is None:
            raise Invalid(f"{', '.join(paths)}: no commits yet; there is nothing to tell")
        yield log
