"""Cursors, leases, tokens and the seal in a stream beside the town's own, by the server's clock. The stream is made when first written to.

    fl-shared.<town>.cursor.<name>    the cursor
    fl-shared.<town>.lease.<name>     the last taking of a lease: its holder, or nobody once it was given back
    fl-shared.<town>.token.<id>       what is kept of a token
    fl-shared.<town>.seal.log         the seal

Each subject keeps its newest message only, and a write names the one that it replaces: of several that write at
once, one comes through. The message stays when the lease is over, so that the next epoch is higher; the time is in
it, too, for a server whose data were restored from an older copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from fleetlore import clock
from fleetlore.errors import LeaseLost, Unsuitable
from fleetlore.log.base import Position
from fleetlore.log.coordination import Lease, epoch_microseconds, next_epoch
from fleetlore.log.nats.client import RETRY_SECONDS, NatsClient, is_no_responder
from fleetlore.log.nats.errors import NAME_IN_USE, NO_MESSAGE, NO_STREAM, WRONG_LAST_SEQUENCE, ApiError, ConnectionLost, JetStreamError
from fleetlore.log.nats.subjects import subject_token
from fleetlore.log.tokens import Token, decode_tokens, encode_token

MAX_IN_FLIGHT = 64
_NO_HOLDER = ""
_NOT_FOUND_CODES = NO_MESSAGE | {NO_STREAM}
_encode = msgspec.json.encode


class _StoredCursor(Struct, frozen=True):
    name: str
    position: Position


class _StoredLease(Struct, frozen=True):
    """A lease as it is stored; without a holder once it was given back. It began when the message was stored."""

    name: str
    holder: str
    seconds: float
    epoch: int


class _StreamMessage(Struct, frozen=True):
    seq: int
    time: datetime
    data: bytes = b""


class _StreamState(Struct, frozen=True):
    subjects: dict[str, int] = field(default_factory=dict)


class _ApiResponse(Struct, frozen=True):
    error: ApiError | None = None
    seq: int = 0
    message: _StreamMessage | None = None
    config: dict[str, Any] = field(default_factory=dict)
    state: _StreamState = _StreamState()
    ts: datetime | None = None


class _LeaseState(NamedTuple):
    """What stands on a lease's subject."""

    seq: int = 0
    epoch: int = 0
    lease: Lease | None = None
    """If it is held just now."""


_decode_response = msgspec.json.Decoder(_ApiResponse).decode
_decode_cursor = msgspec.json.Decoder(_StoredCursor).decode
_decode_lease = msgspec.json.Decoder(_StoredLease).decode


