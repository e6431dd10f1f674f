"""Reads the events of Kilo, written after a recording of 7.7.9: those of opencode, as which it began, in `kilo.db`."""

from __future__ import annotations

from fleetlore.programs.opencode.transcript import OpencodeSession, make_recording


class KiloSession(OpencodeSession, program="kilo"):
    """Reads the events of one session."""


RECORDING = make_recording(KiloSession, tables=frozenset(("event", "kilo_board")))
