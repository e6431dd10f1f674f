"""Where each event is, by its id: kept in memory, filled as far as it is asked for."""

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
    """Id → sequence numbers, for the whole town; holds some hundred bytes an event."""

    def __init__(self, stream: NatsStream) -> None:
        self._stream = stream
        self._seqs: dict[str, int] = {}
        self._again: dict[str, list[int]] = {}
        """Where else it is, or was: stored again once the server's memory for ids was over, or after a trim."""
        self._read_to = 0
        self._filling = asyncio.Lock()

    async def find(self, ids: Iterable[str]) -> list[NatsMessage]:
        """The messages of the events with these ids, in log order; those that a reader must not see are among them."""
        await self._fill()
        wanted = {seq: id for id in ids if id in self._seqs for seq in (self._seqs[id], *self._again.get(id, ()))}
        rows = [row for row in await self._stream.all_at(sorted(wanted)) if row is not None]
        ours = [row for row in rows if row.id == wanted[row.seq]]
        if len(ours) < len(rows):
            await self._stream.verify()  # other events stand there: it is not the stream that was read
        return ours

    async def _fill(self) -> None:
        async with self._filling:
            newest = await self._stream.last(events_subject(self._stream.town))
            if newest is not None and newest.seq > self._read_to:
                await self._read_up_to(newest.seq)

    async def _read_up_to(self, target: int) -> None:
        client = self._stream.client
        while self._read_to < target:
            before, deadline = self._read_to, client.deadline()
            if not await client.online(deadline):
                raise client.unreachable()
            try:
                await self._read(target)
            except ConnectionLost:
                if self._read_to == before and client.time() >= deadline:
                    raise

    async def _read(self, target: int) -> None:
        """Headers are enough: the id is one of them."""
        arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        pull = PullConsumer(self._stream, [events_subject(self._stream.town)], arrived.put_nowait, headers_only=True)
        try:
            await pull.start(self._read_to + 1)
            if not pull.pending:
                self._read_to = target  # what was there is erased by now
            while self._read_to < target:
                await pull.ask(PULL_BATCH)
                await self._take(pull, arrived, target)
        except JetStreamError as error:
            raise ConnectionLost("the consumer is gone") from error
        finally:
            await pull.stop()

    async def _take(self, pull: PullConsumer, arrived: asyncio.Queue[Msg | None], target: int) -> None:
        for _ in range(PULL_BATCH):
            if self._read_to >= target:
                return
            message = arrived.get_nowait() if not arrived.empty() else await _next_message(pull, arrived)
            if message is None:
                raise ConnectionLost("the consumer is gone")
            place = parse_delivery(message)
            self._read_to = place.seq if place.pending else max(place.seq, target)
            self._note(message_event_id(message), place.seq)

    def _note(self, id: str, seq: int) -> None:
        if not id:
            return  # not written by us
        if self._seqs.setdefault(id, seq) != seq:
            self._again.setdefault(id, []).append(seq)


async def _next_message(pull: PullConsumer, arrived: asyncio.Queue[Msg | None]) -> Msg | None:
    while pull.asked and not pull.is_dead():
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                return await arrived.get()
    return None
