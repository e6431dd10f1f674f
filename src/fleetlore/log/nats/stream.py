"""A town's JetStream stream: created or checked on open, then read, written and purged by message.

Used by writer, reader, index and marks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field
from nats.aio.msg import Msg

from fleetlore import clock
from fleetlore.errors import Unsuitable
from fleetlore.log.base import PeriodicCheck
from fleetlore.log.nats.client import ADVISORIES, MIN_PAYLOAD_LIMIT, RETRY_SECONDS, NatsClient, is_no_responder, message_status
from fleetlore.log.nats.errors import NAME_IN_USE, NO_MESSAGE, NO_STREAM, ApiError, ConnectionLost, JetStreamError, NoResponder
from fleetlore.log.nats.loop import map_concurrently
from fleetlore.log.nats.subjects import stream_name, town_subjects
from fleetlore.log.nats.sync_setting import ALWAYS, UNKNOWN, read_sync_setting

NANOSECONDS = 10**9
DEDUP_SECONDS = 24 * 3600
MAX_IN_FLIGHT = 256
MAX_CONCURRENT_READS = 32
"""Concurrent single-message requests."""
MAX_RESPONSE_BYTES = 4 << 20
"""Limit per request: the server disconnects clients with more than 64 MiB pending."""
_encode = msgspec.json.encode
_logger = logging.getLogger("fleetlore.log")


class NatsMessage(NamedTuple):
    """One stored message."""

    seq: int
    subject: str
    id: str
    raw: bytes
    pending: int = 0
    """How many later messages match the filter."""
    batch: str = ""
    """The atomic batch that it was stored with."""


class MessagePage(NamedTuple):
    """Messages in order, and whether there are more after them."""

    rows: list[NatsMessage]
    more: bool


class PublishAck(Struct, frozen=True, gc=False):
    """The stream's answer to a message to be stored, or to the last one of a batch."""

    seq: int = 0
    duplicate: bool = False
    count: int = 1
    error: ApiError | None = None


class LostData(Struct, frozen=True):
    """What the server could not read when it started, and dropped."""

    bytes: int = 0


class _StreamState(Struct, frozen=True):
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    subjects: dict[str, int] | None = None
    lost: LostData | None = None
    deleted: list[int] = []


class _LeaderMessage(Struct, frozen=True):
    """A message as returned by the stream's leader: JSON with headers and payload in base64."""

    subject: str
    seq: int
    hdrs: bytes = b""
    data: bytes = b""


class _Peer(Struct, frozen=True):
    name: str = ""
    current: bool = False
    offline: bool = False


class _Cluster(Struct, frozen=True):
    leader: str = ""
    replicas: list[_Peer] = field(default_factory=list)


class _ApiResponse(Struct, frozen=True):
    error: ApiError | None = None
    config: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    cluster: _Cluster = _Cluster()
    state: _StreamState = _StreamState()
    purged: int = 0
    num_pending: int = 0
    message: _LeaderMessage | None = None


_response_decoder = msgspec.json.Decoder(_ApiResponse)
_ack_decoder = msgspec.json.Decoder(PublishAck)


