"""Reads OTLP in protobuf with OpenTelemetry's own message classes. Needs the extra `otlp`.

Log records are converted to the shape of their JSON. Spans, which are far more numerous, are converted directly.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Literal

from fleetlore.dialects.otlp.values import (
    MAX_VALUE_DEPTH,
    REMOTE_PARENT_FLAGS,
    OtlpSpan,
    OtlpSpanEvent,
    make_span,
    parse_nanoseconds,
    parse_number,
)
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError

Signal = Literal["trace", "logs", "metrics"]

_REQUEST_CLASS_BY_SIGNAL = {
    "trace": "ExportTraceServiceRequest",
    "logs": "ExportLogsServiceRequest",
    "metrics": "ExportMetricsServiceRequest",
}
_STATUS_ERROR = 2
"""STATUS_CODE_ERROR."""


def read_protobuf(body: bytes, signal: Signal) -> Record:
    """Parse a request to a dict, ids in base64; raise `DialectError` for invalid bytes or a missing extra."""
    record: Record = import_module("google.protobuf.json_format").MessageToDict(_parse_request(body, signal))
    return record


def iterate_protobuf_spans(body: bytes) -> Iterator[OtlpSpan | None]:
    """Yield every span of a request; `None` for one without ids. Raises `DialectError` as `read_protobuf` does."""
    for group in _parse_request(body, "trace").resource_spans:
        resource = _convert_attributes(group.resource.attributes, 0)
        for scope in group.scope_spans:
            yield from (_convert_span(span, resource) for span in scope.spans)


def is_protobuf_installed() -> bool:
    """Return whether protobuf can be read here."""
    try:
        _import_service("trace")
    except ImportError:
        return False
    return True


def _import_service(signal: Signal) -> Any:
    return import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")


def _parse_request(body: bytes, signal: Signal) -> Any:
    try:
        service, message = _import_service(signal), import_module("google.protobuf.message")
    except ImportError as error:
        raise DialectError("$", "OTLP in protobuf needs the extra: pip install 'fleetlore[otlp]'; or send JSON (http/json)") from error
    request: Any = getattr(service, _REQUEST_CLASS_BY_SIGNAL[signal])()
    try:
        request.ParseFromString(body)
    except (message.Error, ValueError, RecursionError) as error:
        raise DialectError("$", f"no {_REQUEST_CLASS_BY_SIGNAL[signal]} in protobuf: {error}") from error
    return request


def _convert_span(span: Any, resource: Record) -> OtlpSpan | None:
    trace, own = _convert_id(span.trace_id, 16), _convert_id(span.span_id, 8)
    if trace is None or own is None:
        return None
    return make_span(
        trace=trace,
        id=own,
        parent=_convert_id(span.parent_span_id, 8),
        name=span.name,
        start=parse_nanoseconds(span.start_time_unix_nano),
        end=parse_nanoseconds(span.end_time_unix_nano),
        attributes=_convert_attributes(span.attributes, 0),
        resource=resource,
        failed=span.status.code == _STATUS_ERROR,
        error=span.status.message or None,
        events=tuple(OtlpSpanEvent(name=each.name, attributes=_convert_attributes(each.attributes, 0)) for each in span.events),
        has_remote_parent=span.flags & REMOTE_PARENT_FLAGS == REMOTE_PARENT_FLAGS,
    )


def _convert_id(raw: bytes, size: int) -> str | None:
    return raw.hex() if len(raw) == size and any(raw) else None


def _convert_attributes(pairs: Iterable[Any], depth: int) -> Record:
    return {key: _convert_value(pair.value, depth + 1) for pair in pairs if (key := pair.key)}


def _convert_value(value: Any, depth: int) -> Any:
    """Convert a value as `values.parse_any_value` does for JSON."""
    if depth > MAX_VALUE_DEPTH:
        return None
    if text := value.string_value:  # fast path: most values are strings
        return text
    field = value.WhichOneof("value")
    if field is None:
        return None
    held = getattr(value, field)
    match field:
        case "string_value" | "bool_value":
            return held
        case "int_value" | "double_value":
            return parse_number(held)
        case "array_value":
            return [_convert_value(each, depth + 1) for each in held.values]
        case "kvlist_value":
            return _convert_attributes(held.values, depth)
        case "bytes_value":
            return b64encode(held).decode()
    return None
