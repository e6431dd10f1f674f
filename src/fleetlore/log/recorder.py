"""The blocking door to any backend: for scripts, hooks and threads. Never imports asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from threading import Lock
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from fleetlore.errors import Closed, InvalidEvent, TooLarge
from fleetlore.events.catalog import is_kind_or_family
from fleetlore.events.envelope import Event
from fleetlore.events.ids import find_uuid
from fleetlore.log.admission import Admission
from fleetlore.log.base import (
    MAX_APPEND_BYTES,
    MAX_APPEND_EVENTS,
    PAGE_SIZE,
    TOWN,
    AppendBatch,
    AppendOutcome,
    Backend,
    Expect,
    LogInfo,
    LogQuery,
    LogTail,
    Position,
    Record,
    StoredRecord,
    TailPage,
    check_scope,
    hash_event_id,
)
from fleetlore.log.reading import decode_all_stored, decode_stored, make_gap_event

BATCHES_PER_COMMIT = 10
"""Full appends that `append_all` puts on the disk at once; it holds no more than these in memory."""

MAX_FORGOTTEN_IDS = 3000

WAIT_SECONDS = 1.0
"""How long one wait of a follower lasts; it then looks whether it was closed, and waits again."""


class BlockingRecorder:
    """A log, opened. Threads that append at the same time share one write to the disk."""

    def __init__(self, open_backend: Callable[[], Backend], admission: Admission) -> None:
        self._open_backend = open_backend
        self._admission = admission
        self._backend: Backend | None = None
        self._pending: list[_PendingAppend] = []
        self._commit_lock = Lock()

    def __enter__(self) -> Self:
        self._backend = self._open_backend()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the log; nothing acknowledged is lost."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def backend_and_admission(self) -> tuple[Backend, Admission]:
        """What it is made of, for another door to the same log."""
        return self._require_backend(), self._admission

    def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        """Store events, all or none, and answer their positions once they are durable."""
        return self._append_batch(prepare_batch(self._admission, events, expect))

    def _append_batch(self, batch: AppendBatch) -> list[Position]:
        if not self._commit_lock.acquire(blocking=False):
            return self._append_in_group(batch)
        try:
            [outcome] = self._require_backend().commit((batch,))
        finally:
            self._commit_lock.release()
        return unwrap_outcome(outcome)

    def _append_in_group(self, batch: AppendBatch) -> list[Position]:
        """Another thread is committing: whoever comes next stores everything that gathers meanwhile."""
        request = _PendingAppend(batch)
        self._pending.append(request)
        with self._commit_lock:
            if request.outcome is None:
                self._commit_pending()
        return request.unwrap_result()

    def _commit_pending(self) -> None:
        """Commit for every thread that is waiting; those behind find their outcome when they get the lock."""
        requests, self._pending = self._pending, []
        try:
            outcomes: Sequence[AppendOutcome | BaseException] = self._require_backend().commit([request.batch for request in requests])
        except BaseException as error:  # noqa: BLE001 - it belongs to every thread that waits, this one among them
            outcomes = [error] * len(requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            request.outcome = outcome

    def append_all(self, events: Iterable[Event]) -> list[Position]:
        """Store any number of events, cut into appends of the largest size allowed; each is all or nothing by itself."""
        return self.append_records(map(self._admission.admit, events))

    def admit(self, event: Event) -> Record:
        """The event as it would be stored: stamped, checked, its secrets taken out. `Invalid` says what is wrong with it."""
        return self._admission.admit(event)

    def append_records(self, records: Iterable[Record]) -> list[Position]:
        """Store what `admit` has made, cut as `append_all` cuts: what one append may hold is stored all or not at all."""
        positions: list[Position] = []
        for batches in group_batches(records):
            if len(batches) == 1:  # it may share its write to the disk with other threads
                positions += self._append_batch(batches[0])
            else:
                for outcome in self._require_backend().commit(batches):
                    positions += unwrap_outcome(outcome)
        return positions

    def read(
        self,
        scope: str = TOWN,
        *,
        after: Position | None = None,
        before: Position | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Generator[Event, None, None]:
        """Events of a scope, oldest first unless told otherwise, read a page at a time."""
        query = make_query(scope, after, before, kinds, since, newest_first)
        return self._read_events(query, limit)

    def _read_events(self, query: LogQuery, limit: int | None) -> Generator[Event, None, None]:
        for rows in self._read_pages(query, limit):
            yield from decode_all_stored(rows)

    def pages(self, scope: str = TOWN, *, since: datetime | None = None) -> Generator[list[StoredRecord], None, None]:
        """The stored records of a scope, oldest first: for those who do not need all that is in each."""
        return self._read_pages(make_query(scope, None, None, (), since, False), None)

    def _read_pages(self, query: LogQuery, limit: int | None) -> Generator[list[StoredRecord], None, None]:
        while (page := next_page_query(query, limit)) is not None:
            rows = self._require_backend().read(page)
            yield rows
            if len(rows) < page.limit:
                return
            limit = None if limit is None else limit - len(rows)
            query = advance_query(query, rows[-1].position)

    def follow(self, scope: str = TOWN, *, after: Position | None = None) -> Generator[Event, None, None]:
        """What is in a scope behind `after`, and then what comes, each event once. Ends when the log is closed."""
        return self._follow_events(check_scope(scope), after)

    def _follow_events(self, scope: str, after: Position | None) -> Generator[Event, None, None]:
        with closing(self._follow_pages(scope, after)) as pages:
            for page in pages:
                for event in decode_page(page, after):
                    after = event.position
                    yield event

    def follow_pages(self, scope: str = TOWN, *, after: Position | None = None) -> Generator[TailPage, None, None]:
        """What `follow` gives, as stored records; an empty page when nothing came for a moment. Ends when the log is closed."""
        return self._follow_pages(check_scope(scope), after)

    def _follow_pages(self, scope: str, after: Position | None) -> Generator[TailPage, None, None]:
        tail = self._require_backend().tail(scope, after)
        try:
            while self._backend is not None:
                yield _wait_for_page(tail)
        except Closed:
            return
        finally:
            tail.close()

    def get(self, ids: Sequence[str]) -> list[Event]:
        """The events with these ids that are here, in log order."""
        known = [form for id in ids if (form := find_uuid(id))]
        return [decode_stored(stored) for stored in self._require_backend().get(known)]

    def head(self, scope: str = TOWN) -> Position | None:
        """The position of the newest event in a scope; `None` if it has none."""
        return self._require_backend().head(check_scope(scope))

    def trim(self, before: Position) -> int:
        """Drop everything in the town before a position; answers how many events went."""
        return self._require_backend().trim(before)

    def erase(self, ids: Sequence[str], reason: str) -> int:
        """Drop these events for good and leave one `log.forgotten`; their ids are refused from now on."""
        backend = self._require_backend()
        return sum(backend.erase(part, self._admission.admit(make_forgotten_event(part, reason))) for part in split_ids(ids))

    def info(self) -> LogInfo:
        """What this log is, how large, and what it promises."""
        return self._require_backend().info()

    def _require_backend(self) -> Backend:
        if self._backend is None:
            raise Closed("the log is not open; use it inside `with connect(…).blocking() as log:`")
        return self._backend


def _wait_for_page(tail: LogTail) -> TailPage:
    try:
        return tail.next_page(WAIT_SECONDS)
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # it came after a Condition let go of its lock, and hides behind that now
            raise error.__context__ from None
        raise


class _PendingAppend:
    """One append that waits for its turn."""

    def __init__(self, batch: AppendBatch) -> None:
        self.batch = batch
        self.outcome: AppendOutcome | BaseException | None = None

    def unwrap_result(self) -> list[Position]:
        """The positions, or the error that kept the events out."""
        assert self.outcome is not None
        return unwrap_outcome(self.outcome)


def unwrap_outcome(outcome: AppendOutcome | BaseException) -> list[Position]:
    """The positions, or the error raised."""
    if isinstance(outcome, list):
        return outcome
    raise outcome


def prepare_batch(admission: Admission, events: Sequence[Event], expect: Expect | None) -> AppendBatch:
    """Everything that can be said against an append before the backend is asked."""
    if isinstance(events, Event):
        raise InvalidEvent("$", "append takes a list of events; write append([event])")
    records = [admission.admit(event) for event in events]
    if len(records) > 1:
        _validate_size(records)
    if expect is not None:
        _validate_expect(expect)
    return AppendBatch(records, expect)


def _validate_expect(expect: Expect) -> None:
    if check_scope(expect.scope).startswith("agent:"):
        raise InvalidEvent("expect", "an agent's scope cannot be expected on; take its task, goal, run or mission")
    if expect.head is not None and not expect.head.replace("-", "").isdecimal():
        raise InvalidEvent("expect", f"not a position: {expect.head!r}")


def _validate_size(records: Sequence[Record]) -> None:
    if len(records) > MAX_APPEND_EVENTS:
        raise TooLarge("events in one append (append_all takes any number)", len(records), MAX_APPEND_EVENTS)
    size = sum(len(record.raw) for record in records)
    if size > MAX_APPEND_BYTES:
        raise TooLarge("one append, in bytes (append_all takes any number)", size, MAX_APPEND_BYTES)


def split_records(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Any number of records, in groups that one append may hold."""
    group: list[Record] = []
    size = 0
    for record in records:
        if group and (len(group) >= MAX_APPEND_EVENTS or size + len(record.raw) > MAX_APPEND_BYTES):
            yield group
            group, size = [], 0
        group.append(record)
        size += len(record.raw)
    if group:
        yield group


