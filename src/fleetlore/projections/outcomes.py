"""Outcome records of sessions and tasks, kept in the store: one row per session or task, indexed by time.

A row holds the folded facts and, of a session that the clock cannot change any more, the finished record as JSON. New events
update only the rows of their sessions and tasks, so the time to answer depends on what is asked and on what is new, not on
the length of the log. Without a store the log is folded for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple
from zlib import compress, decompress
from zlib import error as NotCompressed

import apsw
import msgspec

from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position, epoch_microseconds
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.file import fetch_rows
from fleetlore.programs import registry
from fleetlore.projections.runner import ProgressCallback, split_chunks
from fleetlore.projections.store import EventAnchor, ProjectionStore, get_fact, raise_anchor, set_fact
from fleetlore.views import task_outcomes
from fleetlore.views.outcomes import fold, outside, session
from fleetlore.views.outcomes.facts import CheckRun, WorkspaceFact
from fleetlore.views.outcomes.outside import GoalChecks, OutsideEvidence
from fleetlore.views.outcomes.period import make_period_record
from fleetlore.views.outcomes.record import Outcome, make_record
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.patterns import session_rules
from fleetlore.views.session_status import EPOCH, is_settled
from fleetlore.views.task_outcomes import TaskOutcome, TaskState, make_task_outcome

LONGEST_GOAL = timedelta(days=30)
"""Checks in a period can be those of a goal that began so long before it."""
CHUNK = 5000
"""Events that are folded between two writes."""
_LEAST_EFFORT = 1
_END = 1 << 62
_NOT_READABLE = (msgspec.MsgspecError, NotCompressed, ValueError, TypeError)
_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(SessionState).decode
_decode_task = msgspec.msgpack.Decoder(TaskState).decode
_decode_run = msgspec.msgpack.Decoder(CheckRun).decode
_decode_fact = msgspec.msgpack.Decoder(WorkspaceFact).decode
_decode_goal = msgspec.msgpack.Decoder(GoalChecks).decode
_decode_record = msgspec.json.Decoder(Outcome).decode


class OutcomeQuery(NamedTuple):
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
    clip: bool = False
    """Without what happened before `since` or after `until`."""
    tasks: frozenset[str] | None = None
    """Of tasks, only these."""
    prefix: str = ""
    """Only sessions whose ids begin with this."""

    def matches_session(self, state: SessionState) -> bool:
        """Whether a session is asked for."""
        return (self.runs is None or state.run in self.runs) and state.run.startswith(self.prefix) and self._overlaps_period(state)

    def matches_task(self, state: TaskState) -> bool:
        """Whether a task is asked for."""
        return (self.tasks is None or state.task in self.tasks) and self._overlaps_period(state)

    def _overlaps_period(self, state: SessionState | TaskState) -> bool:
        return (self.since is None or state.ended is None or state.ended >= self.since) and (
            self.until is None or state.started is None or state.started < self.until
        )

    def make_record(self, state: SessionState, now: datetime) -> Outcome | None:
        """The record of a session; `None` if it did nothing in the period."""
        return make_period_record(state, now, self.since, self.until) if self.clip else make_record(state, now)


ALL = OutcomeQuery()


def list_outcomes(
    log: BlockingRecorder,
    *,
    now: datetime,
    rules: OutcomeRules,
    wanted: OutcomeQuery = ALL,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[bytes]:
    """The records of the sessions that are asked for as JSON, the newest first."""
    rows = None if store is None or wanted.upto is not None else _read_rows(log, store, rules, wanted, progress)
    if rows is None:
        yield from _fold_all(log, now, rules, wanted, progress)
        return
    for state, record in rows:
        if record:
            yield decompress(record)
        elif (made := wanted.make_record(_decode_state(decompress(state)), now)) is not None:
            yield msgspec.json.encode(made)


def list_tasks(
    log: BlockingRecorder, *, rules: OutcomeRules, wanted: OutcomeQuery = ALL, store: ProjectionStore | None = None
) -> list[TaskOutcome]:
    """What happened to tasks between `since` and `until`, the newest last."""
    states = None
    if store is not None and wanted.upto is None and update_rows(log, store, rules):
        states = store.run_read(lambda connection: _select_tasks(connection, wanted), None)
    if states is None:
        states = [state for state in _fold_tasks(log, wanted).values() if wanted.matches_task(state)]
    is_wanted = wanted.tasks is not None and wanted.since is None
    found = [made for state in states if (made := make_task_outcome(state, wanted.since, wanted.until, is_wanted=is_wanted)) is not None]
    return sorted(found, key=lambda one: (one.at, one.task))


def find_newest_time(
    log: BlockingRecorder,
    *,
    now: datetime,
    rules: OutcomeRules,
    wanted: OutcomeQuery = ALL,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
) -> datetime | None:
    """When the newest session or task that is asked for was active; a time in the future counts as now."""
    newest = wanted._replace(limit=1, clip=False, since=None, until=now + timedelta(days=1))
    found = list_outcomes(log, now=now, rules=rules, wanted=newest, store=store, progress=progress)
    times = [_decode_record(raw).ended for raw in found]
    times += [task.at for task in list_tasks(log, rules=rules, wanted=newest._replace(limit=20), store=store)]
    return max((min(at, now) for at in times if at is not None), default=None)


def list_active_times(
    log: BlockingRecorder, *, now: datetime, rules: OutcomeRules, wanted: OutcomeQuery = ALL, store: ProjectionStore | None = None
) -> list[datetime]:
    """When the sessions and tasks that are asked for began and when they were last active, in no order: cheap, for a calendar."""
    if store is not None and wanted.upto is None and update_rows(log, store, rules):
        found = store.run_read(lambda connection: _select_times(connection, wanted), None)
        if found is not None:
            return found
    times = [at for raw in _fold_all(log, now, rules, wanted, None) for one in (_decode_record(raw),) for at in (one.started, one.ended)]
    times += [at for one in _fold_tasks(log, wanted).values() if wanted.matches_task(one) for at in (one.started, one.ended)]
    return [at for at in times if at is not None]


class PeriodOutcomes(NamedTuple):
    """What happened in a period."""

    sessions: list[Outcome]
    tasks: list[TaskOutcome]


def read_period(
    log: BlockingRecorder,
    *,
    now: datetime,
    rules: OutcomeRules,
    wanted: OutcomeQuery = ALL,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
) -> PeriodOutcomes:
    """What sessions did and what happened to tasks between `since` and `until`: nothing before or after that, nor its costs."""
    inside = _narrow_past(log, store, rules, wanted._replace(clip=True))
    found = list_outcomes(log, now=now, rules=rules, wanted=inside, store=store, progress=progress)
    return PeriodOutcomes([_decode_record(raw) for raw in found], list_tasks(log, rules=rules, wanted=inside, store=store))


def find_outcomes(
    log: BlockingRecorder,
    *,
    now: datetime,
    rules: OutcomeRules,
    wanted: OutcomeQuery = ALL,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
) -> list[Outcome]:
    """The same as structs."""
    return [_decode_record(raw) for raw in list_outcomes(log, now=now, rules=rules, wanted=wanted, store=store, progress=progress)]


def _narrow_past(log: BlockingRecorder, store: ProjectionStore | None, rules: OutcomeRules, wanted: OutcomeQuery) -> OutcomeQuery:
    """A question about the past, limited to the sessions and tasks that can concern it.

    What was active in a period as of a position has a row today that touches the period. So only its events need to be read.
    """
    if store is None or wanted.upto is None or wanted.since is None or not update_rows(log, store, rules):
        return wanted
    found = store.run_read(lambda connection: _select_names(connection, wanted), None)
    if found is None:
        return wanted
    runs, tasks = found
    return wanted._replace(
        runs=runs if wanted.runs is None else wanted.runs & runs, tasks=tasks if wanted.tasks is None else wanted.tasks & tasks
    )


def _fold_all(
    log: BlockingRecorder, now: datetime, rules: OutcomeRules, wanted: OutcomeQuery, progress: ProgressCallback | None
) -> Iterator[bytes]:
    sessions = fold.Sessions()
    done = 0
    for chunk in split_chunks(_read_events(log, wanted), CHUNK):
        for event in chunk:
            if wanted.upto is None or (event.position or "") <= wanted.upto:
                fold.apply(sessions, event, rules)
        done += len(chunk)
        if progress is not None:
            progress(done, done)
    fold.add_outside_evidence(sessions)
    states = [state for state in sessions.runs.values() if fold.is_row(state) and wanted.matches_session(state)]
    states.sort(key=lambda state: (_to_microseconds(state.ended), state.run), reverse=True)
    for state in states[: wanted.limit]:
        if (made := wanted.make_record(state, now)) is not None:
            yield msgspec.json.encode(made)


def _fold_tasks(log: BlockingRecorder, wanted: OutcomeQuery) -> dict[str, TaskState]:
    tasks: dict[str, TaskState] = {}
    for event in _read_task_events(log, wanted):
        task = task_outcomes.name_task(event)
        if (
            task is not None
            and (wanted.tasks is None or task in wanted.tasks)
            and (wanted.upto is None or (event.position or "") <= wanted.upto)
        ):
            task_outcomes.apply(tasks.setdefault(task, task_outcomes.begin_task(task)), event)
    return tasks


def _read_task_events(log: BlockingRecorder, wanted: OutcomeQuery) -> Iterator[Event]:
    """The events of tasks, or only of those that are asked for."""
    kinds = sorted(task_outcomes.KINDS)
    if wanted.tasks is None:
        return log.read(kinds=kinds)
    # The task of a forge is named with its repository, but stored as `#7`.
    stored = {f"#{name.rpartition('#')[2]}" if "/" in name.rpartition("#")[0] else name for name in wanted.tasks}
    return chain.from_iterable(log.read(f"task:{name}", kinds=kinds) for name in sorted(stored))


def _read_events(log: BlockingRecorder, wanted: OutcomeQuery) -> Iterator[Event]:
    """The events of the log, or of the sessions that are asked for if there is one, or if the question is about the past."""
    if wanted.runs is None or (wanted.upto is None and len(wanted.runs) > 1):
        return log.read(TOWN)
    since = None if wanted.since is None or wanted.since < EPOCH else wanted.since - LONGEST_GOAL
    return chain(
        log.read(kinds=sorted(outside.KINDS), since=since), chain.from_iterable(log.read(f"run:{run}") for run in sorted(wanted.runs))
    )


def select_scope(log: BlockingRecorder, scope: str, wanted: OutcomeQuery = ALL) -> OutcomeQuery:
    """The same question about the sessions and tasks with events in a scope only."""
    if scope == TOWN:
        return wanted
    runs, tasks = set[str](), set[str]()
    kind, _, name = scope.partition(":")
    # A session may name its task, goal or mission once, before the period; its agent is in every event.
    since = wanted.since if kind in ("agent", "source") else None
    for event in log.read(scope, since=since):
        if kind == "agent" and event.agent != name:
            continue
        runs.update(() if event.run is None else (event.run,))
        tasks.update(() if (task := task_outcomes.name_task(event)) is None else (task,))
    return wanted._replace(runs=frozenset(runs), tasks=frozenset(tasks))


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
    log: BlockingRecorder, store: ProjectionStore, rules: OutcomeRules, wanted: OutcomeQuery, progress: ProgressCallback | None
) -> list[tuple[bytes, bytes]] | None:
    """State and record of each session that is asked for; `None` if the store cannot be used."""
    if not update_rows(log, store, rules, progress):
        return None
    return store.run_read(lambda connection: _select_sessions(connection, wanted), None)


def update_rows(log: BlockingRecorder, store: ProjectionStore, rules: OutcomeRules, progress: ProgressCallback | None = None) -> bool:
    """Bring the rows to the log's head; whether that was possible."""
    if not store.is_synced_with(log):
        return False
    key = _make_key(rules)
    if not store.run_write(lambda connection: _keep_version(connection, key), False):
        return False
    try:
        while (outcome := _add_all(log, store, rules, key, progress)) == "again":
            pass  # another process was faster: go on behind it
    except _NOT_READABLE:  # a damaged row: all are made again next time
        store.run_write(lambda connection: _keep_version(connection, ""), False)
        return False
    return outcome == "done"


