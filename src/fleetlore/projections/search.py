"""Finds events by their words: in an index that the store keeps, else by reading the log. Both ask the same engine, so both find the same.

Every word must be there, in any order; the last one may be the beginning of a word; words in double quotes must stand
together. Capitals and accents do not matter.
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
from fleetlore.log.sqlite.file import ask
from fleetlore.projections.runner import ProgressCallback, split_chunks
from fleetlore.projections.store import CREATE_INDEX, EventAnchor, ProjectionStore, erased_hashes, get_fact, raise_anchor, set_fact
from fleetlore.views.event_text import event_stamp

MAX_INDEXED_CHARS = 16 * 1024
"""Characters of one event that are indexed."""
MAX_QUERY_CHARS = 1000
CHUNK = 2000
NEWEST = 20_000
"""So many events are looked through where the index is not there yet."""
MAX_CANDIDATES = 2000
"""Of what an index finds, so many are looked at for one word where only what is near is wanted."""
EXCERPT_CHARS = 60
"""Characters of an excerpt on either side of what was found."""

_FIELDS = ("kind", "actor", *SCOPE_FIELDS, "old_state", "new_state")
_SEPARATOR = "\x1f"  # no name holds a control character
_QUERY_PART = re.compile(r'"[^"]*"|\S+')
_WORD = re.compile(r"[^\W_]+")


class SearchTerm(NamedTuple):
    """Words that must stand together."""

    text: str
    is_beginning: bool = False
    """Whether its last word may go on."""


class SearchFilter(NamedTuple):
    """Which events are looked at, as for `read`."""

    scope: str = TOWN
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    before: Position | None = None
    by_time: bool = False
    """Whether the newest are those that happened last, and not those that were stored last."""


NO_FILTER = SearchFilter()


def find(
    log: BlockingRecorder,
    text: str,
    *,
    wanted: SearchFilter = NO_FILTER,
    limit: int = 20,
    store: ProjectionStore | None = None,
    progress: ProgressCallback | None = None,
    most: int | None = None,
) -> list[Event]:
    """The newest events that hold these words, newest first; `most`: of so many that are looked through where there is no store.

    No text is an error; one without any word finds nothing.
    """
    check_scope(wanted.scope)
    match = build_fts_query(parse_terms(text))
    if not match or limit <= 0:
        return []
    places = None if store is None else _WordIndex(store, log).find_places(match, wanted, limit, progress)
    if places is None:
        return _scan_log(log, match, wanted, limit, progress, most)
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
    """Where the newest events are that hold any of these words, a few for each, and how near each comes: the rarer a word, the nearer.

    `named`: only events that name this, as those of a scope name their scope. `None` if the index is not there, or lags too far behind to
    be brought up in passing. The store must agree with the log.
    """
    narrow = build_fts_query([SearchTerm(named)]) if _WORD.search(named) else ""
    return _WordIndex(store, log).find_related([build_fts_query([SearchTerm(word)]) for word in words], narrow, wanted, limit)


def read_found_event(log: BlockingRecorder, place: EventAnchor) -> Event | None:
    """The event at a place that was found, unless it went meanwhile."""
    return _read_at_position(log, place.position, place.previous)


def count_unindexed(log: BlockingRecorder, store: ProjectionStore) -> int:
    """About how many events are not in the index yet."""
    indexed = store.run_read(_index_progress, None)
    return 0 if indexed is None else max(0, log.info().events - indexed[0])


def update_index(log: BlockingRecorder, store: ProjectionStore, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Bring the index up to date, in steps, until that is done or over; whether the store let that happen."""
    return _WordIndex(store, log).update_until(is_over)


# --- what is asked


