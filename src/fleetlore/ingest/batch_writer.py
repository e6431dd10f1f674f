"""Stores imported lines in the log in batches. Every importer uses it.

Lines that cannot be read are stored as `log.rejected`. All ids are derived from the input, so importing twice stores
nothing twice.
"""

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
    """A line and its events: any number of them, or one `log.rejected` with the reason."""

    line: SourceLine
    events: tuple[Event, ...]
    rejected: str | None = None

    @property
    def newest_time(self) -> datetime | None:
        """The time of its newest event; `None` if no event has a time."""
        if not self.events:
            return None
        return max((event.at for event in self.events if event.at is not None), default=None)


class ImportTally(Struct):
    """What became of every line; the five counts add up to the number of lines."""

    recorded: int = 0
    already_there: int = 0
    folded: int = 0
    """Lines without an event of their own: merged into the events of other lines, or without information."""
    rejected: int = 0
    forgotten: int = 0
    """Lines whose events were erased earlier and are not stored again."""

    @property
    def lines(self) -> int:
        """Total number of lines."""
        return self.recorded + self.already_there + self.folded + self.rejected + self.forgotten


class BatchWriter:
    """Stores items in a log and counts the results. Storing the same items again changes nothing."""

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
        """Return a writer for the same log with its own tally."""
        return BatchWriter(
            self._log, dialect=self._dialect, admission=self._admission, on_rejected=self._on_rejected, on_dropped=self._on_dropped
        )

    def write_all(self, items: Iterable[ImportItem]) -> None:
        """Store any number of items, in batches."""
        for batch in _group_items(items):
            self.write_batch(batch)

    def write_batch(self, items: Sequence[ImportItem]) -> None:
        """Store one batch. Every event has an id, so a retry stores nothing twice."""
        head = self._log.head()
        erased: frozenset[str] = frozenset()
        while True:
            try:
                positions = self._log.append_all([event for item in items for event in item.events if event.id not in erased])
            except Forgotten as error:
                erased |= frozenset(error.ids)
            except Invalid:
                items = self._reject_invalid_items(items)
            else:
                self._count_batch(items, iter(positions), head or "", erased)
                return

    def _reject_invalid_items(self, items: Sequence[ImportItem]) -> list[ImportItem]:
        checked = [self._check_item(item) for item in items]
        if all(now is before for now, before in zip(checked, items, strict=True)):
            raise AssertionError("the log refused a group whose every event it would take")
        return checked

    def _check_item(self, item: ImportItem) -> ImportItem:
        """Return the item, or its rejection if the log refuses one of its events.

        If the log refuses the rejection too, the item is dropped: otherwise the retry would never end.
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

    def _count_batch(self, items: Sequence[ImportItem], positions: Iterator[str], head: str, erased: frozenset[str]) -> None:
        seen: set[str] = set()
        for item in items:
            kept = [next(positions) for event in item.events if event.id not in erased]
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
    """Return an item with one `log.rejected` event: where the line was, what was wrong, and a sample of it."""
    reason = reason.encode(errors="replace").decode()
    event = Event(
        # The position is part of the id: the same bad line in two files, or twice in one, is two rejections.
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
    """Return the beginning of a record.

    Secrets are redacted before cutting, since half a secret would not be recognised.
    """
    text, _ = Redactor().redact_value(raw[: 4 * SAMPLE_BYTES].decode(errors="replace"))
    return text.encode()[:SAMPLE_BYTES].decode(errors="ignore")


def set_missing_times(item: ImportItem, at: datetime) -> ImportItem:
    """Set the time of events that have none."""
    if all(event.at is not None for event in item.events):
        return item
    return item._replace(events=tuple(event if event.at is not None else replace(event, at=at) for event in item.events))


def _group_items(items: Iterable[ImportItem]) -> Iterator[list[ImportItem]]:
    batch: list[ImportItem] = []
    size = events = 0
    for item in items:
        batch.append(item)
        size += len(item.line.raw)
        events += len(item.events)
        if events >= MAX_APPEND_EVENTS or size >= MAX_BATCH_BYTES:
            yield batch
            batch, size, events = [], 0, 0
    if batch:
        yield batch
