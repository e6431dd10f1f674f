"""From pieces of a body to stored events: all are checked before the first is stored. Plain code for a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from fleetlore.errors import DialectError, FleetloreError, Forgotten, Invalid, InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.server.endpoints.request_body import MOST_EVENTS
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.base import Position, Record
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.endpoints.request_body import Piece

MOST_SHOWN = 20
MOST_WRONG = 10_000
"""After so many nobody reads on: it is the wrong file."""
LONGEST_REASON = 300

Decode: TypeAlias = Callable[[bytes], Event]
_Told = TypeVar("_Told")


class Misfits:
    """What is wrong with the pieces of a body."""

    def __init__(self) -> None:
        self._shown: list[dict[str, Any]] = []
        self.count = 0

    def add(self, piece: Piece, error: Invalid) -> None:
        """One more."""
        self.count += 1
        if len(self._shown) < MOST_SHOWN:
            self._shown.append({piece.where: piece.n, **described(error)})

    @property
    def are_too_many(self) -> bool:
        """Whether it is of no use to go on."""
        return self.count >= MOST_WRONG

    def problem(self) -> Problem:
        """The answer, with the first of them."""
        how_many = f"{self.count:,}{' or more' if self.are_too_many else ''}"
        are = "event is" if self.count == 1 else "events are"
        detail = f"{how_many} {are} not as an event must be, and nothing was stored; mend what `errors` names and send all of it again"
        return Problem(422, detail, errors=self._shown, errors_in_all=self.count)


def described(error: Invalid) -> dict[str, str]:
    """Where in a record something is wrong, and what."""
    path = error.path if isinstance(error, InvalidEvent | DialectError) else "$"
    reason = error.reason if isinstance(error, InvalidEvent | DialectError) else str(error)
    return {"path": (path or "$")[:LONGEST_REASON], "reason": reason[:LONGEST_REASON]}


def admit_all(log: BlockingRecorder, pieces: Iterable[Piece], decode: Decode, *, trace: str | None = None) -> list[Record]:
    """Every piece as it would be stored; a `Problem` that names those which cannot be."""
    records: list[Record] = []
    wrong = Misfits()
    for piece in pieces:
        try:
            event = decode(piece.raw)
            if trace is not None and event.trace is None:
                event = replace(event, trace=trace)
            records.append(log.admit(event))
        except Invalid as error:
            wrong.add(piece, error)
            if wrong.are_too_many:
                break
        if len(records) > MOST_EVENTS:
            raise Problem(413, f"more than {MOST_EVENTS:,} events in one request; send them in several")
    if wrong.count:
        raise wrong.problem()
    return records


def store(log: BlockingRecorder, records: Sequence[Record]) -> list[Position]:
    """Where they are now, or were already; a `Problem` that names those which were erased for good."""
    try:
        return log.append_records(records)
    except Forgotten as error:
        detail = "erased for good, and not taken again: leave out what `ids` names; what was stored already keeps its position"
        raise Problem(410, detail, ids=list(error.ids)) from error


class Kept(NamedTuple):
    """What became of the events that a program's record tells."""

    positions: list[Position]
    refused: list[tuple[Event, Invalid]]


def keep(log: BlockingRecorder, events: Iterable[Event]) -> Kept:
    """Store what can be stored. What was erased for good is left out: a program that tells it again cannot know."""
    records: list[Record] = []
    refused: list[tuple[Event, Invalid]] = []
    for event in events:
        try:
            records.append(log.admit(event))
        except Invalid as error:
            refused.append((event, error))
    return Kept(_put(log, records), refused)


def keep_all(log: BlockingRecorder, events: Iterable[Event]) -> list[Position]:
    """The same, or nothing at all: `Invalid` for the first that cannot be stored."""
    return _put(log, [log.admit(event) for event in events])


def _put(log: BlockingRecorder, records: list[Record]) -> list[Position]:
    while records:
        try:
            return log.append_records(records)
        except Forgotten as error:
            gone = frozenset(error.ids)
            records = [record for record in records if record.id not in gone]
    return []


def told(read: Callable[[], _Told]) -> _Told:
    """What a dialect makes of a record. One that nobody foresaw is refused like any other, and says so."""
    try:
        return read()
    except FleetloreError:
        raise
    except Exception as error:
        raise DialectError("$", f"not foreseen: {type(error).__name__}: {error}"[:LONGEST_REASON]) from error