class NatsStream:
    """One stream. Its methods run on the client's loop; each retries until answered or timed out."""

    def __init__(self, client: NatsClient, town: str) -> None:
        self.client, self.town, self.name = client, town, stream_name(town)
        self.config: dict[str, Any] = {}
        self.first_sequence = 0
        """The first message of the stream, as last read; everything before it is gone."""
        self.highest_sequence = 0
        """The highest message that the stream must have: one that was acknowledged or read."""
        self.sync = UNKNOWN
        """How often the servers write to their disks: `always`, `120s`, or `unknown`."""
        self._created = ""
        self._monitor: str | None = None
        self._settings_check = PeriodicCheck()
        self.rejects_overlapping_filters = False
        """Old servers reject consumers with overlapping filters; then one filter covers all events and we select here."""

    async def open(self, dedup: float | None, replicas: int | None, monitor: str | None = None, *, require_durable: bool = False) -> None:
        """Create the stream, or check the existing one and apply the options of the URL. Raises `Unsuitable`."""
        self._monitor = monitor
        await self._check_sync(require_durable=require_durable)
        try:
            config = (await self.info()).config
        except JetStreamError as error:
            if error.code != NO_STREAM:
                raise
            config = await self._create_stream(dedup, replicas)
        self._validate_config(config)
        self.config = await self._update_config(config, dedup, replicas)
        if self.dedup_seconds < 2 * self.client.timeout:
            raise Unsuitable(
                f"{self.client.display_address}: the stream {self.name} knows ids for {self.dedup_seconds:g} seconds only, "
                f"too short to retry what was not answered; use ?dedup=24h, or a ?timeout= of at most half of it"
            )
        self._remember_state(await self.info())
        await self.client.subscribe(
            f"{ADVISORIES}STREAM.DELETED.{self.name}", lambda _: self.client.mark_ended(self._end_reason("was deleted"))
        )

    async def _check_sync(self, *, require_durable: bool) -> None:
        """Read how often the servers sync; state an unsafe setting, or refuse it."""
        place = self.client.display_address
        self.sync = await read_sync_setting(self.client.servers, self._monitor, self.client.timeout)
        if self.sync == ALWAYS:
            return
        if not require_durable:
            if self.sync != UNKNOWN:
                _logger.warning("%s: %s; set `sync_interval: always` there", place, describe_sync_risk(self.sync))
            return
        if self.sync == UNKNOWN:
            raise Unsuitable(
                f"{place}: ?require=durable, but a NATS server tells its sync_interval on its monitoring port only;"
                " start it with `-m 8222` and add ?monitor=8222"
            )
        raise Unsuitable(f"{place}: ?require=durable, but {describe_sync_risk(self.sync)}; set `sync_interval: always` on every server")

    async def check_if_due(self) -> None:
        """Once a minute: check that it is still the same stream and that no setting has become unsafe."""
        if not self._settings_check.is_due():
            return
        await self.refresh_config()
        self._validate_config(self.config)
        was_always = self.sync == ALWAYS
        self.sync = await read_sync_setting(self.client.servers, self._monitor, self.client.timeout)
        if was_always and self.sync != ALWAYS:
            sync, self.sync = self.sync, ALWAYS  # until it is set back
            raise Unsuitable(
                f"{self.client.display_address}: the sync_interval was changed from always to {sync} while the log was open;"
                " nothing more is acknowledged; set it back, or open the log again"
            )
        self._settings_check.mark_passed()

    def _remember_state(self, info: _ApiResponse) -> None:
        self._created = info.created
        self.first_sequence = info.state.first_seq
        self.highest_sequence = max(self.highest_sequence, info.state.last_seq)

    @property
    def dedup_seconds(self) -> float:
        """The server's deduplication window, as last read."""
        return float(self.config["duplicate_window"]) / NANOSECONDS

    async def refresh_config(self) -> None:
        """Read the current settings. If the stream was recreated or lost messages, this handle ends: what it knows is wrong."""
        known, deadline = self.highest_sequence, self.client.make_deadline()
        while True:
            info = await self.info()
            is_same = (info.config.get("metadata") or {}).get("fleetlore_log") == self.config["metadata"]["fleetlore_log"]
            if not is_same or self._created not in ("", info.created):
                self._end("was deleted and created again while this handle was open")
            if info.state.last_seq >= known:
                break
            if self.client.loop_time() >= deadline:
                self._end(f"lost events behind this handle: it ends at {info.state.last_seq}, but {known} was acknowledged")
            await asyncio.sleep(RETRY_SECONDS)  # the new leader of a cluster may still be catching up
        self.config = info.config
        self._remember_state(info)

    def _end(self, how: str) -> None:
        self.client.mark_ended(self._end_reason(how))
        self.client.check_open()

    def _end_reason(self, how: str) -> str:
        return (
            f"{self.client.display_address}: the stream {self.name} {how}; nothing more is acknowledged;"
            " open the log again with connect(), or restart this process"
        )

    async def _create_stream(self, dedup: float | None, replicas: int | None) -> dict[str, Any]:
        config = {
            "name": self.name,
            "subjects": town_subjects(self.town),
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "allow_direct": True,
            "allow_atomic": True,
            "duplicate_window": int((dedup or max(DEDUP_SECONDS, 2 * self.client.timeout)) * NANOSECONDS),
            "num_replicas": replicas or 1,
            "metadata": {"fleetlore_log": clock.uuid7(), "fleetlore_town": self.town},
        }
        deadline = self.client.make_deadline()
        while True:
            try:
                return (await self.call_api("STREAM.CREATE", config)).config
            except JetStreamError as error:
                if error.code != NAME_IN_USE:
                    raise
            try:
                return (await self.info()).config  # created by another handle, or by an earlier attempt of ours
            except JetStreamError as error:
                if error.code != NO_STREAM or self.client.loop_time() >= deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)  # a cluster takes a moment to create it

    def _validate_config(self, config: dict[str, Any]) -> None:
        wrong = [name for name in ("allow_atomic", "allow_direct") if not config.get(name)]
        wrong += [name for name in ("sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "no_ack") if config.get(name)]
        wrong += [name for name in ("max_age", "max_msgs", "max_msgs_per_subject") if config.get(name, 0) > 0]
        if 0 < config.get("max_msg_size", 0) < MIN_PAYLOAD_LIMIT:
            wrong.append("max_msg_size")
        if config.get("max_bytes", 0) > 0 and config.get("discard") != "new":
            wrong.append("max_bytes")
        if config.get("storage") != "file" or config.get("retention") != "limits":
            wrong.append("storage or retention")
        metadata = config.get("metadata") or {}
        if metadata.get("fleetlore_town") != self.town or not metadata.get("fleetlore_log"):
            raise Unsuitable(
                f"{self.client.display_address}: the stream {self.name} is not a log of this town; rename it, or name another town"
            )
        if wrong:
            raise Unsuitable(
                f"{self.client.display_address}: the stream {self.name} would lose events or refuse them; change {', '.join(wrong)}"
            )

    async def _update_config(self, config: dict[str, Any], dedup: float | None, replicas: int | None) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        if dedup is not None:
            wanted["duplicate_window"] = int(dedup * NANOSECONDS)
        if replicas is not None:
            wanted["num_replicas"] = replicas
        if all(config.get(name) == value for name, value in wanted.items()):
            return config
        return (await self.call_api("STREAM.UPDATE", config | wanted)).config

    async def set_metadata(self, name: str, value: str) -> None:
        """Store a value in the stream's metadata."""
        config = (await self.info()).config
        if config["metadata"].get(name) != value:
            await self.call_api("STREAM.UPDATE", config | {"metadata": config["metadata"] | {name: value}})

    async def info(self, *, deleted_details: bool = False) -> _ApiResponse:
        """Return the stream's settings and state; with `deleted_details` also which messages were deleted."""
        return await self.call_api("STREAM.INFO", {"deleted_details": True} if deleted_details else None)

    async def list_subjects(self, filter: str) -> list[str]:
        """Return the subjects that match a filter and have messages; the server gives 100,000 at a time."""
        found: list[str] = []
        while True:
            page = (await self.call_api("STREAM.INFO", {"subjects_filter": filter, "offset": len(found)})).state.subjects
            if not page:
                return found
            found += page

    async def purge(self, body: dict[str, Any]) -> int:
        """Delete messages and return their number. It may take long, and a second attempt may count what the first left."""
        return (await self.call_api("STREAM.PURGE", body, limit=self.client.timeout / 2)).purged

    async def call_api(self, verb: str, body: dict[str, Any] | None = None, after: str = "", *, limit: float = 0.0) -> _ApiResponse:
        """Send a JetStream API request about this stream. `limit`: see `NatsClient.retry_until_answered`."""

        async def attempt() -> _ApiResponse:
            future = await self.client.send_request(f"$JS.API.{verb}.{self.name}{after}", _encode(body) if body is not None else b"")
            message = await future
            if is_no_responder(message):
                raise NoResponder
            answer = _response_decoder.decode(message.data)
            if answer.error is not None:
                raise JetStreamError(answer.error)
            return answer

        return await self.client.retry_until_answered(attempt, limit=limit)

    # --- messages

    async def store_message(self, subject: str, payload: bytes, headers: dict[str, str]) -> PublishAck:
        """Store a message once: late attempts are recognised by its message id, even if it was deleted meanwhile."""
        all_headers = {"Nats-Msg-Id": clock.uuid7()} | headers

        async def attempt() -> PublishAck:
            ack = parse_ack(await (await self.client.send_request(subject, payload, all_headers)))
            if ack.error is not None:
                raise JetStreamError(ack.error)
            return ack

        return await self.client.retry_until_answered(attempt)

    async def read_last(self, subject: str) -> NatsMessage | None:
        """Return the newest message that matches a filter."""
        return await self._read_message({"last_by_subj": subject})

    async def read_at(self, seq: int) -> NatsMessage | None:
        """Return the message with a sequence number, or `None`."""
        return await self._read_message({"seq": seq})

    async def read_all_at(self, seqs: Iterable[int]) -> list[NatsMessage | None]:
        """Return the messages with these sequence numbers, in the given order."""
        return await map_concurrently(seqs, self.read_at, at_once=MAX_CONCURRENT_READS)

    async def delete_message(self, seq: int) -> bool:
        """Delete and overwrite one message; return whether it existed."""
        try:
            await self.call_api("STREAM.MSG.DELETE", {"seq": seq})
        except JetStreamError as error:
            if error.is_transient:
                raise
            return False
        return True

    async def _read_message(self, body: dict[str, Any]) -> NatsMessage | None:
        if self._is_replicated:
            return await self._read_from_leader(body)
        return _from_message(await self.client.request_with_retry(f"$JS.API.DIRECT.GET.{self.name}", _encode(body)))

    @property
    def _is_replicated(self) -> bool:
        """Whether a direct read may reach a replica that does not have the newest messages yet."""
        return bool(self.config.get("num_replicas", 1) > 1)

    async def _read_from_leader(self, body: dict[str, Any]) -> NatsMessage | None:
        try:
            found = (await self.call_api("STREAM.MSG.GET", body)).message
        except JetStreamError as error:
            if error.code in NO_MESSAGE:
                return None
            raise
        return None if found is None else _from_leader_message(found)

    async def read_page(self, subject: str, start: int, count: int) -> MessagePage:
        """Return messages that match a filter, from a sequence number on."""
        body = _encode({"seq": max(1, start), "batch": count, "max_bytes": MAX_RESPONSE_BYTES, "next_by_subj": subject})
        arrived = 0

        async def attempt() -> MessagePage:
            found: list[Msg] = []

            def more(message: Msg) -> bool:
                nonlocal arrived
                if message_status(message):
                    return False
                arrived += 1
                found.append(message)
                return True

            end = await (await self.client.send_request(f"$JS.API.DIRECT.GET.{self.name}", body, more=more))
            page = _build_page(found, end)
            if self._is_replicated and not page.more:
                await self._check_page_end(subject, page.rows[-1].seq if page.rows else start - 1)
            return page

        return await self.client.retry_until_answered(attempt, progress=lambda: arrived)

    async def _check_page_end(self, subject: str, end: int) -> None:
        newest = await self._read_from_leader({"last_by_subj": subject})
        if newest is not None and newest.seq > end:
            raise ConnectionLost("a replica that lags behind")

    async def read_every(self, subject: str, start: int = 1) -> list[NatsMessage]:
        """Return all messages that match a filter; for the few that are not events."""
        rows: list[NatsMessage] = []
        more = True
        while more:
            page, more = await self.read_page(subject, start, MAX_IN_FLIGHT)
            rows += page
            start = rows[-1].seq + 1 if rows else start
        return rows


def describe_sync_risk(sync: str) -> str:
    """Say what a sync interval may cost."""
    return f"sync_interval is {sync}: if the power fails on every server that has them, events acknowledged in that time are lost"


def message_event_id(message: Msg) -> str:
    """Return the event id of a message."""
    return parse_event_id((message.headers or {}).get("Nats-Msg-Id", ""))


def parse_event_id(name: str) -> str:
    """Return the event id in a message id. A renamed message (see `StreamMarks.message_id`) has a suffix after `/`."""
    return name.partition("/")[0]


def parse_ack(message: Msg) -> PublishAck:
    """Decode the stream's answer to a message; raise `NoResponder` if nobody received it."""
    if is_no_responder(message):
        raise NoResponder
    return _ack_decoder.decode(message.data)


def _build_page(found: Sequence[Msg], end: Msg) -> MessagePage:
    status = message_status(end)
    if status == "404":
        return MessagePage([], more=False)
    rows = [row for message in found if (row := _from_message(message)) is not None]
    headers = end.headers or {}
    if status != "204" or not rows or headers.get("Nats-Last-Sequence") != str(rows[-1].seq):
        raise ConnectionLost("an answer of which a part is missing")
    return MessagePage(rows, more=int(headers.get("Nats-Num-Pending", 0)) > 0)


def _from_leader_message(found: _LeaderMessage) -> NatsMessage:
    lines = (line.partition(": ") for line in found.hdrs.decode(errors="replace").split("\r\n"))
    headers = {name: value for name, _, value in lines}
    return NatsMessage(
        found.seq, found.subject, parse_event_id(headers.get("Nats-Msg-Id", "")), found.data, batch=headers.get("Nats-Batch-Id", "")
    )


def _from_message(message: Msg) -> NatsMessage | None:
    headers = message.headers or {}
    if "Nats-Sequence" not in headers:
        if message_status(message) == "404":
            return None
        raise ConnectionLost(f"an answer without a message ({message_status(message)})")
    return NatsMessage(
        seq=int(headers["Nats-Sequence"]),
        subject=headers["Nats-Subject"],
        id=message_event_id(message),
        raw=message.data,
        pending=int(headers.get("Nats-Num-Pending", 0)),
        batch=headers.get("Nats-Batch-Id", ""),
    )
