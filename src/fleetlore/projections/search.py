"""Full-text search over events: with an FTS5 index in the store, else by scanning the log with the same engine.

Every word must match, in any order; the last may be a prefix; words in double quotes must be adjacent. Case and
accents are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import apsw

from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.log.base import TOWN, Position, check_scope, epoch_microseconds, event_scopes, hash_event_id, matches_kind
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.file import fetch_rows
from fleetlore.projections.runner import ProgressCallback, split_chunks
from fleetlore.projections.store import CREATE_INDEX, EventAnchor, ProjectionStore, erased_hashes, get_fact, raise_anchor, set_fact
from fleetlore.views.event_text import event_stamp

MAX_INDEXED_CHARS = 16 * 1024
"""Characters indexed per event."""
MAX_QUERY_CHARS = 1000
CHUNK = 2000
NEWEST = 20_000
"""Number of newest events scanned if the index is not complete yet."""
MAX_CANDIDATES = 2000
"""Index hits examined per word in `find_related`."""
EXCERPT_CHARS = 60
"""Characters of an excerpt on each side of the match."""

_FIELDS = ("kind", "actor", *SCOPE_FIELDS, "old_state", "new_state")
_SEPARATOR = "\x1f"  # names contain no control characters
_QUERY_PART = re.compile(r'"[^"]*"|\S+')
_WORD = re.compile(r"[^\W_]+")


class SearchTerm(NamedTuple):
    """Words that must be adjacent."""

    text: str
    is_beginning: bool = False
    """Whether the last word may be a prefix."""


class SearchFilter(NamedTuple):
    """Which events to search, as for `read`."""

    scope: str = TOWN
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    before: Position | None = None
    by_time: bool = False
    """Sort by the time of the events instead of log order."""


NO_FILTER = SearchFilter()


def find_events(
    log: BlockingRecorder,
    text: str,
    *,
    wanted: SearchFilter = NO_FILTER,
    limit: int = 20,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
    scan_limit: int | None = None,
) -> list[Event]:
    """Return the newest events that match, newest first.

    `scan_limit` limits how many events are scanned without a store. A text without a word finds nothing.
    """
    check_scope(wanted.scope)
    match = build_fts_query(parse_terms(text))
    if not match or limit <= 0:
        return []
    places = None if store is None else _WordIndex(store, log).find_places(match, wanted, limit, progress)
    if places is None:
        return _scan_log(log, match, wanted, limit, progress, scan_limit)
    return [event for place in places if (event := _read_at_position(log, *place)) is not None]


def find_related(
    log: BlockingRecorder,
    words: Sequence[str],
    *,
    store: ProjectionStore,
    wanted: SearchFilter = NO_FILTER,
    named: str = "",
    limit: int = 8,
) -> dict[EventAnchor, float] | None:
    """Find the newest events with any of these words, a few for each, scored: the rarer a word, the higher.

    `named`: only events that contain this name. `None` if there is no index, or it is too far behind to be updated
    now. The store must be in sync with the log.
    """
    named_query = build_fts_query([SearchTerm(named)]) if _WORD.search(named) else ""
    return _WordIndex(store, log).find_related([build_fts_query([SearchTerm(word)]) for word in words], named_query, wanted, limit)


def read_found_event(log: BlockingRecorder, anchor: EventAnchor) -> Event | None:
    """Return the event at a search result, unless it is gone."""
    return _read_at_position(log, anchor.position, anchor.previous)


def count_unindexed(log: BlockingRecorder, store: ProjectionStore) -> int:
    """Approximate number of events not yet indexed."""
    indexed = store.run_read(_index_progress, None)
    return 0 if indexed is None else max(0, log.info().events - indexed[0])


def update_index(log: BlockingRecorder, store: ProjectionStore, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Update the index in steps until it is complete or `is_over`; return whether the store allowed it."""
    return _WordIndex(store, log).update_until(is_over)


# --- queries


