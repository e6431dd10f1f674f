"""One event as an entry of a stream, in tinytown's layout, and back.

An entry has the fields `event_type` and `data`. `data` is tinytown's JSON with one key more, `fleetlore`, which
holds the whole canonical event; it comes first, so that scripts find the event's id without reading the rest.
Entries that tinytown wrote itself lack the key: they are read by its dialect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fleetlore.dialects import tinytown
from fleetlore.dialects.tinytown import town_uuid, type_of
from fleetlore.errors import DialectError, Invalid
from fleetlore.events import codec
from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.log.base import SCOPE_KINDS, TOWN, Position, Stored

OWN_KEY = "fleetlore"
_HALF = 20
_HIGHEST = 2**64 - 1
_opening = f'{{"{OWN_KEY}":'.encode()
_own_id = re.compile(rb'\{"id":"([0-9a-f-]{36})"')


class _Data(Struct):
    fleetlore: Raw | UnsetType = UNSET


class _Named(Struct, gc=False):
    """What tinytown's form takes from the canonical event, times as they are written."""

    kind: str
    at: str
    agent: str | UnsetType = UNSET
    parent: str | UnsetType = UNSET
    child: str | UnsetType = UNSET
    task: str | UnsetType = UNSET
    mission: str | UnsetType = UNSET
    old_state: str | UnsetType = UNSET
    new_state: str | UnsetType = UNSET
    text: str = ""


class _TownEvent(Struct, gc=False):
    event_type: str
    agent_id: str | UnsetType
    task_id: str | UnsetType
    mission_id: str | UnsetType
    old_state: str | UnsetType
    new_state: str | UnsetType
    message: str
    timestamp: str
    parent_agent_id: str | UnsetType
    child_agent_id: str | UnsetType


_decode_data = msgspec.json.Decoder(_Data).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_encode = msgspec.json.Encoder().encode


class Keys:
    """The names under which a town is kept."""

    def __init__(self, town: str) -> None:
        self._town = town
        self.events = f"tt:{town}:events"
        own = f"tt:{town}:fleetlore"
        self.ids = f"{own}:ids"
        self.forgotten = f"{own}:forgotten"
        self.meta = f"{own}:meta"
        self.removed = f"{own}:removed"
        self.seal = f"{own}:seal"
        self.stream = lru_cache(maxsize=16384)(self._stream)
        self._scope_name = re.compile(rb"%b:(?:%b):[0-9a-f-]{36}" % (re.escape(self.events.encode()), "|".join(SCOPE_KINDS).encode()))

    @property
    def own(self) -> tuple[str, str, str, str]:
        """Those that are ours alone."""
        return self.ids, self.forgotten, self.meta, self.removed

    def _stream(self, scope: str) -> str:
        """The stream of a scope."""
        if scope == TOWN:
            return self.events
        kind, _, value = scope.partition(":")
        return f"{self.events}:{kind}:{town_uuid(self._town, value)}"

    def streams(self, scopes: Sequence[str]) -> tuple[str, ...]:
        """The streams of several scopes, none twice: two names may mean one agent."""
        return tuple(dict.fromkeys(map(self.stream, scopes)))

    @property
    def pattern(self) -> str:
        """What the names of all the scopes' streams have in common; others may have it, too: see `is_scope`."""
        safe = "".join(f"\\{character}" if character in r"*?[]^\-" else character for character in self.events)
        return f"{safe}:*"

    def is_scope(self, name: bytes) -> bool:
        """Whether this is the stream of a scope of this town, and not of a town whose name begins like ours."""
        return self._scope_name.fullmatch(name) is not None


def write(kind: str, raw: bytes, town: str) -> tuple[str, bytes]:
    """The type and the data of an entry."""
    name = type_of(kind)
    told = _told(raw, town) if name == kind else _told_as_tinytown_does(raw, town)
    return name, b"%b%b%b%b" % (_opening, raw, b"" if told == b"{}" else b",", told[1:])


def _told_as_tinytown_does(raw: bytes, town: str) -> bytes:
    told = tinytown.DIALECT.encode(codec.decode(raw), town=town)
    assert told is not None  # it has a word for the kind
    if b'"fleetlore"' in told:  # a foreign record has a key of this name; the canonical event holds it too
        kept = {key: value for key, value in json.loads(told).items() if key != OWN_KEY}
        told = json.dumps(kept, separators=(",", ":")).encode()
    return told


