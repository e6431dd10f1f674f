"""What Codex writes down of its threads while it works, read as it grows: its stream tells neither what each answer took nor what its
sub-agents do, and its ids hold only within the stream. From here come the events that `lore import` would tell, under the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from fleetlore.dialects.codex import CodexReader
from fleetlore.dialects.codex_mind import Mind
from fleetlore.dialects.fields import as_count, as_uuid
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.minds.programs.pipes import Lines

MOST_THREADS = 100
_LONGEST = 8 * 1024 * 1024
_PIECE = 1024 * 1024
_COUNTS = ("input", "output", "cache_read", "cache_write")


class Rollout:
    """One thread's. The reader goes on where it stopped; what is not a record is passed over, as the import tells of it."""

    def __init__(self, path: Path) -> None:
        self.mind = Mind()
        self._reader, self._lines = CodexReader(self.mind), Lines(_LONGEST)
        self._path, self._at = path, 0

    def read(self) -> list[Event]:
        """The events of the lines that came since."""
        events: list[Event] = []
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                while piece := file.read(_PIECE):
                    self._at += len(piece)
                    for line in self._lines.take(piece):
                        events += self._understand(line.text)
        except OSError:
            return events
        return events

    def end(self) -> list[Event]:
        """What was held back."""
        return [*self.read(), *self._reader.end()]

    def _understand(self, raw: bytes) -> list[Event]:
        try:
            return self._reader.read(raw) if raw.strip() else []
        except DialectError:
            return []


class Rollouts:
    """Those of a turn's thread and of its sub-agents. What is older than `since` was told in its own time."""

    def __init__(self, home: Path, *, since: datetime) -> None:
        self._home, self._since = home, since
        self._open: dict[str, Rollout] = {}
        self._wanted: set[str] = set()
        self._early: list[Event] = []
        self.main: Rollout | None = None
        self.tokens = 0
        """What was used since."""

    def follow(self, thread: object) -> bool:
        """Begin to read a thread's as soon as there is one; answers whether there is. The first is the turn's own."""
        name = as_uuid(thread)
        if name is None or name in self._open or len(self._open) >= MOST_THREADS:
            return name in self._open
        path = next(self._home.glob(f"sessions/*/*/*/rollout-*-{name}.jsonl"), None)
        if path is None:
            self._wanted.add(name)
            return False
        self._wanted.discard(name)
        rollout = self._open[name] = Rollout(path)
        self.main = self.main or rollout
        self._early += self._new(rollout.read())
        return True

    def read(self) -> list[Event]:
        """What came since in all of them."""
        for thread in sorted(self._wanted):
            self.follow(thread)
        early, self._early = self._early, []
        return [*early, *self._new(event for rollout in self._open.values() for event in rollout.read())]

    def end(self) -> list[Event]:
        """What was held back."""
        return [*self.read(), *self._new(event for rollout in self._open.values() for event in rollout.end())]

    def _new(self, events: Iterable[Event]) -> list[Event]:
        new = [event for event in events if event.at is None or event.at >= self._since]
        self.tokens += sum(as_count(event.data.get(key)) or 0 for event in new if event.kind == "model.replied" for key in _COUNTS)
        return new
