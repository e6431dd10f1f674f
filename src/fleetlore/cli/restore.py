"""`lore restore`: replace the log by a backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, passphrase, progress, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore restore fleet-2026-11-15.db", "into a log that is empty or not there yet"),
    ("lore restore --force fleet-2026-11-15.db", "in place of what is there; make a backup of that first"),
)
_NOTES = """\
The backup is checked before anything is changed. Positions of the replaced log are not reused, and
erased events stay erased. A sealed log asks for its passphrase first, and keeps its own seal
(docs/sealing.md).
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="a file that `lore backup` made")
    parser.add_argument("--force", action="store_true", help="replace a log that holds events")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Replace the log by the backup."""
    from fleetlore.log.sqlite import maintenance

    path = open_log.log_file(args)
    passphrase.ask_for_file_seals(path, "to put a backup in its place")
    with progress.show_progress("restoring") as show:
        events = maintenance.restore_log(args.file, path, overwrite=args.force, progress=show)
    if args.json:
        terminal.print_value({"path": path, "backup": args.file, "events": events})
    else:
        terminal.print_line(f"{terminal.sanitise_text(path)}: {events:,} events")
    return 0
