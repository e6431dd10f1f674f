"""Outcome records of sessions, kept in the store: one row per session, indexed by time.

A row holds the session's folded facts and, unless the clock can still change it, the finished record as JSON. New events
update only the rows of their sessions, so the time to answer depends on what is asked and on what is new, not on the
length of the log. Without a store the log is folded for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple
from zlib import compress, decompress
from zlib import error as NotCompressed

import apsw
import msgspec

from fleetlore import clock
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position, check_scope, epoch_microseconds
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.file import ask
from fleetlore.programs import registry
from fleetlore.projections.runner import ProgressCallback, split_chunks
from fleetlore.projections.store import EventAnchor, ProjectionStore, get_fact, open_store, raise_anchor, set_fact
from fleetlore.views.costs import Costs
from fleetlore.views.outcomes import fold, session
from fleetlore.views.outcomes.record import Outcome, is_settled, make_record
from fleetlore.views.outcomes.session import SessionState

CHUNK = 5000
"""Events that are folded between two writes."""
_LEAST_EFFORT = 1
_NOT_READABLE = (msgspec.MsgspecError, NotCompressed, ValueError, TypeError)
_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(SessionState).decode
_decode_record = msgspec.json.Decoder(Outcome).decode


class Wanted(NamedTuple):
    """Which sessions are asked for."""

    since: datetime | None = None
    """Active at or after this time."""
    until: datetime | None = None
    """Begun before this time."""
    runs: frozenset[str] | None = None
    """Only these."""
    limit: int | None = None
    """At most so many, the newest."""
    upto: Position | None = None
    """As known at this position of the log."""

    def takes(self, state: SessionState) -> bool:
        """Whether a session is asked for."""
        if self.runs is not None and state.run not in self.runs:
            return False
        return (self.since is None or state.ended is None or state.ended >= self.since) and (
            self.until is None or state.started is None or state.started < self.until
        )


ALL = Wanted()


def list_outcomes(
    log: BlockingRecorder,
    *,
    now: datetime,
    costs: Costs,
    wanted: Wanted = ALL,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[bytes]:
    """The records of the sessions that are asked for as JSON, the newest first."""
    rows = None if store is None or wanted.upto is not None else _read_rows(log, store, costs, wanted, progress)
    if rows is None:
        yield from _fold_all(log, now, costs, wanted, progress)
        return
    for state, record in rows:
        if record:
            yield decompress(record)
        else:
            yield msgspec.json.encode(make_record(_decode_state(decompress(state)), now))


def find_outcomes(
    log: BlockingRecorder, *, now: datetime, costs: Costs, wanted: Wanted = ALL, store: ProjectionStore | None = None
) -> list[Outcome]:
    """The same as structs."""
    return [_decode_record(raw) for raw in list_outcomes(log, now=now, costs=costs, wanted=wanted, store=store)]


def list_sessions(
    log: BlockingRecorder,
    *,
    scope: str = TOWN,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
    now: datetime | None = None,
) -> list[Outcome]:
    """What happened in the sessions of a log, the newest first: `with connect(url).blocking() as log: list_sessions(log)`.

    `scope` is a scope of the log, such as `agent:ada` or `task:t7`. Sessions are those that were active since `since` and began
    before `until`. Costs are counted with the built-in prices.
    """
    wanted = Wanted(since, until, runs_in(log, check_scope(scope)), limit)
    with open_store(log.info()) or nullcontext() as store:
        return find_outcomes(log, now=now or clock.now(), costs=Costs(), wanted=wanted, store=store)


def _fold_all(log: BlockingRecorder, now: datetime, costs: Costs, wanted: Wanted, progress: ProgressCallback | None) -> Iterator[bytes]:
    sessions = fold.Sessions()
    done = 0
    for chunk in split_chunks(_read_events(log, wanted), CHUNK):
        for event in chunk:
            if wanted.upto is None or (event.position or "") <= wanted.upto:
                fold.apply(sessions, event, costs)
        done += len(chunk)
        if progress is not None:
            progress(done, done)
    states = [state for state in sessions.runs.values() if fold.is_row(state) and wanted.takes(state)]
    states.sort(key=lambda state: (_time(state.ended), state.run), reverse=True)
    for state in states[: wanted.limit]:
        yield msgspec.json.encode(make_record(state, now))


def _read_events(log: BlockingRecorder, wanted: Wanted) -> Iterator[Event]:
    """The events of the log, or of one session if only that is asked for."""
    runs = wanted.runs
    return log.read(f"run:{next(iter(runs))}" if runs is not None and len(runs) == 1 else TOWN)


def runs_in(log: BlockingRecorder, scope: str) -> frozenset[str] | None:
    """The sessions with events in a scope; `None` for all."""
    if scope == TOWN:
        return None
    kind, _, name = scope.partition(":")
    if kind == "run":
        return frozenset((name,))
    found = (event.run for event in log.read(scope) if kind != "agent" or event.agent == name)
    return frozenset(run for run in found if run is not None)


# --- with a store


def _read_rows(
    log: BlockingRecorder, store: ProjectionStore, costs: Costs, wanted: Wanted, progress: ProgressCallback | None
) -> list[tuple[bytes, bytes]] | None:
    """State and record of each session that is asked for; `None` if the store cannot be used."""
    if not update(log, store, costs, progress):
        return None
    return store.run_read(lambda connection: _select(connection, wanted), None)


def update(log: BlockingRecorder, store: ProjectionStore, costs: Costs, progress: ProgressCallback | None = None) -> bool:
    """Bring the rows to the log's head; whether that was possible."""
    if not store.is_synced_with(log):
        return False
    key = _key_of(costs)
    if not store.run_write(lambda connection: _keep_version(connection, key), False):
        return False
    try:
        while (outcome := _add_all(log, store, costs, key, progress)) == "again":
            pass  # another process was faster: go on behind it
    except _NOT_READABLE:  # a damaged row: all are made again next time
        store.run_write(lambda connection: _keep_version(connection, ""), False)
        return False
    return outcome == "done"


