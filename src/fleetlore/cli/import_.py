"""`lore import`: import files written by other fleets and programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, open_log, progress, summary, terminal
from fleetlore.cli.main import OK, SOME_REJECTED
from fleetlore.dialects.registry import find_dialect, list_dialects
from fleetlore.errors import Invalid
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.dialects.base import Dialect
    from fleetlore.ingest.batch_writer import ImportItem
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings

_OF_REPOSITORIES = "git"
"""The dialect whose inputs are repositories, not files."""

_EXAMPLES = (
    ("lore import ~/backup/sessions", "a folder or files of any supported format"),
    ("lore import claude-code", "all sessions that Claude Code has kept"),
    ("lore import codex ~/.codex/sessions/2026/11", "a folder of recordings, or single files"),
    ("lore import nexus chronicle.jsonl", "one file"),
    ("lore import tinytown town-*.jsonl", "several files, merged by the time of each record, in any order"),
    ("zcat old.jsonl.gz | lore import -", "from standard input"),
    ("lore import git . ../other", "the history of repositories; authors become agents"),
)
_NOTES = """\
Without a format, each file is recognised by its first records, and what it was taken for is printed.
One record per line; forge, otlp and trajectories may be one document. Importing the same file again
stores nothing. A line that is not a record is stored as log.rejected with its number and the reason;
the rest is imported. "Nothing new" counts lines that repeat other lines or belong to their events;
all counts together are the number of lines.
With git, a directory is a repository whose history is read; a file is what `lore export git` wrote.
For coding agents, files compressed with zstd (.jsonl.zst) are read, too. Files that cannot be read
are listed with the reason, and the others are imported.
Exit code: 0 all lines imported or already there, 1 failed, 2 bad arguments, 3 some lines rejected
or files not read.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "inputs",
        metavar="PATH",
        nargs="+",
        help="files and folders; - is standard input. The first word may be a format; for git the rest are repositories, and for coding "
        f"agents there may be no path: then where the program keeps yours. Formats: {', '.join(_list_formats())}",
    )
    arguments.add_redact(parser)
    arguments.add_json(parser, "print the counts as JSON")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def _list_formats() -> list[str]:
    return [*registry.list_recordings(), *list_dialects()]


def run(args: Namespace) -> int:
    """Import by the format that is named, or by those that are recognised."""
    first, *rest = args.inputs
    name = first.replace("_", "-")
    if name in registry.list_recordings():
        from fleetlore.cli import import_recordings

        args.files = rest
        return import_recordings.import_recordings(args, name)
    if first in list_dialects():
        return _import_dialect(args, find_dialect(first), rest)
    if missing := [path for path in args.inputs if path != "-" and not os.path.exists(path)]:
        if len(missing) == len(args.inputs):
            from difflib import get_close_matches

            near = get_close_matches(first, _list_formats(), n=1)
            suggestion = f"did you mean {near[0]}? " if near else ""
            raise Invalid(
                f"{missing[0]}: there is no such file or folder, nor format; {suggestion}formats are {', '.join(_list_formats())}"
            )
        raise Invalid(f"{missing[0]}: there is no such file or folder; check the path")
    return _import_recognised(args, args.inputs)


def _import_dialect(args: Namespace, dialect: Dialect, paths: Sequence[str]) -> int:
    """Open all inputs, merge their records by time, and store them."""
    if not paths:
        raise Invalid(f"name the files: `lore import {dialect.name} FILE…`; - is standard input")
    settings = open_log.load_settings_for(args)
    with (
        progress.show_progress("importing", bytes=dialect.name != _OF_REPOSITORIES) as show,
        _read_inputs(paths, dialect, show) as items,
        open_log.open_log(args, settings=settings) as log,
        summary.import_with_summary(log, dialect.name, settings, json=args.json) as outcome,
    ):
        outcome.deposit.write_all(items)
    return outcome.code


