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
from fleetlore.log.base import TOWN, Position, check_scope, hash_of, matches_kind, microseconds, scopes_of
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.sqlite.file import ask
from fleetlore.projections.runner import Progress, chunks
from fleetlore.projections.store import INDEX, Place, Store, fact, hashes_in, raise_anchor, set_fact
from fleetlore.views.event_text import stamp_of

LONGEST = 16 * 1024
"""Characters of one event that are indexed."""
LONGEST_QUERY = 1000
CHUNK = 2000
NEWEST = 20_000
"""So many events are looked through where the index is not there yet."""
MOST_LOOKED_AT = 2000
"""Of what an index finds, so many are looked at for one word where only what is near is wanted."""
SHOWN = 60
"""Characters of an excerpt on either side of what was found."""

_FIELDS = ("kind", "actor", *SCOPE_FIELDS, "old_state", "new_state")
_SEPARATOR = "\x1f"  # no name holds a control character
_PART = re.compile(r'"[^"]*"|\S+')
_WORD = re.compile(r"[^\W_]+")


class Term(NamedTuple):
    """Words that must stand together."""

    text: str
    is_beginning: bool = False
    """Whether its last word may go on."""


class Wanted(NamedTuple):
    """Which events are looked at, as for `read`."""

    scope: str = TOWN
    kinds: tuple[str, ...] = ()
    since: datetime | None = None
    before: Position | None = None
    by_time: bool = False
    """Whether the newest are those that happened last, and not those that were stored last."""


EVERYTHING = Wanted()


def find(
    log: BlockingRecorder,
    text: str,
    *,
    wanted: Wanted = EVERYTHING,
    limit: int = 20,
    store: Store | None = None,
    progress: Progress | None = None,
    most: int | None = None,
) -> list[Event]:
    """The newest events that hold these words, newest first; `most`: of so many that are looked through where there is no store.

    No text is an error; one without any word finds nothing.
    """
    check_scope(wanted.scope)
    match = match_of(terms_of(text))
    if not match or limit <= 0:
        return []
    places = None if store is None else _Index(store, log).places(match, wanted, limit, progress)
    if places is None:
        return _scan(log, match, wanted, limit, progress, most)
    return [event for place in places if (event := _at(log, *place)) is not None]


def near(
    log: BlockingRecorder, words: Sequence[str], *, store: Store, wanted: Wanted = EVERYTHING, named: str = "", limit: int = 8
) -> dict[Place, float] | None:
    """Where the newest events are that hold any of these words, a few for each, and how near each comes: the rarer a word, the nearer.

    `named`: only events that name this, as those of a scope name their scope. `None` if the index is not there, or lags too far behind to
    be brought up in passing. The store must agree with the log.
    """
    narrow = match_of([Term(named)]) if _WORD.search(named) else ""
    return _Index(store, log).near([match_of([Term(word)]) for word in words], narrow, wanted, limit)


def at(log: BlockingRecorder, place: Place) -> Event | None:
    """The event at a place that was found, unless it went meanwhile."""
    return _at(log, place.position, place.previous)


def behind(log: BlockingRecorder, store: Store) -> int:
    """About how many events are not in the index yet."""
    indexed = store.look(_stand, None)
    return 0 if indexed is None else max(0, log.info().events - indexed[0])


