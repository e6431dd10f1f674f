"""What must hold at the end of a run. Each function reports what does not (`World.report_violation`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, LogQuery, StoredRecord, event_scopes
from fleetlore.log.reading import decode_stored
from simulation.engines import RedisEngine
from simulation.world import CALL_TIMEOUT, START, World

FLIPS = 5
SYNC_SECONDS = 1.1
"""How old an unsynced command can be."""


@dataclass
class AppendCall:
    """One append as its caller saw it."""

    caller: str
    id: str
    started: float
    ended: float | None = None
    """When it was acknowledged; `None` if its outcome is unknown."""
    position: str | None = None


@dataclass
class ReadCall:
    """One read of a whole scope as its caller saw it: the newest position it returned."""

    scope: str
    started: float
    ended: float
    newest: str | None


@dataclass
class History:
    """What clients saw during a run."""

    appends: list[AppendCall] = field(default_factory=list)
    reads: list[ReadCall] = field(default_factory=list)
    deliveries: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By follower: position and id of each event that it handled, over all its restarts."""
    epochs: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By lease: epoch and holder of each acquisition, as the holders saw them."""


def read_all_events(world: World, label: str = "log") -> list[Event]:
    """The log as the engine has it at the end."""
    return [decode_stored(row) for row in world.engines[label].store.log.read(LogQuery(limit=1_000_000))]


class LogReader:
    """Reads a log step by step, to see whether a run is done. Not for engines that lose what they answered."""

    def __init__(self, world: World, label: str = "log") -> None:
        self._engine = world.engines[label]
        self._position: str | None = None

    def read_new_events(self) -> list[Event]:
        """Events that were stored since the last call."""
        events = [decode_stored(row) for row in self._engine.store.log.read(LogQuery(after=self._position, limit=1_000_000))]
        self._position = events[-1].position if events else self._position
        return events


def check_appends(world: World, history: History, events: Sequence[Event]) -> None:
    """Everything acknowledged is stored once, at its position; and order follows acknowledgements."""
    stored: dict[str, list[str]] = {}
    for event in events:
        stored.setdefault(event.id or "", []).append(event.position or "")
    for id, positions in stored.items():
        if len(positions) > 1:
            world.report_violation(f"event {id} is stored {len(positions)} times")
    for call in history.appends:
        if call.ended is None:
            continue
        if call.id not in stored:
            if not _may_be_lost(world, call):
                world.report_violation(f"event {call.id} of {call.caller} was acknowledged and is lost")
        elif call.position != stored[call.id][0]:
            world.report_violation(f"event {call.id} of {call.caller} was acknowledged at {call.position} and is at {stored[call.id][0]}")
    _check_real_time_order(world, [call for call in history.appends if call.id in stored])


def _may_be_lost(world: World, call: AppendCall) -> bool:
    """A server that syncs every second loses what it acknowledged within the second before a power cut."""
    engine = world.engines["log"]
    assert call.ended is not None
    if not isinstance(engine, RedisEngine):
        return False
    crashes = [(at - START).total_seconds() for at in engine.lossy_crashes]
    return any(at - SYNC_SECONDS <= call.ended <= at + CALL_TIMEOUT for at in crashes)


def _check_real_time_order(world: World, calls: Sequence[AppendCall]) -> None:
    """An append that began after another was acknowledged has the higher position."""
    acknowledged = sorted((call for call in calls if call.ended is not None), key=lambda call: call.ended or 0)
    newest, index = "", 0
    for call in sorted(calls, key=lambda call: call.started):
        while index < len(acknowledged) and (acknowledged[index].ended or 0) < call.started:
            newest, index = max(newest, acknowledged[index].position or ""), index + 1
        if call.position is not None and call.position <= newest:
            world.report_violation(f"event {call.id} began after {newest} was acknowledged and is at {call.position}")


def check_reads(world: World, history: History, events: Sequence[Event]) -> None:
    """Reads of a scope are linearizable: they see what was acknowledged before them, nothing that began after, and never go back."""
    if isinstance(world.engines["log"], RedisEngine) and world.engines["log"].lossy_crashes:
        return
    scopes = {event.id: (TOWN, *event_scopes(event)) for event in events}
    for scope in sorted({read.scope for read in history.reads}):
        appends = [call for call in history.appends if scope in scopes.get(call.id, ())]
        reads = sorted((read for read in history.reads if read.scope == scope), key=lambda read: read.started)
        for read in reads:
            newest = read.newest or ""
            for call in appends:
                if call.ended is not None and call.ended < read.started and (call.position or "") > newest:
                    world.report_violation(f"a read of {scope} at {read.started:.3f} missed {call.id}, acknowledged before")
                if call.started > read.ended and call.position is not None and call.position <= newest:
                    world.report_violation(f"a read of {scope} saw {call.id} before it was appended")
            earlier = max((other.newest or "" for other in reads if other.ended < read.started), default="")
            if newest < earlier:
                world.report_violation(f"a read of {scope} at {read.started:.3f} went back from {earlier} to {newest}")


def check_followers(world: World, history: History, events: Sequence[Event]) -> None:
    """Each follower handled every event once, in order."""
    engine = world.engines["log"]
    has_lost = isinstance(engine, RedisEngine) and bool(engine.lossy_crashes)
    wanted = [(event.position or "", event.id or "") for event in events]
    kept = set(wanted)
    for name, delivered in history.deliveries.items():
        if any(before >= after for (before, _), (after, _) in pairwise(delivered)):
            world.report_violation(f"{name} got events out of order")
        found = [one for one in delivered if one in kept] if has_lost else delivered
        if found != wanted:
            missed = [one for one in wanted if one not in set(found)]
            twice = len(found) - len(set(found))
            world.report_violation(f"{name} got {len(found)} of {len(wanted)} events: {len(missed)} missed, {twice} twice")


def check_epochs(world: World, history: History) -> None:
    """Each epoch of a lease has one holder."""
    for name, epochs in history.epochs.items():
        holders: dict[int, str] = {}
        for epoch, holder in epochs:
            if holders.setdefault(epoch, holder) != holder:
                world.report_violation(f"lease {name}: epoch {epoch} was given to {holders[epoch]} and to {holder}")


def check_fencing(world: World, events: Iterable[Event], scope_of: str) -> None:
    """In a leased scope nothing of an older epoch follows what a newer epoch wrote."""
    newest: dict[str, int] = {}
    for event in events:
        name, epoch = getattr(event, scope_of), event.data.get("epoch")
        if name is None or not isinstance(epoch, int):
            continue
        if epoch < newest.get(name, 0):
            world.report_violation(f"{scope_of} {name}: epoch {epoch} wrote at {event.position} after epoch {newest[name]}")
        newest[name] = max(newest.get(name, 0), epoch)


def flip_bits(world: World, fold: Callable[[Sequence[Event]], object], label: str = "log") -> None:
    """Flip bits of stored records, one after the other. Every record is still returned at its position, the others as they were; the
    fold takes what is left.
    """
    rows, before = world.engines[label].store.log._rows, read_all_events(world, label)
    for _ in range(FLIPS if rows else 0):
        sequence = world.rng.choice(list(rows))
        row = rows[sequence]
        raw = bytearray(row.stored.raw)
        raw[world.rng.randrange(len(raw))] ^= 1 << world.rng.randrange(8)
        rows[sequence] = row._replace(stored=StoredRecord(row.stored.position, bytes(raw)))
        world.effects["bits flipped"] += 1
        world.tell_story(f"A bit of {label} flips at {row.stored.position}")
        try:
            after = read_all_events(world, label)
            fold(after)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            world.report_violation(f"a flipped bit at {row.stored.position} is an exception: {error!r}")
        else:
            if [event.position for event in after] != [event.position for event in before]:
                world.report_violation(f"a flipped bit at {row.stored.position} hides records")
            changed = [old.position for old, new in zip(before, after, strict=False) if old != new]
            if not set(changed) <= {row.stored.position}:
                world.report_violation(f"a flipped bit at {row.stored.position} changes {changed}")
            world.effects["damaged records rejected"] += any(
                event.kind == "log.rejected" and event.position == row.stored.position for event in after
            )
        rows[sequence] = row


def check_leases(world: World, events: Iterable[Event]) -> None:
    """Each epoch of a task is held by one agent."""
    holders: dict[tuple[str, int], str] = {}
    for event in events:
        if event.kind == "town.task_assigned" and event.task is not None and event.agent is not None:
            key = event.task, event.data["epoch"]
            if holders.setdefault(key, event.agent) != event.agent:
                world.report_violation(f"task {event.task}: epoch {key[1]} was assigned to {holders[key]} and to {event.agent}")
