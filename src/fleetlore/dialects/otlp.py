"""`otlp`: OpenTelemetry's spans and log records of agents, models and tools. docs/dialects.md has the table.

A record is one request as exporters send it and as the collector's file exporter writes it: `{"resourceSpans": …}` or
`{"resourceLogs": …}`. Metrics tell sums and no deeds.
"""

from __future__ import annotations

from fleetlore.dialects.independent import IndependentReader
from fleetlore.dialects.otlp_deeds import NAME
from fleetlore.dialects.otlp_logs import tell_logs
from fleetlore.dialects.otlp_protobuf import read_binary
from fleetlore.dialects.otlp_spans import tell_spans
from fleetlore.dialects.otlp_values import in_camel_case, logs_of, spans_of
from fleetlore.dialects.recording import Recording, parse
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

TRACES, LOGS, METRICS = "resourceSpans", "resourceLogs", "resourceMetrics"
_SNAKES = frozenset(("resource_spans", "resource_logs", "resource_metrics"))


def read_traces(body: bytes, *, protobuf: bool) -> list[Event]:
    """The events of an ExportTraceServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    if protobuf:
        return tell_spans(spans_of(read_binary(body, "trace")))
    return tell_spans(spans_of(_own(parse(body), TRACES)))


def read_logs(body: bytes, *, protobuf: bool) -> list[Event]:
    """The events of an ExportLogsServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    if protobuf:
        return tell_logs(logs_of(read_binary(body, "logs")))
    return tell_logs(logs_of(_own(parse(body), LOGS)))


def _own(request: Record, signal: str) -> Record:
    """A request of that signal; an empty one is of any."""
    request = _named(request)
    other = next((key for key in (TRACES, LOGS, METRICS) if key in request and key != signal), None)
    if other == METRICS:
        raise DialectError(f"$.{METRICS}", "metrics are not recorded: send traces and logs only (OTEL_METRICS_EXPORTER=none)")
    if other is not None:
        raise DialectError(f"$.{other}", f"{signal} is needed here: traces go to /v1/traces, logs to /v1/logs")
    return request


def _named(request: Record) -> Record:
    named: Record = in_camel_case(request) if request.keys() & _SNAKES else request
    return named


def _read(request: Record) -> list[Event]:
    request = _named(request)
    if not request.keys() & {TRACES, LOGS, METRICS}:
        raise DialectError("$", f"no request of OTLP: it has neither {TRACES} nor {LOGS}")
    return [*tell_spans(spans_of(request)), *tell_logs(logs_of(request))]


RECORDING = Recording(name=NAME, open=lambda saved: IndependentReader(_read), whole_files=True)
"""Requests in JSON, one a line or one a file."""