def parse_terms(text: str) -> list[SearchTerm]:
    """What a text asks for."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()[:MAX_QUERY_CHARS]
    parts = _QUERY_PART.findall(clean)
    quoted = [len(part) > 1 and part.startswith('"') and part.endswith('"') for part in parts]
    terms = [SearchTerm(part[1:-1] if is_quoted else part, not is_quoted) for part, is_quoted in zip(parts, quoted, strict=True)]
    return [SearchTerm(term.text, term.is_beginning and index == len(terms) - 1) for index, term in enumerate(terms)]


def build_fts_query(terms: Sequence[SearchTerm]) -> str:
    """The terms as FTS5 reads them. Each is a quoted string, so that nothing in it means anything; those without a word are passed over."""
    return " ".join('"' + term.text.replace('"', '""') + ('"*' if term.is_beginning else '"') for term in terms)


def indexed_text(event: Event) -> str:
    """What an event is found by: its line, its names, and the strings in its payload."""
    words = [event.text or "", *(value for name in _FIELDS if (value := getattr(event, name)))]
    if event.data:
        words += _iterate_strings(event.data)
    return "\n".join(words)[:MAX_INDEXED_CHARS]


def _iterate_strings(data: dict[str, Any]) -> Iterator[str]:
    """Every string in a payload, as far as they are indexed; keys are none."""
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
    """The words of a log's events, kept in the store and brought up to date before each question."""

    def __init__(self, store: ProjectionStore, log: BlockingRecorder) -> None:
        self._store, self._log = store, log

    def find_places(
        self, match: str, wanted: SearchFilter, limit: int, progress: ProgressCallback | None
    ) -> list[tuple[Position, Position | None]] | None:
        """Each position that was found and the one before it; `None` if the store cannot say."""
        if not self._update_index(progress):
            return None
        return self._store.run_read(lambda connection: _query_places(connection, match, wanted, limit), None)

    def find_related(self, matches: Sequence[str], named: str, wanted: SearchFilter, limit: int) -> dict[EventAnchor, float] | None:
        """Each place that any of the matches finds, with its nearness."""
        if not self._index_recent():
            return None
        found: dict[EventAnchor, float] = {}
        for match in matches:
            both = f"{named} AND {match}" if named else match
            places = self._store.run_read(partial(_query_places, match=both, wanted=wanted, limit=limit, most=MAX_CANDIDATES), None)
            for position, previous in places or ():
                place = EventAnchor(position, previous, "")
                found[place] = found.get(place, 0.0) + 1 / len(places or ())
        return found

    def _index_recent(self) -> bool:
        """Add what is new, if that is little; whether the index now knows the whole log."""
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
        """Bring the index to the log's head, unless it is over before."""
        return self._update_index(None, is_over)

    def _update_index(self, progress: ProgressCallback | None, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Bring the index to the log's head; whether that was possible."""
        info, holds = self._store.sync_with_log(self._log)
        before = info.trimmed_before
        if not holds or (before is not None and not self._store.run_write(lambda connection: _remove_trimmed(connection, before), False)):
            return False
        while (outcome := self._index_chunks(info.events, progress, is_over)) == "again":
            pass  # another process has indexed meanwhile: go on behind it
        return outcome == "done"

    def _index_chunks(self, total: int, progress: ProgressCallback | None, is_over: Callable[[], bool]) -> str:
        stand = self._store.run_read(_index_progress, None)
        if stand is None:
            return "failed"
        done, after = stand
        for chunk in split_chunks(self._log.read(after=after), CHUNK):
            if is_over():
                break
            place = EventAnchor(chunk[-1].position or "", chunk[-2].position if len(chunk) > 1 else after, chunk[-1].id or "")
            outcome = self._store.run_write(_make_index_writer(chunk, after, place), "failed")
            if outcome != "done":
                return outcome
            if any(event.kind == "log.forgotten" for event in chunk):
                self._store.truncate_wal()
            after, done = place.position, done + len(chunk)
            if progress is not None:
                progress(done, max(done, total))
        return "done"


def _index_progress(connection: apsw.Connection) -> tuple[int, Position | None]:
    # Not counted one by one: that would take longer the longer the log is. What was erased leaves a hole, and is counted with the rest.
    [(first, last)] = ask(connection, "SELECT (SELECT min(seq) FROM docs), (SELECT max(seq) FROM docs)")
    return 0 if first is None else last - first + 1, get_fact(connection, "indexed")


def _make_index_writer(events: Sequence[Event], after: Position | None, place: EventAnchor) -> Callable[[apsw.Connection], str]:
    rows = [_index_row(event) for event in events]
    words = [indexed_text(event) for event in events]

    def work(connection: apsw.Connection) -> str:
        if get_fact(connection, "indexed") != after:
            return "again"
        first = int(get_fact(connection, "last_doc") or 0) + 1
        connection.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", [(first + n, *row) for n, row in enumerate(rows)])
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(words, first))
        set_fact(connection, "last_doc", str(first + len(rows) - 1))
        set_fact(connection, "indexed", place.position)
        raise_anchor(connection, place)
        _remove_erased(connection, erased_hashes([event for event in events if event.kind == "log.forgotten"]))
        return "done"

    return work


def _index_row(event: Event) -> tuple[Position, int, str, str, bytes]:
    scopes = event_scopes(event)
    listed = f"{_SEPARATOR}{_SEPARATOR.join(scopes)}{_SEPARATOR}" if scopes else ""
    return event.position or "", epoch_microseconds(event_stamp(event)[0]), event.kind, listed, hash_event_id(event.id or "")