def _key_of(costs: Costs) -> str:
    """What rows depend on beside the log: the rules, the prices, and the coding agents whose tools are known."""
    installed = "".join(f"-{name}" for name in registry.PROGRAMS.list_names())
    return f"{session.VERSION}-{costs.prices.key}{installed}"


def _keep_version(connection: apsw.Connection, key: str) -> bool:
    """Delete rows that were made by other rules."""
    if get_fact(connection, "outcomes_key") != key:
        connection.execute("DELETE FROM sessions")
        set_fact(connection, "outcomes_key", key)
        set_fact(connection, "outcomes_at", None)
    return True


def _add_all(log: BlockingRecorder, store: ProjectionStore, costs: Costs, key: str, progress: ProgressCallback | None) -> str:
    after: Position | None = store.run_read(lambda connection: get_fact(connection, "outcomes_at"), None)
    done = 0
    known: dict[str, SessionState] = {}
    for chunk in split_chunks(log.read(after=after), CHUNK):
        touched = _fold_chunk(chunk, store, costs, known)
        if touched is None:
            return "failed"
        place = EventAnchor(chunk[-1].position or "", chunk[-2].position if len(chunk) > 1 else after, chunk[-1].id or "")
        outcome = store.run_write(_writing(touched, after, place, key), "failed")
        if outcome != "done":
            return outcome
        # A session that goes on is near the end of the chunk; older ones are read again if they go on after all.
        known = {run: state for run, state in touched.items() if len(touched) < 200}
        after = place.position
        done += len(chunk)
        if progress is not None:
            progress(done, done)
    return "done"


def _fold_chunk(
    events: Sequence[Event], store: ProjectionStore, costs: Costs, known: dict[str, SessionState]
) -> dict[str, SessionState] | None:
    """The sessions that these events belong to, with the events in them; `None` if the store cannot be read."""
    wanted: set[str] = {event.run for event in events if event.run is not None and event.kind in session.KINDS}
    stored = store.run_read(lambda connection: _states_of(connection, wanted - known.keys()), None)
    if stored is None:
        return None
    touched = {run: known.get(run) or stored.get(run) or session.begin(run) for run in sorted(wanted)}
    for event in events:
        if event.run is not None and event.kind in session.KINDS:
            session.apply(touched[event.run], event, costs)
    return touched


def _states_of(connection: apsw.Connection, runs: Iterable[str]) -> dict[str, SessionState] | None:
    states = {}
    for run in runs:
        for (packed,) in ask(connection, "SELECT state FROM sessions WHERE run = ?", (run,)):
            states[run] = _decode_state(decompress(packed))
    return states


def _writing(touched: dict[str, SessionState], after: Position | None, place: EventAnchor, key: str) -> Callable[[apsw.Connection], str]:
    rows = [_row_of(state) for state in touched.values()]

    def work(connection: apsw.Connection) -> str:
        if get_fact(connection, "outcomes_at") != after or get_fact(connection, "outcomes_key") != key:
            return "again"
        connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", rows)
        set_fact(connection, "outcomes_at", place.position)
        raise_anchor(connection, place)
        return "done"

    return work


def _row_of(state: SessionState) -> tuple[str, int, int, int, bytes, bytes]:
    """A session as it is stored; the record is left out if it will change with the clock."""
    is_row = fold.is_row(state)
    record = b""
    if is_row and is_settled(state) and state.ended is not None:
        record = compress(msgspec.json.encode(make_record(state, state.ended)), _LEAST_EFFORT)
    packed = compress(_encode_state(state), _LEAST_EFFORT)
    return state.run, int(is_row), _time(state.started), _time(state.ended), packed, record


def _time(at: datetime | None) -> int:
    return 0 if at is None else epoch_microseconds(at)


def _select(connection: apsw.Connection, wanted: Wanted) -> list[tuple[bytes, bytes]]:
    where, values = ["is_row = 1"], list[int | str]()
    if wanted.since is not None:
        where.append("ended >= ?")
        values.append(_time(wanted.since))
    if wanted.until is not None:
        where.append("started < ?")
        values.append(_time(wanted.until))
    statement = f"SELECT run, state, record FROM sessions WHERE {' AND '.join(where)} ORDER BY ended DESC, run DESC LIMIT ?"
    if wanted.runs is not None:
        found = [
            row
            for run in sorted(wanted.runs)
            for row in ask(connection, "SELECT ended, run, state, record FROM sessions WHERE is_row = 1 AND run = ?", (run,))
            if (wanted.since is None or row[0] >= _time(wanted.since))
        ]
        return [(state, record) for _, _, state, record in sorted(found, key=lambda row: row[:2], reverse=True)[: wanted.limit]]
    values.append(-1 if wanted.limit is None else wanted.limit)
    return [(b"" if record else state, record) for _, state, record in ask(connection, statement, values)]
