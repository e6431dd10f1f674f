"""Tools that write: a message to an agent, and a note to a mission. Who speaks is known beforehand, and never taken from the request."""

from __future__ import annotations

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import check_scope
from fleetlore.server.mcp import answers, asks
from fleetlore.server.mcp.quoting import LINE, line
from fleetlore.server.mcp.sources import Caller, Source
from fleetlore.views.town_state import PERSONS


def send_message(source: Source, caller: Caller, ask: asks.Send) -> answers.Stored:
    """One `work.message_sent`."""
    sender = _speaker(caller)
    if not _is_about(source, ask.to):
        raise Invalid(f"to: nobody here is called {ask.to!r}; `fleet` lists everybody by name")
    said = {"type": ask.type, "priority": ask.priority, "body": ask.body, "correlation": ask.correlation}
    data = {name: value for name, value in said.items() if value is not None}
    event = Event(kind="work.message_sent", actor=sender, agent=sender, child=ask.to, task=ask.task, text=_first(ask.body), data=data)
    return _stored(source, event, sender)


def note(source: Source, caller: Caller, ask: asks.Note) -> answers.Stored:
    """One `town.mission_event`."""
    sender = _speaker(caller)
    if source.log.head(check_scope(f"mission:{ask.mission}")) is None:
        raise Invalid(f"mission: there is no mission {ask.mission!r} on this log; `missions` lists those that there are")
    return _stored(source, Event(kind="town.mission_event", actor=sender, mission=ask.mission, text=ask.text.strip()), sender)


def _speaker(caller: Caller) -> str:
    if not caller.may_write or caller.name is None:
        raise Invalid(caller.why_not or "this needs the right to write, and a name to speak under")
    return caller.name


def _is_about(source: Source, name: str) -> bool:
    """Whether a message to somebody could be read: a slip of the pen is better noticed now."""
    return name in PERSONS or (is_name(name) and source.log.head(f"agent:{name}") is not None)


def _first(body: str) -> str:
    """The one line that people are shown."""
    return line(body.strip().partition("\n")[0], LINE)


def _stored(source: Source, event: Event, sender: str) -> answers.Stored:
    record = source.log.admit(event)
    [position] = source.log.append_records([record])
    return answers.Stored(id=record.id, position=position, sender=sender)


def stored_told(answer: answers.Stored) -> str:
    """What became of it, as text."""
    return f"Stored as {answer.id}, at {answer.position}."
