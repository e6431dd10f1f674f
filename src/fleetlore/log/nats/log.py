"""NATS backend: one JetStream stream per town, one message per event, its scopes in the subject.

Any NATS client can select events by wildcard, for example `fl.default.ada.>`; `subjects.py` describes the tokens.
`NatsLog` combines writer (`append.py`), reader (`read.py`), follower (`tail.py`) and id index (`index.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import nats.errors

from fleetlore.dialects import nexo
from fleetlore.errors import Conflict, FleetloreError, Forgotten, InvalidUrl, LogError
from fleetlore.events import codec
from fleetlore.log.base import (
    TOWN,
    AppendBatch,
    AppendOutcome,
    LogInfo,
    LogQuery,
    Position,
    Record,
    StoredRecord,
    hash_event_id,
    to_position,
    to_sequence,
)
from fleetlore.log.check_report import LogCheckReport, Progress
from fleetlore.log.nats.append import AppendJob, NatsWriter
from fleetlore.log.nats.blobs import NatsBlobs
from fleetlore.log.nats.check import check_stream
from fleetlore.log.nats.client import NatsClient
from fleetlore.log.nats.errors import ConnectionLost, JetStreamError, translate_error
from fleetlore.log.nats.index import NatsIndex
from fleetlore.log.nats.loop import map_concurrently
from fleetlore.log.nats.marks import StreamMarks
from fleetlore.log.nats.read import NatsReader
from fleetlore.log.nats.stream import MAX_IN_FLIGHT, NANOSECONDS, NatsMessage, NatsStream, describe_sync_risk
from fleetlore.log.nats.subjects import erased_subject, events_subject
from fleetlore.log.nats.sync_setting import ALWAYS, UNKNOWN, parse_monitor
from fleetlore.log.nats.tail import NatsTail

MAX_TIMEOUT_SECONDS = 86_400
MAX_DEDUP_SECONDS = 366 * 86_400
DEFAULT_TIMEOUT_SECONDS = 10.0
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION_PATTERN = re.compile(r"([0-9]{1,6})([smhd])")


def parse_options(options: dict[str, str]) -> dict[str, Any]:
    """Parse the options of the URL; raise `InvalidUrl` for anything else."""
    # The options may be part of a password, so the message does not quote them.
    if any("@" in name or ("@" in value and name != "creds") for name, value in options.items()):
        raise InvalidUrl("nats: an @ behind the ?; if the ? belongs to a password, write it as %3F")
    known: dict[str, Any] = {}
    for name, value in options.items():
        parse = _OPTION_PARSERS.get(name)
        parsed = None if parse is None else parse(value)
        if parsed is None:
            raise InvalidUrl(
                f"?{name if parse else '…'}=: not understood by nats:;"
                f" say dedup=24h (s, m, h or d, at most {MAX_DEDUP_SECONDS // 86_400}d),"
                " replicas=1|3|5, timeout=SECONDS, creds=FILE, monitor=PORT or require=durable"
            )
        known[name] = parsed
    min_dedup = 2 * known.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if known.get("dedup", min_dedup) < min_dedup:
        raise InvalidUrl(
            f"?dedup=: at least twice ?timeout= is needed, {min_dedup:g}s here (dedup=24h is usual),"
            " because what is not answered is sent again with the same ids"
        )
    return known


def _parse_dedup(value: str) -> float | None:
    span = _DURATION_PATTERN.fullmatch(value)
    seconds = int(span[1]) * _SECONDS_BY_UNIT[span[2]] if span else 0
    return float(seconds) if 0 < seconds <= MAX_DEDUP_SECONDS else None


def _parse_replicas(value: str) -> int | None:
    return int(value) if value in ("1", "3", "5") else None


def _parse_timeout(value: str) -> float | None:
    is_number = value.isascii() and value.replace(".", "", 1).isdecimal()
    return float(value) if is_number and 0 < float(value) <= MAX_TIMEOUT_SECONDS else None


def _parse_creds(value: str) -> str | None:
    return os.path.expanduser(value) or None


def _parse_require(value: str) -> str | None:
    return value if value == "durable" else None


_OPTION_PARSERS: dict[str, Callable[[str], Any]] = {
    "dedup": _parse_dedup,
    "replicas": _parse_replicas,
    "timeout": _parse_timeout,
    "creds": _parse_creds,
    "monitor": parse_monitor,
    "require": _parse_require,
}


class NatsLog:
    """One town on one NATS server or cluster."""

    def __init__(
        self,
        address: str,
        *,
        town: str,
        dedup: float | None = None,
        replicas: int | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        creds: str | None = None,
        monitor: str | None = None,
        require: str | None = None,
    ) -> None:
        self._town = town
        self._tails: WeakSet[NatsTail] = WeakSet()
        self._client = NatsClient(address, timeout=timeout, creds=creds)
        self._stream = NatsStream(self._client, town)
        self._marks = StreamMarks(self._stream)
        self._reader = NatsReader(self._stream, self._marks)
        self._writer = NatsWriter(self._stream, self._marks, self._reader)
        self._index = NatsIndex(self._stream)
        self._blobs = NatsBlobs(self._stream, self._index, self._marks)
        self._marks.on_change = self._client.on_end = self._notify_tails
        try:
            self._client.run_coroutine(self._open_stream(dedup, replicas, monitor, require))
        except BaseException:
            self._client.close()
            raise

    async def _open_stream(self, dedup: float | None, replicas: int | None, monitor: str | None, require: str | None) -> None:
        await self._stream.open(dedup, replicas, monitor, require_durable=require == "durable")
        await self._marks.open()
        self._client.on_reconnect(self._check_tails)

    # --- writing

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that is not rejected; all are sent concurrently."""
        return self._client.run_coroutine(self._commit_batches(batches))

    async def _commit_batches(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        with_blobs = [record for batch in batches for record in batch.records if record.blobs]
        if with_blobs:
            await self._store_blobs(with_blobs)
        jobs = await self._writer.commit(batches)
        for job in jobs:
            await self._publish_driver_events(job)
        outcomes = [job.outcome for job in jobs if job.outcome is not None]
        if with_blobs:
            await self._remove_unstored_blobs(jobs, with_blobs)
        return outcomes

    async def _remove_unstored_blobs(self, jobs: Sequence[AppendJob], records: Sequence[Record]) -> None:
        """Delete the whole texts of appends that were rejected, or whose ids are known. If it fails, `remove_orphans` does it."""
        settled = {id for job in jobs if isinstance(job.outcome, list | Conflict | Forgotten) for id in job.ids}
        stored = {record.id for job in jobs for record, _ in job.stored}
        with suppress(FleetloreError, nats.errors.Error, ConnectionLost):
            await self._blobs.remove_unstored([record for record in records if record.id in settled - stored])

    async def _store_blobs(self, records: Sequence[Record]) -> None:
        try:
            await self._blobs.store(records)
        except JetStreamError as error:
            raise translate_error(self._client.display_address, error) from error

    async def _publish_driver_events(self, job: AppendJob) -> None:
        """Publish stored driver events on nexo's subjects, at most once; no stream keeps them."""
        for record, seq in job.stored:
            if not record.kind.startswith(nexo.KIND_PREFIX):
                continue
            # The events are stored: a failed notification must not look like a failed append.
            with suppress(FleetloreError, nats.errors.Error, ConnectionLost):
                event = codec.decode_event(record.raw)
                payload = nexo.DIALECT.encode(event, town=self._town)
                headers = {"Fleetlore-Id": record.id, "Fleetlore-Position": to_position(seq), "Fleetlore-Town": self._town}
                if payload is not None and self._client.is_online and not self._client.is_ended:
                    await self._client.connection.publish(nexo.nats_subject(event), payload, headers=headers)

    def trim(self, before: Position) -> int:
        """Delete the oldest records. The horizon is written first, so that readers never see a partial trim."""
        return self._client.run_coroutine(self._trim_before(to_sequence(before)))

    async def _trim_before(self, before: int) -> int:
        newest = await self._stream.read_last(events_subject(self._town))
        if newest is None:
            return 0
        horizon = min(before - 1, newest.seq)
        if horizon > await self._marks.read_horizon():
            await self._marks.move_horizon(horizon)
        await self._blobs.remove_orphans()  # before the events, which say what belongs to them
        # With a filter, to keep the records of erased ids; never beyond the end, or sequence numbers would be skipped.
        purged = await self._stream.purge({"filter": events_subject(self._town), "seq": self._marks.horizon + 1})
        await self._marks.publish_horizon(self._marks.horizon)  # if there was no room for it before, there is now
        return purged

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete these records for good. Every step can be repeated after an interruption."""
        return self._client.run_coroutine(self._erase_ids(list(dict.fromkeys(ids)), forgotten_event))

    async def _erase_ids(self, ids: Sequence[str], forgotten_event: Record) -> int:
        found = {row.seq: row for row in await self._index.find_messages(ids)}
        places = {id: [row.seq for row in found.values() if row.id == id] for id in ids}
        known_at = await map_concurrently(places.items(), self._mark_erased, at_once=MAX_IN_FLIGHT)
        # Some may have been stored since the index was read; the acks of the marks say where.
        late = [(id, seq) for id, seqs in zip(ids, known_at, strict=True) for seq in seqs if seq not in found]
        rows = await self._stream.read_all_at(seq for _, seq in late)
        found |= {row.seq: row for (id, _), row in zip(late, rows, strict=True) if row is not None and self._is_event(row, id)}
        await map_concurrently(sorted(found), self._stream.delete_message, at_once=MAX_IN_FLIGHT)
        await self._blobs.remove(ids)
        await self._blobs.remove_orphans()
        [job] = await self._writer.commit([AppendBatch([forgotten_event])])
        if isinstance(job.outcome, LogError):
            raise job.outcome
        return len({row.id for row in found.values() if row.seq > self._marks.horizon})

    def _is_event(self, row: NatsMessage, id: str) -> bool:
        return row.id == id and row.subject.startswith(events_subject(self._town)[:-1])

    async def _mark_erased(self, item: tuple[str, list[int]]) -> list[int]:
        """Mark an id on the server as rejected forever; return where it is stored, as far as the server knows.

        The mark says where the event was: its hole is not a purge by others.
        """
        id, places = item
        subject, payload = erased_subject(self._town, hash_event_id(id).hex()), " ".join(map(str, places)).encode()
        # Using the event's own message ids makes the server itself reject it, within its deduplication window.
        acks = [
            await self._stream.store_message(subject, payload, {"Nats-Msg-Id": name})
            for name in dict.fromkeys((id, self._marks.message_id(id)))
        ]
        if all(ack.duplicate for ack in acks):
            await self._stream.store_message(subject, payload, {"Nats-Msg-Id": f"erased-{id}"})
        self._marks.add_erased(id, places)
        return [ack.seq for ack in acks if ack.duplicate]

    # --- reading

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the selected records."""
        return self._client.run_coroutine(self._reader.read(query))

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids."""
        first: dict[str, NatsMessage] = {}
        for row in self._client.run_coroutine(self._index.find_messages(ids)):
            if self._marks.is_visible(row):
                first.setdefault(row.id, row)
        return [StoredRecord(to_position(row.seq), row.raw) for row in first.values()]

    def get_blobs(self, id: str) -> bytes | None:
        """Return the whole texts of a record."""
        return self._client.run_coroutine(self._blobs.read(id))

    def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        return self._client.run_coroutine(self._reader.head(scope))

    def tail(self, scope: str, after: Position | None) -> NatsTail:
        """Return a cursor that waits for new records, with its own consumer."""
        self._client.check_open()
        tail = NatsTail(self._stream, self._marks, scope, None if after is None else to_sequence(after))
        self._tails.add(tail)
        return tail

    def _notify_tails(self) -> None:
        for tail in list(self._tails):
            tail.notify_waiters()

    async def _check_tails(self) -> None:
        for tail in list(self._tails):
            tail.check_consumer()

    def info(self) -> LogInfo:
        """Describe this log."""
        return self._client.run_coroutine(self._read_info())

    async def _read_info(self) -> LogInfo:
        stream = await self._stream.info()
        count, first = await self._reader.count_events()
        config: dict[str, Any] = stream.config
        seconds, replicas = config["duplicate_window"] // NANOSECONDS, config["num_replicas"]
        horizon = await self._marks.read_horizon()
        return LogInfo(
            backend="nats",
            town=self._town,
            log_id=config["metadata"]["fleetlore_log"],
            events=count,
            first=None if first is None else to_position(first),
            head=await self._reader.head(TOWN),
            trimmed_before=to_position(horizon + 1) if horizon else None,
            bytes=stream.state.bytes,
            dedup=f"{_format_duration(seconds)}, by the server's clock",
            durability=_describe_durability(replicas, self._stream.sync),
            details={
                "server": f"nats-server {self._client.version}",
                "address": self._client.display_address,
                "stream": self._stream.name,
                "subjects": config["subjects"],
                "replicas": replicas,
                "sync_interval": self._stream.sync,
                "leader": stream.cluster.leader,
                "lagging_replicas": [peer.name for peer in stream.cluster.replicas if peer.offline or not peer.current],
                "dedup_seconds": seconds,
            },
        )

    def check(self, progress: Progress | None = None) -> LogCheckReport:
        """Read the whole town and report what is damaged or missing."""
        return self._client.run_coroutine(check_stream(self._stream, progress))

    def close(self) -> None:
        """Close the connection; waiting tails raise `Closed`."""
        for tail in list(self._tails):
            tail.mark_log_closed()
        self._client.close()


def _format_duration(seconds: int) -> str:
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds % length == 0 and seconds > length:
            return f"{seconds // length} {unit}"
    return f"{seconds} seconds"


def _describe_durability(replicas: int, sync: str) -> str:
    stored = "safe from crashes of programs" if replicas == 1 else f"acknowledged by most of {replicas} servers"
    if sync == ALWAYS:
        return f"{stored}, and on their disks" if replicas > 1 else "every acknowledged append is on the server's disk"
    if sync == UNKNOWN:
        return (
            f"{stored}; the server's sync_interval decides about a power cut (2 minutes by default, which may take the newest):"
            " set `sync_interval: always` there, and say ?monitor=8222 so that it can be checked"
        )
    return f"{stored}; {describe_sync_risk(sync)} (`sync_interval: always` prevents that)"
