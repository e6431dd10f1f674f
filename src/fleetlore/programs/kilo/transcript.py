"""Reads the events of Kilo, written after a recording of 7.7.9: those of opencode, as which it began, in `kilo.db`."""

from __future__ import annotations

from fleetlore.events.envelope import Origin
from fleetlore.programs.opencode.transcript import OpencodeSession, make_recording
from fleetlore.programs.sessions import EventContext


class KiloEventContext(EventContext):
    """The acting agent, its session and the time."""

    __slots__ = ()
    PROGRAM = "kilo"
    ORIGIN = Origin(dialect="kilo")


class KiloSession(OpencodeSession):
    """Reads the events of one session."""

    context_type = KiloEventContext


RECORDING = make_recording(KiloSession, tables=frozenset(("event", "kilo_board")))
