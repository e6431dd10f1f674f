"""Responses that several operations share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.town.journal import StoredCommand


class StoredEvent(Struct, frozen=True, kw_only=True):
    """An event that an operation stored."""

    id: str
    position: str
    kind: str
    agent: str | None = None
    child: str | None = None
    task: str | None = None
    mission: str | None = None
    goal: str | None = None


class Stored(Struct, frozen=True, kw_only=True):
    """What an operation did, in words, and the events that it stored."""

    positions: list[str]
    answer: str = ""
    events: list[StoredEvent] = []

    @classmethod
    def from_events(cls, answer: str, events: Iterable[Event], **more: Any) -> Self:
        """The response for stored events."""
        names = StoredEvent.__struct_fields__
        stored = [StoredEvent(**{name: getattr(event, name) for name in names}) for event in events]
        return cls(positions=[event.position for event in stored], answer=answer, events=stored, **more)

    @classmethod
    def from_commands(cls, commands: Sequence[StoredCommand], **more: Any) -> Self:
        """The response for stored commands to a town."""
        answer = "\n".join(command.answer for command in commands if command.answer)
        return cls.from_events(answer, [event for command in commands for event in command.events], **more)


class StoredBySpeaker(Stored, frozen=True, kw_only=True):
    """One stored event, and under whose name."""

    id: str
    position: str
    sender: str
