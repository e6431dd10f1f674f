"""Cursors, leases, tokens and seal in a stream beside the town's own, by the server's clock; created on first write.

    fl-shared.<town>.cursor.<name>    the cursor
    fl-shared.<town>.lease.<name>     the last acquisition of a lease; without a holder after a release
    fl-shared.<town>.token.<id>       the token, without its secret
    fl-shared.<town>.seal.log         the seal

Each subject keeps only its newest message. A write names the message that it replaces, so only one of several concurrent
writes succeeds. The message stays when the lease has expired, so that the next epoch is higher. Epochs also contain the time, for a
server whose data was restored from an older copy.
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
from fleetlore.log.base import Lease, Position, epoch_microseconds, next_epoch
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
    """A lease as stored; without a holder after a release. It starts when the message was stored."""

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
    """The state of a lease's subject."""

    seq: int = 0
    epoch: int = 0
    lease: Lease | None = None
    """Set if it is held now."""


_decode_response = msgspec.json.Decoder(_ApiResponse).decode
_decode_cursor = msgspec.json.Decoder(_StoredCursor).decode
_decode_lease = msgspec.json.Decoder(_StoredLease).decode


class NatsCoordination:
    """Coordination state of one town on one server. Methods as in `CoordinationStore`."""

    def __init__(self, address: str, *, town: str, replicas: int | None = None, timeout: float = 10.0, creds: str | None = None) -> None:
        self._stream = _CoordinationStream(NatsClient(address, timeout=timeout, creds=creds), town, replicas)
        self._run = self._stream.client.run_coroutine

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""
        message = self._run(self._stream.read_last(self._stream.make_subject("cursor", name)))
        return None if message is None else _decode_cursor(message.data).position

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""
        self._run(self._stream.put_message(self._stream.make_subject("cursor", name), _encode(_StoredCursor(name, position))))

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors."""
        cursors = [_decode_cursor(message.data) for message in self._run(self._stream.read_all_messages("cursor"))]
        return {cursor.name: cursor.position for cursor in cursors}

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor."""
        self._run(self._stream.purge_subject(self._stream.make_subject("cursor", name)))

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's."""
        return self._run(self._acquire_lease(name, holder, seconds))

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        return self._run(self._renew_lease(lease, seconds))

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this acquisition."""
        self._run(self._release_lease(lease))

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease."""
        return self._run(self._find_lease(name))

    def save_token(self, token: Token) -> None:
        """Store a token."""
        self._run(self._stream.put_message(self._stream.make_subject("token", token.id), encode_token(token)))

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        return decode_tokens(message.data for message in self._run(self._stream.read_all_messages("token")))

    def delete_token(self, id: str) -> None:
        """Delete a token."""
        self._run(self._stream.purge_subject(self._stream.make_subject("token", id)))

    def load_seal(self) -> bytes | None:
        """Return the seal."""
        message = self._run(self._stream.read_last(self._stream.make_subject("seal", "log")))
        return None if message is None else message.data

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal."""
        return self._run(self._replace_seal(seal, expect))

    def close(self) -> None:
        """Close the connection."""
        self._stream.client.close()

    # --- on the client's loop

    async def _acquire_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        while True:
            now = await self._stream.server_time()
            current = await self._read_lease(name, now)
            if current.lease is not None and current.lease.holder != holder:
                return None
            epoch = next_epoch(current.epoch, epoch_microseconds(now))
            if await self._replace_lease(_StoredLease(name, holder, seconds, epoch), expected=current):
                return Lease(name=name, holder=holder, epoch=epoch, until=_lease_end(now, seconds), seconds=seconds)

    async def _renew_lease(self, lease: Lease, seconds: float) -> Lease:
        while True:
            now = await self._stream.server_time()
            current = await self._read_own_lease(lease, now)
            if current is None:
                raise LeaseLost(lease.name, lease.holder, lease.epoch)
            if await self._replace_lease(_StoredLease(lease.name, lease.holder, seconds, lease.epoch), expected=current):
                return Lease(name=lease.name, holder=lease.holder, epoch=lease.epoch, until=_lease_end(now, seconds), seconds=seconds)

    async def _release_lease(self, lease: Lease) -> None:
        while (current := await self._read_own_lease(lease, await self._stream.server_time())) is not None:
            if await self._replace_lease(_StoredLease(lease.name, _NO_HOLDER, 0, lease.epoch), expected=current):
                return

    async def _find_lease(self, name: str) -> Lease | None:
        return (await self._read_lease(name, await self._stream.server_time())).lease

    async def _replace_lease(self, held: _StoredLease, *, expected: _LeaseState) -> bool:
        """Replace the lease that was read; return `False` if it has changed since."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(expected.seq)}
        try:
            await self._stream.put_message(self._stream.make_subject("lease", held.name), _encode(held), headers)
        except JetStreamError as error:
            if error.code in WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    async def _replace_seal(self, seal: bytes, expect: bytes | None) -> bool:
        subject = self._stream.make_subject("seal", "log")
        while True:
            current = await self._stream.read_last(subject)
            data, seq = (None, 0) if current is None else (current.data, current.seq)
            if data not in (expect, seal):
                return False
            try:
                await self._stream.put_message(subject, seal, {"Nats-Expected-Last-Subject-Sequence": str(seq)})
            except JetStreamError as error:
                if error.code not in WRONG_LAST_SEQUENCE:
                    raise
            else:
                return True

    async def _read_lease(self, name: str, now: datetime) -> _LeaseState:
        """Return the state of a lease at `now`, by the server's clock."""
        message = await self._stream.read_last(self._stream.make_subject("lease", name))
        if message is None:
            return _LeaseState()
        held = _decode_lease(message.data)
        until = _lease_end(message.time, held.seconds)
        if held.holder == _NO_HOLDER or until <= now:
            return _LeaseState(message.seq, held.epoch)
        lease = Lease(name=held.name, holder=held.holder, epoch=held.epoch, until=until, seconds=held.seconds)
        return _LeaseState(message.seq, held.epoch, lease)

    async def _read_own_lease(self, lease: Lease, now: datetime) -> _LeaseState | None:
        """Return the state of a lease, if it is still this acquisition."""
        current = await self._read_lease(lease.name, now)
        if current.lease is None or (current.epoch, current.lease.holder) != (lease.epoch, lease.holder):
            return None
        return current


