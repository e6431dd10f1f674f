"""Encodes an event as a stream entry in tinytown's layout, and decodes it.

An entry has the fields `event_type`, `data` and `checksum` (of `data`). `data` is tinytown's JSON plus the key `fleetlore`
with the canonical event. That key comes first, so that scripts find the event's id without parsing the rest. Entries that
tinytown wrote itself lack the key and the checksum; the tinytown dialect decodes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fleetlore.dialects import tinytown
from fleetlore.dialects.tinytown import derive_town_uuid, type_from_kind
from fleetlore.errors import DialectError, Invalid
from fleetlore.events import codec
from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.log.base import SCOPE_KINDS, TOWN, Position, StoredRecord

OWN_KEY = "fleetlore"
_HALF_DIGITS = 20
_MAX_NUMBER = 2**64 - 1
_OWN_PREFIX = f'{{"{OWN_KEY}":'.encode()
_OWN_ID_PATTERN = re.compile(rb'\{"id":"([0-9a-f-]{36})"')


class _Data(Struct):
    fleetlore: Raw | UnsetType = UNSET


class _EventNames(Struct, gc=False):
    """The fields of the canonical event that tinytown's form needs; times stay text."""

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
_decode_named = msgspec.json.Decoder(_EventNames).decode
_encode = msgspec.json.Encoder().encode


class TownKeys:
    """Redis key names of a town."""

    def __init__(self, town: str) -> None:
        self._town = town
        self.events = f"tt:{town}:events"
        prefix = f"tt:{town}:fleetlore"
        self.ids = f"{prefix}:ids"
        self.forgotten = f"{prefix}:forgotten"
        self.meta = f"{prefix}:meta"
        self.removed = f"{prefix}:removed"
        self.blobs = f"{prefix}:blobs"
        self.seal = f"{prefix}:seal"
        self.stream = lru_cache(maxsize=16384)(self._make_stream_key)
        self._scope_name = re.compile(rb"%b:(?:%b):[0-9a-f-]{36}" % (re.escape(self.events.encode()), "|".join(SCOPE_KINDS).encode()))

    @property
    def own_keys(self) -> tuple[str, str, str, str, str]:
        """The keys that only Fleetlore uses, in the order of the scripts."""
        return self.ids, self.forgotten, self.meta, self.removed, self.blobs

    def _make_stream_key(self, scope: str) -> str:
        if scope == TOWN:
            return self.events
        kind, _, value = scope.partition(":")
        return f"{self.events}:{kind}:{derive_town_uuid(self._town, value)}"

    def stream_keys(self, scopes: Sequence[str]) -> tuple[str, ...]:
        """Return the streams of several scopes without duplicates: two names may mean one agent."""
        return tuple(dict.fromkeys(map(self.stream, scopes)))

    @property
    def scope_pattern(self) -> str:
        """SCAN pattern for the scopes' streams. May match other keys too: filter with `is_scope_stream`."""
        escaped = "".join(f"\\{character}" if character in r"*?[]^\-" else character for character in self.events)
        return f"{escaped}:*"

    def is_scope_stream(self, name: bytes) -> bool:
        """Return whether this is a scope's stream of this town, and not of a town whose name starts the same."""
        return self._scope_name.fullmatch(name) is not None


def encode_entry(kind: str, raw: bytes, town: str) -> tuple[str, bytes, bytes]:
    """Return the type, the data and the checksum of an entry."""
    name = type_from_kind(kind)
    rest = _encode_unknown_kind(raw, town) if name == kind else _encode_tinytown_data(raw, town)
    data = b"%b%b%b%b" % (_OWN_PREFIX, raw, b"" if rest == b"{}" else b",", rest[1:])
    return name, data, _checksum_data(data)


def _checksum_data(data: bytes) -> bytes:
    return b"%08x" % crc32(data)


def _encode_tinytown_data(raw: bytes, town: str) -> bytes:
    data = tinytown.DIALECT.encode(codec.decode_event(raw), town=town)
    assert data is not None  # tinytown has a type for this kind
    if b'"fleetlore"' in data:  # an imported record has a key of this name; the canonical event contains it too
        kept = {key: value for key, value in json.loads(data).items() if key != OWN_KEY}
        data = json.dumps(kept, separators=(",", ":")).encode()
    return data


def _encode_unknown_kind(raw: bytes, town: str) -> bytes:
    """Use the same layout for a kind that tinytown does not have; its readers skip it."""
    event = _decode_named(raw)
    return _encode(
        _TownEvent(
            event.kind,
            derive_town_uuid(town, event.agent) if event.agent else UNSET,
            derive_town_uuid(town, event.task) if event.task else UNSET,
            derive_town_uuid(town, event.mission) if event.mission else UNSET,
            event.old_state,
            event.new_state,
            event.text,
            event.at,
            derive_town_uuid(town, event.parent) if event.parent else UNSET,
            derive_town_uuid(town, event.child) if event.child else UNSET,
        )
    )


