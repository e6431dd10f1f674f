"""The asyncio front of any backend: one writer thread, which commits for all waiting tasks at once, and a few reader threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from fleetlore.errors import Closed, LogError
from fleetlore.events.envelope import Event
from fleetlore.events.ids import find_uuid
from fleetlore.log.admission import Admission
from fleetlore.log.base import TOWN, AppendBatch, AppendOutcome, Backend, Expect, LogInfo, Position, Record, check_scope
from fleetlore.log.reading import decode_stored
from fleetlore.log.recorder import (
    WAIT_SECONDS,
    BlockingRecorder,
    advance_query,
    decode_page,
    group_batches,
    make_batch,
    make_forgotten_event,
    make_query,
    next_page_query,
    prepare_batch,
    restore_event,
    split_ids,
    whole_texts,
)

READER_THREADS = 4
_T = TypeVar("_T")
_PendingBatch = tuple[AppendBatch, "asyncio.Future[list[Position]]"]


class CommitThread:
    """The thread that writes for a recorder: runs `commit` for each group, one at a time."""

    def __init__(self, commit: Callable[[list[_PendingBatch]], None]) -> None:
        self._commit = commit
        self._queue: SimpleQueue[list[_PendingBatch] | None] = SimpleQueue()
        self._thread = Thread(target=self._run_commits, name="fleetlore-writer", daemon=True)
        self._thread.start()

    def submit(self, group: list[_PendingBatch]) -> None:
        """Commit a group after those before it."""
        self._queue.put(group)

    async def close(self) -> None:
        """Wait until everything is committed, and end the thread."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run_commits(self) -> None:
        while (group := self._queue.get()) is not None:
            try:
                self._commit(group)
            except RuntimeError:  # the loop has ended, nobody waits any more
                return