def _make_key(rules: OutcomeRules) -> str:
    """What rows depend on beside the log: our rules and the user's, the prices, and the coding agents whose tools are known."""
    installed = "".join(f"-{name}" for name in registry.PROGRAMS.list_names())
    return f"{session.VERSION}.{task_outcomes.VERSION}.{session_rules.VERSION}-{rules.key}{installed}"


def _keep_version(connection: apsw.Connection, key: str) -> bool:
    """Delete rows that were made by other rules."""
    if get_fact(connection, "outcomes_key") != key:
        connection.execute("DELETE FROM sessions")
        connection.execute("DELETE FROM tasks")
        connection.execute("DELETE FROM outside")
        connection.execute("DELETE FROM session_keys")
        set_fact(connection, "outcomes_key", key)
        set_fact(connection, "outcomes_at", None)
    return True


def _add_all(log: BlockingRecorder, store: ProjectionStore, rules: OutcomeRules, key: str, progress: ProgressCallback | None) -> str:
    after: Position | None = store.run_read(lambda connection: get_fact(connection, "outcomes_at"), None)
    done = 0
    known: dict[str, SessionState] = {}
    for chunk in split_chunks(log.read(after=after), CHUNK):
        found = _read_evidence(chunk, store)
        touched = None if found is None else _fold_chunk(chunk, store, rules, known, found)
        tasks = _fold_tasks_of_chunk(chunk, store)
        if found is None or touched is None or tasks is None:
            return "failed"
        place = EventAnchor(chunk[-1].position or "", chunk[-2].position if len(chunk) > 1 else after, chunk[-1].id or "")
        outcome = store.run_write(_make_writer(touched, tasks, found, after, place, key), "failed")
        if outcome != "done":
            return outcome
        # A session that goes on is near the end of the chunk; older ones are read again if they go on after all.
        known = {run: state for run, state in touched.items() if len(touched) < 200}
        after = place.position
        done += len(chunk)
        if progress is not None:
            progress(done, done)
    return "done"


