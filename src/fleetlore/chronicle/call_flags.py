"""Remember the flags of commands until their outcome is told: a log of 0.1 has the command only in the event of the call."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import flags_of_call

MOST_CALLS = 1000
CALLED = "tool.called"


class CallFlags:
    """The flags of calls that have no outcome yet. Give it every event, in order."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, ...]] = {}

    def of(self, event: Event) -> tuple[str, ...]:
        """The flags of the command that an event tells of; none for most."""
        if not event.kind.startswith("tool."):
            return ()
        flags = tuple(flags_of_call(event))
        if event.kind != CALLED:
            return self._calls.pop(event.cause or "", ()) or flags
        if flags and event.id is not None:
            self._calls[event.id] = flags
            if len(self._calls) > MOST_CALLS:
                del self._calls[next(iter(self._calls))]
        return flags
