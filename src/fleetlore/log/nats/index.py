"""In-memory index of event ids to sequence numbers, for `get` and `erase`; filled on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from nats.aio.msg import Msg

from fleetlore.log.nats.errors import ConnectionLost, JetStreamError
from fleetlore.log.nats.pull import PullConsumer, parse_delivery
from fleetlore.log.nats.stream import NatsMessage, NatsStream, message_event_id
from fleetlore.log.nats.subjects import events_subject

PULL_BATCH = 2000


class NatsIndex:
    """Id → sequence numbers for the whole town; takes some hundred bytes per event."""

    def __init__(self, stream: NatsStream) -> None:
        self._stream = stream
        self._sequences: dict[str, int] = {}
        self._later_sequences: dict[str, list[int]] = {}
        """Further positions of an id: stored again after the deduplication window, or after a trim."""
        self._read_to = 0
        self._fill_lock = asyncio.Lock()

    async def find_messages(self, ids: Iterable[str]) -> list[NatsMessage]:
        """Return the messages of these ids in log order, including those that a reader must not see."""
        await self._read_new_messages()
        wanted = {seq: id for id in ids if id in self._sequences for seq in (self._sequences[id], *self._later_sequences.get(id, ()))}
        rows = [row for row in await self._stream.read_all_at(sorted(wanted)) if row is not None]
        ours = [row for row in rows if row.id == wanted[row.seq]]
        if len(ours) < len(rows):
            await self._stream.refresh_config()  # other events are there: the stream was recreated since we read it
        return ours

    async def _read_new_messages(self) -> None:
        async with self._fill_lock:
            newest = await self._stream.read_last(events_subject(self._stream.town))
            if newest is not None and newest.seq > self._read_to:
                await self._read_up_to(newest.seq)

    async def _read_up_to(self, target: int) -> None:
        client = self._stream.client
        while self._read_to < target:
            before, deadline = self._read_to, client.make_deadline()
            if not await client.wait_online(deadline):
                raise client.make_timeout_error()
            try:
                await self._pull_headers(target)
            except ConnectionLost:
                if self._read_to == before and client.loop_time() >= deadline:
                    raise

    async def _pull_headers(self, target: int) -> None:
        """Read headers only: they contain the id."""
        arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        pull = PullConsumer(self._stream, [events_subject(self._stream.town)], arrived.put_nowait, headers_only=True)
        try:
            await pull.start(self._read_to + 1)
            if not pull.pending:
                self._read_to = target  # everything up to the target has been erased meanwhile
            while self._read_to < target:
                await pull.request_messages(PULL_BATCH)
                await self._consume_messages(pull, arrived, target)
        except JetStreamError as error:
            raise ConnectionLost("the consumer is gone") from error
        finally:
            await pull.stop()

    async def _consume_messages(self, pull: PullConsumer, arrived: asyncio.Queue[Msg | None], target: int) -> None:
        for _ in range(PULL_BATCH):
            if self._read_to >= target:
                return
            message = arrived.get_nowait() if not arrived.empty() else await _next_message(pull, arrived)
            if message is None:
                raise ConnectionLost("the consumer is gone")
            delivery = parse_delivery(message)
            self._read_to = delivery.seq if delivery.pending else max(delivery.seq, target)
            self._add_id(message_event_id(message), delivery.seq)

    def _add_id(self, id: str, seq: int) -> None:
        if not id:
            return  # not written by us
        if self._sequences.setdefault(id, seq) != seq:
            self._later_sequences.setdefault(id, []).append(seq)


async def _next_message(pull: PullConsumer, arrived: asyncio.Queue[Msg | None]) -> Msg | None:
    while pull.outstanding and not pull.is_dead():
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                return await arrived.get()
    return None