def _read_evidence(events: Sequence[Event], store: ProjectionStore) -> OutsideEvidence | None:
    """What these events say about sessions that they are not part of; `None` if the store cannot be read."""
    said = [event for event in events if event.kind in outside.KINDS]
    goals = {str(event.data.get("goal_id")) for event in said}
    known = store.run_read(lambda connection: _read_goals(connection, goals), None) if said else {}
    if known is None:
        return None
    found = OutsideEvidence(goals=known)
    for event in said:
        for key, run in outside.read_outside(event, found.goals):
            found.runs.setdefault(key, []).append(run)
    return found


def _read_goals(connection: apsw.Connection, goals: Iterable[str]) -> dict[str, GoalChecks]:
    sql = "SELECT run FROM outside WHERE key = ?"
    return {goal: _decode_goal(packed) for goal in goals for (packed,) in fetch_rows(connection, sql, (f"goal:{goal}",))}


def _read_session_evidence(connection: apsw.Connection, states: Iterable[SessionState]) -> dict[str, list[CheckRun]]:
    """What is stored about each of these sessions."""
    sql = "SELECT run FROM outside WHERE key = ?"
    return {
        state.run: [_decode_run(packed) for key in outside.keys_of_session(state) for (packed,) in fetch_rows(connection, sql, (key,))]
        for state in states
    }