class Recorder:
    """An open log for the running event loop. Tasks that append at the same time share one commit."""

    def __init__(
        self, backend: Backend, admission: Admission, *, shares_backend: bool = False, writer: type[CommitThread] = CommitThread
    ) -> None:
        self._backend = backend
        self._shares_backend = shares_backend
        self.admission = admission
        self._loop = asyncio.get_running_loop()
        self._pending: list[_PendingBatch] = []
        self._is_committing = False
        self._closed: asyncio.Future[None] | None = None
        self._writer = writer(self._commit_group)
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="fleetlore-reader")
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    def from_blocking(cls, log: BlockingRecorder) -> Recorder:
        """Use a log that threads have open from the running loop. It stays open when this one closes: close this one first."""
        backend, admission = log.backend_and_admission()
        return cls(backend, admission, shares_backend=True)

    async def close(self) -> None:
        """Store what is pending, then close the log. Completes even if the caller is cancelled."""
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._close_backend())
        await asyncio.shield(self._closed)

    async def _close_backend(self) -> None:
        await self._idle.wait()
        await self._writer.close()
        if not self._shares_backend:
            await asyncio.to_thread(self._backend.close)
        self._readers.shutdown(wait=False)

    def as_blocking(self) -> BlockingRecorder:
        """Return the same log for threads (see `prompts/agent_context.py`). Do not close it: it closes with this one."""
        return BlockingRecorder(lambda: self._backend, self.admission).__enter__()

    async def run_blocking(self, work: Callable[[BlockingRecorder], _T]) -> _T:
        """Run a function that reads the log, in one of the log's reader threads."""
        return await self._run_in_reader(lambda: work(self.as_blocking()))

    async def append(self, events: Sequence[Event], *, expect: Expect | None = None) -> list[Position]:
        """Store events, all or none; return their positions once they are durable.

        Raises `Conflict` if `expect` does not hold, `Forgotten` for erased ids, `InvalidEvent` or `TooLarge`.
        """
        self._check_open()
        return await self._submit_batch(prepare_batch(self.admission, events, expect))

    def append_records(self, records: Sequence[Record], *, expect: Expect | None = None) -> Awaitable[list[Position]]:
        """Store records made by `admission.admit`, all or none, as `append` does. They are stored also if nobody waits for it."""
        self._check_open()
        return self._submit_batch(make_batch(records, expect))

    async def append_all(self, events: Iterable[Event]) -> list[Position]:
        """Store any number of events in batches of the largest size; each batch is all or nothing."""
        positions: list[Position] = []
        for batches in group_batches(map(self.admission.admit, events)):
            self._check_open()
            for batch_positions in await asyncio.gather(*map(self._submit_batch, batches)):
                positions += batch_positions
        return positions

    def _submit_batch(self, batch: AppendBatch) -> asyncio.Future[list[Position]]:
        future: asyncio.Future[list[Position]] = self._loop.create_future()
        self._pending.append((batch, future))
        if not self._is_committing:
            self._is_committing = True
            self._idle.clear()
            # Runs at the end of this loop iteration, so that every task that is ready now shares the commit.
            self._loop.call_soon(self._commit_pending)
        return future

    def _commit_pending(self) -> None:
        if not self._pending:
            self._is_committing = False
            self._idle.set()
            return
        group, self._pending = self._pending, []
        self._writer.submit(group)

    def _commit_group(self, group: list[_PendingBatch]) -> None:
        """Runs in the writer's thread. Raises `RuntimeError` if the loop has ended."""
        try:
            outcomes: Sequence[AppendOutcome | BaseException] = self._backend.commit([batch for batch, _ in group])
        except BaseException as error:  # noqa: BLE001 - re-raised in the waiting tasks
            outcomes = [error] * len(group)
        self._loop.call_soon_threadsafe(self._resolve_futures, group, outcomes)

    def _resolve_futures(self, group: Sequence[_PendingBatch], outcomes: Sequence[AppendOutcome | BaseException]) -> None:
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue  # the waiting task was cancelled
            if isinstance(outcome, list):
                future.set_result(outcome)
            elif isinstance(outcome, StopIteration):
                future.set_exception(LogError(f"the log stopped: {outcome!r}"))  # asyncio refuses it in a future
            else:
                future.set_exception(outcome)
        # After the tasks that wake up now: what they append at once joins the next commit.
        self._loop.call_soon(self._commit_pending)

    async def read(
        self,
        scope: str = TOWN,
        *,
        after: Position | None = None,
        before: Position | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield events of a scope, oldest first unless `newest_first`; reads a page at a time."""
        query = make_query(scope, after, before, kinds, since, newest_first)
        while (page := next_page_query(query, limit)) is not None:
            rows = await self._run_in_reader(partial(self._backend.read, page))
            for stored in rows:
                yield decode_stored(stored)
            if len(rows) < page.limit:
                return
            limit = None if limit is None else limit - len(rows)
            query = advance_query(query, rows[-1].position)

    async def follow(self, scope: str = TOWN, *, after: Position | None = None) -> AsyncGenerator[Event, None]:
        """Yield the events of a scope after `after`, then new ones as they arrive. Ends when the log is closed."""
        self._check_open()
        tail = self._backend.tail(check_scope(scope), after)
        thread = ThreadPoolExecutor(1, thread_name_prefix="fleetlore-follower")
        try:
            while self._closed is None:
                page = await self._loop.run_in_executor(thread, tail.next_page, WAIT_SECONDS)
                for event in decode_page(page, after):
                    after = event.position
                    yield event
        except Closed:
            return
        finally:
            # Blocks until the follower's thread has stopped: a few milliseconds at most.
            tail.close()
            thread.shutdown(wait=False)

    async def get(self, ids: Sequence[str]) -> list[Event]:
        """Return the events with these ids that exist, in log order."""
        known = [canonical_id for id in ids if (canonical_id := find_uuid(id))]
        return [decode_stored(stored) for stored in await self._run_in_reader(partial(self._backend.get, known))]

    async def get_blob(self, id: str, digest: str) -> str | None:
        """Return the whole text of a string that was cut from an event; see `BlockingRecorder.get_blob`."""
        found = await self.get([id])
        return (await self._run_in_reader(partial(whole_texts, found[0], self._backend))).get(digest) if found else None

    async def restore_whole(self, event: Event) -> Event:
        """Return a stored event with its whole texts, as far as they are kept and undamaged."""
        return await self._run_in_reader(partial(restore_event, event, self._backend))

    async def head(self, scope: str = TOWN) -> Position | None:
        """Return the position of the newest event in a scope, or `None`."""
        return await self._run_in_reader(partial(self._backend.head, check_scope(scope)))

    async def trim(self, before: Position) -> int:
        """Delete everything in the town before a position; return how many events were deleted."""
        return await self._run_in_reader(partial(self._backend.trim, before))

    async def erase(self, ids: Sequence[str], reason: str) -> int:
        """Delete these events for good, leaving one `log.forgotten` event; their ids are rejected from now on."""
        count = 0
        for group in split_ids(ids):
            forgotten_event = self.admission.admit(make_forgotten_event(group, reason))
            count += await self._run_in_reader(partial(self._backend.erase, group, forgotten_event))
        return count

    async def info(self) -> LogInfo:
        """Describe this log: backend, size, guarantees."""
        return await self._run_in_reader(self._backend.info)

    async def _run_in_reader(self, function: Callable[[], _T]) -> _T:
        self._check_open()
        return await self._loop.run_in_executor(self._readers, function)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Closed("the log was closed; open it again with connect()")
        if asyncio.get_running_loop() is not self._loop:
            raise Closed("the log was opened in another event loop; open it again in this one with connect()")
