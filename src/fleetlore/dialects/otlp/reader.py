"""`otlp`: OpenTelemetry spans and log records of agents, models and tools. docs/dialects.md has the table.

A record is one export request, as exporters send it and the collector's file exporter writes it: `{"resourceSpans": …}`
or `{"resourceLogs": …}`. Metrics are accepted and discarded: they are sums, not events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fleetlore.dialects.otlp.actions import NAME
from fleetlore.dialects.otlp.logs import make_log_events
from fleetlore.dialects.otlp.protobuf import iterate_protobuf_spans, read_protobuf
from fleetlore.dialects.otlp.spans import make_span_events
from fleetlore.dialects.otlp.values import OtlpSpan, convert_to_camel_case, iterate_log_records, iterate_spans
from fleetlore.dialects.recording import IndependentReader, Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

TRACES_KEY, LOGS_KEY, METRICS_KEY = "resourceSpans", "resourceLogs", "resourceMetrics"
_SNAKE_CASE_KEYS = frozenset(("resource_spans", "resource_logs", "resource_metrics"))


class ParsedTraces(NamedTuple):
    """The events of one request."""

    events: list[Event]
    unreadable: int = 0
    """Number of skipped spans without ids."""


def read_traces(body: bytes, *, protobuf: bool) -> list[Event]:
    """Return the events of an ExportTraceServiceRequest in protobuf or JSON; raise `DialectError` for anything else."""
    return parse_traces(body, protobuf=protobuf).events


def parse_traces(body: bytes, *, protobuf: bool) -> ParsedTraces:
    """Like `read_traces`, but also count the unreadable spans."""
    return _make_span_events(iterate_protobuf_spans(body) if protobuf else iterate_spans(_require_signal(parse_record(body), TRACES_KEY)))


def read_logs(body: bytes, *, protobuf: bool) -> list[Event]:
    """Return the events of an ExportLogsServiceRequest in protobuf or JSON; raise `DialectError` for anything else."""
    if protobuf:
        return make_log_events(iterate_log_records(read_protobuf(body, "logs")))
    return make_log_events(iterate_log_records(_require_signal(parse_record(body), LOGS_KEY)))


def discard_metrics(body: bytes, *, protobuf: bool) -> ParsedTraces:
    """Return no events; raise `DialectError` for invalid JSON or another signal."""
    if not protobuf:
        _require_signal(parse_record(body), METRICS_KEY)
    return ParsedTraces([])


def _require_signal(request: Record, signal: str) -> Record:
    """Return a request of that signal; an empty one is accepted."""
    request = _normalize_key_case(request)
    other = next((key for key in (TRACES_KEY, LOGS_KEY, METRICS_KEY) if key in request and key != signal), None)
    if other == METRICS_KEY:
        raise DialectError(f"$.{METRICS_KEY}", "metrics are not recorded: send traces and logs only (OTEL_METRICS_EXPORTER=none)")
    if other is not None:
        raise DialectError(f"$.{other}", f"{signal} is needed here: traces go to /v1/traces, logs to /v1/logs")
    return request


def _make_span_events(spans: Iterable[OtlpSpan | None]) -> ParsedTraces:
    received = list(spans)
    readable = [span for span in received if span is not None]
    return ParsedTraces(make_span_events(readable), len(received) - len(readable))


def _normalize_key_case(request: Record) -> Record:
    normalized: Record = convert_to_camel_case(request) if request.keys() & _SNAKE_CASE_KEYS else request
    return normalized


def _read_request(request: Record) -> list[Event]:
    request = _normalize_key_case(request)
    if not request.keys() & {TRACES_KEY, LOGS_KEY, METRICS_KEY}:
        raise DialectError("$", f"no request of OTLP: it has neither {TRACES_KEY} nor {LOGS_KEY}")
    return [*_make_span_events(iterate_spans(request)).events, *make_log_events(iterate_log_records(request))]


RECORDING = Recording(name=NAME, open=lambda saved: IndependentReader(_read_request), whole_files=True)
"""Requests in JSON, one per line or one per file."""