def group_batches(records: Iterable[Record]) -> Iterator[list[AppendBatch]]:
    """Any number of records as appends of the largest size, as many together as are worth one write to the disk."""
    batches = map(AppendBatch, split_records(records))
    while crate := list(islice(batches, BATCHES_PER_COMMIT)):
        yield crate


def make_query(
    scope: str, after: Position | None, before: Position | None, kinds: Sequence[str], since: datetime | None, newest_first: bool
) -> LogQuery:
    """A query whose parts were checked."""
    if since is not None and since.tzinfo is None:
        raise InvalidEvent("since", "needs a time zone, as datetime.now(UTC) has")
    wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in wanted:
        if not is_kind_or_family(kind):
            raise InvalidEvent("kinds", f"{kind!r} is neither a kind such as fleet.commit nor a family such as fleet.*")
    return LogQuery(scope=check_scope(scope), after=after, before=before, kinds=wanted, since=since, newest_first=newest_first)


def next_page_query(query: LogQuery, limit: int | None) -> LogQuery | None:
    """The query for the next page; `None` when enough was read."""
    size = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit)
    return replace(query, limit=size) if size > 0 else None


def advance_query(query: LogQuery, last: Position) -> LogQuery:
    """The same query, behind what was read."""
    return replace(query, before=last) if query.newest_first else replace(query, after=last)


def decode_page(page: TailPage, after: Position | None) -> Iterator[Event]:
    """A follower's page as events, the gap first."""
    if page.gap is not None:
        yield make_gap_event(after, page.gap)
    yield from map(decode_stored, page.rows)


def split_ids(ids: Sequence[str]) -> Iterator[list[str]]:
    """Ids of events as the log writes them, each once, as many together as one fact can name."""
    known: dict[str, None] = {}
    for id in ids:
        if (form := find_uuid(id)) is None:
            raise InvalidEvent("ids", f"not the id of an event: {id!r}")
        known[form] = None
    each = iter(known)
    while group := list(islice(each, MAX_FORGOTTEN_IDS)):
        yield group


def make_forgotten_event(ids: Sequence[str], reason: str) -> Event:
    """The one trace that erased events leave."""
    return Event(
        kind="log.forgotten",
        actor="fleetlore",
        text=f"forgotten for good: {len(ids)} {'event' if len(ids) == 1 else 'events'} ({reason})",
        visibility="system",
        data={"count": len(ids), "reason": reason, "id_hashes": sorted(hash_event_id(id).hex() for id in ids)},
    )