def _shared_facts(connection: apsw.Connection, states: Iterable[SessionState]) -> dict[str, list[WorkspaceFact]]:
    """What is stored about the folders of these sessions, by key."""
    sql = "SELECT run FROM outside WHERE key = ?"
    keys = {key for state in states for key in outside.keys_of_workspace(state)}
    return {key: [_decode_fact(packed) for (packed,) in fetch_rows(connection, sql, (key,))] for key in keys}


def _runs_with_keys(connection: apsw.Connection, keys: Iterable[str]) -> set[str]:
    return {run for key in keys for (run,) in fetch_rows(connection, "SELECT run FROM session_keys WHERE key = ?", (key,))}


def _fold_chunk(
    events: Sequence[Event], store: ProjectionStore, rules: OutcomeRules, known: dict[str, SessionState], found: OutsideEvidence
) -> dict[str, SessionState] | None:
    """The sessions that these events belong to or say something about; `None` if the store cannot be read."""
    wanted: set[str] = {event.run for event in events if event.run is not None and event.kind in session.FOLDED_KINDS}
    if found.runs:
        wanted |= store.run_read(lambda connection: _runs_with_keys(connection, found.runs), set[str]())
    stored = store.run_read(lambda connection: _read_states(connection, wanted - known.keys()), None)
    if stored is None:
        return None
    touched = {run: known.get(run) or stored.get(run) or session.begin_session(run) for run in sorted(wanted)}
    for event in events:
        if event.run is not None and event.kind in session.FOLDED_KINDS:
            session.apply(touched[event.run], event, rules)
    evidence = store.run_read(lambda connection: _read_session_evidence(connection, touched.values()), None)
    if evidence is None:
        return None
    for run, state in touched.items():
        new = [one for key in outside.keys_of_session(state) for one in found.runs.get(key, ())]
        outside.add_evidence(state, [*evidence[run], *new])
    return touched if _share_facts(touched, store, found) else None