def index(log: BlockingRecorder, store: Store, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Bring the index up to date, in steps, until that is done or over; whether the store let that happen."""
    return _Index(store, log).bring_up(is_over)


# --- what is asked


def terms_of(text: str) -> list[Term]:
    """What a text asks for."""
    clean = text.replace("\0", " ").encode("utf-8", "replace").decode()[:LONGEST_QUERY]
    parts = _PART.findall(clean)
    quoted = [len(part) > 1 and part.startswith('"') and part.endswith('"') for part in parts]
    terms = [Term(part[1:-1] if is_quoted else part, not is_quoted) for part, is_quoted in zip(parts, quoted, strict=True)]
    return [Term(term.text, term.is_beginning and index == len(terms) - 1) for index, term in enumerate(terms)]


def match_of(terms: Sequence[Term]) -> str:
    """The terms as FTS5 reads them. Each is a quoted string, so that nothing in it means anything; those without a word are passed over."""
    return " ".join('"' + term.text.replace('"', '""') + ('"*' if term.is_beginning else '"') for term in terms)


def words_of(event: Event) -> str:
    """What an event is found by: its line, its names, and the strings in its payload."""
    words = [event.text or "", *(value for name in _FIELDS if (value := getattr(event, name)))]
    if event.data:
        words += _strings(event.data)
    return "\n".join(words)[:LONGEST]


def _strings(data: dict[str, Any]) -> Iterator[str]:
    """Every string in a payload, as far as they are indexed; keys are none."""
    room, stack = LONGEST, [iter(data.values())]
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


class _Index:
    """The words of a log's events, kept in the store and brought up to date before each question."""

    def __init__(self, store: Store, log: BlockingRecorder) -> None:
        self._store, self._log = store, log

    def places(self, match: str, wanted: Wanted, limit: int, progress: Progress | None) -> list[tuple[Position, Position | None]] | None:
        """Each position that was found and the one before it; `None` if the store cannot say."""
        if not self._update(progress):
            return None
        return self._store.look(lambda connection: _places(connection, match, wanted, limit), None)

    def near(self, matches: Sequence[str], named: str, wanted: Wanted, limit: int) -> dict[Place, float] | None:
        """Each place that any of the matches finds, with its nearness."""
        if not self._keep_up():
            return None
        found: dict[Place, float] = {}
        for match in matches:
            both = f"{named} AND {match}" if named else match
            places = self._store.look(partial(_places, match=both, wanted=wanted, limit=limit, most=MOST_LOOKED_AT), None)
            for position, previous in places or ():
                place = Place(position, previous, "")
                found[place] = found.get(place, 0.0) + 1 / len(places or ())
        return found

    def _keep_up(self) -> bool:
        """Add what is new, if that is little; whether the index now knows the whole log."""
        chunks_left = iter(range(NEWEST // CHUNK))
        is_far = False

        def is_over() -> bool:
            nonlocal is_far
            is_far = next(chunks_left, None) is None
            return is_far

        while (outcome := self._add_all(0, None, is_over)) == "again":
            pass
        return outcome == "done" and not is_far

    def bring_up(self, is_over: Callable[[], bool]) -> bool:
        """Bring the index to the log's head, unless it is over before."""
        return self._update(None, is_over)

    def _update(self, progress: Progress | None, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Bring the index to the log's head; whether that was possible."""
        info, holds = self._store.agree(self._log)
        before = info.trimmed_before
        if not holds or (before is not None and not self._store.change(lambda connection: _cut(connection, before), False)):
            return False
        while (outcome := self._add_all(info.events, progress, is_over)) == "again":
            pass  # another process has indexed meanwhile: go on behind it
        return outcome == "done"

    def _add_all(self, total: int, progress: Progress | None, is_over: Callable[[], bool]) -> str:
        stand = self._store.look(_stand, None)
        if stand is None:
            return "failed"
        done, after = stand
        for chunk in chunks(self._log.read(after=after), CHUNK):
            if is_over():
                break
            place = Place(chunk[-1].position or "", chunk[-2].position if len(chunk) > 1 else after, chunk[-1].id or "")
            outcome = self._store.change(_adding(chunk, after, place), "failed")
            if outcome != "done":
                return outcome
            if any(event.kind == "log.forgotten" for event in chunk):
                self._store.scrub()
            after, done = place.position, done + len(chunk)
            if progress is not None:
                progress(done, max(done, total))
        return "done"


def _stand(connection: apsw.Connection) -> tuple[int, Position | None]:
    # Not counted one by one: that would take longer the longer the log is. What was erased leaves a hole, and is counted with the rest.
    [(first, last)] = ask(connection, "SELECT (SELECT min(seq) FROM docs), (SELECT max(seq) FROM docs)")
    return 0 if first is None else last - first + 1, fact(connection, "indexed")


def _adding(events: Sequence[Event], after: Position | None, place: Place) -> Callable[[apsw.Connection], str]:
    rows = [_row(event) for event in events]
    words = [words_of(event) for event in events]

    def work(connection: apsw.Connection) -> str:
        if fact(connection, "indexed") != after:
            return "again"
        first = int(fact(connection, "last_doc") or 0) + 1
        connection.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", [(first + n, *row) for n, row in enumerate(rows)])
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(words, first))
        set_fact(connection, "last_doc", str(first + len(rows) - 1))
        set_fact(connection, "indexed", place.position)
        raise_anchor(connection, place)
        _forget(connection, hashes_in([event for event in events if event.kind == "log.forgotten"]))
        return "done"

    return work


def _row(event: Event) -> tuple[Position, int, str, str, bytes]:
    scopes = scopes_of(event)
    listed = f"{_SEPARATOR}{_SEPARATOR.join(scopes)}{_SEPARATOR}" if scopes else ""
    return event.position or "", microseconds(stamp_of(event)[0]), event.kind, listed, hash_of(event.id or "")


def _forget(connection: apsw.Connection, hashes: set[str]) -> None:
    """Take erased events out, and their words off the disk."""
    gone = [(bytes.fromhex(hash),) for hash in hashes if re.fullmatch("[0-9a-f]{64}", hash)]
    if gone:
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS gone (hash BLOB PRIMARY KEY) WITHOUT ROWID")
        connection.executemany("INSERT OR IGNORE INTO temp.gone VALUES (?)", gone)
        if _remove(connection, "hash IN (SELECT hash FROM temp.gone)"):
            # FTS5 only marks what is deleted until it next merges; this merges all.
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("DELETE FROM temp.gone")


def _cut(connection: apsw.Connection, trimmed_before: Position) -> bool:
    """Take out what was trimmed away since the last time."""
    if trimmed_before != fact(connection, "trimmed_before"):
        _remove(connection, "position < ?", (trimmed_before,))
        set_fact(connection, "trimmed_before", trimmed_before)
    return True


def _remove(connection: apsw.Connection, where: str, values: Sequence[str] = ()) -> int:
    rows = ask(connection, f"DELETE FROM docs WHERE {where} RETURNING seq", values)
    connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
    return len(rows)


def _places(
    connection: apsw.Connection, match: str, wanted: Wanted, limit: int, most: int | None = None
) -> list[tuple[Position, Position | None]]:
    """The newest places that match; `most`: of so many that are looked at."""
    scope = "" if wanted.scope == TOWN else f"{_SEPARATOR}{wanted.scope}{_SEPARATOR}"
    since = None if wanted.since is None else microseconds(wanted.since)
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


def _is_before(position: Position, wanted: Wanted) -> bool:
    return wanted.before is None or position < wanted.before


def _at(log: BlockingRecorder, position: Position, previous: Position | None) -> Event | None:
    """The event at a position, unless it went meanwhile."""
    event = next(log.read(after=previous, limit=1), None)
    return event if event is not None and event.position == position else None


# --- without


def _scan(log: BlockingRecorder, match: str, wanted: Wanted, limit: int, progress: Progress | None, most: int | None = None) -> list[Event]:
    """Read backwards until enough was found, a part of the log in memory at a time."""
    total, done = 0 if progress is None else log.info().events, 0
    found: list[Event] = []
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(INDEX.format(name="words"))
        events = log.read(wanted.scope, kinds=wanted.kinds, since=wanted.since, before=wanted.before, newest_first=True, limit=most)
        for chunk in chunks(events, CHUNK):
            connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(map(words_of, chunk)))
            found += [chunk[row] for (row,) in ask(connection, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (match,))]
            if len(found) >= limit and not wanted.by_time:
                break
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            done += len(chunk)
            if progress is not None:
                progress(done, max(done, total))
    if wanted.by_time:
        found.sort(key=lambda event: (stamp_of(event)[0], event.position or ""), reverse=True)
    return found[:limit]


# --- for those who show what was found


def spans(text: str, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Where in a text the terms stand, in order and apart from each other: near enough to what the index says to show it by."""
    folded, places = _folded(text)
    patterns = [pattern for term in terms if (pattern := _pattern(term))]
    if not patterns:
        return []
    found = re.finditer("|".join(patterns), folded)
    return [(places[match.start()], places[match.end() - 1] + 1) for match in found]


def excerpt(event: Event, terms: Sequence[Term]) -> str:
    """The part of an event's words that was found, for one whose line does not show it."""
    words = words_of(event)
    for start, end in spans(words, terms):
        cut = words[max(0, start - SHOWN) : end + SHOWN]
        return f"{'…' if start > SHOWN else ''}{cut}{'…' if end + SHOWN < len(words) else ''}"
    return ""


def _pattern(term: Term) -> str:
    words = [re.escape(word) for word in _WORD.findall(_folded(term.text)[0])]
    if not words:
        return ""
    return r"(?<![^\W_])" + r"[\W_]+".join(words) + ("" if term.is_beginning else r"(?![^\W_])")


def _folded(text: str) -> tuple[str, list[int]]:
    """The text without capitals and accents, and for each of its characters the place that it comes from."""
    letters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        plain = character.lower() if character.isascii() else _plain(character)
        letters.append(plain)
        places += [place] * len(plain)
    return "".join(letters), places


def _plain(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    return "".join(part.lower() for part in parts if unicodedata.category(part) != "Mn")
