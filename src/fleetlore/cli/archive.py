"""`lore archive`: move the content of old events into compressed files beside the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, progress, terminal, times
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore archive --before 90d", "everything older than 90 days"),
    ("lore archive --before 2026-01-01 --json", "everything of last year and earlier; the result for programs"),
)
_NOTES = """\
Nothing is deleted: every command still finds, shows, exports and forgets archived events. They lie in
the folder PATH.archive, compressed and with checksums; keep it beside the log when you move it.
`lore backup` copies it. The file itself does not shrink; the room is used for new events. Others may
go on writing meanwhile, and an interrupted run is continued by the next. Only for SQLite logs.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--before", metavar="WHEN", required=True, help="90d, 12w or 1y ago, a day, or a time")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Archive everything before the first event that is not older."""
    from fleetlore.cli.doctor import format_bytes
    from fleetlore.log.sqlite.log import SqliteLog

    before = times.parse_cutoff(args.before, now=clock.now())
    with open_log.open_existing_log(args) as log:
        backend, _ = log.backend_and_admission()
        if not isinstance(backend, SqliteLog):
            raise Invalid("only SQLite logs can be archived; on a server, `lore ship` to a SQLite log, then `lore trim`")
        with progress.show_progress("archiving") as show:
            count = backend.archive(before, progress=show)
        size, folder = backend.info().details["archive_bytes"], f"{backend.path}.archive"
    if args.json:
        terminal.print_value({"events": count, "folder": folder, "archive_bytes": size, "before": before.isoformat()})
    elif count:
        terminal.print_line(f"{count:,} events are now in {terminal.sanitise_text(folder)} ({format_bytes(size)} in all)")
    else:
        terminal.print_line("nothing to archive: no event is older, or all of them are archived")
    return 0
