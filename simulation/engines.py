"""Simulated storage engines: what SQLite, Redis and JetStream document about durability, answers and failures.

Each executes commands on the same store, one at a time, and writes those that change something to virtual files. They differ in what is
on disk when a command is answered, in what a crash loses, and in how long they cannot be reached. After a crash the store is built again
from what the disk holds, so nothing survives that was not written.

- `FileEngine` (SQLite, WAL, `synchronous=FULL`): processes of one machine share a file. A commit is synced before it is answered. A killed
  process loses nothing; a power cut loses what was not synced.
- `RedisEngine`: one server. `appendfsync always` syncs before the answer, `everysec` once a second, so a power cut then loses up to a
  second of answered commands. While the server is down, connections are refused.
- `JetStreamEngine`: three replicas, each with its file, synced always. A command is answered once two replicas have it. When the leader
  is lost, requests get no answer until another replica that has every answered command is elected. A repeated id is recognised for
  `DUPLICATES_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any, Literal

from fleetlore.errors import LogError
from fleetlore.log.base import AppendBatch, AppendOutcome, Lease, LogInfo, LogQuery, Position, Record, StoredRecord, TailPage
from fleetlore.log.memory.coordination import MemoryCoordination
from fleetlore.log.memory.log import MemoryLog
from fleetlore.log.tokens import Token
from simulation.disk import VirtualFile

DUPLICATES_SECONDS = 120.0
ELECTION_SECONDS = (0.8, 6.0)
RESTART_SECONDS = (0.5, 8.0)

EngineName = Literal["sqlite", "redis", "redis-everysec", "nats"]
ENGINES: tuple[EngineName, ...] = ("sqlite", "redis", "redis-everysec", "nats")


class Unavailable(Exception):
    """The engine does not execute the command: it is down, or has no leader."""


class _WindowedLog(MemoryLog):
    """Recognises a repeated id only for a while."""

    def __init__(self, *, log_id: str, now: Callable[[], datetime]) -> None:
        super().__init__(town="default", log_id=log_id)
        self._now, self._stored_at = now, dict[str, datetime]()

    def _commit_batch(self, batch: AppendBatch) -> AppendOutcome:
        now = self._now()
        for record in batch.records:
            if (now - self._stored_at.setdefault(record.id, now)).total_seconds() > DUPLICATES_SECONDS:
                self._ids.pop(record.id, None)
                self._stored_at[record.id] = now
        return super()._commit_batch(batch)


class Store:
    """The contents of one town: events, cursors, leases, tokens and the seal."""

    def __init__(self, log_id: str, now: Callable[[], datetime], *, forgets_ids: bool) -> None:
        self.log = _WindowedLog(log_id=log_id, now=now) if forgets_ids else MemoryLog(town="default", log_id=log_id)
        self.beside = MemoryCoordination(now=now)

    def skip_positions(self, count: int) -> None:
        """Leave positions out, so that none is given twice."""
        self.log._last_sequence += count

    def execute(self, name: str, args: tuple[Any, ...]) -> Any:
        """Run a command. Refusals are returned, not raised, so that they can be answered like results."""
        owner = next(one for one in (self, self.log, self.beside) if hasattr(one, name))
        try:
            return getattr(owner, name)(*args)
        except LogError as error:
            return error


class Engine:
    """Executes commands one at a time and keeps those that change something."""

    READS = frozenset(
        ("read", "read_page", "get", "get_blobs", "head", "info", "load_cursor", "list_cursors", "find_lease", "list_tokens", "load_seal")
    )
    durability = ""
    dedup = "as long as the event is kept"

    def __init__(self, name: EngineName, log_id: str, now: Callable[[], datetime], rng: Random) -> None:
        self.name, self._log_id, self._now, self._rng = name, log_id, now, rng
        self._replayed_at: datetime | None = None
        self.is_up, self.incarnation, self.machine = True, 0, ""
        self.store = self._make_store()
        self.on_change: Callable[[], None] = lambda: None
        self.ambush: Callable[[], None] | None = None
        """A fault that happens as soon as the next command is on its way."""
        self.stored_at: dict[str, datetime] = {}
        """By event id: when it was stored, by the engine's clock."""
        self.violations: list[str] = []

    def _make_store(self) -> Store:
        return Store(self._log_id, lambda: self._replayed_at or self._now(), forgets_ids=self.name == "nats")

    def execute(self, name: str, args: tuple[Any, ...]) -> Any:
        """Run a command and make it durable; raises `Unavailable`, or returns its result or refusal."""
        if not self.is_up:
            raise Unavailable
        if name in self.READS:
            return self.store.execute(name, args)
        at = self._now()
        before = self.store.beside.find_lease(args[0].name) if name == "renew" else None
        result = self.store.execute(name, args)
        if name == "commit":
            self.stored_at.update({record.id: at for batch in args[0] for record in batch.records if record.id not in self.stored_at})
        elif name == "renew" and before is None and not isinstance(result, LogError):
            self.violations.append(f"lease {args[0].name} was renewed after it had expired")
        self._keep((at, name, args))
        self.on_change()
        return result

    def _keep(self, command: tuple[datetime, str, tuple[Any, ...]]) -> None:
        raise NotImplementedError

    def _rebuild(self, file: VirtualFile) -> None:
        self.store = self._make_store()
        for at, name, args in file.read_entries():
            self._replayed_at = at
            self.store.execute(name, args)
        self._replayed_at = None

    def call_delay(self, name: str) -> float:
        """Seconds that the engine takes for a command."""
        return self._rng.uniform(0.0001, 0.001) if name in self.READS else self._rng.uniform(0.001, 0.01)

    def crash(self, in_flight: Sequence[tuple[str, tuple[Any, ...]]] = ()) -> int:
        """Lose the power: memory is lost, and what the disk had not written. Returns how many commands that were not answered
        are on the disk.

        `in_flight` are commands that were on their way.
        """
        raise NotImplementedError

    def restart(self) -> None:
        """Recover from the disk."""
        self.is_up = True
        self.on_change()

    def describe(self, info: LogInfo) -> dict[str, Any]:
        """The fields of `info()` that depend on the engine."""
        return {"backend": f"simulated-{self.name}", "dedup": self.dedup, "durability": self.durability}


