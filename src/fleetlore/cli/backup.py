"""`lore backup`: copy the log to one file while it is in use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, passphrase, progress, terminal
from fleetlore.errors import LogError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore backup fleet-2026-11-15.db", "the whole log, all towns, as it is at this moment"),
    ("lore backup --force /mnt/nas/fleet.db", "over an earlier backup"),
    ("lore events --log sqlite:fleet-2026-11-15.db", "a backup is a log like any other"),
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="the file to create")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, "A backup that fails leaves no partial file. `lore restore` copies a backup back.")


def run(args: Namespace) -> int:
    """Copy the log. Raises `LogError` if the file exists and `--force` is not given."""
    from fleetlore.log.sqlite import maintenance

    path = open_log.require_log_file(open_log.log_file(args))
    if os.path.lexists(args.file) and not args.force:
        raise LogError(f"{args.file}: the file exists; name another one, or replace it with --force")
    if is_live_log(args.file):
        passphrase.ask_for_file_seals(args.file, "to replace it")
    with progress.show_progress("backing up") as show:
        events = maintenance.backup_log(path, args.file, overwrite=args.force, progress=show)
    if args.json:
        terminal.print_value({"path": path, "backup": args.file, "events": events})
    else:
        terminal.print_line(f"{terminal.sanitise_text(args.file)}: {events:,} events")
    return 0


def is_live_log(path: str) -> bool:
    """Whether a file is a log in use and not a backup. Bytes 18 and 19 of SQLite's header are 2 if it uses a write-ahead log."""
    try:
        with open(path, "rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False
