"""`lore emit -`: reads events as NDJSON from standard input and stores them as they arrive."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import open_log, summary, terminal
from fleetlore.errors import Invalid, InvalidEvent, LogError
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, make_rejection
from fleetlore.ingest.lines import LONGEST_LINE, LineSplitter, SourceLine
from fleetlore.ingest.shipment import strip_shipped_place
from fleetlore.log.admission import OWN_DIALECT, Admission

if TYPE_CHECKING:
    from argparse import Namespace
    from io import BufferedReader

CHUNK = 64 * 1024
MOST_REJECTED = 1000
"""Lines in a row after which reading stops."""
FIELD_NAMES = {
    **dict.fromkeys(("time", "timestamp", "ts", "date", "when", "created_at"), "at"),
    **dict.fromkeys(("type", "event", "event_type"), "kind"),
    **dict.fromkeys(("message", "msg", "body", "title", "description"), "text"),
    **dict.fromkeys(("payload", "details", "attributes", "metadata", "extra"), "data"),
    **dict.fromkeys(("session", "session_id", "run_id", "conversation_id"), "run"),
    **dict.fromkeys(("user", "author", "by", "who"), "actor"),
    **dict.fromkeys(("agent_id", "agent_name"), "agent"),
    **dict.fromkeys(("uuid", "event_id"), "id"),
    **dict.fromkeys(("task_id", "issue"), "task"),
    **dict.fromkeys(("parent_id", "caused_by"), "cause"),
    **dict.fromkeys(("version", "schema"), "v"),
}
"""What others call a field → our name for it."""
_unknown_field = re.compile(r"unknown field `([^`]{1,200})`")


def emit_lines(args: Namespace) -> int:
    """Store the valid lines; exit code 3 if some were rejected."""
    _refuse_event_options(args)
    settings = open_log.load_settings_for(args)
    rejections = summary.Rejections()
    with open_log.open_log(args, settings=settings) as log:
        admission = Admission(redactor=open_log.make_redactor(settings))
        writer = BatchWriter(log, dialect=OWN_DIALECT, admission=admission, on_rejected=rejections.add)
        origin_filter = ShippedPlaceFilter()
        try:
            streak = RejectionStreak()
            for lines in _read_chunks():
                writer.write_all(origin_filter.remove_log_origin(streak.count(_parse_line(line))) for line in streak.until_too_long(lines))
                if streak.is_too_long:
                    break
        except LogError:
            summary.print_summary(writer.tally, json=args.json)  # so that the caller knows how many lines were stored before the error
            raise
    rejections.print_rest()
    origin_filter.print_warning()
    if streak.is_too_long:
        terminal.print_error(f"lore: stopped: {MOST_REJECTED:,} lines in a row were rejected; the rest was not read")
    return summary.print_summary(writer.tally, json=args.json)


class RejectionStreak:
    """Counts lines that were rejected in a row: a wrong field name would otherwise fill the log with rejections."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def is_too_long(self) -> bool:
        """Whether reading on makes no sense."""
        return self._count >= MOST_REJECTED

    def until_too_long(self, lines: Iterator[SourceLine]) -> Iterator[SourceLine]:
        """The lines, as long as it makes sense to read them."""
        for line in lines:
            if self.is_too_long:
                return
            yield line

    def count(self, item: ImportItem) -> ImportItem:
        """The same item."""
        self._count = 0 if item.rejected is None else self._count + 1
        return item


class ShippedPlaceFilter:
    """Removes `origin.log` from events, and counts these events. Only `lore ship` may set the field, because it relies on it."""

    def __init__(self) -> None:
        self._count = 0

    def remove_log_origin(self, item: ImportItem) -> ImportItem:
        """The item without `origin.log`."""
        return item._replace(events=tuple(map(self._strip_event, item.events)))

    def _strip_event(self, event: Event) -> Event:
        stripped = strip_shipped_place(event)
        self._count += stripped is not event
        return stripped

    def print_warning(self) -> None:
        """Print a warning if anything was removed."""
        if self._count:
            events = "1 event" if self._count == 1 else f"{self._count:,} events"
            terminal.print_error(f"lore: origin.log was left out of {events}: only `lore ship` says from where an event was shipped")


def _refuse_event_options(args: Namespace) -> None:
    """Raise `Invalid` for options that describe a single event."""
    allowed = {"kind", "log", "town", "json", "visibility"}
    given = [name for name, value in vars(args).items() if value is not None and name not in allowed]
    if given or args.visibility != "public":
        raise Invalid(f"--{(given or ['visibility'])[0].replace('_', '-')} does not go with -; put it into each line")


def _read_chunks() -> Iterator[Iterator[SourceLine]]:
    """Yield the lines as they arrive, so that the events of a slow writer are stored at once."""
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
        return _make_line_rejection(line, suggest_field(error.reason) if error.path == "$" else str(error))


def suggest_field(reason: str) -> str:
    """The reason, with the field that was probably meant if one is unknown."""
    found = _unknown_field.search(reason)
    if found is None:
        return reason
    from difflib import get_close_matches

    known = [field for field in Event.__struct_fields__ if field != "position"]
    meant = FIELD_NAMES.get(found[1].lower()) or next(iter(get_close_matches(found[1].lower(), known, n=1)), None)
    hint = f"did you mean `{meant}`?" if meant else f"known fields: {', '.join(known)}; put others into `data`"
    return f"unknown field `{found[1]}`; {hint}"


def _with_id(event: Event) -> Event:
    return event if event.id is not None else replace(event, id=clock.uuid7())


def _make_line_rejection(line: SourceLine, reason: str) -> ImportItem:
    return make_rejection(line, reason, dialect=OWN_DIALECT, at=clock.now())
