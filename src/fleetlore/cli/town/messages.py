"""`lore town inbox`. Reading an inbox does not acknowledge messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import operations, terminal
from fleetlore.cli.goal.find import short_ids
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.operations.table import find_operation
from fleetlore.town import commands as town_commands
from fleetlore.views.town import sorted_inbox as sorted_inbox
from fleetlore.views.town_state import CONDUCTOR, PERSON_MAILBOXES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Line
    from fleetlore.views.town_state import InboxMessage, TownState

BODY_LINES = 12


# --- inbox


def show_inbox(args: Namespace) -> int:
    """List messages, or acknowledge them with `--ack`."""
    if args.ack:
        values = {"message": args.ack} | ({} if args.name is None else {"to": args.name})
        return operations.run_operation(args, find_operation("town acknowledge"), values)
    with commands.open_town(args) as console:
        town, now = console.town(), clock.now()
        name = _choose_mailbox(town, args, console.by)
    waiting = list(sorted_inbox(town, name))
    if args.json:
        terminal.print_value({"town": console.name, "inbox": name, "messages": waiting})
        return 0
    town_lines.print_lines(message_lines(waiting, now))
    if not waiting:
        terminal.print_error(f"no unread messages for {sanitise_text(name)}")
    elif name == CONDUCTOR:
        terminal.print_error("answer with `lore town send NAME TEXT --reply-to ID`, or acknowledge with `lore town inbox --ack ID`")
    return 0


def _choose_mailbox(town: TownState, args: Namespace, by: str) -> str:
    if args.name is None:
        return by if (args.speaker is not None or commands.find_current_agent()) and by in town.agents else CONDUCTOR
    return CONDUCTOR if args.name.lower() in PERSON_MAILBOXES else town_commands.find_agent(town, args.name).name


def message_lines(messages: list[InboxMessage], now: datetime, *, with_recipient: bool = False) -> Iterator[Line]:
    """A header line and the body of each message."""
    size = max(map(len, short_ids([message.id for message in messages]).values()), default=0)
    for message in messages:
        yield [
            (f"{message.id[:size]}  ", DIM),
            (sanitise_text(f"{message.sender} → {message.to}" if with_recipient else message.sender), BOLD),
            (f"  {_TYPE_NAMES.get(message.type, sanitise_text(message.type))}", CALL if message.type == "query" else ""),
            (f"  {message.priority}" if message.priority != "normal" else "", CALL if message.priority == "urgent" else WARN),
            (f"  {town_lines.format_age(message.at, now)}", DIM),
            (f"  about {sanitise_text(message.task or message.mission or '')}" if message.task or message.mission else "", DIM),
        ]
        yield from town_lines.text_lines(message.body, BODY_LINES, indent=4)


_TYPE_NAMES = {"query": "question", "info": "info", "task": "request", "confirmation": "confirmation"}
