"""A consumer of our own on the server, asked for messages in portions. It lives in the server's memory and is made anew when gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from fleetlore import clock
from fleetlore.log.nats_client import status_of
from fleetlore.log.nats_errors import Lost
from fleetlore.log.nats_stream import NANOSECONDS, NatsStream

IDLE_SECONDS = 60
EXPIRES_SECONDS = 30
HEARTBEAT_SECONDS = 2
_HEARTBEAT, _EXPIRED = "100", "408"


class Pull:
    """`hear` is called on the loop with each message, and with `None` once the consumer is of no more use."""

    def __init__(
        self, stream: NatsStream, filters: Sequence[str], hear: Callable[[Msg | None], None], *, headers_only: bool = False
    ) -> None:
        self._stream, self._filters, self._hear, self._headers_only = stream, list(filters), hear, headers_only
        self._name = ""
        self._inbox = ""
        self.asked = 0
        """How many of the messages asked for have not come yet."""
        self._heard_at = 0.0
        self._generation = -1

    async def start(self, seq: int) -> None:
        """Have a consumer that begins at a sequence number."""
        client = self._stream.client
        self._generation = client.generation
        # A name that sorts by time helps whoever looks at the server; it is never used twice.
        self._name, self._inbox = f"fleetlore-{clock.uuid7()}", client.connection.new_inbox()
        await client.listen(self._inbox, self._on_message)
        config: dict[str, Any] = {
            "name": self._name,
            "filter_subjects": self._filters,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, seq),
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": IDLE_SECONDS * NANOSECONDS,
            "headers_only": self._headers_only,
        }
        body = {"stream_name": self._stream.name, "config": config}
        await self._stream.api("CONSUMER.CREATE", body, after=f".{self._name}")
        self.asked = 0

    async def ask(self, count: int) -> None:
        """Ask for so many messages more."""
        client = self._stream.client
        if not client.is_online:
            raise Lost("not connected")
        wish = {"batch": count, "expires": EXPIRES_SECONDS * NANOSECONDS, "idle_heartbeat": HEARTBEAT_SECONDS * NANOSECONDS}
        self.asked += count
        self._heard_at = client.time()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self._name}"
        await client.connection.publish(subject, msgspec.json.encode(wish), self._inbox)

    def is_dead(self) -> bool:
        """Whether the connection was lost meanwhile, or the heartbeats that belong to an open request have stopped."""
        client = self._stream.client
        silent = self.asked > 0 and client.time() - self._heard_at > 2.5 * HEARTBEAT_SECONDS
        return silent or client.generation != self._generation

    async def stop(self) -> None:
        """Let the consumer go."""
        client = self._stream.client
        if self._inbox:
            await client.unlisten(self._inbox)
            if client.is_online:
                await client.connection.publish(f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}")
            self._inbox = ""

    def _on_message(self, message: Msg) -> None:
        self._heard_at = self._stream.client.time()
        status = status_of(message) if not message.reply else ""
        if not status:
            self.asked = max(0, self.asked - 1)
            self._hear(message)
        elif status == _EXPIRED:
            self.asked = 0
        elif status != _HEARTBEAT:
            self._hear(None)


def seq_of(message: Msg) -> int:
    """The sequence number of a message from a consumer."""
    # $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.…, or with <domain>.<account> in front of the stream
    parts = message.reply.split(".")
    return int(parts[5] if len(parts) < 11 else parts[7])
