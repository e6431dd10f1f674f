"""What a town's stream remembers besides events: which ids were erased, and how far it was trimmed.

Every handle keeps a copy: read at opening and after each reconnection, and told of news by a plain subscription.
"""

from __future__ import annotations

from collections.abc import Callable

from nats.aio.msg import Msg

from fleetlore.log.base import hash_of
from fleetlore.log.nats_errors import WRONG_LAST, Refused
from fleetlore.log.nats_stream import NatsStream, Row
from fleetlore.log.nats_subjects import erased_of, events_of, meta_of

TRIMMED = "fleetlore_trimmed"


class Marks:
    """Which of the stored messages are not to be seen."""

    def __init__(self, stream: NatsStream) -> None:
        self._stream = stream
        self._trimmed_on = meta_of(stream.town, "trimmed")
        self._events = events_of(stream.town)[:-1]
        self._hashes: set[str] = set()
        self._seen = 0
        self.horizon = 0
        """The highest sequence number that was trimmed away."""
        self.on_change: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Read what there is, and hear of what comes."""
        client, town = self._stream.client, self._stream.town
        await client.listen(erased_of(town), self._on_erased)
        await client.listen(self._trimmed_on, lambda message: self._raise_to(message.data))
        client.on_reconnect(self.load)
        self._raise_to(self._stream.config["metadata"].get(TRIMMED, "").encode())
        await self.load()

    async def load(self) -> None:
        """Read what came since the last time."""
        for row in await self._stream.every(erased_of(self._stream.town), self._seen + 1):
            self._hashes.add(row.subject.rpartition(".")[2])
            self._seen = row.seq
        await self.look_at_horizon()

    async def look_at_horizon(self) -> int:
        """The horizon as it is on the server now."""
        row = await self._stream.last(self._trimmed_on)
        if row is not None:
            self._raise_to(row.raw)
        return self.horizon

    async def move_horizon(self, to: int) -> None:
        """Say on the server that everything up to here is trimmed; it never moves back."""
        while True:
            row = await self._stream.last(self._trimmed_on)
            if row is not None and _number(row.raw) >= to:
                break
            headers = {"Nats-Expected-Last-Subject-Sequence": str(row.seq if row is not None else 0)}
            try:
                await self._stream.put(self._trimmed_on, str(to).encode(), headers)
            except Refused as error:
                if error.is_no_room:
                    # There is room for a setting, still: whoever trims because the server is full must not be sent away.
                    await self._stream.note(TRIMMED, str(to))
                    break
                if error.code not in WRONG_LAST:
                    raise
            else:
                break
        self._raise_to(str(to).encode())
        await self._stream.api("STREAM.PURGE", {"filter": self._trimmed_on, "keep": 1})

    def is_erased(self, id: str) -> bool:
        """Whether an id is refused for ever, as far as this handle knows."""
        return bool(self._hashes) and hash_of(id).hex() in self._hashes

    def erase(self, id: str) -> None:
        """Know at once what this handle has erased itself."""
        self._hashes.add(hash_of(id).hex())

    async def was_erased(self, id: str) -> bool:
        """The same, as the server knows it."""
        digest = hash_of(id).hex()
        subject = erased_of(self._stream.town, digest)
        if digest not in self._hashes and await self._stream.last(subject) is not None:
            self._hashes.add(digest)
        return digest in self._hashes

    def shows(self, row: Row) -> bool:
        """Whether a message is an event that a reader may see."""
        return row.seq > self.horizon and row.subject.startswith(self._events) and not self.is_erased(row.id)

    def _on_erased(self, message: Msg) -> None:
        self._hashes.add(message.subject.rpartition(".")[2])

    def _raise_to(self, raw: bytes) -> None:
        number = _number(raw)
        if number > self.horizon:
            self.horizon = number
            self.on_change()


def _number(raw: bytes) -> int:
    return int(raw) if raw.isdigit() else 0
