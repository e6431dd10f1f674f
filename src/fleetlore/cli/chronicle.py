"""`lore chronicle`: the story of a git repository's history, without a log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, progress, story, summary, times
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from fleetlore.log.recorder import BlockingRecorder

_EXAMPLES = (
    ("lore chronicle git .", "the whole history of the repository here"),
    ("lore chronicle git ~/src/app ~/src/lib --since 1w", "two repositories, the last week"),
    ("lore chronicle git . --detail headline --format html --out history.html", "a page"),
)
_NOTES = """\
Agents are the authors; a merge is credited to the author of the branch. A revert counts as an error, its fix as a recovery, the tag
of a version as a milestone. Nothing is kept: your log is not touched, and --log and --town have no effect here. `lore import git`
adds a history to a log.
"""


def configure(parser: ArgumentParser) -> None:
    """Which repositories, which period, and how to write it."""
    parser.add_argument("source", metavar="git", choices=("git",), help="the kind of history")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="repositories")
    story.add_options(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Import the history into a temporary log, and write its story."""
    args.format = "json" if args.json else args.format
    from fleetlore.operations.context import OperationContext, open_source

    settings, now = open_log.load_settings_for(args), times.parse_now(args.now)
    with (
        _import_history(args.paths) as log,
        open_source(log, settings, progress=progress.show_progress_if_long, now=lambda: now, is_own_log=False) as source,
    ):
        story.write_story(OperationContext(source, actor=""), args, whole=True)
    return 0


@contextmanager
def _import_history(paths: Sequence[str]) -> Iterator[BlockingRecorder]:
    from fleetlore.dialects.registry import find_dialect
    from fleetlore.ingest import files, git
    from fleetlore.ingest.batch_writer import BatchWriter
    from fleetlore.log.admission import Admission
    from fleetlore.log.connect import connect

    rejections = summary.Rejections()
    with TemporaryDirectory(prefix="fleetlore-") as folder, connect(f"sqlite:{folder}/history.db?sync=normal").blocking() as log:
        with progress.show_progress("reading commits") as show, git.open_git_sources(paths, on_commit=show) as sources:
            deposit = BatchWriter(log, dialect="git", admission=Admission(), on_rejected=rejections.add)
            deposit.write_all(files.read_sources(sources, find_dialect("git")))
        rejections.print_rest()
        if log.head() is None:
            raise Invalid(f"{', '.join(paths)}: no commits yet")
        yield log
