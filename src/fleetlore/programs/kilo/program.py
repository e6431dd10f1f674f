"""Kilo as a `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.programs.opencode.program import Opencode

if TYPE_CHECKING:
    from fleetlore.dialects.recording import Recording


class Kilo(Opencode):
    """Kilo 7.7, which began as a copy of opencode and has its tools."""

    name = "kilo"
    title = "Kilo"
    command = "kilo"
    home = "~/.local/share/kilo"
    recordings = ("kilo.db",)
    side_files = r"kilo.*\.db-(?:wal|shm)"
    database_variable = "KILO_DB"

    def load_recording(self) -> Recording:
        """Reads the table of events in its database."""
        from fleetlore.programs.kilo.transcript import RECORDING

        return RECORDING


PROGRAM = Kilo()
