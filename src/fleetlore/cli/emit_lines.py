"""`lore emit -`: reads events as NDJSON from standard input and stores them as they arrive."""

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


def emit_lines(args: Namespace) -> int:
    """Store the valid lines; exit code 3 if some were rejected."""
    _refuse_fields(args)
    settings = open_log.settings_of(args)
    rejections = summary.Rejections()
    with open_log.open_log(args, settings=settings) as log:
        admission = Admission(redactor=open_log.redactor_of(settings))
        writer = BatchWriter(log, dialect=OWN_DIALECT, admission=admission, on_rejected=rejections.add)
        place_filter = ShippedPlaceFilter()
        try:
            for lines in _read_chunks():
                writer.write_all(place_filter.without(_parse_line(line)) for line in lines)
        except LogError:
            summary.print_summary(writer.tally, json=args.json)  # so that the caller knows how many lines were stored before the error
            raise
    rejections.end()
    place_filter.end()
    return summary.print_summary(writer.tally, json=args.json)


class ShippedPlaceFilter:
    """Removes `origin.log` from events and counts them: shippers rely on it, so only `lore ship` may set it."""

    def __init__(self) -> None:
        self._count = 0

    def without(self, item: ImportItem) -> ImportItem:
        """The item without `origin.log`."""
        return item._replace(events=tuple(map(self._without, item.events)))

    def _without(self, event: Event) -> Event:
        stripped = strip_shipped_place(event)
        self._count += stripped is not event
        return stripped

    def end(self) -> None:
        """Print a warning if anything was removed."""
        if self._count:
            events = "1 event" if self._count == 1 else f"{self._count:,} events"
            terminal.print_error(f"lore: origin.log was left out of {events}: only `lore ship` says from where an event was shipped")


def _refuse_fields(args: Namespace) -> None:
    ours = {"kind", "log", "town", "json", "visibility"}
    given = [name for name, value in vars(args).items() if value is not None and name not in ours]
    if given or args.visibility != "public":
        raise Invalid(f"--{(given or ['visibility'])[0].replace('_', '-')} does not go with -; write it into each line")


def _read_chunks() -> Iterator[Iterator[SourceLine]]:
    """Lines as they arrive, so that events of a slow writer are stored at once."""
    splitter = LineSplitter("stdin")
    stdin = cast("BufferedReader", sys.stdin.buffer)
    while chunk := stdin.read1(CHUNK):
        yield splitter.feed(chunk)
    yield splitter.flush()


def _parse_line(line: SourceLine) -> ImportItem:
    if line.too_long:
        return _make_line_rejection(line, f"longer than {LONGEST_LINE} bytes")
    try:
        return ImportItem(line, (_with_id(codec.decode_event(line.raw)),))
    except InvalidEvent as error:
        return _make_line_rejection(line, error.reason if error.path == "$" else str(error))


def _with_id(event: Event) -> Event:
    return event if event.id is not None else replace(event, id=clock.uuid7())


def _make_line_rejection(line: SourceLine, reason: str) -> ImportItem:
    return make_rejection(line, reason, dialect=OWN_DIALECT, at=clock.now())
