"""`otlp`: OpenTelemetry spans and log records of agents, models and tools. docs/dialects.md has the table.

A record is one export request, as exporters send it and the collector's file exporter writes it: `{"resourceSpans": …}`
or `{"resourceLogs": …}` or `{"resourceMetrics": …}`. Of metrics, only those of coding agents are events (`metrics.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fleetlore.dialects.otlp.actions import NAME
from fleetlore.dialects.otlp.logs import ProgramTelemetry, make_log_events, separate_program_spans
from fleetlore.dialects.otlp.metrics import make_metric_events
from fleetlore.dialects.otlp.protobuf import is_protobuf_installed, iterate_protobuf_spans, read_protobuf
from fleetlore.dialects.otlp.spans import make_span_events
from fleetlore.dialects.otlp.values import OtlpSpan, convert_to_camel_case, iterate_log_records, iterate_spans
from fleetlore.dialects.recording import IndependentReader, Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

TRACES_KEY, LOGS_KEY, METRICS_KEY = "resourceSpans", "resourceLogs", "resourceMetrics"
_SNAKE_CASE_KEYS = frozenset(("resource_spans", "resource_logs", "resource_metrics"))


class ParsedSpans(NamedTuple):
    """The spans of one request."""

    spans: list[OtlpSpan]
    events: list[Event]
    """Of spans that a coding agent sent; `spans` has only their links."""
    unreadable: int = 0
    """Number of skipped spans without ids."""


class ParsedTraces(NamedTuple):
    """The events of one request."""

    events: list[Event]
    unreadable: int = 0
    """Number of skipped spans without ids."""


def read_traces(body: bytes, *, protobuf: bool, programs: Sequence[ProgramTelemetry] = ()) -> list[Event]:
    """The events of an ExportTraceServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    return parse_traces(body, protobuf=protobuf, programs=programs).events


def parse_traces(body: bytes, *, protobuf: bool, programs: Sequence[ProgramTelemetry] = ()) -> ParsedTraces:
    """The same, with the number of spans that could not be read."""
    parsed = parse_spans(body, protobuf=protobuf, programs=programs)
    return ParsedTraces([*make_span_events(parsed.spans), *parsed.events], parsed.unreadable)


def parse_spans(body: bytes, *, protobuf: bool, programs: Sequence[ProgramTelemetry] = ()) -> ParsedSpans:
    """The spans of an ExportTraceServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    spans = iterate_protobuf_spans(body) if protobuf else iterate_spans(_require_signal(parse_record(body), TRACES_KEY))
    received = list(spans)
    readable, events = separate_program_spans((span for span in received if span is not None), programs)
    return ParsedSpans(readable, events, len(received) - len(readable))


def read_logs(body: bytes, *, protobuf: bool, programs: Sequence[ProgramTelemetry] = ()) -> list[Event]:
    """The events of an ExportLogsServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    request = read_protobuf(body, "logs") if protobuf else _require_signal(parse_record(body), LOGS_KEY)
    return make_log_events(iterate_log_records(request), programs)


def read_metrics(body: bytes, *, protobuf: bool, programs: Sequence[ProgramTelemetry] = ()) -> list[Event]:
    """The events of an ExportMetricsServiceRequest; without the extra `otlp`, none of one in protobuf."""
    if protobuf and not is_protobuf_installed():
        return []
    request = read_protobuf(body, "metrics") if protobuf else _require_signal(parse_record(body), METRICS_KEY)
    return make_metric_events(request, programs)


def _require_signal(request: Record, signal: str) -> Record:
    """Return a request of that signal; an empty one is accepted."""
    request = _normalize_key_case(request)
    other = next((key for key in (TRACES_KEY, LOGS_KEY, METRICS_KEY) if key in request and key != signal), None)
    if other is not None:
        raise DialectError(f"$.{other}", f"{signal} is needed here: traces go to /v1/traces, logs to /v1/logs, metrics to /v1/metrics")
    return request


def _normalize_key_case(request: Record) -> Record:
    normalized: Record = convert_to_camel_case(request) if request.keys() & _SNAKE_CASE_KEYS else request
    return normalized


def make_recording(programs: Sequence[ProgramTelemetry] = ()) -> Recording:
    """Requests in JSON, one a line or one a file, with the telemetry of these coding agents."""

    def read_request(request: Record) -> list[Event]:
        request = _normalize_key_case(request)
        if not request.keys() & {TRACES_KEY, LOGS_KEY, METRICS_KEY}:
            raise DialectError("$", f"no request of OTLP: it has neither {TRACES_KEY} nor {LOGS_KEY}")
        spans, events = separate_program_spans((span for span in iterate_spans(request) if span is not None), programs)
        return [
            *make_span_events(spans),
            *events,
            *make_log_events(iterate_log_records(request), programs),
            *make_metric_events(request, programs),
        ]

    return Recording(name=NAME, open=lambda saved: IndependentReader(read_request), whole_files=True)
