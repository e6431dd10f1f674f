"""`lore town send` and `lore town inbox`: what people and agents tell each other. Looking takes nothing away."""

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
from fleetlore.views.town import sorted_inbox as waiting_for
from fleetlore.views.town_state import CONDUCTOR, PERSON_MAILBOXES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Line
    from fleetlore.town.commands import TownCommand
    from fleetlore.views.town_state import InboxMessage, TownState

BODY_LINES = 12


# --- send


def send(args: Namespace) -> int:
    """Tell somebody something; what it answers is acknowledged with it."""
    with commands.opened(args, new=True) as hall:
        done = hall.fulfil(lambda town: [_sent(town, args, hall.by)])
    return commands.tell(args, done)


def _sent(town: TownState, args: Namespace, by: str) -> TownCommand:
    own = _own(town, by)
    # A person's messages to agents are the conductor's, whose mailbox the answers reach; the actor says who wrote them.
    sender = by if args.to.lower() in PERSON_MAILBOXES else own
    body = " ".join(args.text)
    if args.reply_to is None:
        told = town_commands.send_message(town, args.to, body, by=sender, type=args.type, priority=args.priority)
    else:
        told = town_commands.reply(
            town, args.to, body, by=sender, mailbox=own, reply_to=args.reply_to, type=args.type, priority=args.priority
        )
    return replace(told, events=tuple(replace(event, actor=by) for event in told.events))


def _own(town: TownState, by: str) -> str:
    """Whose mailbox is that of whoever speaks."""
    return by if by in town.agents else CONDUCTOR


# --- inbox


def inbox(args: Namespace) -> int:
    """Show what waits for somebody, or say that it was used."""
    with commands.opened(args) as hall:
        if args.ack:
            done = hall.fulfil(lambda town: commands.together(_acked(town, _whose(town, args, hall.by), args.ack, hall.by)))
            return commands.tell(args, done)
        town, now = hall.town(), clock.now()
        name = _whose(town, args, hall.by)
    waiting = list(waiting_for(town, name))
    if args.json:
        terminal.out_value({"town": hall.name, "inbox": name, "messages": waiting})
        return 0
    town_lines.show(lines(waiting, now))
    if not waiting:
        terminal.err(f"nothing waits for {sanitise(name)}")
    elif name == CONDUCTOR:
        terminal.err("answer with `lore town send NAME TEXT --reply-to ID`; `lore town inbox --ack ID` has dealt with it")
    return 0


def _whose(town: TownState, args: Namespace, by: str) -> str:
    if args.name is None:
        return _own(town, by) if args.speaker is not None or commands.agent_here() else CONDUCTOR
    return CONDUCTOR if args.name.lower() in PERSON_MAILBOXES else town_commands.find_agent(town, args.name).name


def _acked(town: TownState, name: str, ids: list[str], by: str) -> list[TownCommand]:
    """Who says so is the actor: a word on somebody's behalf is no sign of life of theirs."""
    box = town.inboxes.get(name, {})
    chosen = list(box) if ids == ["all"] else [box[id].id if id in box else id for id in dict.fromkeys(ids)]
    if not chosen:
        raise Invalid(f"nothing waits for {name}, so there is nothing to acknowledge")
    wishes = [town_commands.acknowledge_message(town, name, id) for id in chosen]
    events = tuple(replace(event, actor=by) for wish in wishes for event in wish.events)
    return [replace(wishes[0], events=events, answer=f"{town_lines.counted(len(events), 'message')} acknowledged")]


def lines(messages: list[InboxMessage], now: datetime, *, with_recipient: bool = False) -> Iterator[Line]:
    """Each with its words."""
    size = max(map(len, short_ids([message.id for message in messages]).values()), default=0)
    for message in messages:
        yield [
            (f"{message.id[:size]}  ", DIM),
            (sanitise(f"{message.sender} → {message.to}" if with_recipient else message.sender), BOLD),
            (f"  {_LOOKS.get(message.type, sanitise(message.type))}", CALL if message.type == "query" else ""),
            (f"  {message.priority}" if message.priority != "normal" else "", CALL if message.priority == "urgent" else WARN),
            (f"  {town_lines.seen(message.at, now)}", DIM),
            (f"  about {sanitise(message.task or message.mission or '')}" if message.task or message.mission else "", DIM),
        ]
        yield from town_lines.words(message.body, BODY_LINES, indent=4)


_LOOKS = {"query": "asks", "info": "tells", "task": "wants done", "confirmation": "confirms"}
