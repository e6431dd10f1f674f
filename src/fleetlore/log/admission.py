"""Admission: what every event passes before it is stored. Stamps, validates, redacts and truncates; used by both recorders."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, get_args

from msgspec import convert
from msgspec.structs import astuple, replace

from fleetlore import clock
from fleetlore.errors import InvalidEvent, TooLarge
from fleetlore.events import codec
from fleetlore.events.catalog import KIND_PATTERN, LONGEST_KIND, check_payload, payload_keys, strict_payload_type
from fleetlore.events.envelope import LONGEST_NAME, SCHEMA_VERSION, SCOPE_FIELDS, Cut, Event, LogPlace, Origin, Visibility, is_name
from fleetlore.events.ids import is_uuid, uuid_bytes
from fleetlore.events.payload import Payload
from fleetlore.log.base import Record, epoch_microseconds, event_scopes, scopes_from_names
from fleetlore.redact import MASK, Redactor, secret_word_search

MAX_EVENT_BYTES = 256 * 1024
MAX_STRING_BYTES = 16 * 1024
OWN_DIALECT = "fleetlore"

_NAME_FIELDS = ("actor", *SCOPE_FIELDS)
_NAME_FIELDS_SLICE = slice(Event.__struct_fields__.index(_NAME_FIELDS[0]), Event.__struct_fields__.index(_NAME_FIELDS[-1]) + 1)
# The envelope's own identifiers: they hold no free text, and cutting or masking them would break references.
_IMMUTABLE_FIELDS = frozenset({"id", "at", "kind", "cause", "trace", "visibility", "mac", "v"})
# Keys of our own format. User-defined redaction patterns must not change them: the event would become unreadable.
_ENVELOPE_KEYS = frozenset(name for part in (Event, Origin, Cut, LogPlace) for name in part.__struct_fields__)
_COMPILED_INTERFACE = 4
# How the compiled admission checks each field. An event with any other field, a new one for example, is left to Python.
_FAST_CHECKS = dict.fromkeys(_NAME_FIELDS, "name") | {
    "id": "own id",
    "at": "time",
    "kind": "kind",
    "cause": "id",
    "old_state": "text",
    "new_state": "text",
    "text": "text",
    "visibility": "choice",
    "data": "data",
    "v": "version",
}
# On the stage (multi-agent games), a player's `secret` is part of the game, not a password.
_HARMLESS_STAGE_KEYS = frozenset({"secret"})
_STAGE_DIALECT = "stage"
_STAGE_KINDS = frozenset({"agent.spoke", "judge.verdict"})


class Admission:
    """Turns a caller's event into a record that a backend can store."""

    def __init__(
        self,
        *,
        now: clock.Clock = clock.now,
        new_id: Callable[[], str] = clock.uuid7,
        redactor: Redactor | None = None,
        anonymise: Callable[[Event], Event] | None = None,
        keeps_whole_texts: bool = True,
    ) -> None:
        # Our own clock and ids need no validation. Injected ones do, and injected ids may repeat, as in tests.
        self._creates_ids = new_id is clock.uuid7
        self._now: clock.Clock = now if now is clock.now else lambda: _convert_to_utc(now())
        self._new_id: Callable[[], str] = new_id if self._creates_ids else lambda: _canonical_uuid("$.id", new_id())
        self._redactor = redactor or Redactor()
        self._anonymise = anonymise
        self.keeps_whole_texts = keeps_whole_texts
        uses_defaults = self._creates_ids and now is clock.now and anonymise is None
        self._fast_admit = make_fast_admission(self._redactor, now=now, new_id=new_id) if uses_defaults else None

    def admit(self, event: Event) -> Record:
        """Return the record to store; raise `InvalidEvent` or `TooLarge`."""
        if self._fast_admit is not None and (record := self._fast_admit(event)) is not None:
            return record
        if not isinstance(event, Event):
            raise InvalidEvent("$", f"an Event is needed, not {type(event).__name__}")
        try:
            return self._admit_event(event)
        except RecursionError as error:
            raise InvalidEvent("$.data", "nested too deeply") from error

    def _admit_event(self, event: Event) -> Record:
        minted = event.id is None and self._creates_ids
        raw = _encode_event(self._stamp_event(event))
        event = codec.decode_event(raw)  # from here on exactly what a reader will get, with every type checked
        _validate_event(event)
        check_payload(event.kind, event.data)
        if self._anonymise is not None:
            event = self._anonymise(event)
            raw = codec.encode_event(event)
        if self._redactor.may_contain_secret(raw):
            event, raw = self._redact_event(event, raw)
            _validate_event(event)
        blobs = b""
        if len(raw) > MAX_STRING_BYTES:
            event, raw, whole = _truncate_strings(event, raw)
            if whole and self.keeps_whole_texts:
                from fleetlore.log.blobs import pack_texts  # loaded only for long strings: it costs start-up time

                blobs = pack_texts(whole)
            if len(raw) > MAX_EVENT_BYTES:
                raise TooLarge("an event's JSON, in bytes", len(raw), MAX_EVENT_BYTES)
        assert event.id is not None  # both were set by _stamp_event
        assert event.at is not None
        key, moment = uuid_bytes(event.id), epoch_microseconds(event.at)
        return Record(event.id, event.at, event.kind, event_scopes(event), raw, key, moment, minted, blobs)

    def _stamp_event(self, event: Event) -> Event:
        return replace(
            event,
            id=self._new_id() if event.id is None else _canonical_uuid("$.id", event.id),
            at=self._now() if event.at is None else _convert_to_utc(event.at),
            actor=event.agent if event.actor is None else event.actor,
        )

    def _redact_event(self, event: Event, raw: bytes) -> tuple[Event, bytes]:
        record = codec.decode_builtins(raw)
        redactable = {key: value for key, value in record.items() if key not in _IMMUTABLE_FIELDS}
        fixed_keys = _ENVELOPE_KEYS | payload_keys(event.kind) if self._redactor.has_extra_patterns else frozenset[str]()
        cleaned, found = self._redactor.redact_value(
            redactable, harmless=_HARMLESS_STAGE_KEYS if _is_stage_event(event) else (), fixed_keys=fixed_keys, raw=raw
        )
        if not found:
            return event, raw
        _repair_names(cleaned)
        origin = cleaned.setdefault("origin", {"dialect": OWN_DIALECT})
        origin["redacted"] = origin.get("redacted", 0) + found
        return _rebuild_event(record | cleaned)