class NatsCoordination:
    """One town on one server."""

    def __init__(self, address: str, *, town: str, replicas: int | None = None, timeout: float = 10.0, creds: str | None = None) -> None:
        self._bucket = _CoordinationStream(NatsClient(address, timeout=timeout, creds=creds), town, replicas)
        self._run = self._bucket.client.run

    def load(self, name: str) -> Position | None:
        """The position of a cursor."""
        message = self._run(self._bucket.last(self._bucket.subject("cursor", name)))
        return None if message is None else _decode_cursor(message.data).position

    def commit(self, name: str, position: Position) -> None:
        """Move a cursor."""
        self._run(self._bucket.put(self._bucket.subject("cursor", name), _encode(_StoredCursor(name, position))))

    def cursors(self) -> dict[str, Position]:
        """Every cursor."""
        found = [_decode_cursor(message.data) for message in self._run(self._bucket.all_of("cursor"))]
        return {cursor.name: cursor.position for cursor in found}

    def forget(self, name: str) -> None:
        """Drop a cursor."""
        self._run(self._bucket.purge(self._bucket.subject("cursor", name)))

    def take(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease if it is free or the holder's own."""
        return self._run(self._take(name, holder, seconds))

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Let a lease last longer."""
        return self._run(self._renew(lease, seconds))

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this one."""
        self._run(self._release(lease))

    def holder_of(self, name: str) -> Lease | None:
        """The lease as it is held now."""
        return self._run(self._holder_of(name))

    def keep_token(self, token: Token) -> None:
        """Keep a token under its id."""
        self._run(self._bucket.put(self._bucket.subject("token", token.id), encode_token(token)))

    def tokens(self) -> list[Token]:
        """Every token."""
        return decode_tokens(message.data for message in self._run(self._bucket.all_of("token")))

    def drop_token(self, id: str) -> None:
        """Drop a token."""
        self._run(self._bucket.purge(self._bucket.subject("token", id)))

    def seal(self) -> bytes | None:
        """The seal."""
        message = self._run(self._bucket.last(self._bucket.subject("seal", "log")))
        return None if message is None else message.data

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Put a seal in the place of another."""
        return self._run(self._set_seal(seal, expect))

    def close(self) -> None:
        """Close the connection."""
        self._bucket.client.close()

    # --- on the client's loop

    async def _take(self, name: str, holder: str, seconds: float) -> Lease | None:
        while True:
            now = await self._bucket.now()
            found = await self._find(name, now)
            if found.lease is not None and found.lease.holder != holder:
                return None
            epoch = next_epoch(found.epoch, epoch_microseconds(now))
            if await self._hold(_StoredLease(name, holder, seconds, epoch), instead_of=found):
                return Lease(name=name, holder=holder, epoch=epoch, until=_lease_end(now, seconds), seconds=seconds)

    async def _renew(self, lease: Lease, seconds: float) -> Lease:
        while True:
            now = await self._bucket.now()
            found = await self._find_again(lease, now)
            if found is None:
                raise LeaseLost(lease.name, lease.holder, lease.epoch)
            if await self._hold(_StoredLease(lease.name, lease.holder, seconds, lease.epoch), instead_of=found):
                return Lease(name=lease.name, holder=lease.holder, epoch=lease.epoch, until=_lease_end(now, seconds), seconds=seconds)

    async def _release(self, lease: Lease) -> None:
        while (found := await self._find_again(lease, await self._bucket.now())) is not None:
            if await self._hold(_StoredLease(lease.name, _NO_HOLDER, 0, lease.epoch), instead_of=found):
                return

    async def _holder_of(self, name: str) -> Lease | None:
        return (await self._find(name, await self._bucket.now())).lease

    async def _hold(self, held: _StoredLease, *, instead_of: _LeaseState) -> bool:
        """Put a lease in the place of what was found; `False` if that is no longer there: look again."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(instead_of.seq)}
        try:
            await self._bucket.put(self._bucket.subject("lease", held.name), _encode(held), headers)
        except JetStreamError as error:
            if error.code in WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    async def _set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        subject = self._bucket.subject("seal", "log")
        while True:
            found = await self._bucket.last(subject)
            data, seq = (None, 0) if found is None else (found.data, found.seq)
            if data not in (expect, seal):
                return False
            try:
                await self._bucket.put(subject, seal, {"Nats-Expected-Last-Subject-Sequence": str(seq)})
            except JetStreamError as error:
                if error.code not in WRONG_LAST_SEQUENCE:
                    raise
            else:
                return True

    async def _find(self, name: str, now: datetime) -> _LeaseState:
        """What there is of a lease, at a time by the server's clock."""
        message = await self._bucket.last(self._bucket.subject("lease", name))
        if message is None:
            return _LeaseState()
        held = _decode_lease(message.data)
        until = _lease_end(message.time, held.seconds)
        if held.holder == _NO_HOLDER or until <= now:
            return _LeaseState(message.seq, held.epoch)
        lease = Lease(name=held.name, holder=held.holder, epoch=held.epoch, until=until, seconds=held.seconds)
        return _LeaseState(message.seq, held.epoch, lease)

    async def _find_again(self, lease: Lease, now: datetime) -> _LeaseState | None:
        """The lease as it stands on the server, if it is still this one."""
        found = await self._find(lease.name, now)
        if found.lease is None or (found.epoch, found.lease.holder) != (lease.epoch, lease.holder):
            return None
        return found


def _lease_end(start: datetime, seconds: float) -> datetime:
    return start + timedelta(seconds=ceil(seconds))


class _CoordinationStream:
    """The stream. Its methods are coroutines for the client's loop."""

    def __init__(self, client: NatsClient, town: str, replicas: int | None) -> None:
        self.client, self._town, self._replicas = client, town, replicas
        # The log's streams begin with FL_, so no town's name leads here.
        self._name = f"FLSHARED_{subject_token(town)}"
        self._stem = f"fl-shared.{subject_token(town)}"
        self._is_there = False

    def subject(self, kind: str, name: str) -> str:
        """Where a cursor, a lease, a token or the seal stands."""
        return f"{self._stem}.{kind}.{subject_token(name)}"

    async def now(self) -> datetime:
        """The time by the server's clock. Makes the stream if it is not there."""
        for _ in range(2):
            try:
                answer = await self._api("STREAM.INFO")
            except JetStreamError as error:
                if error.code != NO_STREAM:
                    raise
                await self._make()
            else:
                break
        else:
            raise ConnectionLost("the stream does not stay")
        return answer.ts or clock.now()

    async def last(self, subject: str) -> _StreamMessage | None:
        """The message on a subject, as the stream's leader knows it."""
        try:
            return (await self._api("STREAM.MSG.GET", {"last_by_subj": subject})).message
        except JetStreamError as error:
            if error.code in _NOT_FOUND_CODES:
                return None
            raise

    async def all_of(self, kind: str) -> list[_StreamMessage]:
        """Every message of a kind."""
        try:
            subjects = (await self._api("STREAM.INFO", {"subjects_filter": f"{self._stem}.{kind}.*"})).state.subjects
        except JetStreamError as error:
            if error.code == NO_STREAM:
                return []
            raise
        limit = asyncio.Semaphore(MAX_IN_FLIGHT)

        async def one(subject: str) -> _StreamMessage | None:
            async with limit:
                return await self.last(subject)

        return [message for message in await asyncio.gather(*map(one, subjects)) if message is not None]

    async def put(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Store a message, once; answers its sequence number.

        An attempt that was late is known by its id: it neither conflicts with the one that was stored, nor brings back what was
        purged meanwhile.
        """
        named = {"Nats-Msg-Id": clock.uuid7()} | dict(headers or {})

        async def attempt() -> int:
            if not self._is_there:
                await self._make()
            return (await self._ask(subject, payload, named)).seq

        return await self.client.retry(attempt)

    async def purge(self, subject: str) -> None:
        """Take away what is on a subject now. An attempt that is late takes nothing that was stored since."""
        found = await self.last(subject)
        if found is None:
            return
        try:
            await self._api("STREAM.PURGE", {"filter": subject, "seq": found.seq + 1})
        except JetStreamError as error:
            if error.code not in _NOT_FOUND_CODES:
                raise

    async def _make(self) -> None:
        """Make the stream, or check the one that is there."""
        try:
            config = (await self._api("STREAM.INFO")).config
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise
            config = await self._create()
        self._check(config)
        if self._replicas is not None and config.get("num_replicas") != self._replicas:
            await self._api("STREAM.UPDATE", config | {"num_replicas": self._replicas})
        self._is_there = True

    async def _create(self) -> dict[str, Any]:
        config = {
            "name": self._name,
            "subjects": [f"{self._stem}.>"],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": self._replicas or 1,
            "metadata": {"fleetlore_town": self._town},
        }
        deadline = self.client.deadline()
        while True:
            try:
                return (await self._api("STREAM.CREATE", config)).config
            except JetStreamError as error:
                if error.code != NAME_IN_USE:
                    raise
            try:
                return (await self._api("STREAM.INFO")).config  # another handle was first, or an attempt of ours whose answer was late
            except JetStreamError as error:
                if error.code != NO_STREAM or self.client.time() >= deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)  # a cluster takes a moment to make it

    def _check(self, config: Mapping[str, Any]) -> None:
        wanted = {"max_msgs_per_subject": 1, "storage": "file", "retention": "limits", "discard": "old"}
        wrong = [f"{name} must be {value}" for name, value in wanted.items() if config.get(name) != value]
        wrong += [f"{name} must be off" for name in ("sealed", "deny_delete", "deny_purge") if config.get(name)]
        wrong += [f"{name} must not be limited" for name in ("max_age", "max_msgs", "max_bytes") if config.get(name, 0) > 0]
        if (config.get("metadata") or {}).get("fleetlore_town") != self._town:
            wrong = ["it is not of this town"]
        if wrong:
            raise Unsuitable(
                f"{self.client.place}: the stream {self._name} cannot keep cursors, leases, tokens and the seal: {'; '.join(wrong)}"
            )

    async def _api(self, verb: str, body: dict[str, Any] | None = None) -> _ApiResponse:
        payload = b"" if body is None else _encode(body)
        return await self.client.retry(lambda: self._ask(f"$JS.API.{verb}.{self._name}", payload))

    async def _ask(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> _ApiResponse:
        message = await (await self.client.send(subject, payload, headers))
        if is_no_responder(message):
            self._is_there = False  # JetStream is not up yet, or somebody deleted the stream
            raise ConnectionLost("nobody answers")
        answer = _decode_response(message.data)
        if answer.error is not None:
            raise JetStreamError(answer.error)
        return answer
