"""Appends batches to a NATS stream: pipelined, acknowledged in any order, repeated when an acknowledgement is lost.

The server rejects a batch with a known id as a whole, without naming the id. Then a probe message that is never stored
finds out which ids are known and where, and the rest is sent again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import nats.errors
from nats.aio.msg import Msg

from fleetlore import clock
from fleetlore.errors import Conflict, Forgotten, Invalid, LogError, TooLarge, Unanswered, Unreachable
from fleetlore.log.base import AppendBatch, AppendOutcome, Expect, Record, to_position, to_sequence
from fleetlore.log.nats.client import NatsClient
from fleetlore.log.nats.errors import (
    DUPLICATE_ID,
    NO_ROLLUP,
    WRONG_LAST_SEQUENCE,
    ConnectionLost,
    JetStreamError,
    NoResponder,
    closed_error,
    missing_stream_error,
    translate_error,
)
from fleetlore.log.nats.loop import map_concurrently
from fleetlore.log.nats.marks import StreamMarks
from fleetlore.log.nats.read import MAX_SEQUENCE, NatsReader
from fleetlore.log.nats.stream import NatsMessage, NatsStream, PublishAck, parse_ack
from fleetlore.log.nats.subjects import event_subject, events_subject, meta_subject, scope_filters

MAX_BATCHES_IN_FLIGHT = 256
MAX_ATOMIC_BATCHES = 40
"""The server allows 50 open atomic batches at a time, over all clients."""
MAX_MESSAGES_IN_FLIGHT = 4000
MAX_BYTES_IN_FLIGHT = 16 << 20
MAX_ATTEMPTS = 8
ATTEMPT_SECONDS = 1.0
RETRY_SECONDS = 0.05
SCAN_MARGIN = 1000
"""Extra messages that are searched for a partially stored batch."""
_IMPOSSIBLE_SEQUENCE = str(MAX_SEQUENCE)


class AppendJob:
    """One batch on its way into the stream."""

    def __init__(self, batch: AppendBatch) -> None:
        self.ids = [record.id for record in batch.records]
        self.expect = batch.expect
        self.pending: dict[str, Record] = {}
        for record in batch.records:
            self.pending.setdefault(record.id, record)
        self.bytes = sum(len(record.raw) for record in batch.records)
        self.sequences: dict[str, int] = {}
        self.stored: list[tuple[Record, int]] = []
        self.outcome: AppendOutcome | None = None
        self.ack_future: asyncio.Future[Msg] | None = None
        self.is_sent = False
        self.may_be_stored = False
        """It was sent and not acknowledged."""
        self.has_no_stream = False
        """Nobody received it: its stream is gone, or not there yet."""
        self.attempts = 0
        self.atomic_batch_ids: set[str] = set()
        """The ids under which it was sent as an atomic batch, a new one per attempt."""
        self.renamed_ids: set[str] = set()
        """Ids that were stored before and are gone. The server still rejects them, so they are sent under another message id."""
        if not self.pending:
            self.outcome = []

    @property
    def is_atomic(self) -> bool:
        """Whether it consists of several messages that are stored together."""
        return len(self.pending) > 1

    def mark_stored(self, ack: PublishAck) -> None:
        """Record that all pending events are now at the end of the stream."""
        first = ack.seq - len(self.pending) + 1
        self.stored += [(record, seq) for seq, record in enumerate(self.pending.values(), first)]
        self.mark_known({record.id: seq for record, seq in self.stored})

    def mark_known(self, seqs: dict[str, int]) -> None:
        """Record the sequence numbers of events that are in the stream."""
        self.sequences |= seqs
        for id in seqs:
            self.pending.pop(id, None)
        if not self.pending:
            self.outcome = [to_position(self.sequences[id]) for id in self.ids]

    def possible_duplicates(self) -> list[Record]:
        """Return pending records that the stream may already have. Freshly generated ids are new unless sent before."""
        return [record for record in self.pending.values() if self.may_be_stored or not record.minted or record.id in self.renamed_ids]


class NatsWriter:
    """Appends batches to one stream. Its methods run on the client's loop.

    `marks` knows the erased and renamed ids of the stream.
    """

    def __init__(self, stream: NatsStream, marks: StreamMarks, reader: NatsReader) -> None:
        self._stream, self._marks, self._reader = stream, marks, reader
        self._client: NatsClient = stream.client
        self._town = stream.town
        self._events_prefix = events_subject(stream.town)[:-1]
        self._probe_subject = meta_subject(stream.town, "probe")

    async def commit(self, batches: Sequence[AppendBatch]) -> list[AppendJob]:
        """Store each batch that is not rejected; afterwards every job has its outcome."""
        jobs = [AppendJob(batch) for batch in batches]
        # Never retry for longer than the server's deduplication window.
        deadline = self._client.loop_time() + min(self._client.timeout, self._stream.dedup_seconds / 2)
        try:
            while waiting := [job for job in jobs if job.outcome is None]:
                if await self._client.wait_online(deadline) and self._client.loop_time() < deadline:
                    await self._try_commit(waiting, deadline)
                else:
                    self._fail_jobs(waiting)
        except asyncio.CancelledError:
            if not self._client.is_ended:
                raise
            self._fail_jobs([job for job in jobs if job.outcome is None], closed_error())
        return jobs

    async def _try_commit(self, jobs: Sequence[AppendJob], deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._refresh_state(jobs)
        except (TimeoutError, Unreachable):
            return
        except (LogError, JetStreamError) as error:
            self._fail_jobs(jobs, translate_error(self._client.display_address, error))
            return
        for job in jobs:
            if forgotten := [id for id in job.pending if self._marks.is_erased(id)]:
                job.outcome = Forgotten(forgotten)
        await self._send_and_settle([job for job in jobs if job.outcome is None], deadline)

    async def _refresh_state(self, jobs: Sequence[AppendJob]) -> None:
        """Read what the server knows before sending, also after a reconnection, and check that it is still the same stream."""
        await self._stream.check_if_due()
        await self._marks.refresh()
        if any(job.has_no_stream for job in jobs):
            with suppress(JetStreamError):
                await self._stream.refresh_config()

    def _fail_jobs(self, jobs: Sequence[AppendJob], reason: LogError | None = None) -> None:
        for job in jobs:
            error = reason or self._client.make_timeout_error()
            if job.has_no_stream and reason is None:
                error = missing_stream_error(self._client.display_address, self._stream.name)
            if job.may_be_stored or job.is_sent:
                advice = "whether the events were stored is not known; append them again with the same ids"
                problem = "did not answer in time" if reason is None else f"had not answered yet ({reason})"
                error = Unanswered(f"{self._client.display_address}: {problem}; {advice}", job.ids)
            job.outcome = error

    async def _send_and_settle(self, jobs: Sequence[AppendJob], deadline: float) -> None:
        """Send every batch once and handle the acknowledgements."""
        # A cluster that changes its leader drops messages, so do not wait long for one: what is sent twice is stored once. Atomic
        # batches get more time, because one that is sent again loses its place among the others.
        is_atomic = any(job.is_atomic for job in jobs)
        seconds = max(ATTEMPT_SECONDS, self._client.timeout / 4) if is_atomic else ATTEMPT_SECONDS
        attempt_deadline = min(deadline, self._client.loop_time() + seconds)
        await self._send_jobs(jobs, attempt_deadline)
        if answers := [job.ack_future for job in jobs if job.ack_future is not None]:
            await asyncio.wait(answers, timeout=max(0.0, attempt_deadline - self._client.loop_time()))
        pause = False
        for job in jobs:
            pause = not await self._settle_job(job) or pause
        if pause:
            await asyncio.sleep(RETRY_SECONDS)

    async def _send_jobs(self, jobs: Sequence[AppendJob], attempt_deadline: float) -> None:
        window = _SendWindow()
        try:
            async with asyncio.timeout_at(attempt_deadline):
                for job in jobs:
                    await window.wait_for_room(job)
                    await self._send_job(job, attempt_deadline)
        except (TimeoutError, ConnectionLost, nats.errors.Error):
            return  # unanswered jobs are sent again in the next round

    async def _send_job(self, job: AppendJob, attempt_deadline: float) -> None:
        messages = [(event_subject(self._town, record.kind, record.raw), record) for record in job.pending.values()]
        headers = _expect_headers(self._town, job.expect)
        if too_large := _find_oversized(messages, self._client.connection.max_payload):
            job.outcome = too_large  # type: ignore[assignment]  # the recorder raises whatever it is
            return
        inbox, job.ack_future = self._client.expect_reply(*(subject for subject, _ in messages))
        job.is_sent = True
        if not job.is_atomic:
            [(subject, record)] = messages
            await self._client.connection.publish(subject, record.raw, inbox, headers | {"Nats-Msg-Id": self._marks.message_id(record.id)})
            return
        job.atomic_batch_ids.add(batch_id := clock.uuid7())
        for number, (subject, record) in enumerate(messages, 1):
            if self._client.loop_time() > attempt_deadline:
                # Checked here because nats-py swallows the cancellation by asyncio.timeout.
                raise ConnectionLost("the server takes nothing")
            headers |= {"Nats-Msg-Id": self._marks.message_id(record.id), "Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
            is_last = number == len(messages)
            if is_last:
                headers["Nats-Batch-Commit"] = "1"
            await self._client.connection.publish(subject, record.raw, inbox if is_last else "", headers=headers)
            headers = {}

    async def _settle_job(self, job: AppendJob) -> bool:
        """Handle an acknowledgement; return `False` if the batch should be sent again after a pause."""
        answer, job.ack_future = job.ack_future, None
        if job.outcome is not None or not job.is_sent:
            return True
        job.is_sent = False
        try:
            if answer is None or not answer.done():
                raise ConnectionLost("no answer")
            return await self._handle_ack(job, parse_ack(answer.result()))
        except NoResponder:
            job.has_no_stream = True
            return False
        except ConnectionLost:
            job.may_be_stored = True
            return False
        except (JetStreamError, LogError) as error:
            job.outcome = translate_error(self._client.display_address, error)
            if isinstance(job.outcome, Unreachable):
                self._fail_jobs([job])
            return True

    async def _handle_ack(self, job: AppendJob, ack: PublishAck) -> bool:
        if ack.error is None:
            if ack.duplicate:
                await self._handle_known_ids(job, dict.fromkeys(job.pending, ack.seq))
            else:
                await self._check_sequence_grows(ack.seq)
                job.mark_stored(ack)
            return True
        refusal = JetStreamError(ack.error)
        if refusal.code == DUPLICATE_ID or refusal.code in WRONG_LAST_SEQUENCE:
            await self._resolve_refusal(job, refusal)
            return True
        if refusal.is_transient:
            return False
        if refusal.is_no_room and (job.is_atomic or job.may_be_stored):
            await self._remove_partial_batch(job)
        if job.outcome is None:
            raise refusal
        return True

    async def _check_sequence_grows(self, seq: int) -> None:
        """Detect a recreated stream, whose sequence numbers start again. Answers may also arrive out of order, so ask the server."""
        if seq <= self._stream.highest_sequence:
            await self._stream.refresh_config()
        self._stream.highest_sequence = max(seq, self._stream.highest_sequence)

    async def _resolve_refusal(self, job: AppendJob, refusal: JetStreamError) -> None:
        """Handle a known id or a changed scope head; this very batch may be the cause if its first answer was lost."""
        job.attempts += 1
        candidates = job.possible_duplicates()
        acks = await map_concurrently(
            [self._marks.message_id(record.id) for record in candidates], self._probe_message_id, at_once=MAX_BATCHES_IN_FLIGHT
        )
        known = {record.id: ack.seq for record, ack in zip(candidates, acks, strict=True) if ack.duplicate}
        if known:
            await self._handle_known_ids(job, known)
        elif refusal.code in WRONG_LAST_SEQUENCE and job.expect is not None:
            actual = await self._reader.head(job.expect.scope)
            job.outcome = Conflict(job.expect.scope, job.expect.head, actual)
        elif job.attempts > MAX_ATTEMPTS:
            raise refusal
        else:
            job.may_be_stored = True  # the stream has one of them, so any may be a duplicate

    async def _probe_message_id(self, message_id: str) -> PublishAck:
        """Find out whether and where a message id is known, without storing anything.

        The server checks for duplicate ids before it rejects the invalid rollup header.
        """
        # Not Nats-Expected-Last-Msg-Id: on a cluster (2.15.1) its refusal hangs the whole stream.
        headers = {"Nats-Msg-Id": message_id, "Nats-Rollup": "never"}

        async def attempt() -> PublishAck:
            ack = parse_ack(await (await self._client.send_request(self._probe_subject, b"", headers)))
            if ack.error is not None and ack.error.err_code != NO_ROLLUP:
                raise JetStreamError(ack.error)
            return ack

        return await self._client.retry_until_answered(attempt)

    async def _handle_known_ids(self, job: AppendJob, seqs: dict[str, int]) -> None:
        """Handle ids that the server knows: positions for those that are stored events, `Forgotten` for erased ones."""
        rows = await self._stream.read_all_at(seqs.values())
        missing = [id for id, row in zip(seqs, rows, strict=True) if not self._is_visible(id, row)]
        if forgotten := [id for id in missing if await self._marks.check_erased(id)]:
            job.outcome = Forgotten(forgotten)
            return
        # Trimmed, or part of a partially stored batch that was removed: not stored, so it must not be acknowledged. The server
        # still rejects the id, so the event gets another message id, the same for every writer, so that it is stored once.
        renamed = {id: seqs[id] for id in missing}
        await self._marks.rename_ids(renamed)
        job.renamed_ids |= renamed.keys()
        job.mark_known({id: seq for id, seq in seqs.items() if id not in renamed})

    def _is_visible(self, id: str, row: NatsMessage | None) -> bool:
        return row is not None and row.id == id and self._marks.is_visible(row)

    async def _remove_partial_batch(self, job: AppendJob) -> None:
        """Remove what is stored of an atomic batch: a server without room stores a part of it silently (2.15)."""
        last = (await self._stream.info()).state.last_seq
        start, more, ours = max(1, last - len(job.pending) - SCAN_MARGIN), True, dict[str, int]()
        while more:
            rows, more = await self._stream.read_page(f"{self._events_prefix}>", start, SCAN_MARGIN)
            ours |= {row.id: row.seq for row in rows if row.id in job.pending and (row.batch in job.atomic_batch_ids or not job.is_atomic)}
            start = rows[-1].seq + 1 if rows else start
        if len(ours) == len(job.pending):
            job.mark_known(ours)  # it was stored completely
        else:
            await map_concurrently(ours.values(), self._stream.delete_message, at_once=MAX_BATCHES_IN_FLIGHT)


class _SendWindow:
    """Limits how much is in flight."""

    def __init__(self) -> None:
        self._sent: deque[AppendJob] = deque()
        self._messages = self._bytes = self._atomic_batches = 0

    async def wait_for_room(self, job: AppendJob) -> None:
        """Wait until enough earlier jobs are acknowledged."""
        while self._sent and self._is_full(job):
            first = self._sent.popleft()
            if first.ack_future is not None:
                await asyncio.wait([first.ack_future])
            self._count_job(first, -1)
        self._sent.append(job)
        self._count_job(job, 1)

    def _is_full(self, job: AppendJob) -> bool:
        return (
            len(self._sent) >= MAX_BATCHES_IN_FLIGHT
            or (job.is_atomic and self._atomic_batches >= MAX_ATOMIC_BATCHES)
            or self._messages + len(job.pending) > MAX_MESSAGES_IN_FLIGHT
            or self._bytes + job.bytes > MAX_BYTES_IN_FLIGHT
        )

    def _count_job(self, job: AppendJob, sign: int) -> None:
        self._messages += sign * len(job.pending)
        self._bytes += sign * job.bytes
        self._atomic_batches += sign * job.is_atomic


def _expect_headers(town: str, expect: Expect | None) -> dict[str, str]:
    if expect is None:
        return {}
    [subject] = scope_filters(town, expect.scope)
    try:
        head = "0" if expect.head is None else str(to_sequence(expect.head))
    except Invalid:
        head = _IMPOSSIBLE_SEQUENCE  # a position of another log: no scope has it as its head
    return {"Nats-Expected-Last-Subject-Sequence": head, "Nats-Expected-Last-Subject-Sequence-Subject": subject}


def _find_oversized(messages: Sequence[tuple[str, Record]], limit: int) -> TooLarge | None:
    """Find an event above the server's limit; the server would silently close the connection."""
    room = limit - 4096
    for _, record in messages:
        if len(record.raw) > room:
            return TooLarge("an event for this server (its max_payload), in bytes", len(record.raw), room)
    return None