def make_fast_admission(redactor: Redactor, *, now: clock.Clock, new_id: Callable[[], str]) -> Callable[[Event], Record | None] | None:
    """Return the compiled fast path for plain events, or `None` if the C extension is not built or out of date.

    The fast path returns the same record as `Admission.admit`, or `None` for an event that needs the full path.
    """
    words = secret_word_search()
    if words is None or redactor.has_extra_patterns:
        return None
    from fleetlore import _quick

    if getattr(_quick, "INTERFACE", 1) != _COMPILED_INTERFACE:
        return None  # compiled from older sources; `make setup` compiles it again

    return _quick.Admitter(
        event=Event,
        record=Record,
        encode=codec.encode_unadjusted,
        now=now,
        new_id=new_id,
        scopes_of_names=_scopes_from_names,
        payload_of=_payload_type,
        convert=convert,
        suspects=redactor.may_contain_secret,
        words=words,
        utc=UTC,
        fields=tuple((name, _FAST_CHECKS.get(name, "absent")) for name in Event.__struct_fields__),
        choices=get_args(Visibility),
        version=SCHEMA_VERSION,
        longest=MAX_STRING_BYTES,
    ).admit


@lru_cache(maxsize=4096)  # bounded: every task adds names that are not used again
def _scopes_from_names(names: tuple[str | None, ...]) -> tuple[str, ...]:
    """Validate actor and scope fields and return their scopes."""
    for name, value in zip(_NAME_FIELDS, names, strict=True):
        if value is not None and not is_name(value):
            raise InvalidEvent(f"$.{name}", f"1 to {LONGEST_NAME} bytes without control characters are needed")
    return scopes_from_names(names[1:])


@lru_cache(maxsize=4096)
def _payload_type(kind: str) -> type[Payload] | None:
    _validate_kind(kind)
    return strict_payload_type(kind)