class FileEngine(Engine):
    """SQLite in WAL mode with `synchronous=FULL`."""

    durability = "every commit is synced"

    def __init__(self, *args: Any) -> None:
        self.file = VirtualFile()
        super().__init__(*args)

    def _keep(self, command: tuple[datetime, str, tuple[Any, ...]]) -> None:
        self.file.write(command)
        self.file.sync()

    def crash(self, in_flight: Sequence[tuple[str, tuple[Any, ...]]] = ()) -> int:
        self.is_up, self.incarnation = False, self.incarnation + 1
        before = self.file.entry_count if in_flight else 0
        for name, args in in_flight:  # written and not synced
            self.file.write((self._now(), name, args))
        self.file.lose_power(self._rng)
        self._rebuild(self.file)
        return self.file.entry_count - before if in_flight else 0


class RedisEngine(FileEngine):
    """One Redis or Valkey server with an append-only file."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.durability = "appendfsync everysec" if self.loses_last_second else "appendfsync always"
        self.lossy_crashes: list[datetime] = []
        """When answered commands were lost."""

    @property
    def loses_last_second(self) -> bool:
        """Whether a power cut may lose answered commands."""
        return self.name == "redis-everysec"

    def _keep(self, command: tuple[datetime, str, tuple[Any, ...]]) -> None:
        self.file.write(command)
        if not self.loses_last_second:
            self.file.sync()

    def crash(self, in_flight: Sequence[tuple[str, tuple[Any, ...]]] = ()) -> int:
        if self.file.unsynced_count:
            self.lossy_crashes.append(self._now())
        kept = super().crash(in_flight)
        command = (self._now(), "skip_positions", (1000,))  # a server's positions contain its time, so lost ones are not given again
        self.store.execute(*command[1:])
        self.file.write(command)
        self.file.sync()
        return kept

    def sync_now(self) -> None:
        """The server's sync of every second."""
        self.file.sync()