def _told(raw: bytes, town: str) -> bytes:
    """The same form for a kind that tinytown has no word for; its readers pass over it."""
    event = _decode_named(raw)
    return _encode(
        _TownEvent(
            event.kind,
            town_uuid(town, event.agent) if event.agent else UNSET,
            town_uuid(town, event.task) if event.task else UNSET,
            town_uuid(town, event.mission) if event.mission else UNSET,
            event.old_state,
            event.new_state,
            event.text,
            event.at,
            town_uuid(town, event.parent) if event.parent else UNSET,
            town_uuid(town, event.child) if event.child else UNSET,
        )
    )


def read(entry: bytes, fields: Sequence[bytes]) -> Stored:
    """The record of an entry. What cannot be read is given as it is, and told by whoever revives it."""
    return Stored(to_position(entry), _raw_of(data_of(fields)))


def data_of(fields: Sequence[bytes]) -> bytes:
    """The data of an entry; an entry without any is shown as it is."""
    found = _pairs(fields).get(b"data")
    return found if found is not None else repr(list(fields)).encode()


def kind_of(fields: Sequence[bytes]) -> str:
    """The kind of an entry, as its type tells it."""
    name = _pairs(fields).get(b"event_type", b"").decode(errors="replace")
    return tinytown.FAMILY + name if name in tinytown.TYPES else name


def _pairs(fields: Sequence[bytes]) -> Mapping[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=False))


def _raw_of(data: bytes) -> bytes:
    own: bytes | Raw | UnsetType
    try:
        own = _decode_data(data).fleetlore
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # What stands behind our own key, or all of it, is spelt in a way that only tinytown's dialect can read.
        own = _own_part(data)
    if own is not UNSET:
        return bytes(own)
    event = foreign(data)
    return data if event is None else codec.encode(event)


def _own_part(data: bytes) -> bytes | UnsetType:
    if not data.startswith(_opening):
        return UNSET
    text = data.decode(errors="surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_opening))
    except (ValueError, RecursionError):
        return UNSET
    return text[len(_opening) : end].encode(errors="surrogateescape")


def scopes_in(raw: bytes) -> tuple[str, ...]:
    """The scopes that a stored event names, whatever else is the matter with it."""
    try:
        event = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    if not isinstance(event, dict):
        return ()
    kinds = {name: "agent" if name in ("parent", "child") else name for name in SCOPE_FIELDS}
    scopes = [f"{kind}:{event[name]}" for name, kind in kinds.items() if isinstance(event.get(name), str)]
    match event.get("origin"):
        case {"log": {"id": str(source)}}:
            scopes.append(f"source:{source}")
    return tuple(dict.fromkeys(scopes))


def id_in(data: bytes) -> str | None:
    """The id of an event, by the data of an entry."""
    if data.startswith(_opening):
        found = _own_id.match(data, len(_opening))
        return found[1].decode() if found else None
    event = foreign(data)
    return None if event is None else event.id


def foreign(data: bytes) -> Event | None:
    """The event of an entry that tinytown wrote. Its id follows from the data alone, so all copies are one event."""
    if data.startswith(_opening):
        return None
    try:
        return tinytown.DIALECT.decode(data)
    except (DialectError, RecursionError):
        return None


def to_position(entry: bytes) -> Position:
    """An entry's id `MS-SEQ` as a position: both padded, so that text order is log order."""
    ms, _, seq = entry.partition(b"-")
    return f"{int(ms):0{_HALF}d}{int(seq):0{_HALF}d}"


def to_entry(position: Position) -> str:
    """The entry's id of a position."""
    if position.isascii() and position.isdigit() and len(position) == 2 * _HALF:
        return f"{min(int(position[:_HALF]), _HIGHEST)}-{min(int(position[_HALF:]), _HIGHEST)}"
    raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")


HIGHEST = f"{_HIGHEST:0{_HALF}d}" * 2
LOWEST = "0" * (2 * _HALF)


def just_before(position: Position) -> Position:
    """The highest position that lies below another."""
    number = int(position[:_HALF]) * (_HIGHEST + 1) + int(position[_HALF:]) - 1
    ms, seq = divmod(max(number, 0), _HIGHEST + 1)
    return f"{ms:0{_HALF}d}{seq:0{_HALF}d}"


def just_after(position: Position) -> Position:
    """The lowest position that lies above another."""
    ms, seq = divmod(int(position[:_HALF]) * (_HIGHEST + 1) + int(position[_HALF:]) + 1, _HIGHEST + 1)
    return f"{ms:0{_HALF}d}{seq:0{_HALF}d}"