def _share_facts(touched: dict[str, SessionState], store: ProjectionStore, found: OutsideEvidence) -> bool:
    """Give sessions of the same folder and day what the others did; adds those that learn something. False if the store cannot be read."""
    for state in list(touched.values()):
        for key, fact in outside.share_facts(state):
            found.facts.setdefault(key, []).append(fact)
    if found.facts:
        near = store.run_read(lambda connection: _runs_with_keys(connection, found.facts), set[str]()) - touched.keys()
        others = store.run_read(lambda connection: _read_states(connection, sorted(near)), None)
        if others is None:
            return False
        for state in others.values():
            if outside.add_nearby(state, [fact for key in outside.keys_of_workspace(state) for fact in found.facts.get(key, ())]):
                touched[state.run] = state
    shared = store.run_read(lambda connection: _shared_facts(connection, touched.values()), None)
    if shared is None:
        return False
    for state in touched.values():
        keys = outside.keys_of_workspace(state)
        outside.add_nearby(state, [fact for key in keys for fact in (*shared.get(key, ()), *found.facts.get(key, ()))])
    return True


def _fold_tasks_of_chunk(events: Sequence[Event], store: ProjectionStore) -> dict[str, TaskState] | None:
    """The tasks that these events belong to, with the events in them; `None` if the store cannot be read."""
    said = [(task, event) for event in events if event.kind in task_outcomes.KINDS and (task := task_outcomes.name_task(event)) is not None]
    if not said:
        return {}
    tasks: dict[str, TaskState] | None = store.run_read(lambda connection: _read_tasks(connection, {task for task, _ in said}), None)
    if tasks is None:
        return None
    for task, event in said:
        task_outcomes.apply(tasks.setdefault(task, task_outcomes.begin_task(task)), event)
    return tasks


def _read_tasks(connection: apsw.Connection, names: Iterable[str]) -> dict[str, TaskState]:
    sql = "SELECT state FROM tasks WHERE task = ?"
    return {name: _decode_task(packed) for name in sorted(names) for (packed,) in fetch_rows(connection, sql, (name,))}


def _read_states(connection: apsw.Connection, runs: Iterable[str]) -> dict[str, SessionState] | None:
    states = {}
    for run in runs:
        for (packed,) in fetch_rows(connection, "SELECT state FROM sessions WHERE run = ?", (run,)):
            states[run] = _decode_state(decompress(packed))
    return states


def _make_writer(
    touched: dict[str, SessionState],
    tasks: dict[str, TaskState],
    found: OutsideEvidence,
    after: Position | None,
    place: EventAnchor,
    key: str,
) -> Callable[[apsw.Connection], str]:
    evidence = [(name, run.source.event, _encode_state(run)) for name, runs in found.runs.items() for run in runs]
    evidence += [(name, f"{fact.source.event}:{fact.act}", _encode_state(fact)) for name, facts in found.facts.items() for fact in facts]
    evidence += [(f"goal:{name}", name, _encode_state(goal)) for name, goal in found.goals.items()]
    keys = [
        (name, state.run) for state in touched.values() for name in (*outside.keys_of_session(state), *outside.keys_of_workspace(state))
    ]
    rows = [_make_row(state) for state in touched.values()]
    task_rows = [
        (state.task, _to_microseconds(state.started), _to_microseconds(state.ended), _encode_state(state)) for state in tasks.values()
    ]

    def work(connection: apsw.Connection) -> str:
        if get_fact(connection, "outcomes_at") != after or get_fact(connection, "outcomes_key") != key:
            return "again"
        connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?)", task_rows)
        connection.executemany("INSERT OR REPLACE INTO outside VALUES (?, ?, ?)", evidence)
        connection.executemany("INSERT OR IGNORE INTO session_keys VALUES (?, ?)", keys)
        set_fact(connection, "outcomes_at", place.position)
        raise_anchor(connection, place)
        return "done"

    return work


