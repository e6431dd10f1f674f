"""OTLP's binary form, read by OpenTelemetry's own messages. Needs the extra `otlp`.

Log records come into the shape that their JSON has. Spans, of which there are many more, are read without that detour.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Literal

from fleetlore.dialects.otlp.values import DEEPEST, Span, SpanEvent, make_span, number_of, time_of
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError

Signal = Literal["trace", "logs"]

_REQUESTS = {"trace": "ExportTraceServiceRequest", "logs": "ExportLogsServiceRequest"}
_ERROR = 2
"""STATUS_CODE_ERROR."""


def read_binary(body: bytes, signal: Signal) -> Record:
    """One request as a plain object, ids in base64; `DialectError` for other bytes, and where the extra is missing."""
    record: Record = import_module("google.protobuf.json_format").MessageToDict(_parse(body, signal))
    return record


def spans_in(body: bytes) -> Iterator[Span | None]:
    """Every span of a request; `None` for one without ids. `DialectError` as above."""
    for group in _parse(body, "trace").resource_spans:
        resource = _attributes(group.resource.attributes, 0)
        for scope in group.scope_spans:
            yield from (_span(span, resource) for span in scope.spans)


def is_installed() -> bool:
    """Whether the binary form can be read here."""
    try:
        _service("trace")
    except ImportError:
        return False
    return True


def _service(signal: Signal) -> Any:
    return import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")


def _parse(body: bytes, signal: Signal) -> Any:
    try:
        service, message = _service(signal), import_module("google.protobuf.message")
    except ImportError as error:
        raise DialectError("$", "OTLP in protobuf needs the extra: pip install 'fleetlore[otlp]'; or send JSON (http/json)") from error
    request: Any = getattr(service, _REQUESTS[signal])()
    try:
        request.ParseFromString(body)
    except (message.Error, ValueError, RecursionError) as error:
        raise DialectError("$", f"no {_REQUESTS[signal]} in protobuf: {error}") from error
    return request


def _span(span: Any, resource: Record) -> Span | None:
    trace, own = _id(span.trace_id, 16), _id(span.span_id, 8)
    if trace is None or own is None:
        return None
    return make_span(
        trace=trace,
        id=own,
        parent=_id(span.parent_span_id, 8),
        name=span.name,
        start=time_of(span.start_time_unix_nano),
        end=time_of(span.end_time_unix_nano),
        attributes=_attributes(span.attributes, 0),
        resource=resource,
        failed=span.status.code == _ERROR,
        error=span.status.message or None,
        events=tuple(SpanEvent(name=each.name, attributes=_attributes(each.attributes, 0)) for each in span.events),
    )


def _id(raw: bytes, size: int) -> str | None:
    return raw.hex() if len(raw) == size and any(raw) else None


def _attributes(pairs: Iterable[Any], depth: int) -> Record:
    return {key: _value(pair.value, depth + 1) for pair in pairs if (key := pair.key)}


def _value(value: Any, depth: int) -> Any:
    """One value as `otlp_values.value_of` reads its JSON."""
    if depth > DEEPEST:
        return None
    if text := value.string_value:  # as most of them are
        return text
    which = value.WhichOneof("value")
    if which is None:
        return None
    held = getattr(value, which)
    match which:
        case "string_value" | "bool_value":
            return held
        case "int_value" | "double_value":
            return number_of(held)
        case "array_value":
            return [_value(each, depth + 1) for each in held.values]
        case "kvlist_value":
            return _attributes(held.values, depth)
        case "bytes_value":
            return b64encode(held).decode()
    return None
