"""A consumer of our own on the server, asked for messages in portions. It lives in the server's memory and is made anew when gone."""

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
"""Of the reasons why a request ends early, those after which the next one may follow."""


class DeliveryInfo(NamedTuple):
    """What the server says of a message that a consumer brings."""

    seq: int
    delivered: int
    """The how manieth of this consumer it is."""
    pending: int
    """How many more there are for it just now."""


class PullConsumer:
    """`hear` is called on the loop with each message in order, none left out, and with `None` once the consumer is of no more use.

    The server does not wait for acknowledgements: what it sent into a broken connection is not sent again. So a consumer serves
    one connection only, and what it brings is counted; whoever needs more after that makes a new one, from where they are.
    """

    def __init__(
        self,
        stream: NatsStream,
        filters: Sequence[str],
        hear: Callable[[Msg | None], None],
        *,
        headers_only: bool = False,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream, self._filters, self._deliver, self._headers_only = stream, list(filters), hear, headers_only
        self._on_end = on_end
        """Told when a request ended before everything came that it asked for."""
        self._name = ""
        self._inbox = ""
        self.outstanding = 0
        """How many of the messages asked for have not come yet."""
        self.pending = 0
        """How many messages there were for it when it was made."""
        self._delivered = 0
        self._is_broken = False
        self._last_message_at = 0.0
        self._generation = -1

    async def start(self, seq: int) -> None:
        """Have a consumer that begins at a sequence number."""
        client = self._stream.client
        self._generation = client.generation
        # A name that sorts by time helps whoever looks at the server; it is never used twice.
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
        """Ask for so many messages more."""
        client = self._stream.client
        if not client.is_online:
            raise ConnectionLost("not connected")
        wish = {
            "batch": count,
            # Without a limit the server cuts off whoever does not take many large messages fast enough; one always fits.
            "max_bytes": max(MAX_RESPONSE_BYTES, 2 * client.connection.max_payload),
            "expires": EXPIRES_SECONDS * NANOSECONDS,
            "idle_heartbeat": HEARTBEAT_SECONDS * NANOSECONDS,
        }
        self.outstanding += count
        self._last_message_at = client.time()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self._name}"
        await client.connection.publish(subject, msgspec.json.encode(wish), self._inbox)

    def is_dead(self) -> bool:
        """Whether the connection was lost meanwhile, or the heartbeats that belong to an open request have stopped."""
        client = self._stream.client
        silent = self.outstanding > 0 and client.time() - self._last_message_at > 2.5 * HEARTBEAT_SECONDS
        return silent or self._is_broken or client.generation != self._generation

    async def stop(self) -> None:
        """Let the consumer go."""
        client = self._stream.client
        if self._inbox:
            await client.unsubscribe(self._inbox)
            if client.is_online:
                await client.connection.publish(f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}")
            self._inbox = ""

    def _on_message(self, message: Msg) -> None:
        client = self._stream.client
        if self._is_broken or client.generation != self._generation:
            # nats-py subscribes anew by itself, and the consumer may still be there: what it sent meanwhile is missing before this.
            return
        self._last_message_at = client.time()
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
    """Where a message from a consumer stands."""
    # $JS.ACK.<stream>.<consumer>.<tries>.<seq>.<delivered>.<time>.<pending>, or with <domain>.<account> in front of the stream
    parts = message.reply.split(".")
    first = 5 if len(parts) < 11 else 7
    return DeliveryInfo(int(parts[first]), int(parts[first + 1]), int(parts[first + 3]))
