"""Where an event is: its entry in the town's stream, and all its copies, also where others have cut the town's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fleetlore.log.base import PAGE
from fleetlore.log.redis_entry import data_of, foreign, id_in, read, scopes_in

if TYPE_CHECKING:
    from fleetlore.log.redis import RedisLog

Copies: TypeAlias = list[tuple[str, bytes]]
"""Streams, and the entry in each."""
Place: TypeAlias = tuple[bytes, Copies]
"""The entry that an id is known by, if it is, and the event's copies."""

NOWHERE: Place = (b"", [])


def find_in_town(log: RedisLog, ids: Sequence[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """The town's entries of these events: id, entry, data."""
    known = _known(log, ids)
    for id, entry, data in _at(log, log.keys.events, known):
        yield id, entry, data
    # Ids that tinytown's entries were given when they were read stand in no index.
    unknown = {id for id in ids if id not in known and id[14] == "8"}
    if unknown and is_shared(log):
        for entry, data in _all(log, log.keys.events):
            event = foreign(data)
            if event is not None and event.id in unknown:
                yield event.id, entry, data


def find_copies(log: RedisLog, ids: Sequence[str]) -> dict[str, Place]:
    """Every copy of these events."""
    known = _known(log, ids)
    found: dict[str, Place] = {id: (entry, []) for id, entry in known.items()}
    missing = dict(known)
    for id, entry, data in _at(log, log.keys.events, known):
        scopes = scopes_in(read(entry, [b"data", data]).raw)
        found[id] = (entry, [(stream, entry) for stream in (log.keys.events, *log.keys.streams(scopes))])
        del missing[id]
    if missing:  # somebody cut them off the town's stream; the scopes still have them
        for streams in log.scope_streams():
            for stream in streams:
                for id, entry, _ in _at(log, stream, missing):
                    found[id][1].append((stream, entry))
    unknown = {id for id in ids if id not in known}
    if unknown and is_shared(log):
        _look_everywhere(log, unknown, found)
    return {id: place for id, place in found.items() if place[0] or place[1]}


def is_shared(log: RedisLog) -> bool:
    """Whether others write to this town, or cut it: then there may be events that stand in no index."""
    length, known = log.client.ask(("XLEN", log.keys.events), ("HLEN", log.keys.ids))
    return bool(length != known) or log.cut_by_others() > 0


def _look_everywhere(log: RedisLog, ids: set[str], found: dict[str, Place]) -> None:
    """tinytown gives each copy an entry id of its own, and only the data tells whose it is."""
    for streams in ([log.keys.events], *log.scope_streams()):
        for stream in streams:
            for entry, data in _all(log, stream):
                if (id := id_in(data)) in ids:
                    found.setdefault(id, (b"", []))[1].append((stream, entry))


def _known(log: RedisLog, ids: Sequence[str]) -> dict[str, bytes]:
    ids = list(dict.fromkeys(ids))
    if not ids:
        return {}
    [entries] = log.client.ask(("HMGET", log.keys.ids, *ids))
    return {id: entry for id, entry in zip(ids, entries, strict=True) if entry}


def _at(log: RedisLog, stream: str, entries: dict[str, bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Those of these entries that a stream has."""
    answers = log.client.ask(*(("XRANGE", stream, entry, entry) for entry in entries.values())) if entries else []
    for (id, entry), answer in zip(list(entries.items()), answers, strict=True):
        if answer:
            yield id, entry, data_of(answer[0][1])


def _all(log: RedisLog, stream: str) -> Iterator[tuple[bytes, bytes]]:
    start = "-"
    while True:
        [entries] = log.client.ask(("XRANGE", stream, start, "+", "COUNT", PAGE))
        for entry, fields in entries:
            yield entry, data_of(fields)
        if len(entries) < PAGE:
            return
        start = f"({entries[-1][0].decode()}"
