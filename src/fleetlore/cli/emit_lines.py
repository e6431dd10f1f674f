"""`lore emit -`: events from standard input, one JSON a line, stored as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import open_log, summary, terminal
from fleetlore.errors import Invalid, InvalidEvent, LogError
from fleetlore.events import codec
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, make_rejection
from fleetlore.ingest.lines import LONGEST_LINE, LineSplitter, SourceLine
from fleetlore.ingest.shipment import strip_shipped_place
from fleetlore.log.admission import OWN_DIALECT, Admission

if TYPE_CHECKING:
    from argparse import Namespace
    from io import BufferedReader

    from fleetlore.events.envelope import Event

CHUNK = 64 * 1024


def run(args: Namespace) -> int:
    """Store what can be stored; answers 3 if some lines could not."""
    _refuse_fields(args)
    settings = open_log.settings_of(args)
    rejections = summary.Rejections()
    with open_log.open_log(args, settings=settings) as log:
        admission = Admission(redactor=open_log.redactor_of(settings))
        deposit = BatchWriter(log, dialect=OWN_DIALECT, admission=admission, on_rejected=rejections.add)
        places = Places()
        try:
            for lines in _arriving():
                deposit.write_all(places.without(_item(line)) for line in lines)
        except LogError:
            summary.end(deposit.tally, json=args.json)  # so that the caller knows how many lines were stored before the error
            raise
    rejections.end()
    places.end()
    return summary.end(deposit.tally, json=args.json)


class Places:
    """Takes out of events from where they were shipped: a shipper goes by it, so only `lore ship` may say it."""

    def __init__(self) -> None:
        self._count = 0

    def without(self, item: ImportItem) -> ImportItem:
        """The item without `origin.log`."""
        return item._replace(events=tuple(map(self._without, item.events)))

    def _without(self, event: Event) -> Event:
        left = strip_shipped_place(event)
        self._count += left is not event
        return left

    def end(self) -> None:
        """Say that something was left out."""
        if self._count:
            events = "1 event" if self._count == 1 else f"{self._count:,} events"
            terminal.err(f"lore: origin.log was left out of {events}: only `lore ship` says from where an event was shipped")


def _refuse_fields(args: Namespace) -> None:
    ours = {"kind", "log", "town", "json", "visibility"}
    given = [name for name, value in vars(args).items() if value is not None and name not in ours]
    if given or args.visibility != "public":
        raise Invalid(f"--{(given or ['visibility'])[0].replace('_', '-')} does not go with -; write it into each line")


def _arriving() -> Iterator[Iterator[SourceLine]]:
    """Whatever has arrived, line by line: a slow writer's events are not kept waiting."""
    splitter = LineSplitter("stdin")
    stdin = cast("BufferedReader", sys.stdin.buffer)
    while chunk := stdin.read1(CHUNK):
        yield splitter.feed(chunk)
    yield splitter.flush()


def _item(line: SourceLine) -> ImportItem:
    if line.too_long:
        return _rejection(line, f"longer than {LONGEST_LINE} bytes")
    try:
        return ImportItem(line, (_stamped(codec.decode(line.raw)),))
    except InvalidEvent as error:
        return _rejection(line, error.reason if error.path == "$" else str(error))


def _stamped(event: Event) -> Event:
    return event if event.id is not None else replace(event, id=clock.uuid7())


def _rejection(line: SourceLine, reason: str) -> ImportItem:
    return make_rejection(line, reason, dialect=OWN_DIALECT, at=clock.now())