def _remove_erased(connection: apsw.Connection, hashes: set[str]) -> None:
    """Take erased events out, and their words off the disk."""
    gone = [(bytes.fromhex(hash),) for hash in hashes if re.fullmatch("[0-9a-f]{64}", hash)]
    if gone:
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        connection.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?)", gone)
        if _delete_docs(connection, "hash IN (SELECT hash FROM temp.gone)"):
            # FTS5 only marks what is deleted until it next merges; this merges all.
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("DELETE FROM temp.gone")


def _remove_trimmed(connection: apsw.Connection, trimmed_before: Position) -> bool:
    """Take out what was trimmed away since the last time."""
    if trimmed_before != get_fact(connection, "trimmed_before"):
        _delete_docs(connection, "position < ?", (trimmed_before,))
        set_fact(connection, "trimmed_before", trimmed_before)
    return True


def _delete_docs(connection: apsw.Connection, where: str, values: Sequence[str] = ()) -> int:
    rows = ask(connection, f"DELETE FROM docs WHERE {where} RETURNING seq", values)
    connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
    return len(rows)


def _query_places(
    connection: apsw.Connection, match: str, wanted: SearchFilter, limit: int, most: int | None = None
) -> list[tuple[Position, Position | None]]:
    """The newest places that match; `most`: of so many that are looked at."""
    scope = "" if wanted.scope == TOWN else f"{_SEPARATOR}{wanted.scope}{_SEPARATOR}"
    since = None if wanted.since is None else epoch_microseconds(wanted.since)
    places: list[tuple[Position, Position | None]] = []
    found = connection.execute(
        "SELECT seq, position, at, kind, scopes FROM words JOIN docs ON seq = words.rowid WHERE words MATCH ?"
        f" ORDER BY {'at DESC, ' if wanted.by_time else ''}words.rowid DESC",
        (match,),
    )
    for seq, position, at, kind, scopes in islice(found, most):
        if _is_before(position, wanted) and scope in scopes and (since is None or at >= since) and matches_kind(kind, wanted.kinds):
            before = ask(connection, "SELECT position FROM docs WHERE seq < ? ORDER BY seq DESC LIMIT 1", (seq,))
            places.append((position, before[0][0] if before else None))
            if len(places) >= limit:
                break
    found.close()
    return places


def _is_before(position: Position, wanted: SearchFilter) -> bool:
    return wanted.before is None or position < wanted.before


def _read_at_position(log: BlockingRecorder, position: Position, previous: Position | None) -> Event | None:
    """The event at a position, unless it went meanwhile."""
    event = next(log.read(after=previous, limit=1), None)
    return event if event is not None and event.position == position else None


# --- without


def _scan_log(
    log: BlockingRecorder, match: str, wanted: SearchFilter, limit: int, progress: ProgressCallback | None, most: int | None = None
) -> list[Event]:
    """Read backwards until enough was found, a part of the log in memory at a time."""
    total, done = 0 if progress is None else log.info().events, 0
    found: list[Event] = []
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(CREATE_INDEX.format(name="words"))
        events = log.read(wanted.scope, kinds=wanted.kinds, since=wanted.since, before=wanted.before, newest_first=True, limit=most)
        for chunk in split_chunks(events, CHUNK):
            connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(map(indexed_text, chunk)))
            found += [chunk[row] for (row,) in ask(connection, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (match,))]
            if len(found) >= limit and not wanted.by_time:
                break
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
    if wanted.by_time:
        found.sort(key=lambda event: (event_stamp(event)[0], event.position or ""), reverse=True)
    return found[:limit]


# --- for those who show what was found


def find_matches(text: str, terms: Sequence[SearchTerm]) -> list[tuple[int, int]]:
    """Where in a text the terms stand, in order and apart from each other: near enough to what the index says to show it by."""
    folded, places = _fold_case(text)
    patterns = [pattern for term in terms if (pattern := _term_pattern(term))]
    if not patterns:
        return []
    found = re.finditer("|".join(patterns), folded)
    return [(places[match.start()], places[match.end() - 1] + 1) for match in found]


def make_excerpt(event: Event, terms: Sequence[SearchTerm]) -> str:
    """The part of an event's words that was found, for one whose line does not show it."""
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
    """The text without capitals and accents, and for each of its characters the place that it comes from."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = character.lower() if character.isascii() else _strip_accent(character)
        letters.append(plain)
        places += [place] * len(plain)
    return "".join(letters), places


def _strip_accent(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    return "".join(part.lower() for part in parts if unicodedata.category(part) != "Mn")
