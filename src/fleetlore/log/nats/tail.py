"""Follows a scope: a task on the client's loop keeps a pull consumer busy and buffers messages; the follower's thread takes them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from threading import Condition
from time import monotonic

import nats.errors
from nats.aio.msg import Msg

from fleetlore.errors import Closed, LogError
from fleetlore.log.base import PAGE_SIZE, StoredRecord, TailPage, to_position
from fleetlore.log.nats.errors import ConnectionLost, JetStreamError
from fleetlore.log.nats.marks import StreamMarks
from fleetlore.log.nats.pull import HEARTBEAT_SECONDS, PullConsumer, parse_delivery
from fleetlore.log.nats.stream import NatsMessage, NatsStream, message_event_id
from fleetlore.log.nats.subjects import matches_filters, scope_filters

PULL_BATCH = 256
MAX_BUFFERED = 1024
MAX_BUFFERED_BYTES = 16 << 20
"""Buffer limit for a slow follower; the rest waits on the server."""
RETRY_SECONDS = 0.1
_logger = logging.getLogger("fleetlore.log")


class NatsTail:
    """One follower. Buffered messages that are trimmed or erased before they are taken are dropped."""

    def __init__(self, stream: NatsStream, marks: StreamMarks, scope: str, after: int | None) -> None:
        self._stream, self._marks = stream, marks
        self._filters = scope_filters(stream.town, scope)
        self._after = after
        self._received = after or 0
        self._confirmed = self._received
        """Up to here the horizon was checked after receiving. Later messages wait, or a gap before them could be missed."""
        self._arrived: deque[NatsMessage] = deque()
        self._bytes = 0
        self._changed = Condition()
        self._wake_event = asyncio.Event()
        self._has_checked_horizon = after is None
        """Whether the horizon was read, so that a gap before the first event is reported at once."""
        self._is_dead = False
        self._closed = self._log_closed = False
        stream.client.spawn(self._run_consumers())

    # --- for the follower's thread

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records, or an empty page after `timeout`."""
        deadline = monotonic() + timeout
        while (rows := self._wait_for_rows(deadline)) is not None:
            page = self._build_page(rows)
            if page.rows or page.gap:
                return page
        return TailPage([])

    def _wait_for_rows(self, deadline: float) -> list[NatsMessage] | None:
        """Return what has arrived (nothing if there is only a gap to report), or `None` after the deadline."""
        with self._changed:
            while not (self._has_rows() or self._has_gap()):
                self._check_open()
                left = deadline - monotonic()
                if self._closed or left <= 0:
                    return None
                self._changed.wait(left)
            if self._closed:
                return None
            self._check_open()
            rows: list[NatsMessage] = []
            while self._has_rows() and len(rows) < PAGE_SIZE:
                rows.append(self._arrived.popleft())
            self._bytes -= sum(len(row.raw) for row in rows)
        if len(self._arrived) <= PULL_BATCH:
            self._stream.client.call_soon(self._wake_event.set)
        return rows

    def _has_rows(self) -> bool:
        return bool(self._arrived) and self._arrived[0].seq <= self._confirmed

    def _has_gap(self) -> bool:
        return self._has_checked_horizon and self._after is not None and self._after < self._marks.horizon

    def _build_page(self, rows: list[NatsMessage]) -> TailPage:
        gap = None
        if self._has_gap():
            gap = to_position(self._marks.horizon)
            self._after = self._marks.horizon
        if rows:
            self._after = max(rows[-1].seq, self._after or 0)
        return TailPage([StoredRecord(to_position(row.seq), row.raw) for row in rows if self._marks.is_visible(row)], gap)

    def _check_open(self) -> None:
        if self._log_closed:
            raise Closed("the log was closed; open it again with connect()")
        self._stream.client.check_open()

    def close(self) -> None:
        """Stop waiting and delete the consumer."""
        self._closed = True
        self.notify_waiters()
        self._stream.client.call_soon(self._wake_event.set)

    def notify_waiters(self) -> None:
        """Wake waiting threads."""
        with self._changed:
            self._changed.notify_all()

    def check_consumer(self) -> None:
        """Check the consumer after a reconnection. Call it on the loop."""
        self._wake_event.set()

    def mark_log_closed(self) -> None:
        """Make waiting threads raise `Closed`."""
        self._log_closed = True
        self.notify_waiters()

    # --- on the loop

    async def _run_consumers(self) -> None:
        """Run one consumer after another, until the follower is closed."""
        has_warned = False
        while not (self._closed or self._stream.client.is_ended):
            pull = PullConsumer(self._stream, self._filters, self._on_message, on_end=self._wake_event.set)
            try:
                await self._run_consumer(pull)
            except (LogError, ConnectionLost, JetStreamError, nats.errors.Error) as error:
                if not has_warned and self._stream.client.is_online:
                    _logger.warning("%s: cannot be followed just now (%s); trying again", self._stream.client.display_address, error)
                has_warned = True
                await asyncio.sleep(RETRY_SECONDS)
            else:
                has_warned = False
            finally:
                with suppress(LogError, ConnectionLost, nats.errors.Error):
                    await pull.stop()

    async def _run_consumer(self, pull: PullConsumer) -> None:
        self._is_dead = False
        await self._stream.client.wait_online(self._stream.client.make_deadline())
        await pull.start(max(self._received, self._marks.horizon) + 1)
        await self._confirm_horizon()
        self._has_checked_horizon = True
        self.notify_waiters()
        while True:
            self._wake_event.clear()
            if self._closed or self._is_dead or pull.is_dead():
                return
            if pull.outstanding <= PULL_BATCH // 2 and len(self._arrived) < MAX_BUFFERED and self._bytes < MAX_BUFFERED_BYTES:
                await pull.request_messages(PULL_BATCH)
            if self._confirmed < self._received:
                await self._confirm_horizon()
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._wake_event.wait()

    async def _confirm_horizon(self) -> None:
        """Check the horizon when sequence numbers are missing before received messages.

        Mostly these are events of other scopes. A trim moves the horizon before it deletes anything.
        """
        received = self._received
        await self._marks.read_horizon()
        self._confirmed = received
        self.notify_waiters()

    def _on_message(self, message: Msg | None) -> None:
        if message is None:
            self._is_dead = True
            self._wake_event.set()
            return
        seq = parse_delivery(message).seq
        if seq <= self._received:
            return  # already received from an earlier consumer
        if self._confirmed == self._received == seq - 1:
            self._confirmed = seq
        self._received = seq
        if self._stream.rejects_overlapping_filters and not matches_filters(message.subject, self._filters):
            self._wake_event.set()
            return
        row = NatsMessage(seq, message.subject, message_event_id(message), message.data)
        with self._changed:
            self._arrived.append(row)
            self._bytes += len(row.raw)
            self._changed.notify_all()
        self._wake_event.set()
