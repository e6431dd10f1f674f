"""What `lore verify` finds in a log, the same for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from fleetlore.errors import Damaged, InvalidEvent
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position
from fleetlore.log.blobs import list_cuts, unpack_texts

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total)."""

MAX_PROBLEMS = 200


class LogCheckReport(Struct, frozen=True):
    """Result of a check; no problems means that the log is intact."""

    events: int
    towns: int
    problems: list[str]
    newer: int = 0
    """Events of a newer Fleetlore. They are no damage, but only their checksum could be checked."""
    without_checksum: int = 0
    """Events that an older version stored; a flipped bit in their text may go unnoticed."""


class Problems:
    """The first problems, and how many more there were."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def add(self, problem: str) -> None:
        """Add a problem."""
        self._count += 1
        if self._count <= MAX_PROBLEMS:
            self._first.append(problem)

    def list_messages(self) -> list[str]:
        """Return the first problems, and a line with the number of the others."""
        more = self._count - len(self._first)
        return [*self._first, f"and {more} more"] if more else list(self._first)


class TownCheck:
    """Counts and problems of the check of one town."""

    def __init__(self, town: str, problems: Problems) -> None:
        self._town, self._problems = town, problems
        self.events = self.newer = self.without_checksum = 0

    def add_problem(self, problem: str, position: Position | None = None) -> None:
        """Add a problem of the town, or of the event at a position."""
        place = "" if position is None else f", {position}"
        self._problems.add(f"town {self._town}{place}: {problem}")

    def check_record(self, raw: bytes, position: Position, *, is_intact: bool | None) -> Event | None:
        """Count an event and decode it, unless it is damaged. `is_intact`: whether its checksum is right; `None` if it has none."""
        self.events += 1
        if is_intact is None:
            self.without_checksum += 1
        try:
            event = codec.decode_event(raw)
        except InvalidEvent as error:
            if error.path == "$.v" and is_intact is not False:
                self.newer += 1
            else:
                self.add_problem(f"the record cannot be read: {error}", position)
            return None
        if is_intact is False:
            self.add_problem("the record is not what was written: its checksum differs", position)
            return None
        return event

    def check_texts(self, event: Event, packed: bytes, position: Position) -> None:
        """Check that whole texts are intact, and that their event names them."""
        try:
            texts: Mapping[str, str] = unpack_texts(packed)
        except Damaged as error:
            self.add_problem(str(error), position)
            return
        if not texts.keys() <= {cut.sha256 for cut in list_cuts(event)}:
            self.add_problem("a whole text that its event does not name", position)
