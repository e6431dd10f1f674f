"""Encodes events as canonical JSON and decodes them; records of older schema versions are upgraded on decode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fleetlore.errors import InvalidEvent
from fleetlore.events.envelope import SCHEMA_VERSION, Event

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTERS: Mapping[int, Upcaster] = {}
"""Version n → function that upgrades a record from version n to n + 1."""

NEEDS_ZONE = "needs a time zone, as in 2026-11-15T20:23:12Z or datetime.now(UTC)"

_encoder = msgspec.json.Encoder()
encode_unadjusted = _encoder.encode
"""Encode without adjusting time or position; canonical for an event that has neither."""
_decoder = msgspec.json.Decoder(Event)
_untyped_decoder = msgspec.json.Decoder()
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# In {"id":"<36 characters>","at":"2026-11-15T20:23:12Z" the seconds end at byte 70.
_AT_KEY, _SECONDS_END = slice(43, 51), 70


def encode_event(event: Event) -> bytes:
    """Return canonical JSON: fields in envelope order, absent ones omitted, six fractional digits in times."""
    if event.position is not None:
        event = replace(event, position=None)
    raw = _encoder.encode(event)
    # msgspec omits the fraction of a whole second; with it, text order is time order.
    if raw[_SECONDS_END : _SECONDS_END + 1] == b"Z" and raw[_AT_KEY] == b'","at":"':
        raw = raw[:_SECONDS_END] + b".000000" + raw[_SECONDS_END:]
    return raw


def encode_with_position(event: Event) -> bytes:
    """Return canonical JSON plus `position`: the form in which programs receive events."""
    raw = encode_event(event)
    return raw if event.position is None else raw[:-1] + b',"position":"' + event.position.encode() + b'"}'


def decode_event(raw: bytes | str, *, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Event:
    """Decode an event from JSON; raise `InvalidEvent` with the path of the problem."""
    try:
        event = _decoder.decode(raw)
    except _UNREADABLE as error:
        return _decode_slowly(raw, upcasters, error)
    if event.v != SCHEMA_VERSION:
        return _decode_slowly(raw, upcasters, None)
    return event if event.position is None else replace(event, position=None)


def _decode_slowly(raw: bytes | str, upcasters: Mapping[int, Upcaster], first: Exception | None) -> Event:
    try:
        record = _untyped_decoder.decode(raw)
    except _UNREADABLE as error:
        raise InvalidEvent("$", f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise InvalidEvent("$", f"an object is needed, not {type(record).__name__}") from first
    record.pop("position", None)
    return from_builtins(upgrade_record(record, upcasters))


def upgrade_record(record: dict[str, Any], upcasters: Mapping[int, Upcaster] = UPCASTERS) -> dict[str, Any]:
    """Upgrade a record of an older version to the current one."""
    version = record.get("v", SCHEMA_VERSION)
    while isinstance(version, int) and version in upcasters and version < SCHEMA_VERSION:
        try:
            record = upcasters[version](record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidEvent("$", f"a record of version {version} that cannot be lifted: {error!r}") from error
        version += 1
    if version != SCHEMA_VERSION:
        raise InvalidEvent("$.v", f"schema version {version!r} is not known here (newest: {SCHEMA_VERSION}); upgrade fleetlore")
    record["v"] = SCHEMA_VERSION
    return record


def from_builtins(record: dict[str, Any]) -> Event:
    """Build an event from dicts and strings; raise `InvalidEvent`."""
    try:
        return msgspec.convert(record, Event)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise InvalidEvent(path.rstrip("`") or "$", NEEDS_ZONE if "timezone" in reason else reason) from error


def to_builtins(event: Event) -> dict[str, Any]:
    """Return the canonical JSON as dicts and strings."""
    return decode_builtins(encode_event(event))


def decode_builtins(raw: bytes) -> dict[str, Any]:
    """Return the JSON of an event as dicts and strings."""
    record: dict[str, Any] = _untyped_decoder.decode(raw)
    return record
