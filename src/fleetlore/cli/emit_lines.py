"""`lore emit -`: events from standard input, one JSON a line, stored as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.cli import opening, summary
from fleetlore.errors import Invalid, InvalidEvent
from fleetlore.events import codec
from fleetlore.intake.deposit import Deposit, Item, rejection
from fleetlore.intake.lines import LONGEST_LINE, Line, Splitter
from fleetlore.log.admission import OWN_DIALECT, Admission

if TYPE_CHECKING:
    from argparse import Namespace
    from io import BufferedReader

    from fleetlore.events.envelope import Event

CHUNK = 64 * 1024


def run(args: Namespace) -> int:
    """Store what can be stored; answers 3 if some lines could not."""
    _refuse_fields(args)
    settings = opening.settings_of(args)
    rejections = summary.Rejections()
    with opening.open_log(args, settings=settings) as log:
        admission = Admission(redactor=opening.redactor_of(settings))
        deposit = Deposit(log, dialect=OWN_DIALECT, admission=admission, on_rejected=rejections.add)
        for lines in _arriving():
            deposit.put_all(map(_item, lines))
    rejections.end()
    return summary.end(deposit.tally, json=args.json)


def _refuse_fields(args: Namespace) -> None:
    ours = {"kind", "log", "town", "json", "visibility"}
    given = [name for name, value in vars(args).items() if value is not None and name not in ours]
    if given or args.visibility != "public":
        raise Invalid(f"--{(given or ['visibility'])[0].replace('_', '-')} does not go with -; write it into each line")


def _arriving() -> Iterator[Iterator[Line]]:
    """Whatever has arrived, line by line: a slow writer's events are not kept waiting."""
    splitter = Splitter("stdin")
    stdin = cast("BufferedReader", sys.stdin.buffer)
    while chunk := stdin.read1(CHUNK):
        yield splitter.feed(chunk)
    yield splitter.end()


def _item(line: Line) -> Item:
    if line.too_long:
        return _rejection(line, f"longer than {LONGEST_LINE} bytes")
    try:
        return Item(line, _stamped(codec.decode(line.raw)))
    except InvalidEvent as error:
        return _rejection(line, error.reason if error.path == "$" else str(error))


def _stamped(event: Event) -> Event:
    return event if event.id is not None else replace(event, id=clock.uuid7())


def _rejection(line: Line, reason: str) -> Item:
    return rejection(line, reason, dialect=OWN_DIALECT, at=clock.now())