def decode_entry(entry: bytes, fields: Sequence[bytes]) -> StoredRecord:
    """Return the record of an entry. Unreadable data is passed on unchanged; `log/reading.py` reports it."""
    return StoredRecord(to_position(entry), _extract_event(entry_data(fields)))


def entry_data(fields: Sequence[bytes]) -> bytes:
    """Return the data of an entry; for an entry without data, its fields as text."""
    data = _field_pairs(fields).get(b"data")
    return data if data is not None else repr(list(fields)).encode()


def is_entry_intact(fields: Sequence[bytes]) -> bool | None:
    """Return whether the data of an entry is what was written; `None` if it has no checksum, as those of tinytown and of 0.1."""
    pairs = _field_pairs(fields)
    return pairs[b"checksum"] == _checksum_data(pairs.get(b"data", b"")) if b"checksum" in pairs else None


def entry_kind(fields: Sequence[bytes]) -> str:
    """Return the kind that an entry's type stands for."""
    name = _field_pairs(fields).get(b"event_type", b"").decode(errors="replace")
    return tinytown.KIND_PREFIX + name if name in tinytown.TYPES else name


def _field_pairs(fields: Sequence[bytes]) -> Mapping[bytes, bytes]:
    return dict(zip(fields[::2], fields[1::2], strict=False))


def _extract_event(data: bytes) -> bytes:
    own: bytes | Raw | UnsetType
    try:
        own = _decode_data(data).fleetlore
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The rest of the data, or all of it, is JSON that only the more lenient tinytown dialect can read.
        own = _extract_own_event(data)
    if own is not UNSET:
        return bytes(own)
    event = decode_foreign_event(data)
    return data if event is None else codec.encode_event(event)


def _extract_own_event(data: bytes) -> bytes | UnsetType:
    if not data.startswith(_OWN_PREFIX):
        return UNSET
    text = data.decode(errors="surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_OWN_PREFIX))
    except (ValueError, RecursionError):
        return UNSET
    return text[len(_OWN_PREFIX) : end].encode(errors="surrogateescape")


def parse_scopes(raw: bytes) -> tuple[str, ...]:
    """Return the scopes of a stored event, even if the event is otherwise invalid."""
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


def parse_event_id(data: bytes) -> str | None:
    """Return the id of an event, from the data of its entry."""
    if data.startswith(_OWN_PREFIX):
        found = _OWN_ID_PATTERN.match(data, len(_OWN_PREFIX))
        return found[1].decode() if found else None
    event = decode_foreign_event(data)
    return None if event is None else event.id


def decode_foreign_event(data: bytes) -> Event | None:
    """Decode an entry that tinytown wrote. The id is derived from the data, so all copies are one event."""
    if data.startswith(_OWN_PREFIX):
        return None
    try:
        return tinytown.DIALECT.decode(data)
    except (DialectError, RecursionError):
        return None


def to_position(entry: bytes) -> Position:
    """Convert an entry id `MS-SEQ` to a position: both padded, so that text order is log order."""
    ms, _, seq = entry.partition(b"-")
    return f"{int(ms):0{_HALF_DIGITS}d}{int(seq):0{_HALF_DIGITS}d}"


def to_entry_id(position: Position) -> str:
    """Convert a position to an entry id; raise `Invalid` if it is not a position of this log."""
    if position.isascii() and position.isdigit() and len(position) == 2 * _HALF_DIGITS:
        return f"{min(int(position[:_HALF_DIGITS]), _MAX_NUMBER)}-{min(int(position[_HALF_DIGITS:]), _MAX_NUMBER)}"
    raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")


MAX_POSITION = f"{_MAX_NUMBER:0{_HALF_DIGITS}d}" * 2
MIN_POSITION = "0" * (2 * _HALF_DIGITS)


def position_before(position: Position) -> Position:
    """Return the highest position below another."""
    number = int(position[:_HALF_DIGITS]) * (_MAX_NUMBER + 1) + int(position[_HALF_DIGITS:]) - 1
    ms, seq = divmod(max(number, 0), _MAX_NUMBER + 1)
    return f"{ms:0{_HALF_DIGITS}d}{seq:0{_HALF_DIGITS}d}"


def position_after(position: Position) -> Position:
    """Return the lowest position above another."""
    ms, seq = divmod(int(position[:_HALF_DIGITS]) * (_MAX_NUMBER + 1) + int(position[_HALF_DIGITS:]) + 1, _MAX_NUMBER + 1)
    return f"{ms:0{_HALF_DIGITS}d}{seq:0{_HALF_DIGITS}d}"