def _lease_end(start: datetime, seconds: float) -> datetime:
    return start + timedelta(seconds=ceil(seconds))


class _CoordinationStream:
    """The stream. Its methods run on the client's loop."""

    def __init__(self, client: NatsClient, town: str, replicas: int | None) -> None:
        self.client, self._town, self._replicas = client, town, replicas
        # The log's streams start with FL_, so no town's name can collide.
        self._name = f"FLSHARED_{subject_token(town)}"
        self._subject_prefix = f"fl-shared.{subject_token(town)}"
        self._is_created = False

    def make_subject(self, kind: str, name: str) -> str:
        """Return the subject of a cursor, lease, token or seal."""
        return f"{self._subject_prefix}.{kind}.{subject_token(name)}"

    async def server_time(self) -> datetime:
        """Return the server's time. Creates the stream if needed."""
        for _ in range(2):
            try:
                answer = await self._call_api("STREAM.INFO")
            except JetStreamError as error:
                if error.code != NO_STREAM:
                    raise
                await self._ensure_stream()
            else:
                break
        else:
            raise ConnectionLost("the stream was deleted right after it was created")
        return answer.ts or clock.now()

    async def read_last(self, subject: str) -> _StreamMessage | None:
        """Return the message on a subject, as the stream's leader knows it."""
        try:
            return (await self._call_api("STREAM.MSG.GET", {"last_by_subj": subject})).message
        except JetStreamError as error:
            if error.code in _NOT_FOUND_CODES:
                return None
            raise

    async def read_all_messages(self, kind: str) -> list[_StreamMessage]:
        """Return all messages of a kind."""
        try:
            subjects = (await self._call_api("STREAM.INFO", {"subjects_filter": f"{self._subject_prefix}.{kind}.*"})).state.subjects
        except JetStreamError as error:
            if error.code == NO_STREAM:
                return []
            raise
        limit = asyncio.Semaphore(MAX_IN_FLIGHT)

        async def one(subject: str) -> _StreamMessage | None:
            async with limit:
                return await self.read_last(subject)

        return [message for message in await asyncio.gather(*map(one, subjects)) if message is not None]

    async def put_message(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Store a message once and return its sequence number.

        A late attempt is recognised by its message id: it neither conflicts with the stored message nor restores what was purged.
        """
        all_headers = {"Nats-Msg-Id": clock.uuid7()} | dict(headers or {})

        async def attempt() -> int:
            if not self._is_created:
                await self._ensure_stream()
            return (await self._send_request(subject, payload, all_headers)).seq

        return await self.client.retry_until_answered(attempt)

    async def purge_subject(self, subject: str) -> None:
        """Delete the current message of a subject. A late attempt deletes nothing newer."""
        current = await self.read_last(subject)
        if current is None:
            return
        try:
            await self._call_api("STREAM.PURGE", {"filter": subject, "seq": current.seq + 1})
        except JetStreamError as error:
            if error.code not in _NOT_FOUND_CODES:
                raise

    async def _ensure_stream(self) -> None:
        """Create the stream, or check the existing one."""
        try:
            config = (await self._call_api("STREAM.INFO")).config
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise
            config = await self._create_stream()
        self._validate_config(config)
        if self._replicas is not None and config.get("num_replicas") != self._replicas:
            await self._call_api("STREAM.UPDATE", config | {"num_replicas": self._replicas})
        self._is_created = True

    async def _create_stream(self) -> dict[str, Any]:
        config = {
            "name": self._name,
            "subjects": [f"{self._subject_prefix}.>"],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": self._replicas or 1,
            "metadata": {"fleetlore_town": self._town},
        }
        deadline = self.client.make_deadline()
        while True:
            try:
                return (await self._call_api("STREAM.CREATE", config)).config
            except JetStreamError as error:
                if error.code != NAME_IN_USE:
                    raise
            try:
                return (await self._call_api("STREAM.INFO")).config  # created by another handle, or by an earlier attempt of ours
            except JetStreamError as error:
                if error.code != NO_STREAM or self.client.loop_time() >= deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)  # a cluster takes a moment to create it

    def _validate_config(self, config: Mapping[str, Any]) -> None:
        wanted = {"max_msgs_per_subject": 1, "storage": "file", "retention": "limits", "discard": "old"}
        wrong = [f"{name} must be {value}" for name, value in wanted.items() if config.get(name) != value]
        wrong += [f"{name} must be off" for name in ("sealed", "deny_delete", "deny_purge") if config.get(name)]
        wrong += [f"{name} must not be limited" for name in ("max_age", "max_msgs", "max_bytes") if config.get(name, 0) > 0]
        if (config.get("metadata") or {}).get("fleetlore_town") != self._town:
            wrong = [f"it belongs to another town, not to {self._town!r}"]
        if wrong:
            raise Unsuitable(
                f"{self.client.display_address}: the stream {self._name} cannot keep cursors, leases, tokens and the seal: "
                + "; ".join(wrong)
                + "; change its configuration, or delete it if nothing uses it"
            )

    async def _call_api(self, verb: str, body: dict[str, Any] | None = None) -> _ApiResponse:
        payload = b"" if body is None else _encode(body)
        return await self.client.retry_until_answered(lambda: self._send_request(f"$JS.API.{verb}.{self._name}", payload))

    async def _send_request(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> _ApiResponse:
        message = await (await self.client.send_request(subject, payload, headers))
        if is_no_responder(message):
            self._is_created = False  # JetStream is not up yet, or the stream was deleted
            raise ConnectionLost("nobody answers")
        answer = _decode_response(message.data)
        if answer.error is not None:
            raise JetStreamError(answer.error)
        return answer
