"""A pull consumer on the server, kept in the server's memory; recreated by its users (`tail.py`, `index.py`) when it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from nats.aio.msg import Msg

from fleetlore import clock
from fleetlore.log.nats.client import message_status
from fleetlore.log.nats.errors import FILTERS_OVERLAP, ConnectionLost, JetStreamError
from fleetlore.log.nats.stream import MAX_RESPONSE_BYTES, NANOSECONDS, NatsStream
from fleetlore.log.nats.subjects import events_subject

IDLE_SECONDS = 60
EXPIRES_SECONDS = 30
HEARTBEAT_SECONDS = 2
_HEARTBEAT, _EXPIRED, _ENDED = "100", "408", "409"
_COMPLETED_REASONS = ("Message Size Exceeds MaxBytes", "Batch Completed")
"""Reasons for an early end of a request after which the next request may follow."""


class DeliveryInfo(NamedTuple):
    """Metadata of a message delivered by a consumer."""

    seq: int
    delivered: int
    """Its number among the messages of this consumer."""
    pending: int
    """How many more are waiting for the consumer."""


class PullConsumer:
    """Delivers every message in order to `deliver`, on the loop; `None` means the consumer is lost.

    There are no acknowledgements: what the server sent into a broken connection is not sent again. So a consumer serves one
    connection only and its messages are counted. To continue, create a new one from the last sequence number.
    """

    def __init__(
        self,
        stream: NatsStream,
        filters: Sequence[str],
        deliver: Callable[[Msg | None], None],
        *,
        headers_only: bool = False,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream, self._filters, self._deliver, self._headers_only = stream, list(filters), deliver, headers_only
        self._on_end = on_end
        """Called when a request ends before all requested messages arrived."""
        self._name = ""
        self._inbox = ""
        self.outstanding = 0
        """Requested messages that have not arrived."""
        self.pending = 0
        """Messages that were waiting when it was created."""
        self._delivered = 0
        self._is_broken = False
        self._last_message_at = 0.0
        self._generation = -1

    async def start(self, seq: int) -> None:
        """Create the consumer, starting at a sequence number."""
        client = self._stream.client
        self._generation = client.generation
        # A unique name that sorts by time, for people who look at the server.
        self._name, self._inbox = f"fleetlore-{clock.uuid7()}", client.connection.new_inbox()
        await client.subscribe(self._inbox, self._on_message)
        if self._stream.rejects_overlapping_filters and len(self._filters) > 1:
            await self._create_consumer(seq, [events_subject(self._stream.town)])
            return
        try:
            await self._create_consumer(seq, self._filters)
        except JetStreamError as error:
            if error.code != FILTERS_OVERLAP:
                raise
            self._stream.rejects_overlapping_filters = True  # servers before 2.12.5
            await self._create_consumer(seq, [events_subject(self._stream.town)])

    async def _create_consumer(self, seq: int, filters: list[str]) -> None:
        config: dict[str, Any] = {
            "name": self._name,
            "filter_subjects": filters,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, seq),
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": IDLE_SECONDS * NANOSECONDS,
            "headers_only": self._headers_only,
        }
        body = {"stream_name": self._stream.name, "config": config}
        self.pending = (await self._stream.call_api("CONSUMER.CREATE", body, after=f".{self._name}")).num_pending
        self.outstanding = 0

    async def request_messages(self, count: int) -> None:
        """Request `count` more messages."""
        client = self._stream.client
        if not client.is_online:
            raise ConnectionLost("not connected")
        request = {
            "batch": count,
            # Without a limit the server disconnects slow readers of many large messages. One message always fits.
            "max_bytes": max(MAX_RESPONSE_BYTES, 2 * client.connection.max_payload),
            "expires": EXPIRES_SECONDS * NANOSECONDS,
            "idle_heartbeat": HEARTBEAT_SECONDS * NANOSECONDS,
        }
        self.outstanding += count
        self._last_message_at = client.loop_time()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self._name}"
        await client.connection.publish(subject, msgspec.json.encode(request), self._inbox)

    def is_dead(self) -> bool:
        """Return whether the connection was lost, or the heartbeats of an open request have stopped."""
        client = self._stream.client
        silent = self.outstanding > 0 and client.loop_time() - self._last_message_at > 2.5 * HEARTBEAT_SECONDS
        return silent or self._is_broken or client.generation != self._generation

    async def stop(self) -> None:
        """Delete the consumer."""
        client = self._stream.client
        if self._inbox:
            await client.unsubscribe(self._inbox)
            if client.is_online:
                await client.connection.publish(f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}")
            self._inbox = ""

    def _on_message(self, message: Msg) -> None:
        client = self._stream.client
        if self._is_broken or client.generation != self._generation:
            # nats-py resubscribes by itself and the consumer may still exist, but messages sent in between are lost.
            return
        self._last_message_at = client.loop_time()
        if message.reply:
            self._deliver_message(message)
        elif (status := message_status(message)) != _HEARTBEAT:
            self._on_request_end(status, message)

    def _deliver_message(self, message: Msg) -> None:
        delivered = parse_delivery(message).delivered
        if delivered != self._delivered + 1:
            self._mark_broken()
            return
        self._delivered = delivered
        self.outstanding = max(0, self.outstanding - 1)
        self._deliver(message)

    def _on_request_end(self, status: str, message: Msg) -> None:
        headers = message.headers or {}
        if status == _EXPIRED or (status == _ENDED and headers.get("Description") in _COMPLETED_REASONS):
            self.outstanding = max(0, self.outstanding - int(headers.get("Nats-Pending-Messages", self.outstanding)))
            self._on_end()
        else:
            self._mark_broken()

    def _mark_broken(self) -> None:
        self._is_broken = True
        self._deliver(None)


def parse_delivery(message: Msg) -> DeliveryInfo:
    """Parse the metadata in a delivered message's reply subject."""
    # $JS.ACK.<stream>.<consumer>.<tries>.<seq>.<delivered>.<time>.<pending>, or with <domain>.<account> before the stream
    parts = message.reply.split(".")
    first = 5 if len(parts) < 11 else 7
    return DeliveryInfo(int(parts[first]), int(parts[first + 1]), int(parts[first + 3]))
