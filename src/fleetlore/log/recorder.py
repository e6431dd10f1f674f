"""Blocking recorder: append, read and follow events from scripts, hooks and threads. Never imports asyncio.

Also holds the helpers (batches, paging) that the async recorder shares.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from itertools import islice
from threading import Lock
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from fleetlore.errors import Closed, Damaged, InvalidEvent, TooLarge
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
"""Full batches that `append_all` writes with one commit; it keeps no more than these in memory."""

MAX_FORGOTTEN_IDS = 3000

WAIT_SECONDS = 1.0
"""Longest single wait of a follower; after it the follower checks whether the log was closed."""


class BlockingRecorder:
    """An open log. Threads that append at the same time share one commit."""

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
        """Close the log; nothing acknowledged is lost."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def backend_and_admission(self) -> tuple[Backend, Admission]:
        """Return backend and admission, for another recorder on the same log."""
        return self._require_backend(), self._admission

    def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        """Store events, all or none; return their positions once they are durable.

        Raises `Conflict` if `expect` does not hold, `Forgotten` for erased ids, `InvalidEvent` or `TooLarge`.
        """
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
        """Wait while another thread commits; the next thread to get the lock commits all pending batches."""
        request = _PendingAppend(batch)
        self._pending.append(request)
        with self._commit_lock:
            if request.outcome is None:
                self._commit_pending()
        return request.unwrap_result()

    def _commit_pending(self) -> None:
        """Commit for every waiting thread; the others find their outcome when they get the lock."""
        requests, self._pending = self._pending, []
        try:
            outcomes: Sequence[AppendOutcome | BaseException] = self._require_backend().commit([request.batch for request in requests])
        except BaseException as error:  # noqa: BLE001 - re-raised in every waiting thread, including this one
            outcomes = [error] * len(requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            request.outcome = outcome

    def append_all(self, events: Iterable[Event]) -> list[Position]:
        """Store any number of events in batches of the largest size; each batch is all or nothing."""
        return self.append_records(map(self._admission.admit, events))

    def admit(self, event: Event) -> Record:
        """Return the event as it would be stored: stamped, validated, redacted. Raises `Invalid`."""
        return self._admission.admit(event)

    def append_records(self, records: Iterable[Record]) -> list[Position]:
        """Store records made by `admit`, in batches as `append_all` does."""
        positions: list[Position] = []
        if not self._admission.keeps_whole_texts:  # another admission may have made them
            records = (replace(record, blobs=b"") if record.blobs else record for record in records)
        for batches in group_batches(records):
            if len(batches) == 1:  # may share its commit with other threads
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
        """Yield events of a scope, oldest first unless `newest_first`; reads a page at a time."""
        query = make_query(scope, after, before, kinds, since, newest_first)
        return self._read_events(query, limit)

    def _read_events(self, query: LogQuery, limit: int | None) -> Generator[Event, None, None]:
        for rows in self._read_pages(query, limit):
            yield from decode_all_stored(rows)

    def read_pages(self, scope: str = TOWN, *, since: datetime | None = None) -> Generator[list[StoredRecord], None, None]:
        """Yield pages of stored records of a scope, oldest first, for callers that decode only parts."""
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
        """Yield the events of a scope after `after`, then new ones as they arrive. Ends when the log is closed."""
        return self._follow_events(check_scope(scope), after)

    def _follow_events(self, scope: str, after: Position | None) -> Generator[Event, None, None]:
        with closing(self._follow_pages(scope, after)) as pages:
            for page in pages:
                for event in decode_page(page, after):
                    after = event.position
                    yield event

    def follow_pages(self, scope: str = TOWN, *, after: Position | None = None) -> Generator[TailPage, None, None]:
        """Like `follow`, but yields pages of stored records; an empty page after each wait without news."""
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
        """Return the events with these ids that exist, in log order."""
        known = [canonical_id for id in ids if (canonical_id := find_uuid(id))]
        return [decode_stored(stored) for stored in self._require_backend().get(known)]

    def get_blob(self, id: str, digest: str) -> str | None:
        """Return the whole text of a string that was cut from an event; `digest` is the `sha256` in its `origin.cut`.

        `None` if there is no such event, it does not name the text, or the text is not kept. Raises `Damaged` if it is not
        what was stored.
        """
        found = self.get([id])
        return whole_texts(found[0], self._require_backend()).get(digest) if found else None

    def restore_whole(self, event: Event) -> Event:
        """Return a stored event with its whole texts, as far as they are kept and undamaged."""
        return restore_event(event, self._require_backend())

    def head(self, scope: str = TOWN) -> Position | None:
        """Return the position of the newest event in a scope, or `None`."""
        return self._require_backend().head(check_scope(scope))

    def trim(self, before: Position) -> int:
        """Delete everything in the town before a position; return how many events were deleted."""
        return self._require_backend().trim(before)

    def erase(self, ids: Sequence[str], reason: str) -> int:
        """Delete these events for good, leaving one `log.forgotten` event; their ids are rejected from now on."""
        backend = self._require_backend()
        return sum(backend.erase(group, self._admission.admit(make_forgotten_event(group, reason))) for group in split_ids(ids))

    def info(self) -> LogInfo:
        """Describe this log: backend, size, guarantees."""
        return self._require_backend().info()

    def _require_backend(self) -> Backend:
        if self._backend is None:
            raise Closed("the log is not open; use it inside `with connect(…).blocking() as log:`")
        return self._backend


def _wait_for_page(tail: LogTail) -> TailPage:
    try:
        return tail.next_page(WAIT_SECONDS)
    except RuntimeError as error:
        # Ctrl-C between the unlock and relock inside Condition.wait surfaces as this RuntimeError.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


class _PendingAppend:
    def __init__(self, batch: AppendBatch) -> None:
        self.batch = batch
        self.outcome: AppendOutcome | BaseException | None = None

    def unwrap_result(self) -> list[Position]:
        assert self.outcome is not None
        return unwrap_outcome(self.outcome)


def unwrap_outcome(outcome: AppendOutcome | BaseException) -> list[Position]:
    """Return the positions, or raise the error."""
    if isinstance(outcome, list):
        return outcome
    raise outcome


def prepare_batch(admission: Admission, events: Sequence[Event], expect: Expect | None) -> AppendBatch:
    """Admit and validate the events of one append; raises everything that can be known without the backend."""
    if isinstance(events, Event):
        raise InvalidEvent("$", "append takes a list of events; write append([event])")
    return make_batch([admission.admit(event) for event in events], expect)


def make_batch(records: Sequence[Record], expect: Expect | None) -> AppendBatch:
    """Validate the records of one append."""
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
    """Split records into groups that fit one batch."""
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
    """Yield lists of full batches, up to `BATCHES_PER_COMMIT` each, for one commit."""
    batches = map(AppendBatch, split_records(records))
    while group := list(islice(batches, BATCHES_PER_COMMIT)):
        yield group


def make_query(
    scope: str, after: Position | None, before: Position | None, kinds: Sequence[str], since: datetime | None, newest_first: bool
) -> LogQuery:
    """Build a query and validate its parts; raises `InvalidEvent` or `InvalidScope`."""
    if since is not None and since.tzinfo is None:
        raise InvalidEvent("since", "needs a time zone, as datetime.now(UTC) has")
    wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in wanted:
        if not is_kind_or_family(kind):
            raise InvalidEvent("kinds", f"{kind!r} is neither a kind such as fleet.commit nor a family such as fleet.*")
    return LogQuery(scope=check_scope(scope), after=after, before=before, kinds=wanted, since=since, newest_first=newest_first)


def next_page_query(query: LogQuery, limit: int | None) -> LogQuery | None:
    """Return the query for the next page, or `None` when `limit` is reached."""
    size = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit)
    return replace(query, limit=size) if size > 0 else None


