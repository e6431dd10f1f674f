"""`lore salvage`: save what can be read of a damaged log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, progress, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.sqlite.salvage import SalvageReport

SHOWN_RANGES = 20
EXIT_INCOMPLETE = 3
_EXAMPLES = (
    ("lore salvage fleet.db saved.db", "everything that can still be read, and what is missing"),
    ("lore verify --log sqlite:saved.db", "the new log is a log like any other"),
)
_NOTES = """\
Reads around damaged pages and the cut-off end of a file, and does not change SOURCE. Stop every process
that uses it first. Positions, towns, tokens and seals stay the same. Exit code: 0 everything was saved,
3 something is missing.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("source", metavar="SOURCE", help="the damaged file; its -wal file is read too")
    parser.add_argument("dest", metavar="DEST", help="the log to make; must not exist")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Save what can be read; exit code 3 if events are missing."""
    import msgspec

    from fleetlore.log.sqlite import salvage

    with progress.show_progress("salvaging") as show:
        report = salvage.salvage_log(args.source, args.dest, progress=show)
    if args.json:
        terminal.print_value({"source": args.source, "dest": args.dest} | msgspec.to_builtins(report))
    else:
        _print_report(args.dest, report)
    return EXIT_INCOMPLETE if report.missing_events > report.erased_events or report.newer_events else 0


def _print_report(dest: str, report: SalvageReport) -> None:
    for note in report.notes:
        terminal.print_line(terminal.sanitise_text(note))
    for each in report.missing[:SHOWN_RANGES]:
        where = each.first if each.count == 1 else f"{each.first} to {each.last}"
        terminal.print_line(terminal.sanitise_text(f"town {each.town}: no event at {where} ({each.count:,})"))
    if len(report.missing) > SHOWN_RANGES:
        terminal.print_line(f"and {len(report.missing) - SHOWN_RANGES:,} more ranges; `--json` lists them")
    missing = f"{report.missing_events:,} positions without an event"
    if report.erased_events:
        missing += f" ({report.erased_events:,} events were erased on purpose)"
    terminal.print_line(f"{terminal.sanitise_text(dest)}: {report.events:,} events saved, {missing}")
    if report.newer_events:
        terminal.print_error(
            f"lore: {report.newer_events:,} events of a newer Fleetlore were left out; upgrade fleetlore and salvage again"
        )
