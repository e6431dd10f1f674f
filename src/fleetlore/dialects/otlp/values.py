"""Parses OTLP to plain values: attributes, ids, times, spans and log records.

JSON and protobuf give the same result. Ids are hex in OTLP's own JSON, base64 if a protobuf library wrote the JSON.
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
"""Nanoseconds since 1970: the year 5138."""
MAX_VALUE_BYTES = 32 * 1024
"""Limit of a tool's input or output; of larger ones, the start is kept as text."""
MAX_NOTE_VALUES = 30
MAX_NOTE_CHARS = 300
_PLAIN_VALUE_KEYS, _NUMBER_VALUE_KEYS = frozenset(("stringValue", "boolValue", "bytesValue")), frozenset(("intValue", "doubleValue"))
_CAMEL_CASE_NAMES = """
    resourceSpans scopeSpans instrumentationLibrarySpans traceId spanId parentSpanId startTimeUnixNano endTimeUnixNano resourceLogs
    scopeLogs instrumentationLibraryLogs logRecords timeUnixNano observedTimeUnixNano eventName stringValue boolValue bytesValue
    intValue doubleValue arrayValue kvlistValue resourceMetrics
"""
_CAMEL_BY_SNAKE_CASE = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _CAMEL_CASE_NAMES.split()}
"""Names of the protobuf schema, which some programs write → names in OTLP JSON."""


REMOTE_PARENT_FLAGS = 0x300
"""SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE and SPAN_FLAGS_CONTEXT_IS_REMOTE."""


class OtlpSpanEvent(Struct, frozen=True, kw_only=True):
    """An event within a span."""

    name: str
    attributes: Attributes


class OtlpSpan(Struct, frozen=True, kw_only=True):
    """One span, with the attributes of its resource."""

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
    has_remote_parent: bool = False
    """Whether the parent is a span of another program."""

    @property
    def milliseconds(self) -> float | None:
        """Duration."""
        return None if self.start is None or self.end is None else (self.end - self.start) / timedelta(milliseconds=1)


class OtlpLogRecord(Struct, frozen=True, kw_only=True):
    """One log record, with the attributes of its resource."""

    at: datetime | None
    name: str
    """The event name, from wherever it is given."""
    body: Any
    trace: str | None
    span: str | None
    attributes: Attributes
    resource: Attributes
    raw: bytes
    """The encoded record, as an id for records without one."""


def convert_to_camel_case(value: Any) -> Any:
    """Convert keys from schema names (`resource_spans`) to OTLP JSON names."""
    if isinstance(value, list):
        return [convert_to_camel_case(each) for each in value]
    if isinstance(value, dict):
        return {_CAMEL_BY_SNAKE_CASE.get(key, key): convert_to_camel_case(each) for key, each in value.items()}
    return value


def iterate_spans(request: Record) -> Iterator[OtlpSpan | None]:
    """Yield every span of a request; `None` for one without ids, which cannot be identified."""
    for resource, record in iterate_records(request, "resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans"):
        trace, own = parse_hex_id(record.get("traceId"), 16), parse_hex_id(record.get("spanId"), 8)
        yield None if trace is None or own is None else _parse_span(record, trace, own, resource)


def iterate_log_records(request: Record) -> Iterator[OtlpLogRecord]:
    """Yield every log record of a request."""
    for resource, record in iterate_records(request, "resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords"):
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


def iterate_records(request: Record, outer: str, middle: tuple[str, ...], inner: str) -> Iterator[tuple[Attributes, Record]]:
    """Yield every record of a request with the attributes of its resource."""
    for group in _require_list(request, outer):
        resource = parse_attributes(as_object(group.get("resource")).get("attributes"))
        for scope in (each for key in middle for each in _require_list(group, key)):
            yield from ((resource, record) for record in _require_list(scope, inner))


def _require_list(record: Record, name: str) -> list[Record]:
    """Return the objects under a name; raise `DialectError` for anything else, so that no records are lost silently."""
    value = record.get(name)
    objects = list(_iterate_objects(value))
    if value is not None and (not isinstance(value, list) or len(objects) < len(value)):
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
        has_remote_parent=(parse_count(record.get("flags")) or 0) & REMOTE_PARENT_FLAGS == REMOTE_PARENT_FLAGS,
    )


