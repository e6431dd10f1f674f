"""`lore watch`: follow the recordings of coding agents as they are written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Event as Flag
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, events, open_log, summary, terminal, times
from fleetlore.errors import Invalid
from fleetlore.programs import registry

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.ingest.batch_writer import ImportTally
    from fleetlore.ingest.follow_files import TranscriptFollower
    from fleetlore.log.recorder import BlockingRecorder

PAUSE = 0.5

_EXAMPLES = (
    ("lore watch claude-code", "sessions of the last day, and new events as they come; Ctrl-C ends it"),
    ("lore watch claude-code --since 7d --quiet &", "from a week ago on, without output"),
    ("lore watch codex ~/sessions --once", "another folder, from where the last run stopped, once"),
)
_NOTES = """\
Files last written before --since are skipped until they change. Each file is read from where the
last read stopped; an unfinished last line waits. `lore install` records programs by hooks instead.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    programs = registry.list_recorded_names()
    parser.add_argument("program", metavar="PROGRAM", choices=programs, help=f"whose transcripts: {', '.join(programs)}")
    parser.add_argument("folders", metavar="FOLDER", nargs="*", help="folder of transcripts (default: where the program keeps yours)")
    parser.add_argument("--since", metavar="WHEN", default="1d", help="skip files that were last written before: 7d, 2026-11-01 (1d)")
    parser.add_argument("--once", action="store_true", help="read what is new, then exit")
    parser.add_argument("--quiet", "-q", action="store_true", help="do not print incoming events")
    parser.add_argument("--utc", action="store_true", help="times in UTC")
    arguments.add_redact(parser)
    arguments.add_json(parser, "one JSON object per line: the canonical event and its position")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Check for new records until a signal."""
    from fleetlore.ingest import retention
    from fleetlore.ingest.batch_writer import ImportTally
    from fleetlore.ingest.follow_files import TranscriptFollower

    folders = _existing_folders(args.folders or registry.require_program(args.program).recording_folders(), args.program)
    settings = open_log.load_settings_for(args)
    rejections, skipped = summary.Rejections(), summary.SkippedFiles()
    total = ImportTally()
    with open_log.open_log(args, settings=settings) as log:
        tail = TranscriptFollower(
            log,
            folders,
            program=args.program,
            since=times.parse_time(args.since, now=clock.now()).timestamp(),
            redactor=open_log.make_redactor(settings),
            anonymise=open_log.load_anonymiser(settings),
            not_before=retention.retention_cutoff(settings, clock.now()),
            on_rejected=rejections.add,
            on_skipped=skipped.add,
        )
        try:
            _follow_files(log, tail, args, total)
        except KeyboardInterrupt:
            terminal.print_error("")
        open_log.apply_retention(log, settings)
    rejections.print_rest()
    skipped.print_rest()
    return summary.print_summary(total, json=False, verb="recorded", skipped=len(skipped.paths))


def _existing_folders(folders: Sequence[str], program: str) -> list[str]:
    found = [folder for folder in folders if os.path.exists(folder)]
    if not found:
        missing = " and no ".join(folders)
        raise Invalid(f"{program} keeps nothing here: there is no {missing}; name the folder, as in `lore watch {program} FOLDER`")
    return found


def _follow_files(log: BlockingRecorder, tail: TranscriptFollower, args: Namespace, total: ImportTally) -> None:
    write, never = events.make_writer(args), Flag()
    said: set[str] = set()
    if not args.once and not args.quiet:
        terminal.print_error("watching; Ctrl-C ends it")
    while True:
        head = log.head()
        open_log.drain_spool(said=said)
        tally = tail.import_changes()
        for name in tally.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        if not args.quiet and log.head() != head:
            for event in log.read(after=head):
                write(event)
            terminal.flush_output()
        if args.once:
            return
        never.wait(PAUSE)