def _is_stage_event(event: Event) -> bool:
    return event.kind in _STAGE_KINDS or (event.origin is not None and event.origin.dialect == _STAGE_DIALECT)


def _encode_event(event: Event) -> bytes:
    try:
        return codec.encode_event(event)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidEvent("$", f"cannot be written as JSON: {error}") from error


def _rebuild_event(record: dict[str, Any]) -> tuple[Event, bytes]:
    event = codec.from_builtins(record)
    return event, codec.encode_event(event)


def _repair_names(record: dict[str, Any]) -> None:
    """Mask a name that redaction made invalid (too long), so that the event can still be stored."""
    for name in _NAME_FIELDS:
        if (value := record.get(name)) is not None and not is_name(value):
            record[name] = MASK
    log = (record.get("origin") or {}).get("log")
    if log is not None and not is_name(log["id"]):
        log["id"] = MASK


def _convert_to_utc(at: datetime) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidEvent("$.at", codec.NEEDS_ZONE)
    try:
        return at if at.tzinfo is UTC else at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidEvent("$.at", "lies outside of the calendar in UTC") from error


def _canonical_uuid(path: str, text: str) -> str:
    if isinstance(text, str) and is_uuid(text):
        return text
    from uuid import UUID

    try:
        return str(UUID(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidEvent(path, f"not a UUID: {text!r}; leave it out and the log gives one") from error


def _validate_event(event: Event) -> None:
    _validate_kind(event.kind)
    if event.actor is None:
        raise InvalidEvent("$.actor", "say who did it (actor, or agent)")
    _scopes_from_names(astuple(event)[_NAME_FIELDS_SLICE])
    if event.cause is not None and not is_uuid(event.cause):
        raise InvalidEvent("$.cause", "the id of an event is needed: a lower-case UUID")
    if event.trace is not None and not is_traceparent(event.trace):
        raise InvalidEvent("$.trace", "a W3C traceparent is needed: 00-<32 hex>-<16 hex>-<2 hex>")
    if event.origin is not None and event.origin.log is not None and not is_name(event.origin.log.id):
        raise InvalidEvent("$.origin.log.id", f"1 to {LONGEST_NAME} bytes without control characters are needed")


@lru_cache(maxsize=4096)
def _validate_kind(kind: str) -> None:
    if len(kind) > LONGEST_KIND or KIND_PATTERN.fullmatch(kind) is None:
        raise InvalidEvent("$.kind", f"{kind!r} is not a valid event kind; use lower-case words joined by dots, such as fleet.commit")


def is_traceparent(text: str) -> bool:
    """Return whether a text has the form of a W3C traceparent."""
    parts = text.split("-")
    return [len(part) for part in parts] == [2, 32, 16, 2] and all(set(part) <= set("0123456789abcdef") for part in parts)


def _truncate_strings(event: Event, raw: bytes) -> tuple[Event, bytes, list[bytes]]:
    """Shorten every string over the limit and record in `origin.cut` what was removed; also return the whole strings."""
    record = codec.to_builtins(event)
    cuts: list[dict[str, Any]] = []
    whole: list[bytes] = []
    shortened = {
        key: value if key in _IMMUTABLE_FIELDS else _truncate_value(value, f"$.{key}", cuts, whole) for key, value in record.items()
    }
    if not cuts:
        return event, raw, whole
    origin = shortened.setdefault("origin", {"dialect": OWN_DIALECT})
    origin["cut"] = [*origin.get("cut", ()), *cuts]
    return *_rebuild_event(shortened), whole


def _truncate_value(value: Any, path: str, cuts: list[dict[str, Any]], whole: list[bytes]) -> Any:
    if isinstance(value, str):
        encoded = value.encode()
        if len(encoded) <= MAX_STRING_BYTES:
            return value
        cuts.append({"path": path, "bytes": len(encoded), "sha256": sha256(encoded).hexdigest()})
        whole.append(encoded)
        return encoded[:MAX_STRING_BYTES].decode(errors="ignore")
    if isinstance(value, dict):
        return {key: _truncate_value(item, f"{path}.{key}", cuts, whole) for key, item in value.items()}
    if isinstance(value, list):
        return [_truncate_value(item, f"{path}[{index}]", cuts, whole) for index, item in enumerate(value)]
    return value
