"""`lore scan`: find secrets that were stored before the rules knew them, in the log or in transcripts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore.cli import arguments, confirm, open_log, passphrase, progress, terminal
from fleetlore.cli.main import FAILED, OK
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from fleetlore.events.envelope import Event
    from fleetlore.redact import Redactor

MAX_SHOWN = 50
REASON = "held a secret"
_EXAMPLES = (
    ("lore scan", "check every event of the log; asks before it erases anything"),
    ("lore scan --dry-run --json", "only list what was found, for programs"),
    ("lore scan ~/.claude/projects", "check transcripts and other text files"),
)
_NOTES = """\
Events are checked with today's rules and your [redact] patterns: events of older versions may hold
secrets that were not known then. What is found is named by kind and place, never shown. Files are
only reported: they belong to the program that wrote them. Replace every secret that was found:
someone may have read it. Exit code: 0 if no secret is left, 1 if some were found and not erased, or
if a file could not be read.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("paths", metavar="PATH", nargs="*", help="files or folders to check instead of the log")
    parser.add_argument("--dry-run", action="store_true", help="only list what was found")
    parser.add_argument("--yes", action="store_true", help="erase events with secrets without asking")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Scan files, or the log."""
    return _scan_files(args) if args.paths else _scan_log(args)


def _scan_log(args: Namespace) -> int:
    from fleetlore.ingest import forget

    settings = open_log.load_settings_for(args)
    redactor = _open_redactor(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        rows = []
        with progress.show_progress("scanning"):
            for event in log.read():
                if kinds := _find_in_event(redactor, log.restore_whole(event)):
                    day = f"{event.at:%Y-%m-%d}" if event.at else "?"
                    rows.append({"id": event.id or "", "kind": event.kind, "agent": event.agent or "", "day": day, "secrets": kinds})
        _print_rows(args, [{"place": f"{row['id']}  {row['day']}  {row['kind']}  {row['agent']}", **row} for row in rows])
        if not rows or args.dry_run:
            return FAILED if rows else OK
        if not args.yes and not confirm.ask_yes_no(f"Erase {_format_count(len(rows), 'event')} for good?"):
            return FAILED
        passphrase.ask_operator_key(settings, "to erase any of it")
        erased = forget.erase_events(log, [str(row["id"]) for row in rows], REASON)
        forget.purge_stores(log)
    if not args.json:
        terminal.print_line(f"erased {_format_count(erased, 'event')} for good")
    if kept := len(rows) - erased:
        terminal.print_error(f"lore: {_format_count(kept, 'event')} could not be erased; run `lore scan` again")
    return FAILED if kept else OK


def _open_redactor(args: Namespace) -> Redactor:
    from fleetlore.redact import Redactor

    return open_log.make_redactor(open_log.load_settings_for(args)) or Redactor()


def _find_in_event(redactor: Redactor, event: Event) -> list[str]:
    from fleetlore.events import codec
    from fleetlore.redact import name_secrets

    if not redactor.may_contain_secret(codec.encode_event(event)):
        return []
    value = {key: part for key, part in codec.to_builtins(event).items() if key not in ("id", "at", "kind", "mac")}
    found = redactor.redact_value(value)[1]
    return (name_secrets(value) or ["a field with a secret name, or one of your patterns"]) if found else []


def _scan_files(args: Namespace) -> int:
    from fleetlore.redact import name_secrets

    _check_paths(args.paths)
    redactor, rows, unreadable = _open_redactor(args), list[dict[str, object]](), list[OSError]()
    for path in _list_files(args.paths, unreadable.append):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    if redactor.may_contain_secret(line.encode(errors="replace")) and redactor.redact_value(line)[1]:
                        rows.append({"place": f"{path}:{number}", "secrets": name_secrets(line) or ["one of your patterns"]})
        except OSError as error:
            error.filename = path  # reading, unlike opening, does not name the file
            unreadable.append(error)
    if rows or not unreadable or args.json:
        _print_rows(args, rows)
    for failure in unreadable:
        terminal.print_error(f"lore: {terminal.sanitise_text(str(failure.filename))}: cannot be read ({failure.strerror})")
    return FAILED if rows or unreadable else OK


def _check_paths(paths: list[str]) -> None:
    for path in paths:
        if not os.path.isfile(path) and not os.path.isdir(path):
            raise Invalid(f"{path}: there is no such file or folder; check the path")


def _list_files(paths: list[str], report_error: Callable[[OSError], None]) -> Iterator[str]:
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path, onerror=report_error) if os.path.isdir(path) else ():
            yield from (os.path.join(folder, name) for name in sorted(names) if os.path.isfile(os.path.join(folder, name)))


def _print_rows(args: Namespace, rows: list[dict[str, object]]) -> None:
    if args.json:
        terminal.print_value({"found": rows})
        return
    for row in rows[:MAX_SHOWN]:
        kinds = row["secrets"]
        assert isinstance(kinds, list)
        terminal.print_line(terminal.sanitise_text(f"{row['place']}  {', '.join(kinds)}"))
    if len(rows) > MAX_SHOWN:
        terminal.print_line(f"… and {len(rows) - MAX_SHOWN:,} more (--json lists all)")
    if not rows:
        terminal.print_line("no secrets found")


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
