"""Redis Streams backend in the layout of tinytown, another program: one stream per town, and a copy of each event per scope.

All copies of an event share one entry id, which is its position: the append script picks it above the last id of every
stream that it writes to. tinytown itself may write to the same streams, and trim them, at the same time. Entries up to the
*horizon* were trimmed: they are hidden at once and removed later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha1
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias
from weakref import WeakSet

import msgspec
from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import Busy, Conflict, Denied, Forgotten, Invalid, InvalidUrl, LogError, StorageFull, Unsuitable, Unwritable
from fleetlore.log.base import (
    PAGE_SIZE,
    TOWN,
    AppendBatch,
    AppendOutcome,
    Expect,
    LogInfo,
    LogQuery,
    PeriodicCheck,
    Position,
    Record,
    StoredRecord,
    matches_kind,
)
from fleetlore.log.check_report import LogCheckReport, Progress
from fleetlore.log.redis import scripts
from fleetlore.log.redis.check import check_town
from fleetlore.log.redis.client import DURABILITIES, Answer, Command, ConnectionBroken, RedisClient, check_server
from fleetlore.log.redis.entry import (
    MAX_POSITION,
    MIN_POSITION,
    TownKeys,
    decode_entry,
    decode_foreign_event,
    encode_entry,
    entry_data,
    entry_kind,
    parse_event_id,
    parse_scopes,
    position_after,
    position_before,
    to_entry_id,
    to_position,
)
from fleetlore.log.redis.tail import RedisTail

# --- Finding the entries of an event, in the town's stream and in the streams of its scopes

EntryCopies: TypeAlias = list[tuple[str, bytes]]
"""(stream, entry id) of each copy."""
KnownCopies: TypeAlias = tuple[bytes, EntryCopies]
"""The indexed entry id of an event (empty: not indexed), and its copies."""

NO_COPIES: KnownCopies = (b"", [])


def find_town_entries(log: RedisLog, ids: Sequence[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the town's entries of these events: id, entry, data."""
    known = _find_known_entries(log, ids)
    for id, entry, data in _read_entries(log, log.keys.events, known):
        yield id, entry, data
    # Ids derived from tinytown's own entries (UUID version 8) are in no index.
    unknown = {id for id in ids if id not in known and id[14] == "8"}
    if unknown and has_foreign_writes(log):
        for entry, data in _read_all_entries(log, log.keys.events):
            event = decode_foreign_event(data)
            if event is not None and event.id in unknown:
                yield event.id, entry, data


def find_copies(log: RedisLog, ids: Sequence[str]) -> dict[str, KnownCopies]:
    """Return every copy of these events, by event id."""
    known = _find_known_entries(log, ids)
    found: dict[str, KnownCopies] = {id: (entry, []) for id, entry in known.items()}
    missing = dict(known)
    for id, entry, data in _read_entries(log, log.keys.events, known):
        scopes = parse_scopes(decode_entry(entry, [b"data", data]).raw)
        found[id] = (entry, [(stream, entry) for stream in (log.keys.events, *log.keys.stream_keys(scopes))])
        del missing[id]
    if missing:  # trimmed from the town's stream by others; the scopes still have them
        for streams in log.scope_streams():
            for stream in streams:
                for id, entry, _ in _read_entries(log, stream, missing):
                    found[id][1].append((stream, entry))
    unknown = {id for id in ids if id not in known}
    if unknown and has_foreign_writes(log):
        _scan_all_streams(log, unknown, found)
    return {id: copies for id, copies in found.items() if copies[0] or copies[1]}


def has_foreign_writes(log: RedisLog) -> bool:
    """Return whether others write to or trim this town, so that there may be events without an index entry."""
    length, known = log.client.run_commands(("XLEN", log.keys.events), ("HLEN", log.keys.ids))
    return bool(length != known) or log.count_foreign_removals() > 0


