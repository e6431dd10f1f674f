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
    tokens = _list_tokens(path)
    if args.json:
        terminal.print_value({"path": path, "backup": args.file, "events": events, "tokens": tokens})
        return 0
    terminal.print_line(f"{terminal.sanitise_text(path)}: {events:,} events and {len(tokens)} {'token' if len(tokens) == 1 else 'tokens'}")
    for token in tokens:
        terminal.print_line(
            terminal.sanitise_text(f"  token {token['id']}  {token['scope']}  {token['label']}  from {token['created_at']}")
        )
    if tokens:
        terminal.print_line("  These tokens work again: revoke those you do not know with `lore token revoke ID`.")
    return 0


def _list_tokens(path: str) -> list[dict[str, str]]:
    """The tokens of all towns that the log accepts now."""
    import apsw
    import msgspec

    from fleetlore.log.tokens import Token

    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT town, token FROM tokens ORDER BY town, id").fetchall()
    connection.close()
    tokens = [(str(town), msgspec.json.decode(str(text), type=Token)) for town, text in rows]
    return [
        {"id": token.id, "town": town, "scope": token.scope, "label": token.label, "created_at": token.created_at.isoformat("T", "minutes")}
        for town, token in tokens
    ]