def parse_terms(text: str) -> list[SearchTerm]:
    """Parse a query into terms."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()[:MAX_QUERY_CHARS]
    parts = _QUERY_PART.findall(clean)
    quoted = [len(part) > 1 and part.startswith('"') and part.endswith('"') for part in parts]
    terms = [SearchTerm(part[1:-1] if is_quoted else part, not is_quoted) for part, is_quoted in zip(parts, quoted, strict=True)]
    return [SearchTerm(term.text, term.is_beginning and index == len(terms) - 1) for index, term in enumerate(terms)]


def build_fts_query(terms: Sequence[SearchTerm]) -> str:
    """Encode terms as an FTS5 query. Each is a quoted string, so nothing in it is special."""
    return " ".join('"' + term.text.replace('"', '""') + ('"*' if term.is_beginning else '"') for term in terms)


def indexed_text(event: Event) -> str:
    """The text that an event is found by: its text, its names, and the strings in its payload."""
    words = [event.text or "", *(value for name in _FIELDS if (value := getattr(event, name)))]
    if event.data:
        words += _iterate_strings(event.data)
    return "\n".join(words)[:MAX_INDEXED_CHARS]


def _iterate_strings(data: dict[str, Any]) -> Iterator[str]:
    """Yield the string values of a payload, up to the limit; keys are not indexed."""
    room, stack = MAX_INDEXED_CHARS, [iter(data.values())]
    while stack and room > 0:
        value = next(stack[-1], stack)
        if value is stack:
            stack.pop()
        elif isinstance(value, str):
            room -= len(value) + 1
            yield value
        elif isinstance(value, dict):
            stack.append(iter(value.values()))
        elif isinstance(value, list):
            stack.append(iter(value))


# --- with a store


class _WordIndex:
    """The words of a log's events, kept in the store and updated before each query."""

    def __init__(self, store: ProjectionStore, log: BlockingRecorder) -> None:
        self._store, self._log = store, log

    def find_places(
        self, match: str, wanted: SearchFilter, limit: int, progress: ProgressCallback | None
    ) -> list[tuple[Position, Position | None]] | None:
        """Return each matching position and the one before it; `None` if the store cannot be used."""
        if not self._update_index(progress):
            return None
        return self._store.run_read(lambda connection: _query_places(connection, match, wanted, limit), None)

    def find_related(self, matches: Sequence[str], name_query: str, wanted: SearchFilter, limit: int) -> dict[EventAnchor, float] | None:
        """Return the score of each match."""
        if not self._index_recent():
            return None
        found: dict[EventAnchor, float] = {}
        for match in matches:
            query = f"{name_query} AND {match}" if name_query else match
            matches_found = self._store.run_read(
                partial(_query_places, match=query, wanted=wanted, limit=limit, scan_limit=MAX_CANDIDATES), None
            )
            for position, previous in matches_found or ():
                anchor = EventAnchor(position, previous, "")
                found[anchor] = found.get(anchor, 0.0) + 1 / len(matches_found or ())
        return found

    def _index_recent(self) -> bool:
        """Index new events if they are few; return whether the index is complete."""
        chunks_left = iter(range(NEWEST // CHUNK))
        is_far = False

        def is_over() -> bool:
            nonlocal is_far
            is_far = next(chunks_left, None) is None
            return is_far

        while (outcome := self._index_chunks(0, None, is_over)) == "again":
            pass
        return outcome == "done" and not is_far

    def update_until(self, is_over: Callable[[], bool]) -> bool:
        """Update the index to the log's head, unless `is_over` before."""
        return self._update_index(None, is_over)

    def _update_index(self, progress: ProgressCallback | None, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Update the index to the log's head; return whether that was possible."""
        info, holds = self._store.sync_with_log(self._log)
        before = info.trimmed_before
        if not holds or (before is not None and not self._store.run_write(lambda connection: _remove_trimmed(connection, before), False)):
            return False
        while (outcome := self._index_chunks(info.events, progress, is_over)) == "again":
            pass  # another process has indexed meanwhile: continue after it
        return outcome == "done"

    def _index_chunks(self, total: int, progress: ProgressCallback | None, is_over: Callable[[], bool]) -> str:
        progress_mark = self._store.run_read(_index_progress, None)
        if progress_mark is None:
            return "failed"
        done, after = progress_mark
        for chunk in split_chunks(self._log.read(after=after), CHUNK):
            if is_over():
                break
            anchor = EventAnchor(chunk[-1].position or "", chunk[-2].position if len(chunk) > 1 else after, chunk[-1].id or "")
            outcome = self._store.run_write(_make_index_writer(chunk, after, anchor), "failed")
            if outcome != "done":
                return outcome
            if any(event.kind == "log.forgotten" for event in chunk):
                self._store.truncate_wal()
            after, done = anchor.position, done + len(chunk)
            if progress is not None:
                progress(done, max(done, total))
        return "done"


def _index_progress(connection: apsw.Connection) -> tuple[int, Position | None]:
    # Not counted row by row, which would take longer the longer the log is. Erased events leave holes and are counted.
    [(first, last)] = fetch_rows(connection, "SELECT (SELECT min(seq) FROM docs), (SELECT max(seq) FROM docs)")
    return 0 if first is None else last - first + 1, get_fact(connection, "indexed")


def _make_index_writer(events: Sequence[Event], after: Position | None, anchor: EventAnchor) -> Callable[[apsw.Connection], str]:
    rows = [_index_row(event) for event in events]
    words = [indexed_text(event) for event in events]

    def write(connection: apsw.Connection) -> str:
        if get_fact(connection, "indexed") != after:
            return "again"
        first = int(get_fact(connection, "last_doc") or 0) + 1
        connection.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", [(first + n, *row) for n, row in enumerate(rows)])
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(words, first))
        set_fact(connection, "last_doc", str(first + len(rows) - 1))
        set_fact(connection, "indexed", anchor.position)
        raise_anchor(connection, anchor)
        _remove_erased(connection, erased_hashes([event for event in events if event.kind == "log.forgotten"]))
        return "done"

    return write


def _index_row(event: Event) -> tuple[Position, int, str, str, bytes]:
    scopes = event_scopes(event)
    listed = f"{_SEPARATOR}{_SEPARATOR.join(scopes)}{_SEPARATOR}" if scopes else ""
    return event.position or "", epoch_microseconds(event_stamp(event)[0]), event.kind, listed, hash_event_id(event.id or "")


def _remove_erased(connection: apsw.Connection, hashes: set[str]) -> None:
    """Delete erased events, and their words from the disk."""
    rows = [(bytes.fromhex(hash),) for hash in hashes if re.fullmatch("[0-9a-f]{64}", hash)]
    if rows:
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        connection.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?)", rows)
        if _delete_docs(connection, "hash IN (SELECT hash FROM temp.gone)"):
            # FTS5 only marks deleted rows until its next merge; `optimize` merges everything.
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("DELETE FROM temp.gone")


def _remove_trimmed(connection: apsw.Connection, trimmed_before: Position) -> bool:
    """Delete what was trimmed since the last time."""
    if trimmed_before != get_fact(connection, "trimmed_before"):
        _delete_docs(connection, "position < ?", (trimmed_before,))
        set_fact(connection, "trimmed_before", trimmed_before)
    return True


def _delete_docs(connection: apsw.Connection, where: str, values: Sequence[str] = ()) -> int:
    rows = fetch_rows(connection, f"DELETE FROM docs WHERE {where} RETURNING seq", values)
    connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
    return len(rows)


def _query_places(
    connection: apsw.Connection, match: str, wanted: SearchFilter, limit: int, scan_limit: int | None = None
) -> list[tuple[Position, Position | None]]:
    """Return the newest matching positions; `scan_limit` limits how many hits are examined."""
    scope = "" if wanted.scope == TOWN else f"{_SEPARATOR}{wanted.scope}{_SEPARATOR}"
    since = None if wanted.since is None else epoch_microseconds(wanted.since)
    places: list[tuple[Position, Position | None]] = []
    found = connection.execute(
        "SELECT seq, position, at, kind, scopes FROM words JOIN docs ON seq = words.rowid WHERE words MATCH ?"
        f" ORDER BY {'at DESC, ' if wanted.by_time else ''}words.rowid DESC",
        (match,),
    )
    for seq, position, at, kind, scopes in islice(found, scan_limit):
        if _is_before(position, wanted) and scope in scopes and (since is None or at >= since) and matches_kind(kind, wanted.kinds):
            before = fetch_rows(connection, "SELECT position FROM docs WHERE seq < ? ORDER BY seq DESC LIMIT 1", (seq,))
            places.append((position, before[0][0] if before else None))
            if len(places) >= limit:
                break
    found.close()
    return places


def _is_before(position: Position, wanted: SearchFilter) -> bool:
    return wanted.before is None or position < wanted.before


def _read_at_position(log: BlockingRecorder, position: Position, previous: Position | None) -> Event | None:
    """Return the event at a position, unless it is gone."""
    event = next(log.read(after=previous, limit=1), None)
    return event if event is not None and event.position == position else None


# --- without a store


def _scan_log(
    log: BlockingRecorder, match: str, wanted: SearchFilter, limit: int, progress: ProgressCallback | None, scan_limit: int | None = None
) -> list[Event]:
    """Scan backwards until enough is found, one chunk in memory at a time."""
    total, done = 0 if progress is None else log.info().events, 0
    found: list[Event] = []
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(CREATE_INDEX.format(name="words"))
        events = log.read(wanted.scope, kinds=wanted.kinds, since=wanted.since, before=wanted.before, newest_first=True, limit=scan_limit)
        for chunk in split_chunks(events, CHUNK):
            connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(map(indexed_text, chunk)))
            found += [
                chunk[row] for (row,) in fetch_rows(connection, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (match,))
            ]
            if len(found) >= limit and not wanted.by_time:
                break
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
    if wanted.by_time:
        found.sort(key=lambda event: (event_stamp(event)[0], event.position or ""), reverse=True)
    return found[:limit]


