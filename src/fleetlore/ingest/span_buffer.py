"""Keeps spans of unfinished traces, so that what is stored of a span does not depend on how an exporter batches spans.

Who acts in a span is known from the spans around it, and those end later: with one span per request, children arrive before their
parents. A span whose chain of parents is incomplete is kept here until the missing parent arrives; then its events are stored, with the
right agent, launcher and run. If the parent does not arrive (`MAX_WAIT` after the trace's last span), they are stored with what is known.
Of a stored span, only what its children need is kept. Spans that wait for longer than `NOTED_AFTER` are announced under a provisional
agent, `SERVICE/TRACE`; `agent.identified` removes it later. docs/decisions/0019-traces.md has the reasons.

The buffer is one private SQLite file. A request is answered after its spans are in the log or in the buffer, and events are stored before
spans leave the buffer: a crash loses nothing, and since ids are derived from the spans, nothing is stored twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from threading import Lock
from typing import TypeVar

import apsw
import msgspec

from fleetlore import clock
from fleetlore.dialects.otlp.attribute_names import find_span_role, slim_span
from fleetlore.dialects.otlp.spans import (
    MAX_ENCLOSING_SPANS,
    SpanKey,
    make_identified_event,
    make_progress_events,
    make_span_events,
)
from fleetlore.dialects.otlp.values import OtlpSpan
from fleetlore.events.envelope import Event
from fleetlore.log.sqlite.file import fetch_rows, harden_connection, translate_errors, write_transaction

NOTED_AFTER = timedelta(seconds=5)
MAX_WAIT = timedelta(minutes=10)
MAX_REMOTE_WAIT = timedelta(seconds=30)
"""For a parent in another program, which often reports elsewhere."""
KEPT_FOR = timedelta(days=1)
"""After this time, nothing is known of a stored span, and its late children are stored without it."""
MAX_WAITING, MAX_KEPT = 50_000, 500_000
"""Spans. If more wait, the oldest are stored as they are; if more are kept, the oldest are forgotten."""
BATCH = 2000

_TABLE = """CREATE TABLE IF NOT EXISTS spans (
    trace TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, waiting TEXT, until REAL,
    noted INTEGER NOT NULL DEFAULT 0, seen REAL NOT NULL,
    PRIMARY KEY (trace, id)
) STRICT, WITHOUT ROWID"""
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS spans_waiting ON spans (trace, waiting) WHERE waiting IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS spans_seen ON spans (seen)",
)
_PUT = """INSERT INTO spans (trace, id, body, waiting, until, seen) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET body = excluded.body, waiting = excluded.waiting, until = excluded.until, seen = excluded.seen"""
_decoder = msgspec.msgpack.Decoder(OtlpSpan)
_T = TypeVar("_T")


class SpanBuffer:
    """The spans of unfinished traces of one log. Safe to use from several threads and processes."""

    def __init__(self, path: str | None, *, now: clock.Clock = clock.now) -> None:
        """`path` is its file, created when it is needed; `None` keeps everything in memory."""
        self._path, self._now = path, now
        self._lock, self._opened = Lock(), None if path else apsw.Connection(":memory:")
        if self._opened:
            _create_tables(self._opened)

    def store(self, spans: Iterable[OtlpSpan], append: Callable[[list[Event]], _T]) -> _T:
        """Pass the events of all spans that are complete to `append`, and keep the others. Returns what `append` returns."""
        with self._lock, translate_errors(self._path or "memory"), write_transaction(db := self._open()):
            round = _Round(db, {(span.trace, span.id): span for span in spans}, self._now().timestamp())
            events = round.settle()
            result = append(events)
            round.save()
        return result

    def settle_overdue(self, append: Callable[[list[Event]], object]) -> int:
        """Store the spans whose parents did not arrive in time; announce others that wait. Returns how many spans were stored."""
        if self._path is not None and self._opened is None and not os.path.exists(self._path):
            return 0
        with self._lock, translate_errors(self._path or "memory"), write_transaction(db := self._open()):
            now = self._now().timestamp()
            overdue = _decode_rows(fetch_rows(db, _OVERDUE, (now, MAX_WAITING, BATCH)))
            if overdue:
                round = _Round(db, overdue, now, is_final=True)
                append(round.settle())
                round.save()
            noted = _decode_rows(fetch_rows(db, _TO_NOTE, (now - NOTED_AFTER.total_seconds(), BATCH)))
            if noted:
                append([event for span in noted.values() for event in make_progress_events(span)])
                db.executemany("UPDATE spans SET noted = 1 WHERE trace = ? AND id = ?", list(noted))
            db.execute("DELETE FROM spans WHERE waiting IS NULL AND seen < ?", (now - KEPT_FOR.total_seconds(),))
            db.execute(_DELETE_SURPLUS, (MAX_KEPT,))
        return len(overdue)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _open(self) -> apsw.Connection:
        if self._opened is None:
            path = self._path or ":memory:"
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                self._opened = _open_file(path)
            except (apsw.NotADBError, apsw.CorruptError):  # new spans must not be lost for it
                os.replace(path, f"{path}.damaged")
                self._opened = _open_file(path)
        return self._opened


def _open_file(path: str) -> apsw.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    db = apsw.Connection(path)
    db.set_busy_timeout(5000)
    harden_connection(db)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    _create_tables(db)
    return db


# A trace is silent since its newest span; what waits in it is overdue `until` seconds later. Of too many, the oldest are overdue.
_OVERDUE = """SELECT trace, id, body FROM spans AS held WHERE waiting IS NOT NULL AND (
        until + (SELECT max(seen) FROM spans WHERE trace = held.trace) <= ?
        OR (SELECT count(*) FROM spans WHERE waiting IS NOT NULL) > ?
    ) ORDER BY seen LIMIT ?"""
_TO_NOTE = "SELECT trace, id, body FROM spans WHERE waiting IS NOT NULL AND noted = 0 AND seen <= ? ORDER BY seen LIMIT ?"
_DELETE_SURPLUS = """DELETE FROM spans WHERE waiting IS NULL AND seen < (
    SELECT coalesce((SELECT seen FROM spans ORDER BY seen DESC LIMIT 1 OFFSET ?), 0))"""


def _create_tables(db: apsw.Connection) -> None:
    for statement in (_TABLE, *_INDEXES):
        db.execute(statement)


def _decode_rows(rows: Iterable[tuple[str, str, bytes]]) -> dict[SpanKey, OtlpSpan]:
    return {(trace, id): _decoder.decode(body) for trace, id, body in rows}


def _encode_span(span: OtlpSpan) -> bytes | None:
    """`None` for a span with text that is not valid Unicode."""
    try:
        return msgspec.msgpack.encode(span)
    except UnicodeEncodeError:
        return None


class _Round:
    """One step: new spans, those that waited for them, and what encloses both."""

    def __init__(self, db: apsw.Connection, spans: dict[SpanKey, OtlpSpan], now: float, *, is_final: bool = False) -> None:
        self._db, self._new, self._now, self._is_final = db, spans, now, is_final
        self._known: dict[SpanKey, OtlpSpan | None] = dict(spans)
        self._waiting: dict[SpanKey, OtlpSpan] = {}
        """What waits → the outermost known span around it, whose parent is missing."""
        self._released: dict[SpanKey, OtlpSpan] = {}

    def settle(self) -> list[Event]:
        """The events of all spans whose parents are known."""
        held = {} if self._is_final else self._find_held()
        self._known |= {key: span for key, span in held.items() if key not in self._known}
        ready: set[SpanKey] = set()
        for key, span in {**held, **self._new}.items():
            if not find_span_role(span):
                continue
            end = self._find_open_end(span)
            if end is None or self._is_final or _encode_span(span) is None:
                ready.add(key)
            else:
                self._waiting[key] = end
        self._released = {key: span for key, span in {**held, **self._new}.items() if key not in self._waiting}
        events = make_span_events((span for span in self._known.values() if span is not None), only=ready)
        return [*events, *self._identify_agents()]

    def save(self) -> None:
        """Keep what waits, and of the rest what later children need."""
        rows = []
        for key, span in self._new.items():
            end = self._waiting.get(key)
            body = _encode_span(span if end else slim_span(span))
            if body is not None:
                wait = MAX_REMOTE_WAIT if end and end.has_remote_parent else MAX_WAIT
                rows.append((*key, body, end and end.parent, wait.total_seconds() if end else None, self._now))
        self._db.executemany(_PUT, rows)
        for key, span in self._released.items():
            if key not in self._new:
                self._db.execute(
                    "UPDATE spans SET body = ?, waiting = NULL, noted = 0 WHERE trace = ? AND id = ?", (_encode_span(slim_span(span)), *key)
                )
        moved = [(end.parent, *key) for key, end in self._waiting.items() if key not in self._new]
        self._db.executemany("UPDATE spans SET waiting = ? WHERE trace = ? AND id = ?", moved)

    def _find_held(self) -> dict[SpanKey, OtlpSpan]:
        found: dict[SpanKey, OtlpSpan] = {}
        for key in self._new:
            found |= _decode_rows(fetch_rows(self._db, "SELECT trace, id, body FROM spans WHERE trace = ? AND waiting = ?", key))
        return found

    def _find_open_end(self, span: OtlpSpan) -> OtlpSpan | None:
        """The span around it, or itself, whose parent is unknown; `None` if all are known."""
        for _ in range(MAX_ENCLOSING_SPANS):
            if not span.parent:
                return None
            outer = self._find_span((span.trace, span.parent))
            if outer is None:
                return span
            span = outer
        return None

    def _find_span(self, key: SpanKey) -> OtlpSpan | None:
        if key not in self._known:
            rows = fetch_rows(self._db, "SELECT trace, id, body FROM spans WHERE trace = ? AND id = ?", key)
            self._known[key] = _decode_rows(rows).get(key)
        return self._known[key]

    def _identify_agents(self) -> list[Event]:
        """End the provisional agents of traces in which nothing waits any more that was announced."""
        identified = []
        for trace in {trace for trace, _ in self._released}:
            noted = {id for (id,) in fetch_rows(self._db, "SELECT id FROM spans WHERE trace = ? AND noted = 1", (trace,))}
            last = max(
                (span for key, span in self._released.items() if key[0] == trace and key[1] in noted),
                key=lambda span: span.id,
                default=None,
            )
            if last is not None and not any((trace, id) not in self._released for id in noted):
                identified.append(make_identified_event(last))
        return identified