class JetStreamEngine(Engine):
    """A stream with three replicas. Two must have a command before it is answered."""

    durability = "3 replicas, sync always"
    dedup = f"{DUPLICATES_SECONDS:.0f} s"

    def __init__(self, *args: Any) -> None:
        self.files = [VirtualFile() for _ in range(3)]
        self._behind: list[list[Any]] = [[], [], []]
        """Commands that a replica has not received yet."""
        self.leader = 0
        super().__init__(*args)

    def _keep(self, command: tuple[datetime, str, tuple[Any, ...]]) -> None:
        others = [node for node in range(3) if node != self.leader]
        slow = self._rng.choice(others)
        for node in range(3):
            self._behind[node].append(command)
            if node != slow or self._rng.random() < 0.5:
                self._deliver(node)

    def _deliver(self, node: int) -> None:
        for command in self._behind[node]:
            self.files[node].write(command)
        self.files[node].sync()
        self._behind[node].clear()

    def crash(self, in_flight: Sequence[tuple[str, tuple[Any, ...]]] = ()) -> int:
        """Lose the leader; the next one is the replica that has most."""
        self.is_up, self.incarnation = False, self.incarnation + 1
        self.files[self.leader].lose_power(self._rng)
        others = [node for node in range(3) if node != self.leader]
        self.leader = min(others, key=lambda node: len(self._behind[node]))
        self._rebuild(self.files[self.leader])
        return 0

    def restart(self) -> None:
        for node in range(3):
            self._deliver(node)
        super().restart()

    def call_delay(self, name: str) -> float:
        return super().call_delay(name) + (0.0 if name in self.READS else self._rng.uniform(0.0005, 0.005))


def make_engine(name: EngineName, log_id: str, now: Callable[[], datetime], rng: Random) -> Engine:
    """Return an empty engine."""
    kind = {"sqlite": FileEngine, "redis": RedisEngine, "redis-everysec": RedisEngine, "nats": JetStreamEngine}[name]
    return kind(name, log_id, now, rng)


# --- what a process sees of an engine


class Link:
    """How a process reaches an engine. This one is direct, for the contract suite; `network.py` has the one with faults."""

    def __init__(self, engine: Engine, changed: Any) -> None:
        self.engine, self.changed = engine, changed

    def call(self, name: str, *args: Any) -> Any:
        """Run a command of the engine and return its result; raises its refusal."""
        result = self.engine.execute(name, args)
        if isinstance(result, LogError):
            raise result
        return result

    def read_clock(self) -> float:
        """Seconds for timeouts."""
        raise NotImplementedError

    def wait_for_change(self, seconds: float) -> None:
        """Wait until something was stored, at most so many seconds."""
        raise NotImplementedError


