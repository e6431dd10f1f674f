"""OTLP as plain values: attributes, ids, times, spans and log records.

JSON and protobuf come out alike. Ids are hex in OTLP's own JSON, and base64 where a program let its protobuf library write it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct, field

from fleetlore.dialects.fields import EPOCH, as_name, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError

Attributes = Mapping[str, Any]

MAX_VALUE_DEPTH = 32
MAX_NUMBER = 2**53
MAX_NANOSECONDS = 10**20
"""In nanoseconds since 1970: the year 5138."""
MAX_VALUE_BYTES = 32 * 1024
"""What an argument or a result may hold; of more, the beginning is kept as text."""
MAX_NOTE_VALUES = 30
MAX_NOTE_CHARS = 300
_PLAIN_VALUE_KEYS, _NUMBER_VALUE_KEYS = frozenset(("stringValue", "boolValue", "bytesValue")), frozenset(("intValue", "doubleValue"))
_CAMEL_CASE_NAMES = """
    resourceSpans scopeSpans instrumentationLibrarySpans traceId spanId parentSpanId startTimeUnixNano endTimeUnixNano resourceLogs
    scopeLogs instrumentationLibraryLogs logRecords timeUnixNano observedTimeUnixNano eventName stringValue boolValue bytesValue
    intValue doubleValue arrayValue kvlistValue resourceMetrics
"""
_CAMEL_BY_SNAKE_CASE = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _CAMEL_CASE_NAMES.split()}
"""The names of the schema itself, which some programs write → those of its JSON."""


class OtlpSpanEvent(Struct, frozen=True, kw_only=True):
    """Something that happened within a span."""

    name: str
    attributes: Attributes


class OtlpSpan(Struct, frozen=True, kw_only=True):
    """One span, its resource's attributes beside its own."""

    trace: str
    id: str
    parent: str | None = None
    name: str = ""
    start: datetime | None = None
    end: datetime | None = None
    attributes: Attributes = field(default_factory=dict)
    resource: Attributes = field(default_factory=dict)
    failed: bool = False
    error: str | None = None
    events: tuple[OtlpSpanEvent, ...] = ()

    @property
    def milliseconds(self) -> float | None:
        """How long it took."""
        return None if self.start is None or self.end is None else (self.end - self.start) / timedelta(milliseconds=1)


class OtlpLogRecord(Struct, frozen=True, kw_only=True):
    """One log record, its resource's attributes beside its own."""

    at: datetime | None
    name: str
    """Of the event that it is, wherever it says so."""
    body: Any
    trace: str | None
    span: str | None
    attributes: Attributes
    resource: Attributes
    raw: bytes
    """The record itself, for what nothing else tells from another."""


def convert_to_camel_case(value: Any) -> Any:
    """A request with the names that OTLP's JSON has, where a program wrote those of the schema: `resource_spans`."""
    if isinstance(value, list):
        return [convert_to_camel_case(each) for each in value]
    if isinstance(value, dict):
        return {_CAMEL_BY_SNAKE_CASE.get(key, key): convert_to_camel_case(each) for key, each in value.items()}
    return value


def iterate_spans(request: Record) -> Iterator[OtlpSpan | None]:
    """Every span of a request; `None` for one without ids, which nobody can tell from another."""
    for resource, record in _iterate_records(request, "resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans"):
        trace, own = parse_hex_id(record.get("traceId"), 16), parse_hex_id(record.get("spanId"), 8)
        yield None if trace is None or own is None else _parse_span(record, trace, own, resource)


def iterate_log_records(request: Record) -> Iterator[OtlpLogRecord]:
    """Every log record of a request."""
    for resource, record in _iterate_records(request, "resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords"):
        attributes, body = parse_attributes(record.get("attributes")), parse_any_value(record.get("body"))
        # Rust's tracing puts the source line into `eventName` ("event otel/src/events/….rs:1089") and the event's name into the attribute.
        names = (attributes.get("event.name"), record.get("eventName"), body)
        yield OtlpLogRecord(
            at=parse_nanoseconds(record.get("timeUnixNano")) or parse_nanoseconds(record.get("observedTimeUnixNano")),
            name=next((name for each in names if (name := as_text(each))), ""),
            body=body,
            trace=parse_hex_id(record.get("traceId"), 16),
            span=parse_hex_id(record.get("spanId"), 8),
            attributes=attributes,
            resource=resource,
            raw=msgspec.json.encode(record, order="sorted"),
        )


def _iterate_records(request: Record, outer: str, middle: tuple[str, ...], inner: str) -> Iterator[tuple[Attributes, Record]]:
    for group in _require_list(request, outer):
        resource = parse_attributes(as_object(group.get("resource")).get("attributes"))
        for scope in (each for key in middle for each in _require_list(group, key)):
            yield from ((resource, record) for record in _require_list(scope, inner))


def _require_list(record: Record, name: str) -> list[Record]:
    """The objects under a name. Whatever else stands there holds records that nobody would ever hear of again."""
    found = record.get(name)
    objects = list(_iterate_objects(found))
    if found is not None and (not isinstance(found, list) or len(objects) < len(found)):
        raise DialectError(f"$.{name}", "a list of objects is needed")
    return objects


