"""`lore town inbox`. Reading an inbox does not acknowledge messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.operations.goal_lists import shorten_ids
from fleetlore.views.town_state import CONDUCTOR

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Line
    from fleetlore.operations.town_lists import TownMailbox
    from fleetlore.views.town_state import InboxMessage

BODY_LINES = 12


def print_inbox(response: TownMailbox, args: Namespace) -> None:
    """List unread messages."""
    town_lines.print_lines(message_lines(response.messages, clock.now()))
    if not response.messages:
        terminal.print_error(f"no unread messages for {sanitise_text(response.inbox)}")
    elif response.inbox == CONDUCTOR:
        terminal.print_error("answer with `lore town send NAME TEXT --reply-to ID`, or acknowledge with `lore town inbox --ack ID`")


def message_lines(messages: list[InboxMessage], now: datetime, *, with_recipient: bool = False) -> Iterator[Line]:
    """A header line and the body of each message."""
    size = max(map(len, shorten_ids([message.id for message in messages]).values()), default=0)
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