def make_span(*, attributes: Attributes, failed: bool, error: str | None, events: tuple[OtlpSpanEvent, ...], **rest: Any) -> OtlpSpan:
    """Make a span; it failed if its status or an error attribute says so."""
    kind = as_text(attributes.get("error.type"))
    if not error:
        thrown = next((as_text(each.attributes.get("exception.message")) for each in events if each.name == "exception"), None)
        error = thrown or kind
    return OtlpSpan(attributes=attributes, failed=failed or kind is not None, error=error, events=events, **rest)


def parse_attributes(value: object, depth: int = 0) -> dict[str, Any]:
    """Convert a list of key-value pairs to a dict."""
    if not isinstance(value, list):
        return {}
    return {
        key: parse_any_value(each.get("value"), depth + 1)
        for each in value
        if isinstance(each, dict) and isinstance(key := each.get("key"), str)
    }


def parse_any_value(value: object, depth: int = 0) -> Any:
    """Convert an OTLP AnyValue to plain JSON; values nested too deeply are dropped."""
    if not isinstance(value, dict) or depth > MAX_VALUE_DEPTH:
        return None
    if "arrayValue" in value:
        inner = as_object(value["arrayValue"]).get("values")
        return [parse_any_value(each, depth + 1) for each in inner] if isinstance(inner, list) else []
    if "kvlistValue" in value:
        return parse_attributes(as_object(value["kvlistValue"]).get("values"), depth)
    for key, held in value.items():  # there is only one
        if key in _PLAIN_VALUE_KEYS and isinstance(held, (str, bool)):
            return held
        if key in _NUMBER_VALUE_KEYS and (number := parse_number(held)) is not None:
            return number
    return None


def parse_number(value: object) -> int | float | None:
    """Return a number, also if JSON has it as a string; `None` if it is none or too large."""
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("-").isdecimal() and len(value) < 30 else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isfinite(value) and abs(value) <= MAX_NUMBER else None


def parse_count(value: object) -> int | None:
    """Return a non-negative integer, or `None`."""
    number = parse_number(value)
    return int(number) if number is not None and number >= 0 else None


def parse_hex_id(value: object, size: int) -> str | None:
    """Return an id of `size` bytes as lower-case hex, from hex or base64; `None` if it is invalid."""
    if not isinstance(value, str):
        return None
    try:
        raw = bytes.fromhex(value) if len(value) == 2 * size else b64decode(value, validate=True)
    except ValueError:
        return None
    return raw.hex() if len(raw) == size and any(raw) else None


def parse_nanoseconds(nanoseconds: object) -> datetime | None:
    """Convert nanoseconds since 1970 to a time, to the microsecond."""
    if isinstance(nanoseconds, str):
        nanoseconds = int(nanoseconds) if nanoseconds.isdecimal() and len(nanoseconds) <= 20 else 0
    elif isinstance(nanoseconds, float) and isfinite(nanoseconds):
        nanoseconds = int(nanoseconds)
    if not isinstance(nanoseconds, int) or isinstance(nanoseconds, bool) or not 0 < nanoseconds < MAX_NANOSECONDS:
        return None
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


def get_first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    """Return the value of the first of these keys that is present and not empty."""
    for key in keys:  # a plain loop for speed: called a dozen times per span
        value = attributes.get(key)
        if value is not None and value != "":
            return value
    return None


def get_first_name(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """Return the first of these values that can name a scope."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (name := as_name(value)):
            return name
    return None


def decode_nested_json(value: object) -> Any:
    """Decode a string that contains a JSON object or array; return other values unchanged."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return value


def truncate_value(value: object) -> Any:
    """Return a tool's input or output, truncated for storage."""
    if value is None or isinstance(value, str | bool):
        return value or None if isinstance(value, str) else value
    plain = decode_nested_json(value)
    try:
        raw = msgspec.json.encode(plain)
    except (OverflowError, RecursionError, UnicodeEncodeError):
        return None
    return plain if len(raw) <= MAX_VALUE_BYTES else raw[: MAX_VALUE_BYTES // 2].decode(errors="ignore")


def pick_note_values(attributes: Attributes) -> dict[str, Any]:
    """Return the scalars among some attributes, limited in number and length."""
    plain = ((key, value) for key, value in attributes.items() if len(key) <= MAX_NOTE_CHARS and isinstance(value, str | int | float))
    return {key: value[:MAX_NOTE_CHARS] if isinstance(value, str) else value for key, value in islice(plain, MAX_NOTE_VALUES)}