def _iterate_objects(value: object) -> Iterator[Record]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _parse_span(record: Record, trace: str, own: str, resource: Attributes) -> OtlpSpan:
    status = as_object(record.get("status"))
    return make_span(
        trace=trace,
        id=own,
        parent=parse_hex_id(record.get("parentSpanId"), 8),
        name=as_text(record.get("name")) or "",
        start=parse_nanoseconds(record.get("startTimeUnixNano")),
        end=parse_nanoseconds(record.get("endTimeUnixNano")),
        attributes=parse_attributes(record.get("attributes")),
        resource=resource,
        failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
        error=as_text(status.get("message")),
        events=tuple(
            OtlpSpanEvent(name=as_text(each.get("name")) or "", attributes=parse_attributes(each.get("attributes")))
            for each in _iterate_objects(record.get("events"))
        ),
    )


def make_span(*, attributes: Attributes, failed: bool, error: str | None, events: tuple[OtlpSpanEvent, ...], **rest: Any) -> OtlpSpan:
    """A span that failed by its status, or by what it says of an error."""
    kind = as_text(attributes.get("error.type"))
    if not error:
        thrown = next((as_text(each.attributes.get("exception.message")) for each in events if each.name == "exception"), None)
        error = thrown or kind
    return OtlpSpan(attributes=attributes, failed=failed or kind is not None, error=error, events=events, **rest)


def parse_attributes(value: object, depth: int = 0) -> dict[str, Any]:
    """Keys and values as a plain object."""
    if not isinstance(value, list):
        return {}
    return {
        key: parse_any_value(each.get("value"), depth + 1)
        for each in value
        if isinstance(each, dict) and isinstance(key := each.get("key"), str)
    }


def parse_any_value(value: object, depth: int = 0) -> Any:
    """One value of OTLP's as plain JSON; what is nested too deeply is left out."""
    if not isinstance(value, dict) or depth > MAX_VALUE_DEPTH:
        return None
    if "arrayValue" in value:
        inner = as_object(value["arrayValue"]).get("values")
        return [parse_any_value(each, depth + 1) for each in inner] if isinstance(inner, list) else []
    if "kvlistValue" in value:
        return parse_attributes(as_object(value["kvlistValue"]).get("values"), depth)
    for key, held in value.items():  # there is but one
        if key in _PLAIN_VALUE_KEYS and isinstance(held, (str, bool)):
            return held
        if key in _NUMBER_VALUE_KEYS and (number := parse_number(held)) is not None:
            return number
    return None


def parse_number(value: object) -> int | float | None:
    """A number, also where JSON had to write it as a string."""
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("-").isdecimal() and len(value) < 30 else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isfinite(value) and abs(value) <= MAX_NUMBER else None


def parse_count(value: object) -> int | None:
    """How many, if that is what it says."""
    number = parse_number(value)
    return int(number) if number is not None and number >= 0 else None


def parse_hex_id(value: object, size: int) -> str | None:
    """An id of so many bytes, in lower-case hex."""
    if not isinstance(value, str):
        return None
    try:
        raw = bytes.fromhex(value) if len(value) == 2 * size else b64decode(value, validate=True)
    except ValueError:
        return None
    return raw.hex() if len(raw) == size and any(raw) else None


def parse_nanoseconds(nanoseconds: object) -> datetime | None:
    """Nanoseconds since 1970, to the microsecond."""
    if isinstance(nanoseconds, str):
        nanoseconds = int(nanoseconds) if nanoseconds.isdecimal() and len(nanoseconds) <= 20 else 0
    elif isinstance(nanoseconds, float) and isfinite(nanoseconds):
        nanoseconds = int(nanoseconds)
    if not isinstance(nanoseconds, int) or isinstance(nanoseconds, bool) or not 0 < nanoseconds < MAX_NANOSECONDS:
        return None
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def get_first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    """What stands under the first of these keys that is there."""
    for key in keys:  # written out: it is asked a dozen times of every span
        value = attributes.get(key)
        if value is not None and value != "":
            return value
    return None


def get_first_name(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """The first of these that can name a scope."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (name := as_name(value)):
            return name
    return None


def decode_nested_json(value: object) -> Any:
    """The value itself where a string holds JSON, as it does for everything that is no plain attribute."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return value


def truncate_value(value: object) -> Any:
    """An argument or a result as it may be kept."""
    if value is None or isinstance(value, str | bool):
        return value or None if isinstance(value, str) else value
    plain = decode_nested_json(value)
    try:
        raw = msgspec.json.encode(plain)
    except (OverflowError, RecursionError, UnicodeEncodeError):
        return None
    return plain if len(raw) <= MAX_VALUE_BYTES else raw[: MAX_VALUE_BYTES // 2].decode(errors="ignore")


def pick_note_values(attributes: Attributes) -> dict[str, Any]:
    """The single values among some attributes, so many of them and each so long as fits a note."""
    plain = ((key, value) for key, value in attributes.items() if len(key) <= MAX_NOTE_CHARS and isinstance(value, str | int | float))
    return {key: value[:MAX_NOTE_CHARS] if isinstance(value, str) else value for key, value in islice(plain, MAX_NOTE_VALUES)}