@contextmanager
def _read_inputs(paths: Sequence[str], dialect: Dialect, show: progress.ShowProgress) -> Iterator[Iterable[ImportItem]]:
    """Yield the records of all inputs, merged by time. All inputs are opened before the first is read."""
    from fleetlore.ingest import files

    if dialect.name == _OF_REPOSITORIES:
        from fleetlore.ingest import git

        with git.open_git_sources(paths, on_commit=show) as sources:
            yield files.read_sources(sources, dialect)
        return
    with files.open_sources(paths) as sources:
        yield files.read_sources(sources, dialect, on_read=progress.count_bytes(show, sum(source.size for source in sources)))


# --- Without a format


def _import_recognised(args: Namespace, paths: Sequence[str]) -> int:
    """Recognise every file, say what it was taken for, and import each format's files together."""
    from fleetlore.cli.import_recordings import copy_if_stream

    settings, skipped = open_log.load_settings_for(args), summary.SkippedFiles()
    with TemporaryDirectory(prefix="fleetlore-") as folder:
        groups = _group_files([copy_if_stream(path, folder) for path in paths], skipped)
        reports: dict[str, Any] = {}
        code = SOME_REJECTED if skipped.paths else OK
        if groups:
            with open_log.open_log(args, settings=settings) as log:
                for reader, (title, files) in groups.items():
                    found = _import_group(
                        log, settings, reader, files, f"{title} ({len(files):,} {'file' if len(files) == 1 else 'files'})"
                    )
                    reports[reader] = {"files": len(files)} | {
                        name: getattr(found.deposit.tally, name) for name in found.deposit.tally.__struct_fields__
                    }
                    code = max(code, found.code)
    skipped.print_rest()
    if args.json:
        terminal.print_value({"formats": reports, "not_read": skipped.paths})
    elif not groups:
        terminal.print_error(f"lore: nothing was imported. Formats: {', '.join(_list_formats())}")
    return code


def _group_files(paths: Sequence[str], skipped: summary.SkippedFiles) -> Mapping[str, tuple[str, list[str]]]:
    """The files by reader, with the format's title; what is not recognised is said."""
    from fleetlore.ingest import recognise

    groups: dict[str, tuple[str, list[str]]] = {}
    for path in paths:
        is_folder = os.path.isdir(path)
        before = sum(len(files) for _, files in groups.values()) + len(skipped.paths)
        for file, is_named in recognise.iterate_candidates(path) if is_folder else [(path, True)]:
            found = recognise.recognise_file(file)
            if found is not None and found.reader is not None:
                _, files = groups.setdefault(found.reader, (found.title, []))
                if os.path.abspath(file) not in files:
                    files.append(os.path.abspath(file))
            elif found is not None:
                skipped.add(file, f"this looks like {found.description}; {found.advice}")
            elif is_named:
                skipped.add(file, "its first records are in no format that Fleetlore knows")
        if is_folder and before == sum(len(files) for _, files in groups.values()) + len(skipped.paths):
            is_repository = os.path.exists(os.path.join(path, ".git"))
            advice = f"; for its history use `lore import git {path}`" if is_repository else ""
            skipped.add(path, f"has no file in a format that Fleetlore knows{advice}")
    return groups


def _import_group(log: BlockingRecorder, settings: Settings, reader: str, paths: Sequence[str], subject: str) -> summary.ImportSummary:
    from fleetlore.cli import import_recordings

    if reader in list_dialects():
        dialect = find_dialect(reader)
        with (
            progress.show_progress("importing", bytes=True) as show,
            _read_inputs(paths, dialect, show) as items,
            summary.import_with_summary(log, dialect.name, settings, json=False, subject=subject) as ending,
        ):
            ending.deposit.write_all(items)
        return ending
    chosen = import_recordings.choose_recognised(paths, reader)
    with summary.import_with_summary(log, chosen.recording.name, settings, json=False, subject=subject) as ending:
        import_recordings.store_recordings(chosen, ending, log, settings)
    return ending
