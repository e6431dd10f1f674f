"""`lore town send` and `lore town inbox`. Reading an inbox does not acknowledge messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import terminal
from fleetlore.cli.goal.find import short_ids
from fleetlore.cli.terminal import sanitise
from fleetlore.cli.town import commands
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town.lines import BOLD, CALL, DIM, WARN
from fleetlore.errors import Invalid
from fleetlore.town import commands as town_commands
from fleetlore.views.town import sorted_inbox as sorted_inbox
from fleetlore.views.town_state import CONDUCTOR, PERSON_MAILBOXES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Line
    from fleetlore.town.commands import TownCommand
    from fleetlore.views.town_state import InboxMessage, TownState

BODY_LINES = 12


# --- send


def send_message(args: Namespace) -> int:
    """Send a message; a reply acknowledges the message it answers."""
    with commands.open_town(args, new=True) as console:
        done = console.store_commands(lambda town: [_make_message_command(town, args, console.by)])
    return commands.print_results(args, done)


def _make_message_command(town: TownState, args: Namespace, by: str) -> TownCommand:
    own = _own_mailbox(town, by)
    # Messages of people come from the conductor, whose mailbox gets the answers; the actor says who wrote them.
    sender = by if args.to.lower() in PERSON_MAILBOXES else own
    body = " ".join(args.text)
    if args.reply_to is None:
        message = town_commands.send_message(town, args.to, body, by=sender, type=args.type, priority=args.priority)
    else:
        message = town_commands.reply(
            town, args.to, body, by=sender, mailbox=own, reply_to=args.reply_to, type=args.type, priority=args.priority
        )
    return replace(message, events=tuple(replace(event, actor=by) for event in message.events))


def _own_mailbox(town: TownState, by: str) -> str:
    """The speaker's mailbox: its own for an agent, else the conductor's."""
    return by if by in town.agents else CONDUCTOR


# --- inbox


def show_inbox(args: Namespace) -> int:
    """List messages, or acknowledge them with `--ack`."""
    with commands.open_town(args) as console:
        if args.ack:
            done = console.store_commands(
                lambda town: commands.merge_commands(_acknowledge_all(town, _choose_mailbox(town, args, console.by), args.ack, console.by))
            )
            return commands.print_results(args, done)
        town, now = console.town(), clock.now()
        name = _choose_mailbox(town, args, console.by)
    waiting = list(sorted_inbox(town, name))
    if args.json:
        terminal.out_value({"town": console.name, "inbox": name, "messages": waiting})
        return 0
    town_lines.print_lines(message_lines(waiting, now))
    if not waiting:
        terminal.err(f"no unread messages for {sanitise(name)}")
    elif name == CONDUCTOR:
        terminal.err("answer with `lore town send NAME TEXT --reply-to ID`, or acknowledge with `lore town inbox --ack ID`")
    return 0


def _choose_mailbox(town: TownState, args: Namespace, by: str) -> str:
    if args.name is None:
        return _own_mailbox(town, by) if args.speaker is not None or commands.find_current_agent() else CONDUCTOR
    return CONDUCTOR if args.name.lower() in PERSON_MAILBOXES else town_commands.find_agent(town, args.name).name


def _acknowledge_all(town: TownState, name: str, ids: list[str], by: str) -> list[TownCommand]:
    """Commands that acknowledge messages. The speaker is the actor, so that it does not count as activity of the mailbox's owner."""
    box = town.inboxes.get(name, {})
    chosen = list(box) if ids == ["all"] else [box[id].id if id in box else id for id in dict.fromkeys(ids)]
    if not chosen:
        raise Invalid(f"{name} has no unread messages to acknowledge")
    acknowledgements = [town_commands.acknowledge_message(town, name, id) for id in chosen]
    events = tuple(replace(event, actor=by) for command in acknowledgements for event in command.events)
    return [replace(acknowledgements[0], events=events, answer=f"{town_lines.count_noun(len(events), 'message')} acknowledged")]


def message_lines(messages: list[InboxMessage], now: datetime, *, with_recipient: bool = False) -> Iterator[Line]:
    """A header line and the body of each message."""
    size = max(map(len, short_ids([message.id for message in messages]).values()), default=0)
    for message in messages:
        yield [
            (f"{message.id[:size]}  ", DIM),
            (sanitise(f"{message.sender} → {message.to}" if with_recipient else message.sender), BOLD),
            (f"  {_TYPE_NAMES.get(message.type, sanitise(message.type))}", CALL if message.type == "query" else ""),
            (f"  {message.priority}" if message.priority != "normal" else "", CALL if message.priority == "urgent" else WARN),
            (f"  {town_lines.format_age(message.at, now)}", DIM),
            (f"  about {sanitise(message.task or message.mission or '')}" if message.task or message.mission else "", DIM),
        ]
        yield from town_lines.text_lines(message.body, BODY_LINES, indent=4)


_TYPE_NAMES = {"query": "question", "info": "info", "task": "request", "confirmation": "confirmation"}