def _make_row(state: SessionState) -> tuple[str, int, int, int, bytes, bytes]:
    """A session as it is stored; the record is left out if it will change with the clock."""
    is_row = fold.is_row(state)
    record = b""
    if is_row and is_settled(state.status) and state.ended is not None:
        record = compress(msgspec.json.encode(make_record(state, state.ended)), _LEAST_EFFORT)
    packed = compress(_encode_state(state), _LEAST_EFFORT)
    return state.run, int(is_row), _to_microseconds(state.started), _to_microseconds(state.ended), packed, record


def _to_microseconds(at: datetime | None) -> int:
    return 0 if at is None else epoch_microseconds(at)


def _select_sessions(connection: apsw.Connection, wanted: OutcomeQuery) -> list[tuple[bytes, bytes]]:
    """State and record of each session; only one of the two is read."""
    where, values = _period_condition(wanted)
    by_time = "is_row = 1", "ended"
    if wanted.prefix:
        where, values = f"{where} AND run >= ? AND run < ?", (*values, wanted.prefix, f"{wanted.prefix}\U0010ffff")
        by_time = "+is_row = 1", "+ended"  # searched by id, not by time
    clipped = f"(started < {_to_microseconds(wanted.since)} OR ended >= {_to_microseconds(wanted.until) or _END})" if wanted.clip else "0"
    columns = f"iif(record = x'' OR {clipped}, state, x''), iif({clipped}, x'', record)"
    if wanted.runs is not None:
        sql = f"SELECT ended, run, {columns} FROM sessions WHERE is_row = 1 AND {where} AND run = ?"
        found = [row for run in sorted(wanted.runs) for row in fetch_rows(connection, sql, (*values, run))]
        return [row[2:] for row in sorted(found, key=lambda row: row[:2], reverse=True)[: wanted.limit]]
    sql = f"SELECT {columns} FROM sessions WHERE {by_time[0]} AND {where} ORDER BY {by_time[1]} DESC, run DESC LIMIT ?"
    return list(fetch_rows(connection, sql, (*values, -1 if wanted.limit is None else wanted.limit)))


def _select_tasks(connection: apsw.Connection, wanted: OutcomeQuery) -> list[TaskState]:
    where, values = _period_condition(wanted)
    if wanted.tasks is not None:
        sql = f"SELECT state FROM tasks WHERE {where} AND task = ?"
        return [_decode_task(packed) for task in sorted(wanted.tasks) for (packed,) in fetch_rows(connection, sql, (*values, task))]
    sql = f"SELECT state FROM tasks WHERE {where} ORDER BY ended DESC, task DESC LIMIT ?"
    return [_decode_task(packed) for (packed,) in fetch_rows(connection, sql, (*values, -1 if wanted.limit is None else wanted.limit))]


def _select_names(connection: apsw.Connection, wanted: OutcomeQuery) -> tuple[frozenset[str], frozenset[str]]:
    """The sessions and the tasks whose rows touch the period."""
    where, values = _period_condition(wanted)
    runs = frozenset(run for (run,) in fetch_rows(connection, f"SELECT run FROM sessions WHERE {where}", values))
    return runs, frozenset(task for (task,) in fetch_rows(connection, f"SELECT task FROM tasks WHERE {where}", values))


def _select_times(connection: apsw.Connection, wanted: OutcomeQuery) -> list[datetime]:
    where, values = _period_condition(wanted)
    found = set[int]()
    for sql, names in (
        (f"SELECT run, started, ended FROM sessions WHERE is_row = 1 AND {where}", wanted.runs),
        (f"SELECT task, started, ended FROM tasks WHERE {where}", wanted.tasks),
    ):
        for name, started, ended in fetch_rows(connection, sql, values):
            if names is None or name in names:
                found.update((started, ended))
    return [EPOCH + timedelta(microseconds=at) for at in found if at]


def _period_condition(wanted: OutcomeQuery) -> tuple[str, tuple[int | str, ...]]:
    """The rows that touch the period."""
    conditions, values = ["1"], list[int | str]()
    if wanted.since is not None:
        conditions.append("ended >= ?")
        values.append(_to_microseconds(wanted.since))
    if wanted.until is not None:
        conditions.append("started < ?")
        values.append(_to_microseconds(wanted.until))
    return " AND ".join(conditions), tuple(values)