# --- highlighting


def find_matches(text: str, terms: Sequence[SearchTerm]) -> list[tuple[int, int]]:
    """Return the spans of a text that match, in order and without overlaps; approximates the index, for highlighting."""
    folded, indexes = _fold_case(text)
    patterns = [pattern for term in terms if (pattern := _term_pattern(term))]
    if not patterns:
        return []
    found = re.finditer("|".join(patterns), folded)
    return [(indexes[match.start()], indexes[match.end() - 1] + 1) for match in found]


def make_excerpt(event: Event, terms: Sequence[SearchTerm]) -> str:
    """Return the part of an event's indexed text around the first match, for events whose text does not show it."""
    words = indexed_text(event)
    for start, end in find_matches(words, terms):
        cut = words[max(0, start - EXCERPT_CHARS) : end + EXCERPT_CHARS]
        return f"{'…' if start > EXCERPT_CHARS else ''}{cut}{'…' if end + EXCERPT_CHARS < len(words) else ''}"
    return ""


def _term_pattern(term: SearchTerm) -> str:
    words = [re.escape(word) for word in _WORD.findall(_fold_case(term.text)[0])]
    if not words:
        return ""
    return r"(?<![^\W_])" + r"[\W_]+".join(words) + ("" if term.is_beginning else r"(?![^\W_])")


def _fold_case(text: str) -> tuple[str, list[int]]:
    """Return the text without case and accents, and for each character its index in the original."""
    folded: list[str] = []
    indexes: list[int] = []
    for index, character in enumerate(text):
        plain = character.lower() if character.isascii() else _strip_accent(character)
        folded.append(plain)
        indexes += [index] * len(plain)
    return "".join(folded), indexes


def _strip_accent(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    return "".join(part.lower() for part in parts if unicodedata.category(part) != "Mn")
