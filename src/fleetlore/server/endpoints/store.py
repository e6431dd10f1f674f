"""Validates and stores the events of a request. All are checked before the first is stored. Blocking code, run in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from fleetlore.errors import DialectError, FleetloreError, Forgotten, Invalid, InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.server.endpoints.request_body import MAX_EVENTS
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.base import Position, Record
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.endpoints.request_body import BodyPiece

MAX_ERRORS_SHOWN = 20
MAX_ERRORS = 10_000
"""Checking stops after so many errors: it is probably the wrong file."""
MAX_REASON_CHARS = 300

Decode: TypeAlias = Callable[[bytes], Event]
_T = TypeVar("_T")


class InvalidPieces:
    """Collects validation errors of a body: counts all, keeps the first few."""

    def __init__(self) -> None:
        self._errors: list[dict[str, Any]] = []
        self.count = 0

    def add(self, piece: BodyPiece, error: Invalid) -> None:
        """Add an error."""
        self.count += 1
        if len(self._errors) < MAX_ERRORS_SHOWN:
            self._errors.append({piece.where: piece.n, **describe_error(error)})

    @property
    def are_too_many(self) -> bool:
        """Whether checking should stop."""
        return self.count >= MAX_ERRORS

    def to_problem(self) -> Problem:
        """A 422 with the first errors."""
        how_many = f"{self.count:,}{' or more' if self.are_too_many else ''}"
        are = "event is" if self.count == 1 else "events are"
        detail = f"{how_many} {are} invalid, and nothing was stored; fix what `errors` lists and send the whole request again"
        return Problem(422, detail, errors=self._errors, errors_in_all=self.count)


def describe_error(error: Invalid) -> dict[str, str]:
    """Path and reason of an error, shortened."""
    path = error.path if isinstance(error, InvalidEvent | DialectError) else "$"
    reason = error.reason if isinstance(error, InvalidEvent | DialectError) else str(error)
    return {"path": (path or "$")[:MAX_REASON_CHARS], "reason": reason[:MAX_REASON_CHARS]}


def admit_pieces(log: BlockingRecorder, pieces: Iterable[BodyPiece], decode: Decode, *, trace: str | None = None) -> list[Record]:
    """All pieces as records to store; a `Problem` 422 that lists the invalid ones."""
    records: list[Record] = []
    errors = InvalidPieces()
    for piece in pieces:
        try:
            event = decode(piece.raw)
            if trace is not None and event.trace is None:
                event = replace(event, trace=trace)
            records.append(log.admit(event))
        except Invalid as error:
            errors.add(piece, error)
            if errors.are_too_many:
                break
        if len(records) > MAX_EVENTS:
            raise Problem(413, f"more than {MAX_EVENTS:,} events in one request; send them in several")
    if errors.count:
        raise errors.to_problem()
    return records


def store_records(log: BlockingRecorder, records: Sequence[Record]) -> list[Position]:
    """Append records and return their positions; a `Problem` 410 that lists erased ids."""
    try:
        return log.append_records(records)
    except Forgotten as error:
        detail = "the events in `ids` were erased and cannot be stored again; remove them from the request and send the others again"
        raise Problem(410, detail, ids=list(error.ids)) from error


class StoreResult(NamedTuple):
    """Positions of the stored events, and the refused ones with reasons."""

    positions: list[Position]
    refused: list[tuple[Event, Invalid]]


def store_valid_events(log: BlockingRecorder, events: Iterable[Event]) -> StoreResult:
    """Store the valid events. Erased ids are skipped silently: a program that sends them again cannot know."""
    records: list[Record] = []
    refused: list[tuple[Event, Invalid]] = []
    for event in events:
        try:
            records.append(log.admit(event))
        except Invalid as error:
            refused.append((event, error))
    return StoreResult(_append_unless_forgotten(log, records), refused)


def store_events(log: BlockingRecorder, events: Iterable[Event]) -> list[Position]:
    """Store all events or none: `Invalid` for the first invalid one. Erased ids are skipped."""
    return _append_unless_forgotten(log, [log.admit(event) for event in events])


def _append_unless_forgotten(log: BlockingRecorder, records: list[Record]) -> list[Position]:
    while records:
        try:
            return log.append_records(records)
        except Forgotten as error:
            erased = frozenset(error.ids)
            records = [record for record in records if record.id not in erased]
    return []


def decode_foreign(read: Callable[[], _T]) -> _T:
    """Call a dialect's reader; unexpected exceptions become `DialectError`, so that a strange record is refused and not a 500."""
    try:
        return read()
    except FleetloreError:
        raise
    except Exception as error:
        raise DialectError("$", f"cannot be read: {type(error).__name__}: {error}"[:MAX_REASON_CHARS]) from error
