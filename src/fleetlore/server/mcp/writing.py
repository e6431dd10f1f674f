"""Tools that write: a message to an agent, and a note to a mission. Who speaks is known beforehand, and never taken from the request."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import check_scope
from fleetlore.server.mcp import board, requests, responses
from fleetlore.server.mcp.sources import Caller, Source
from fleetlore.town import commands
from fleetlore.town.commands import TownCommand
from fleetlore.views.town_state import PERSON_MAILBOXES, Agent, TownState

TRIES = 20
"""How often a message is prepared again because somebody else wrote first."""


def send_message(source: Source, caller: Caller, ask: requests.Send) -> responses.Stored:
    """Send a message as the caller's own agent. A message that it answers is acknowledged, if it waits in that agent's inbox."""
    sender = _speaker(caller)
    # Sessions that somebody runs by hand belong to no town, but are on the log and have an inbox here (`board.inbox`).
    is_on_log = is_name(ask.to) and source.log.head(f"agent:{ask.to}") is not None
    waiting = {} if ask.correlation is None else board.outside(source, sender).inboxes.get(sender, {})

    def prepare(town: TownState) -> TownCommand:
        if is_on_log and ask.to not in town.agents:
            town = replace(town, agents={**town.agents, ask.to: Agent(name=ask.to)})
        if waiting and sender not in town.agents and sender not in PERSON_MAILBOXES:
            town = replace(town, inboxes={**town.inboxes, sender: waiting})
        _need_recipient(town, ask.to)
        if ask.correlation is None:
            return commands.send_message(town, ask.to, ask.body, by=sender, type=ask.type, priority=ask.priority, task=ask.task)
        return commands.reply(
            town,
            ask.to,
            ask.body,
            by=sender,
            mailbox=sender,
            reply_to=ask.correlation,
            type=ask.type,
            priority=ask.priority,
            task=ask.task,
        )

    [sent] = [event for event in _store_wish(source, prepare) if event.kind == "work.message_sent"]
    return responses.Stored(id=sent.id or "", position=sent.position or "", sender=sender)


def _need_recipient(town: TownState, to: str) -> None:
    if to.lower() in PERSON_MAILBOXES:
        return
    try:
        commands.find_agent(town, to)
    except Invalid as error:
        raise Invalid(f"to: nobody here is called {to!r}: {error}; `fleet` lists everybody by name") from None


def _store_wish(source: Source, prepare: Callable[[TownState], TownCommand]) -> list[Event]:
    """Check a request against the town, and store its events together; prepared again if somebody else wrote first."""
    for _ in range(TRIES):
        with source.looking(None, ["town"]) as look:
            try:
                wish = prepare(look.states["town"])
            except Invalid as error:
                if look.caught_up:
                    raise
                raise Busy(f"the server is still reading the log, and does not know this yet; try again soon ({error})") from error
        events = [replace(event, id=clock.uuid7()) for event in wish.events]
        try:
            positions = source.log.append(events, expect=wish.expect)
        except Conflict:
            continue
        return [replace(event, position=position) for event, position in zip(events, positions, strict=True)]
    raise Busy("others wrote to the same town all the time, and nothing was stored; try again")


def note(source: Source, caller: Caller, ask: requests.Note) -> responses.Stored:
    """One `town.mission_event`."""
    sender = _speaker(caller)
    if source.log.head(check_scope(f"mission:{ask.mission}")) is None:
        raise Invalid(f"mission: there is no mission {ask.mission!r} on this log; `missions` lists those that there are")
    return _stored(source, Event(kind="town.mission_event", actor=sender, mission=ask.mission, text=ask.text.strip()), sender)


def _speaker(caller: Caller) -> str:
    if not caller.may_write or caller.name is None:
        raise Invalid(caller.why_not or "this needs the right to write, and a name to speak under")
    return caller.name


def _stored(source: Source, event: Event, sender: str) -> responses.Stored:
    record = source.log.admit(event)
    [position] = source.log.append_records([record])
    return responses.Stored(id=record.id, position=position, sender=sender)


def stored_told(answer: responses.Stored) -> str:
    """What became of it, as text."""
    return f"Stored as {answer.id}, at {answer.position}."