class SimulatedLog:
    """A `Backend` on a simulated engine."""

    def __init__(self, link: Link) -> None:
        self._link, self._closed = link, False

    def commit(self, batches: Sequence[AppendBatch]) -> list[AppendOutcome]:
        """Store each batch that is not refused."""
        outcomes: list[AppendOutcome] = self._call("commit", list(batches))
        return outcomes

    def read(self, query: LogQuery) -> list[StoredRecord]:
        """Return the selected records."""
        rows: list[StoredRecord] = self._call("read", query)
        return rows

    def tail(self, scope: str, after: Position | None) -> SimulatedTail:
        """Return a cursor that waits for new records."""
        return SimulatedTail(self, self._link, scope, after)

    def get(self, ids: Sequence[str]) -> list[StoredRecord]:
        """Return the records with these ids."""
        rows: list[StoredRecord] = self._call("get", list(ids))
        return rows

    def get_blobs(self, id: str) -> bytes | None:
        """Return the whole texts of a record."""
        blobs: bytes | None = self._call("get_blobs", id)
        return blobs

    def head(self, scope: str) -> Position | None:
        """Return the newest position in a scope."""
        position: Position | None = self._call("head", scope)
        return position

    def trim(self, before: Position) -> int:
        """Delete the oldest records."""
        count: int = self._call("trim", before)
        return count

    def erase(self, ids: Sequence[str], forgotten_event: Record) -> int:
        """Delete records for good."""
        count: int = self._call("erase", list(ids), forgotten_event)
        return count

    def info(self) -> LogInfo:
        """Describe this log."""
        from msgspec.structs import replace

        info: LogInfo = self._call("info")
        return replace(info, **self._link.engine.describe(info))

    def close(self) -> None:
        """Close the handle; waiting tails return."""
        self._closed = True
        self._link.changed.notify()

    def _call(self, name: str, *args: Any) -> Any:
        self.check_open()
        return self._link.call(name, *args)

    def check_open(self) -> None:
        """Raise `Closed` after `close`."""
        if self._closed:
            from fleetlore.errors import Closed

            raise Closed("the log was closed; open it again with connect()")


class SimulatedTail:
    """Waits for new records in a scope."""

    def __init__(self, log: SimulatedLog, link: Link, scope: str, after: Position | None) -> None:
        self._log, self._link, self._scope, self._after, self._closed = log, link, scope, after, False

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records, or an empty page after `timeout`."""
        deadline = self._link.read_clock() + timeout
        while not self._closed:
            self._log.check_open()
            page: TailPage = self._link.call("read_page", self._scope, self._after)
            if page.rows or page.gap:
                self._after = page.rows[-1].position if page.rows else page.gap
                return page
            left = deadline - self._link.read_clock()
            if left <= 0:
                break
            self._link.wait_for_change(left)
        return TailPage([])

    def close(self) -> None:
        """Stop waiting."""
        self._closed = True
        self._link.changed.notify()


class SimulatedCoordination:
    """A `CoordinationStore` on a simulated engine."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def load_cursor(self, name: str) -> Position | None:
        """Return the position of a cursor."""
        position: Position | None = self._link.call("load_cursor", name)
        return position

    def commit_cursor(self, name: str, position: Position) -> None:
        """Set a cursor."""
        self._link.call("commit_cursor", name, position)

    def list_cursors(self) -> dict[str, Position]:
        """Return all cursors."""
        cursors: dict[str, Position] = self._link.call("list_cursors")
        return cursors

    def delete_cursor(self, name: str) -> None:
        """Delete a cursor."""
        self._link.call("delete_cursor", name)

    def acquire(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Acquire a lease if it is free or already the holder's."""
        lease: Lease | None = self._link.call("acquire", name, holder, seconds)
        return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """Extend a lease."""
        renewed: Lease = self._link.call("renew", lease, seconds)
        return renewed

    def release(self, lease: Lease) -> None:
        """End a lease, if it is still this acquisition."""
        self._link.call("release", lease)

    def find_lease(self, name: str) -> Lease | None:
        """Return the current lease."""
        lease: Lease | None = self._link.call("find_lease", name)
        return lease

    def save_token(self, token: Token) -> None:
        """Store a token."""
        self._link.call("save_token", token)

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        tokens: list[Token] = self._link.call("list_tokens")
        return tokens

    def delete_token(self, id: str) -> None:
        """Delete a token."""
        self._link.call("delete_token", id)

    def load_seal(self) -> bytes | None:
        """Return the seal."""
        seal: bytes | None = self._link.call("load_seal")
        return seal

    def set_seal(self, seal: bytes, expect: bytes | None) -> bool:
        """Replace the seal."""
        is_set: bool = self._link.call("set_seal", seal, expect)
        return is_set

    def close(self) -> None:
        """Nothing to close."""
