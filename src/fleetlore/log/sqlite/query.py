"""SQL queries on a town's tables: by scope, kind and time, in either direction. Used by `log.py` and `tail.py`.

`n` is the town's number, which is in the names of its tables. Events are indexed by scope and id in batches: up to
`towns.indexed` in `members_n` and `ids_n`, later ones only in `events_n`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter

import apsw

from fleetlore.events.ids import uuid_bytes
from fleetlore.log.base import TOWN, LogQuery, Position, StoredRecord, epoch_microseconds, to_position, to_sequence, to_stored_records
from fleetlore.log.sqlite.archive import fill_texts
from fleetlore.log.sqlite.file import fetch_rows

ZONE_SIZE = 4096
"""Sequence numbers per zone. `zones_n` has the newest time in each zone, to skip zones that are too old."""
_MAX_SEQUENCE = 1 << 62
_TEXT = itemgetter(1)


def select_records(connection: apsw.Connection, n: int, query: LogQuery) -> list[StoredRecord]:
    """Return the records that match a query."""
    where, values = _build_filters(connection, n, query)
    if query.scope == TOWN:
        source = f"SELECT e.seq, CAST(e.raw AS BLOB) FROM events_{n} e WHERE e.seq > ? AND e.seq < ?{where}"
    else:
        scope = _scope_number(connection, n, query.scope)
        if scope is None:
            return []
        indexed = f"(SELECT indexed FROM towns WHERE n = {n})"
        # Indexed events come from `members`, newer ones from `events`; the halves meet at `indexed`, so the result is in log order.
        # CROSS JOIN keeps SQLite from starting with the events.
        source = (
            f"SELECT m.seq, CAST(e.raw AS BLOB) FROM members_{n} m CROSS JOIN events_{n} e ON e.seq = m.seq"
            f" WHERE m.scope = {scope} AND m.seq > ?1 AND m.seq < ?2{where}"
            f" UNION ALL SELECT e.seq, CAST(e.raw AS BLOB) FROM events_{n} e"
            f" WHERE e.seq > max(?1, {indexed}) AND e.seq < ?2 AND instr(e.scopes, ' {scope} '){where}"
        )
    order = "DESC" if query.newest_first else "ASC"
    rows = fetch_rows(connection, f"{source} ORDER BY 1 {order} LIMIT {int(query.limit)}", values)
    return to_stored_records(_add_archived(connection, n, rows))


def _add_archived(connection: apsw.Connection, n: int, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return rows if all(map(_TEXT, rows)) else fill_texts(connection, n, rows)


def sequence_range(query: LogQuery) -> tuple[int, int]:
    """Return the (exclusive) sequence numbers between which a query reads."""
    after = -1 if query.after is None else to_sequence(query.after)
    return after, _MAX_SEQUENCE if query.before is None else to_sequence(query.before)


def _build_filters(connection: apsw.Connection, n: int, query: LogQuery) -> tuple[str, tuple[int, int]]:
    after, before = sequence_range(query)
    where = ""
    if query.kinds:
        where += f" AND e.kind IN ({', '.join(str(number) for number in _kind_numbers(connection, n, query.kinds))})"
    if query.since is not None:
        since = epoch_microseconds(query.since)
        after = max(after, _last_sequence_before(connection, n, since))
        where += f" AND e.at >= {since}"
    return where, (after, before)


def _kind_numbers(connection: apsw.Connection, n: int, kinds: Sequence[str]) -> list[int]:
    # Kinds contain no GLOB characters, so `town.*` and plain kinds can be used as patterns directly.
    sql = f"SELECT id FROM kinds_{n} WHERE name GLOB ?"
    return sorted({number for kind in kinds for (number,) in fetch_rows(connection, sql, (kind,))})


def _scope_number(connection: apsw.Connection, n: int, scope: str) -> int | None:
    rows = fetch_rows(connection, f"SELECT id FROM scopes_{n} WHERE name = ?", (scope,))
    return rows[0][0] if rows else None


def _last_sequence_before(connection: apsw.Connection, n: int, since: int) -> int:
    """Return a sequence number up to which every event is older than `since`, from the table of zones."""
    rows = fetch_rows(
        connection,
        f"SELECT coalesce((SELECT min(zone) FROM zones_{n} WHERE newest >= ?), (SELECT max(zone) + 1 FROM zones_{n}), 0)",
        (since,),
    )
    return int(rows[0][0]) * ZONE_SIZE - 1


def select_by_id(connection: apsw.Connection, n: int, ids: Sequence[str]) -> list[tuple[int, bytes]]:
    """Return sequence numbers and bytes of the records with these ids."""
    if not ids:
        return []
    keys = apsw.carray(tuple([uuid_bytes(id) for id in ids]))
    rows = fetch_rows(
        connection,
        f"SELECT seq, CAST(raw AS BLOB) FROM events_{n} WHERE seq IN (SELECT seq FROM ids_{n} WHERE id IN carray(?1))"
        f" UNION ALL SELECT seq, CAST(raw AS BLOB) FROM events_{n}"
        f" WHERE seq > (SELECT indexed FROM towns WHERE n = {n}) AND id IN carray(?1) ORDER BY 1",
        (keys,),
    )
    return _add_archived(connection, n, rows)


def find_first_since(connection: apsw.Connection, n: int, since: datetime) -> int | None:
    """Return the sequence number of the first event that is not older than a time; the events before it are all older."""
    moment = epoch_microseconds(since)
    start = _last_sequence_before(connection, n, moment)
    rows = fetch_rows(connection, f"SELECT seq FROM events_{n} WHERE seq > ? AND at >= ? ORDER BY seq LIMIT 1", (start, moment))
    return rows[0][0] if rows else None


def find_newest(connection: apsw.Connection, n: int, scope: str) -> int | None:
    """Return the newest sequence number in a scope."""
    seq: int | None
    if scope == TOWN:
        [(seq,)] = fetch_rows(connection, f"SELECT max(seq) FROM events_{n}")
        return seq
    number = _scope_number(connection, n, scope)
    not_indexed = f"SELECT max(seq) FROM events_{n} WHERE seq > (SELECT indexed FROM towns WHERE n = {n}) AND instr(scopes, ?1)"
    indexed = f"SELECT max(seq) FROM members_{n} WHERE scope = ?2"
    [(seq,)] = fetch_rows(connection, f"SELECT coalesce(({not_indexed}), ({indexed}))", (f" {number} ", number))
    return seq


def to_optional_position(sequence: int | None) -> Position | None:
    """Convert a sequence number that may be `None`."""
    return None if sequence is None else to_position(sequence)
