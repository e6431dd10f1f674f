"""`lore verify`: read the whole log and check that it is consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, progress, terminal
from fleetlore.settings import mask_url

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES = (
    ("lore verify", "prints what it checked; exit code 1 if something is wrong"),
    ("lore verify --json", "the same for programs"),
)


_FILE_ADVICE = "keep a copy of the file, then `lore restore` a backup, or save what can be read with `lore salvage`"
_SERVER_ADVICE = "bring the server's data back from a backup, or ship from a log that has all events; nothing is stored twice"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    arguments.add_json(parser)
    scope = "All towns of a file are checked, on a server the one that is named."
    arguments.add_examples(parser, _EXAMPLES, f"{scope} Others may go on writing meanwhile. Nothing is changed.")


def run(args: Namespace) -> int:
    """Check the log; exit code 1 if there are problems."""
    from fleetlore.log.connect import check_log

    settings = open_log.load_settings_for(args)
    path = open_log.find_file(settings)
    shown = mask_url(settings.log.value) if path is None else open_log.require_log_file(path)
    with progress.show_progress("verifying") as show:
        report = check_log(settings.log.value, town=settings.town.value, progress=show)
    if args.json:
        terminal.print_value(
            {
                "path": shown,
                "events": report.events,
                "towns": report.towns,
                "problems": report.problems,
                "newer": report.newer,
                "without_checksum": report.without_checksum,
            }
        )
    else:
        for problem in report.problems:
            terminal.print_line(terminal.sanitise_text(problem))
        towns = "1 town" if report.towns == 1 else f"{report.towns} towns"
        terminal.print_line(
            f"{terminal.sanitise_text(shown)}: {report.events:,} events in {towns}, {len(report.problems) or 'no'} problems"
        )
        if report.without_checksum:
            terminal.print_line(f"{report.without_checksum:,} events were stored by an older version, without a checksum")
    if report.newer:
        terminal.print_error(f"lore: {report.newer:,} events were written by a newer Fleetlore; upgrade fleetlore to read them")
    if report.problems:
        terminal.print_error(f"lore: the log is damaged; {_SERVER_ADVICE if path is None else _FILE_ADVICE}")
    return 1 if report.problems else 0
