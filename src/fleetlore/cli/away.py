"""`lore away`: whether you are away, so that coding agents which cannot ask in two places at once wait for an answer from afar."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

FILE = "away.json"
_EXAMPLES = (
    ("lore away on --for 8h", "until tonight"),
    ("lore away", "whether it is on"),
    ("lore away off", "you are back"),
)
_NOTES = """\
While it is on, every permission that an agent asks for waits for your answer from `lore decide`, the
control room or a notification, also of agents that show no dialog meanwhile: Codex, and Claude Code
without a terminal. Nothing is allowed without an answer. It needs `lore install PROGRAM --approvals`.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("state", metavar="STATE", nargs="?", choices=("on", "off"), help="on or off (default: show whether it is on)")
    parser.add_argument("--for", dest="duration", metavar="TIME", default="12h", help="turn it off after this time (12h)")
    arguments.add_json(parser)
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Switch it, or show it."""
    from fleetlore.cli.status import parse_duration_option

    path = _find_file()
    if args.state == "on":
        from fleetlore.documents.atomic_file import write_atomically

        until = clock.now() + parse_duration_option(args.duration)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with write_atomically(path, mode=0o600) as file:
            file.write(json.dumps({"until": until.isoformat()}).encode())
    elif args.state == "off" and os.path.exists(path):
        os.unlink(path)
    until_or_none = find_end()
    if args.json:
        terminal.print_value({"away": until_or_none is not None, "until": until_or_none})
    elif until_or_none is None:
        terminal.print_line("Away is off: agents ask in their own windows.")
    else:
        terminal.print_line(
            f"Away is on until {until_or_none.astimezone():%Y-%m-%d %H:%M %Z}: agents wait for your answer from `lore decide`."
        )
    return 0


def is_away() -> bool:
    """Whether it is on."""
    return find_end() is not None


def find_end() -> datetime | None:
    """When it goes off by itself; `None` if it is off."""
    try:
        with open(_find_file(), encoding="utf-8") as file:
            until = datetime.fromisoformat(json.load(file)["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return until if until > clock.now() else None


def _find_file() -> str:
    from fleetlore.ingest import spool

    return os.path.join(os.path.dirname(spool.spool_folder()), FILE)
