"""How any intake puts its records into the log: in groups, each once, the unreadable ones as `log.rejected`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.errors import Forgotten, Invalid
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id
from fleetlore.ingest.lines import SAMPLE_BYTES, SourceLine
from fleetlore.log.admission import OWN_DIALECT
from fleetlore.log.base import MAX_APPEND_EVENTS
from fleetlore.redact import Redactor

if TYPE_CHECKING:
    from fleetlore.log.admission import Admission
    from fleetlore.log.recorder import BlockingRecorder

MAX_BATCH_BYTES = 8 * 1024 * 1024
IMPORT_ACTOR = "lore"


class ImportItem(NamedTuple):
    """A line and the events that came of it: its own, none at all, or one `log.rejected` with the reason."""

    line: SourceLine
    events: tuple[Event, ...]
    rejected: str | None = None

    @property
    def newest_time(self) -> datetime | None:
        """When the newest of its events happened."""
        if not self.events:
            return None
        return max((event.at for event in self.events if event.at is not None), default=None)


class ImportTally(Struct):
    """What became of every line; the five add up to the lines."""

    recorded: int = 0
    already_there: int = 0
    folded: int = 0
    """Told by the events of other lines, or telling nothing."""
    rejected: int = 0
    forgotten: int = 0
    """Erased for good earlier, and not taken again."""

    @property
    def lines(self) -> int:
        """All of them."""
        return self.recorded + self.already_there + self.folded + self.rejected + self.forgotten


class BatchWriter:
    """Stores items and keeps count. Storing the same items again changes nothing."""

    def __init__(
        self,
        log: BlockingRecorder,
        *,
        dialect: str,
        admission: Admission,
        on_rejected: Callable[[SourceLine, str], None] = lambda line, reason: None,
        on_dropped: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._log, self._dialect, self._admission = log, dialect, admission
        self._on_rejected, self._on_dropped = on_rejected, on_dropped
        self.tally = ImportTally()

    def new_writer(self) -> BatchWriter:
        """Another one for the same log, with a count of its own."""
        return BatchWriter(
            self._log, dialect=self._dialect, admission=self._admission, on_rejected=self._on_rejected, on_dropped=self._on_dropped
        )

    def write_all(self, items: Iterable[ImportItem]) -> None:
        """Store any number of items, in groups."""
        for group in _group_items(items):
            self.write_batch(group)

    def write_batch(self, items: Sequence[ImportItem]) -> None:
        """Store one group; every id is given, so that a second try stores nothing twice."""
        head = self._log.head()
        gone: frozenset[str] = frozenset()
        while True:
            try:
                positions = self._log.append_all([event for item in items for event in item.events if event.id not in gone])
            except Forgotten as error:
                gone |= frozenset(error.ids)
            except Invalid:
                items = self._reject_invalid_items(items)
            else:
                self._count_batch(items, iter(positions), head or "", gone)
                return

    def _reject_invalid_items(self, items: Sequence[ImportItem]) -> list[ImportItem]:
        checked = [self._check_item(item) for item in items]
        if all(now is before for now, before in zip(checked, items, strict=True)):
            raise AssertionError("the log refused a group whose every event it would take")
        return checked

    def _check_item(self, item: ImportItem) -> ImportItem:
        """The item itself, or its rejection where the log would not take one of its events.

        A rejection that the log would not take either is dropped: else there would be no end.
        """
        try:
            for event in item.events:
                self._admission.admit(event)
        except Invalid as error:
            if item.rejected is None:
                dialect = next((event.origin.dialect for event in item.events if event.origin is not None), self._dialect)
                return make_rejection(item.line, str(error), dialect=dialect, at=item.newest_time)
            reason = f"{item.rejected}; it was dropped, because the log does not take its rejection either ({error})"
            self._on_dropped(f"{item.line.source}, line {item.line.n}: {reason}")
            return item._replace(events=(), rejected=reason)
        return item

    def _count_batch(self, items: Sequence[ImportItem], positions: Iterator[str], head: str, gone: frozenset[str]) -> None:
        seen: set[str] = set()
        for item in items:
            kept = [next(positions) for event in item.events if event.id not in gone]
            new = [position for position in kept if position > head and position not in seen]
            seen.update(new)
            if item.rejected is not None:
                self._count_rejected(item)
            elif not item.events:
                self.tally.folded += 1
            elif not kept:
                self.tally.forgotten += 1
            elif new:
                self.tally.recorded += 1
            else:
                self.tally.already_there += 1

    def _count_rejected(self, item: ImportItem) -> None:
        self.tally.rejected += 1
        self._on_rejected(item.line, item.rejected or "")


def make_rejection(line: SourceLine, reason: str, *, dialect: str, at: datetime | None) -> ImportItem:
    """What is kept of a line that is no record: where it stood, what was wrong, how it began."""
    reason = reason.encode(errors="replace").decode()
    event = Event(
        # Its place belongs to it: the same bad line in two files, or twice in one, is two rejections.
        id=derive_id(f"log.rejected:{dialect}:{line.source}:{line.n}", line.raw, line.nth),
        at=at,
        kind="log.rejected",
        actor=IMPORT_ACTOR,
        text=f"{line.source}, line {line.n}: {reason}",
        visibility="system",
        data={
            "reason": reason,
            "source": line.source,
            "n": line.n,
            "dialect": dialect,
            "sample": make_sample(line.raw),
            "bytes": line.size,
        },
        origin=Origin(dialect=OWN_DIALECT, source=line.source, n=line.n),
    )
    return ImportItem(line, (event,), reason)


def make_sample(raw: bytes) -> str:
    """How a record began. Secrets go first, so that none is cut in half and then not recognised."""
    text, _ = Redactor().redact_value(raw[: 4 * SAMPLE_BYTES].decode(errors="replace"))
    return text.encode()[:SAMPLE_BYTES].decode(errors="ignore")


def set_missing_times(item: ImportItem, at: datetime) -> ImportItem:
    """The item at a time that its own record does not tell."""
    if all(event.at is not None for event in item.events):
        return item
    return item._replace(events=tuple(event if event.at is not None else replace(event, at=at) for event in item.events))


def _group_items(items: Iterable[ImportItem]) -> Iterator[list[ImportItem]]:
    group: list[ImportItem] = []
    size = events = 0
    for item in items:
        group.append(item)
        size += len(item.line.raw)
        events += len(item.events)
        if events >= MAX_APPEND_EVENTS or size >= MAX_BATCH_BYTES:
            yield group
            group, size, events = [], 0, 0
    if group:
        yield group
