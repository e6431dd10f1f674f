"""MCP tools that write: `send_message` and `note`. The sender is the caller of the transport, never taken from the request."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from fleetlore.errors import Busy, Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import check_scope
from fleetlore.server.mcp import board, requests, responses
from fleetlore.server.mcp.sources import Caller, ToolSource
from fleetlore.town import commands
from fleetlore.town.commands import TownCommand
from fleetlore.town.store_commands import store_commands
from fleetlore.views.town_state import PERSON_MAILBOXES, Agent, TownState


def send_message(source: ToolSource, caller: Caller, request: requests.SendMessageRequest) -> responses.StoredResponse:
    """The tool `send_message`. A reply acknowledges the message it answers, if that is in the caller's inbox."""
    sender = _require_speaker(caller)
    # Sessions that are run by hand belong to no town, but are on the log and have an inbox (`board.read_inbox`).
    is_on_log = is_name(request.to) and source.log.head(f"agent:{request.to}") is not None
    waiting = {} if request.correlation is None else board.read_messages_of(source, sender).inboxes.get(sender, {})

    def make_command(town: TownState) -> TownCommand:
        if is_on_log and request.to not in town.agents:
            town = replace(town, agents={**town.agents, request.to: Agent(name=request.to)})
        if waiting and sender not in town.agents and sender not in PERSON_MAILBOXES:
            town = replace(town, inboxes={**town.inboxes, sender: waiting})
        _need_recipient(town, request.to)
        if request.correlation is None:
            return commands.send_message(
                town, request.to, request.body, by=sender, type=request.type, priority=request.priority, task=request.task
            )
        return commands.reply(
            town,
            request.to,
            request.body,
            by=sender,
            mailbox=sender,
            reply_to=request.correlation,
            type=request.type,
            priority=request.priority,
            task=request.task,
        )

    [sent] = [event for event in _store_command(source, make_command) if event.kind == "work.message_sent"]
    return responses.StoredResponse(id=sent.id or "", position=sent.position or "", sender=sender)


def _need_recipient(town: TownState, to: str) -> None:
    if to.lower() in PERSON_MAILBOXES:
        return
    try:
        commands.find_agent(town, to)
    except Invalid as error:
        raise Invalid(f"to: nobody here is called {to!r}: {error}; `fleet` lists everybody by name") from None


def _store_command(source: ToolSource, make_command: Callable[[TownState], TownCommand]) -> list[Event]:
    """Make a command from the current town and store its events."""

    def make_commands() -> list[TownCommand]:
        with source.snapshot(None, ["town"]) as snapshot:
            try:
                return [make_command(snapshot.states["town"])]
            except Invalid as error:
                if snapshot.caught_up:
                    raise
                raise Busy(f"the server is still reading the log, and does not know this yet; try again soon ({error})") from error

    [stored] = store_commands(source.log, make_commands)
    return list(stored.events)


def add_note(source: ToolSource, caller: Caller, request: requests.AddNoteRequest) -> responses.StoredResponse:
    """The tool `note`: stores one `town.mission_event`."""
    sender = _require_speaker(caller)
    if source.log.head(check_scope(f"mission:{request.mission}")) is None:
        raise Invalid(f"mission: there is no mission {request.mission!r} on this log; `missions` lists those that there are")
    return _append_event(source, Event(kind="town.mission_event", actor=sender, mission=request.mission, text=request.text.strip()), sender)


def _require_speaker(caller: Caller) -> str:
    if not caller.can_write or caller.name is None:
        raise Invalid(caller.refusal or "this needs the right to write, and a name to speak under")
    return caller.name


def _append_event(source: ToolSource, event: Event, sender: str) -> responses.StoredResponse:
    record = source.log.admit(event)
    [position] = source.log.append_records([record])
    return responses.StoredResponse(id=record.id, position=position, sender=sender)


def render_stored(response: responses.StoredResponse) -> str:
    """The stored event as text."""
    return f"Stored as {response.id}, at {response.position}."