def _scan_all_streams(log: RedisLog, ids: set[str], found: dict[str, KnownCopies]) -> None:
    """Find copies that tinytown wrote: each has its own entry id, and only the data identifies the event."""
    for streams in ([log.keys.events], *log.scope_streams()):
        for stream in streams:
            for entry, data in _read_all_entries(log, stream):
                if (id := parse_event_id(data)) in ids:
                    found.setdefault(id, (b"", []))[1].append((stream, entry))


def _find_known_entries(log: RedisLog, ids: Sequence[str]) -> dict[str, bytes]:
    ids = list(dict.fromkeys(ids))
    if not ids:
        return {}
    [entries] = log.client.run_commands(("HMGET", log.keys.ids, *ids))
    return {id: entry for id, entry in zip(ids, entries, strict=True) if entry}


def _read_entries(log: RedisLog, stream: str, entries: dict[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield those of these entries that a stream has."""
    answers = log.client.run_commands(*(("XRANGE", stream, entry, entry) for entry in entries.values())) if entries else []
    for (id, entry), answer in zip(list(entries.items()), answers, strict=True):
        if answer:
            yield id, entry, entry_data(answer[0][1])


def _read_all_entries(log: RedisLog, stream: str) -> Iterator[tuple[bytes, bytes]]:
    start = "-"
    while True:
        [entries] = log.client.run_commands(("XRANGE", stream, start, "+", "COUNT", PAGE_SIZE))
        for entry, fields in entries:
            yield entry, entry_data(fields)
        if len(entries) < PAGE_SIZE:
            return
        start = f"({entries[-1][0].decode()}"


# --- The log

KeepMode = Literal["everything", "tinytown"]

MAX_ENTRIES_BY_SCOPE = {"agent": 100, "mission": 500}
MAX_TOWN_ENTRIES, MAX_OTHER_ENTRIES = 1000, 500
"""tinytown's limits for its streams, used with `?keep=tinytown`."""
TRIM_STEP = 1000
MAX_ORPHANED_IDS = 1000
MAX_TIMEOUT_SECONDS = 86_400
MAX_ERASE_ATTEMPTS = 50
_EMPTY_ARGUMENT = ""
_SETTINGS = {
    "none": "appendonly no",
    "no": "appendfsync no",
    "unknown": "an appendfsync that it did not tell",
    "everysec": "appendfsync everysec",
    "always": "appendfsync always",
}


class KnownLog(NamedTuple):
    """What a handle knows of its log at one moment."""

    id: str
    """Empty until somebody has appended to it."""
    last: Position
    """The highest position that was acknowledged, or seen as the last."""


class _EventTime(Struct):
    at: datetime | None = None


_decode_time = msgspec.json.Decoder(_EventTime).decode


class RedisLog:
    """One town on one server."""

    def __init__(
        self,
        address: str,
        *,
        town: str,
        keep: KeepMode = "everything",
        timeout: float = 10.0,
        ca: str | None = None,
        require_durable: bool = False,
    ) -> None:
        self._town, self._keep_mode = town, keep
        self.keys = TownKeys(town)
        self.client = RedisClient(address, timeout=timeout, ca=ca)
        self._tails: WeakSet[RedisTail] = WeakSet()
        self._new_log_id = clock.uuid7()
        self._log_id, self._last = KnownLog("", "")
        self._lost: LogError | None = None
        self._settings_check = PeriodicCheck()
        try:
            self._server, self._settings = check_server(self.client)
            if require_durable and self._settings.durability != "always":
                raise Unsuitable(
                    f"{self.client.address}: ?require=durable, but it offers: {_describe_durability(self._settings.durability)};"
                    " set appendonly yes and appendfsync always on the server"
                )
            self._check_keep_mode()
            self._learn_identity()
            with suppress(Denied, Unwritable, StorageFull):  # a read-only user cannot delete them
                self._drop_orphaned_ids()
        except BaseException as error:
            if isinstance(error, LogError):
                error = self._name_wrong_key(error)
            self.client.close()
            raise error

    # --- writing

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that is not rejected, all in one round trip."""
        self._check_usable()
        calls = [self._append_call(batch.records, batch.expect) for batch in batches if batch.records]
        try:
            answers = iter(self.client.run_scripts(calls) if calls else ())
        except ConnectionBroken as broken:
            raise self.client.make_unanswered_error(broken, [record.id for batch in batches for record in batch.records]) from broken
        outcomes = [self._parse_outcome(batch, next(answers)) if batch.records else [] for batch in batches]
        if any(isinstance(outcome, StorageFull) for outcome in outcomes):
            self._check_settings()  # with an unsafe eviction policy, "no memory" means that events are being deleted
        if not self._log_id:
            self._learn_identity()
        return outcomes

    # --- is it still the log that was opened?

    def _check_usable(self) -> None:
        """Raise if the log was lost, or if the server's settings have become unsafe. Asks the server once a minute."""
        if self._lost is not None:
            raise self._lost
        if self._settings_check.is_due():
            self._check_settings()
            self._settings_check.mark_passed()

    def _check_settings(self) -> None:
        _, settings = check_server(self.client)
        if DURABILITIES.index(settings.durability) < DURABILITIES.index(self._settings.durability):
            raise Unsuitable(
                f"{self.client.address}: the server's durability was reduced while the log was open: {_SETTINGS[self._settings.durability]}"
                f" before, {_SETTINGS[settings.durability]} now; nothing more is acknowledged; set it back, or open the log again"
            )

    def _learn_identity(self) -> None:
        known = self.known_log
        [(log_id, last)] = self.client.run_commands(("HMGET", self.keys.meta, "log_id", "last"))
        self.check_identity(log_id, last, known)

    def check_identity(self, log_id: bytes | None, last: bytes | None, known: KnownLog) -> None:
        """Raise if the server has another log than this handle opened, or an older copy of it.

        `known` is `known_log` from before the server was asked: other threads append meanwhile, and the first append makes the id.
        """
        expected_id = self._log_id if log_id else known.id
        if expected_id and (log_id or b"").decode() != expected_id:
            self._raise_lost("was deleted or replaced by another (FLUSHALL, an eviction, or an empty server in its place)")
        if known.last and (not last or to_position(last) < known.last):
            self._raise_lost(f"is an older copy that lacks events (a failover or a restore): its last position is not {known.last}")
        if log_id:
            self._log_id = log_id.decode()
        if last:
            self._last = max(self._last, to_position(last))

    @property
    def known_log(self) -> KnownLog:
        """The log's id and the highest position, which the server must have."""
        return KnownLog(self._log_id, self._last)

    def _raise_lost(self, how: str) -> NoReturn:
        self._lost = LogError(
            f"{self.client.address}: the log of the town {self._town} {how}; this handle acknowledges nothing more:"
            " bring the server's data back if you can, then restart this process, or open the log again with connect()"
        )
        raise self._lost

    def _append_call(self, records: Sequence[Record], expect: Expect | None = None) -> Command:
        targets = _ScriptKeys(self.keys)
        expected = targets.key_number(self.keys.stream(expect.scope)) if expect is not None else 0
        head = _expected_entry(expect)
        events: list[str | bytes] = []
        for record in records:
            events += (record.id, *encode_entry(record.kind, record.raw, self._town), targets.stream_numbers(record.scopes))
        arguments = [*self._identity_arguments(), self._stream_limits(targets), expected, head, len(records), *events]
        for number, record in enumerate(records, 1):
            if record.blobs:
                arguments += (number, record.blobs)
        return self.client.make_script_command(scripts.APPEND, targets.keys, arguments)

    def _identity_arguments(self) -> list[str]:
        return [self._new_log_id, self._log_id, to_entry_id(self._last) if self._last else _EMPTY_ARGUMENT]

    def _stream_limits(self, targets: _ScriptKeys) -> str:
        if self._keep_mode == "everything":
            return _EMPTY_ARGUMENT
        kinds = [stream.removeprefix(f"{self.keys.events}:").partition(":")[0] for stream in targets.streams]
        return " ".join(map(str, (MAX_TOWN_ENTRIES, *(MAX_ENTRIES_BY_SCOPE.get(kind, MAX_OTHER_ENTRIES) for kind in kinds))))

    def _check_keep_mode(self) -> None:
        if self._keep_mode == "tinytown" and self.client.run_commands(("EXISTS", self.keys.seal)) != [0]:
            raise Denied(
                f"{self.client.address}: this town is sealed, and ?keep=tinytown would cut off what its goals rest on; leave it out"
            )

    def _parse_outcome(self, batch: AppendBatch, answer: Answer) -> AppendOutcome:
        try:
            status, *rest = self.client.unwrap_answer(answer)
        except LogError as error:
            return self._name_wrong_key(error, batch.records)
        if status == b"ok":
            positions = [to_position(entry) for entry in rest]
            self._last = max(self._last, *positions)
            return positions
        if status == b"lost":
            self.check_identity(rest[0], rest[1], self.known_log)
            self._raise_lost("lacks its stream of events, which another program deleted or the server evicted")
        if status == b"forgotten":
            return Forgotten([id.decode() for id in rest])
        assert batch.expect is not None
        return Conflict(batch.expect.scope, batch.expect.head, to_position(rest[0]) if rest[0] else None)

    def _name_wrong_key(self, error: LogError, records: Sequence[Record] = ()) -> LogError:
        """Return the error for a key of another type, with the key's name, which the server's answer may lack."""
        if "WRONGTYPE" not in str(error):
            return error
        wanted = dict.fromkeys(self.keys.own_keys, b"hash") | {self.keys.events: b"stream", self.keys.forgotten: b"set"}
        for record in records:
            wanted |= dict.fromkeys(self.keys.stream_keys(record.scopes), b"stream")
        types = self.client.run_commands(*(("TYPE", key) for key in wanted))
        for (key, kind), found in zip(wanted.items(), types, strict=True):
            if found not in (kind, b"none"):
                return LogError(
                    f"{self.client.address}: the key {key} is a {found.decode()} of another program, but must be a {kind.decode()};"
                    f" rename or delete it (WRONGTYPE)"
                )
        return error

    def trim(self, before: Position) -> int:
        """Delete the oldest records: hide them first, then remove a thousand at a time. Safe to repeat after an interruption."""
        limit = to_entry_id(before)
        if before > MIN_POSITION:
            self._raise_horizon(before, limit)
        [horizon] = self.client.run_commands(("HGET", self.keys.meta, "horizon"))
        if horizon is None:
            return 0
        count = 0
        keys = [self.keys.events, self.keys.ids, self.keys.removed, self.keys.blobs]
        while step := self.client.run_script(scripts.CUT_TOWN, keys, [horizon, TRIM_STEP]):
            count += step
        for streams in self.scope_streams():
            self.client.run_script(scripts.CUT_SCOPES, [self.keys.removed, *streams], [horizon])
        self._drop_orphaned_ids()
        self._drop_orphaned_blobs()
        return count

    def _raise_horizon(self, before: Position, limit: str) -> None:
        [cut, newest] = self.client.run_commands(
            ("XREVRANGE", self.keys.events, f"({limit}", "-", "COUNT", 1), ("XREVRANGE", self.keys.events, "+", "-", "COUNT", 1)
        )
        if cut:
            horizon = min(position_before(before), to_position(newest[0][0]))
            self.client.run_script(scripts.RAISE_HORIZON, [self.keys.meta], [to_entry_id(horizon), cut[0][0]])

    def scope_streams(self) -> Iterator[list[str]]:
        """Yield the streams of every scope of the town, in chunks."""
        cursor: bytes | int = 0
        while True:
            [(cursor, names)] = self.client.run_commands(
                ("SCAN", cursor, "MATCH", self.keys.scope_pattern, "COUNT", 1000, "TYPE", "stream")
            )
            if streams := [name.decode() for name in names if self.keys.is_scope_stream(name)]:
                yield streams
            if cursor == b"0":
                return

    def _drop_orphaned_ids(self) -> None:
        """Delete the ids of events that others trimmed from the town's stream, as tinytown's writers do."""
        [known, length, first] = self.client.run_commands(
            ("HLEN", self.keys.ids), ("XLEN", self.keys.events), ("XRANGE", self.keys.events, "-", "+", "COUNT", 1)
        )
        if not first or known <= length + MAX_ORPHANED_IDS:
            return
        oldest, cursor = to_position(first[0][0]), b"0"
        while True:
            [(cursor, pairs)] = self.client.run_commands(("HSCAN", self.keys.ids, cursor, "COUNT", 1000))
            orphaned = [part for pair in zip(pairs[::2], pairs[1::2], strict=True) if to_position(pair[1]) < oldest for part in pair]
            if orphaned:
                self.client.run_script(scripts.DROP_IDS, [self.keys.ids, self.keys.blobs], orphaned)
            if cursor == b"0":
                return

    def _drop_orphaned_blobs(self) -> None:
        """Delete the whole texts of events that 0.1, which does not know of them, has trimmed or erased."""
        [ids] = self.client.run_commands(("HKEYS", self.keys.blobs))
        for start in range(0, len(ids), TRIM_STEP):
            self.client.run_script(scripts.DROP_BLOBS, [self.keys.ids, self.keys.blobs], ids[start : start + TRIM_STEP])

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete these records from all their streams, and keep only the hashes of their ids."""
        count = 0
        for _ in range(MAX_ERASE_ATTEMPTS):
            found = find_copies(self, ids)
            count = max(count, len(found))  # on a retry they may be gone: the answer of the first call was lost
            targets = _ScriptKeys(self.keys)
            erase_arguments: list[str | bytes | int] = []
            for id in ids:
                known, copies = found.get(id, NO_COPIES)
                erase_arguments += (id, known, len(copies))
                for stream, entry in copies:
                    erase_arguments += (targets.key_number(stream), entry)
            event = (
                forgotten_event.id,
                *encode_entry(forgotten_event.kind, forgotten_event.raw, self._town),
                targets.stream_numbers(forgotten_event.scopes),
            )
            arguments = [*self._identity_arguments(), self._stream_limits(targets), 0, _EMPTY_ARGUMENT, 1, *event, *erase_arguments]
            [status, *_] = self.client.run_script(scripts.ERASE, targets.keys, arguments)
            if status == b"lost":
                self._learn_identity()
                self._raise_lost("lacks its stream of events, which another program deleted or the server evicted")
            if status != b"again":  # "again": an event was added or removed since find_copies
                self._drop_orphaned_blobs()
                return count
        raise Busy(f"{self.client.address}: these events are being written all the time; try again")

    # --- reading

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the selected records."""
        stream = self.keys.stream(query.scope)
        low, high = query.after or "", query.before or ""
        for position in filter(None, (low, high)):
            to_entry_id(position)  # raises Invalid
        filtered = bool(query.kinds) or query.since is not None
        rows: list[StoredRecord] = []
        self._check_usable()
        while len(rows) < query.limit and low < MAX_POSITION and high != MIN_POSITION:
            size = PAGE_SIZE if filtered else query.limit
            floor, ceiling = f"({to_entry_id(low)}" if low else "-", f"({to_entry_id(high)}" if high else "+"
            range_command = ("XREVRANGE", stream, ceiling, floor) if query.newest_first else ("XRANGE", stream, floor, ceiling)
            known = self.known_log
            try:
                entries, (horizon, erased, log_id, last) = self.client.run_commands(
                    (*range_command, "COUNT", size), ("HMGET", self.keys.meta, "horizon", "erased", "log_id", "last")
                )
            except LogError as error:
                raise self._name_wrong_key(error) from error
            self.check_identity(log_id, last, known)
            hidden = to_position(horizon) if horizon else ""
            wanted = [entry for entry in entries if matches_kind(entry_kind(entry[1]), query.kinds)]
            rows += [
                row
                for row in self.decode_entries(wanted, erased=bool(erased))
                if row.position > hidden and _happened_since(row, query.since)
            ]
            low = max(low, hidden)
            if len(entries) < size:
                break
            last = to_position(entries[-1][0])
            if not query.newest_first:
                low = max(low, last)
            elif last <= low:
                break
            else:
                high = last
        return rows[: query.limit]

    def decode_entries(self, entries: Sequence[Any], *, erased: bool) -> list[StoredRecord]:
        """Decode entries. If anything was erased, hide erased tinytown events, which tinytown may write again."""
        rows = [decode_entry(entry, fields) for entry, fields in entries]
        if not erased:
            return rows
        foreign_ids = {
            row.position: event.id
            for row, (_, fields) in zip(rows, entries, strict=True)
            if (event := decode_foreign_event(entry_data(fields)))
        }
        if not foreign_ids:
            return rows
        hashes = [sha1(str(id).encode(), usedforsecurity=False).hexdigest() for id in foreign_ids.values()]
        [answers] = self.client.run_commands(("SMISMEMBER", self.keys.forgotten, *hashes))
        hidden = {position for position, is_forgotten in zip(foreign_ids, answers, strict=True) if is_forgotten}
        return [row for row in rows if row.position not in hidden]

    def tail(self, scope: str, after: Position | None) -> RedisTail:
        """Return a cursor that waits for new records, on its own connection."""
        self.client.check_open()
        if after is not None:
            to_entry_id(after)
        tail = RedisTail(self, self.keys.stream(scope), after)
        self._tails.add(tail)
        return tail

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids."""
        hidden = self._read_horizon() or ""
        rows = {entry: decode_entry(entry, [b"data", data]) for _, entry, data in find_town_entries(self, ids)}
        return sorted((row for row in rows.values() if row.position > hidden), key=lambda row: row.position)

    def get_blobs(self, id: str) -> bytes | None:
        """Return the whole texts of a record."""
        [packed] = self.client.run_commands(("HGET", self.keys.blobs, id))
        return None if packed is None else bytes(packed)

    def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        newest = self.read(LogQuery(scope=scope, newest_first=True, limit=1))
        return newest[0].position if newest else None

    def _read_horizon(self) -> Position | None:
        [horizon] = self.client.run_commands(("HGET", self.keys.meta, "horizon"))
        return to_position(horizon) if horizon else None

    def info(self) -> LogInfo:
        """Describe this log."""
        length, first, values = self.client.run_commands(
            ("XLEN", self.keys.events), ("XRANGE", self.keys.events, "-", "+", "COUNT", 1), ("HMGET", self.keys.meta, "log_id", "keep")
        )
        if length and values[0] is None:  # only tinytown has written until now
            with suppress(Denied, Unwritable, StorageFull):  # a read-only user cannot set one
                self.client.run_commands(("HSETNX", self.keys.meta, "log_id", self._new_log_id))
            [values] = self.client.run_commands(("HMGET", self.keys.meta, "log_id", "keep"))
        log_id, keep = ("" if value is None else value.decode() for value in values)
        horizon = self._read_horizon()
        _, settings = check_server(self.client)
        return LogInfo(
            backend="redis",
            town=self._town,
            log_id=log_id,
            events=length,
            first=to_position(first[0][0]) if first else None,
            head=self.head(TOWN),
            trimmed_before=position_after(horizon) if horizon else None,
            bytes=self._memory_bytes(),
            dedup="as long as the event is kept",
            durability=_describe_durability(settings.durability),
            details={
                "server": self._server,
                "address": self.client.address,
                "keeps": keep or self._keep_mode,
                "cut_by_others": self.count_foreign_removals(),
                "eviction": settings.eviction,
                "maxmemory": settings.max_memory,
                "appendfsync": settings.durability,
            },
        )

    def _memory_bytes(self) -> int:
        names = [self.keys.events, *self.keys.own_keys]
        for streams in self.scope_streams():
            names += streams
        try:
            sizes = self.client.run_commands(*(("MEMORY", "USAGE", name) for name in names))
        except Denied:
            return 0
        return sum(size or 0 for size in sizes)

    def count_foreign_removals(self, stream: str = "") -> int:
        """Return how many entries others removed from a stream, by default the town's."""
        stream = stream or self.keys.events
        try:
            info, removed = self.client.run_commands(("XINFO", "STREAM", stream), ("HGET", self.keys.removed, stream))
        except LogError:  # no stream yet
            return 0
        facts = dict(zip(info[::2], info[1::2], strict=True))
        return int(facts[b"entries-added"]) - int(facts[b"length"]) - int(removed or 0)

    def check(self, progress: Progress | None = None) -> LogCheckReport:
        """Read the whole town and report what is damaged or missing."""
        return check_town(self, self._town, progress)

    def close(self) -> None:
        """Close every connection; waiting tails return."""
        self.client.close()
        for tail in list(self._tails):
            tail.close()


class _ScriptKeys:
    """The keys that one script call uses, and their numbers in KEYS."""

    def __init__(self, keys: TownKeys) -> None:
        self._names = keys
        self.keys = [keys.events, *keys.own_keys]
        self._numbers = {keys.events: 1}
        self._number_cache: dict[tuple[str, ...], bytes] = {}
        self._own_key_count = len(self.keys)

    def stream_numbers(self, scopes: tuple[str, ...]) -> bytes:
        """Return the key numbers of an event's streams, the town's first, as two bytes each."""
        numbers = self._number_cache.get(scopes)
        if numbers is None:
            streams = (self._names.events, *self._names.stream_keys(scopes))
            numbers = self._number_cache[scopes] = b"".join([self.key_number(stream).to_bytes(2, "big") for stream in streams])
        return numbers

    def key_number(self, stream: str) -> int:
        """Return the number of a stream's key, counted from one as in Lua."""
        number = self._numbers.get(stream)
        if number is None:
            self.keys.append(stream)
            number = self._numbers[stream] = len(self.keys)
        return number

    @property
    def streams(self) -> list[str]:
        """The scopes' streams, in the order of their numbers."""
        return self.keys[self._own_key_count :]


def _describe_durability(durability: str) -> str:
    match durability:
        case "none":
            return "none against a crash of the server: its append-only file is off (appendonly yes turns it on)"
        case "unknown":  # managed servers refuse CONFIG
            return "the server's append-only file is on; how often it is synced, the server does not tell"
        case "always":
            return "every acknowledged append is on the server's disk"
        case policy:
            lost = "the last second or two" if policy == "everysec" else "the newest"
            return f"safe from crashes of the server's program; a power cut may take {lost} (appendfsync always: nothing)"


def _expected_entry(expect: Expect | None) -> str:
    """Return the entry id that must be the newest; an impossible one for a position of another log."""
    if expect is None or expect.head is None:
        return _EMPTY_ARGUMENT
    try:
        return to_entry_id(expect.head)
    except Invalid:
        return "no entry"


def _happened_since(row: StoredRecord, since: datetime | None) -> bool:
    if since is None:
        return True
    try:
        at = _decode_time(row.raw).at
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # unreadable: passed on, so that the reader sees a log.rejected event
    return at is not None and at >= since


def parse_options(options: dict[str, str]) -> dict[str, Any]:
    """Parse `?keep=`, `?timeout=`, `?require=` and `?ca=`; raise `InvalidUrl` for anything else."""
    known: dict[str, Any] = {}
    for name, value in options.items():
        if name == "keep" and value in ("everything", "tinytown"):
            known["keep"] = value
        elif name == "timeout" and value.replace(".", "", 1).isdecimal() and 0 < float(value) <= MAX_TIMEOUT_SECONDS:
            known["timeout"] = float(value)
        elif name == "ca" and value:
            known["ca"] = os.path.expanduser(value)
        elif name == "require" and value == "durable":
            known["require_durable"] = True
        else:  # the value is not shown: it may be a password
            raise InvalidUrl(
                f"?{name}=: not an option of redis:, or no value for it;"
                " say keep=everything|tinytown, timeout=SECONDS, require=durable or ca=FILE"
            )
    return known