def advance_query(query: LogQuery, last: Position) -> LogQuery:
    """Return the same query, continuing after `last`."""
    return replace(query, before=last) if query.newest_first else replace(query, after=last)


def decode_page(page: TailPage, after: Position | None) -> Iterator[Event]:
    """Yield the events of a follower's page, a gap first."""
    if page.gap is not None:
        yield make_gap_event(after, page.gap)
    yield from map(decode_stored, page.rows)


def whole_texts(event: Event, backend: Backend) -> dict[str, str]:
    """Return the whole texts that an event names and the backend keeps, by digest."""
    if event.origin is None or not event.origin.cut or event.id is None:
        return {}
    packed = backend.get_blobs(event.id)
    if packed is None:
        return {}
    from fleetlore.log.blobs import unpack_texts  # loaded only for long strings: it costs start-up time

    named = {cut.sha256 for cut in event.origin.cut}
    return {digest: text for digest, text in unpack_texts(packed).items() if digest in named}


def restore_event(event: Event, backend: Backend) -> Event:
    """Return the event with its whole texts. A damaged one stays cut: the rest of the log must stay readable."""
    try:
        texts = whole_texts(event, backend)
    except Damaged:
        return event
    if not texts:
        return event
    from fleetlore.log import blobs

    return blobs.restore_event(event, texts)


def split_ids(ids: Sequence[str]) -> Iterator[list[str]]:
    """Validate and deduplicate event ids; yield them in groups that one `log.forgotten` event can name."""
    unique: dict[str, None] = {}
    for id in ids:
        if (canonical_id := find_uuid(id)) is None:
            raise InvalidEvent("ids", f"not the id of an event: {id!r}")
        unique[canonical_id] = None
    remaining = iter(unique)
    while group := list(islice(remaining, MAX_FORGOTTEN_IDS)):
        yield group


def make_forgotten_event(ids: Sequence[str], reason: str) -> Event:
    """Return the `log.forgotten` event: the only trace of erased events."""
    return Event(
        kind="log.forgotten",
        actor="fleetlore",
        text=f"forgotten for good: {len(ids)} {'event' if len(ids) == 1 else 'events'} ({reason})",
        visibility="system",
        data={"count": len(ids), "reason": reason, "id_hashes": sorted(hash_event_id(id).hex() for id in ids)},
    )
