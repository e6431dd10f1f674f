"""`otlp`: OpenTelemetry's spans and log records of agents, models and tools. docs/dialects.md has the table.

A record is one request as exporters send it and as the collector's file exporter writes it: `{"resourceSpans": …}` or
`{"resourceLogs": …}`. Metrics tell sums and no deeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fleetlore.dialects.independent_records import IndependentReader
from fleetlore.dialects.otlp.actions import NAME
from fleetlore.dialects.otlp.logs import tell_logs
from fleetlore.dialects.otlp.protobuf import read_binary, spans_in
from fleetlore.dialects.otlp.spans import tell_spans
from fleetlore.dialects.otlp.values import Span, in_camel_case, logs_of, spans_of
from fleetlore.dialects.recording import Recording, parse
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

TRACES, LOGS, METRICS = "resourceSpans", "resourceLogs", "resourceMetrics"
_SNAKES = frozenset(("resource_spans", "resource_logs", "resource_metrics"))


class Told(NamedTuple):
    """What one request tells."""

    events: list[Event]
    unreadable: int = 0
    """Spans without ids, which are left out."""


def read_traces(body: bytes, *, protobuf: bool) -> list[Event]:
    """The events of an ExportTraceServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    return take_traces(body, protobuf=protobuf).events


def take_traces(body: bytes, *, protobuf: bool) -> Told:
    """The same, for whoever has to say how many spans could not be read."""
    return _tell(spans_in(body) if protobuf else spans_of(_own(parse(body), TRACES)))


def read_logs(body: bytes, *, protobuf: bool) -> list[Event]:
    """The events of an ExportLogsServiceRequest, in binary or in JSON; `DialectError` for anything else."""
    if protobuf:
        return tell_logs(logs_of(read_binary(body, "logs")))
    return tell_logs(logs_of(_own(parse(body), LOGS)))


def discard_metrics(body: bytes, *, protobuf: bool) -> Told:
    """No events: metrics are sums, and nothing is recorded of them. `DialectError` for JSON that is another signal's, or no JSON."""
    if not protobuf:
        _own(parse(body), METRICS)
    return Told([])


def _own(request: Record, signal: str) -> Record:
    """A request of that signal; an empty one is of any."""
    request = _named(request)
    other = next((key for key in (TRACES, LOGS, METRICS) if key in request and key != signal), None)
    if other == METRICS:
        raise DialectError(f"$.{METRICS}", "metrics are not recorded: send traces and logs only (OTEL_METRICS_EXPORTER=none)")
    if other is not None:
        raise DialectError(f"$.{other}", f"{signal} is needed here: traces go to /v1/traces, logs to /v1/logs")
    return request


def _tell(spans: Iterable[Span | None]) -> Told:
    found = list(spans)
    readable = [span for span in found if span is not None]
    return Told(tell_spans(readable), len(found) - len(readable))


def _named(request: Record) -> Record:
    named: Record = in_camel_case(request) if request.keys() & _SNAKES else request
    return named


def _read(request: Record) -> list[Event]:
    request = _named(request)
    if not request.keys() & {TRACES, LOGS, METRICS}:
        raise DialectError("$", f"no request of OTLP: it has neither {TRACES} nor {LOGS}")
    return [*_tell(spans_of(request)).events, *tell_logs(logs_of(request))]


RECORDING = Recording(name=NAME, open=lambda saved: IndependentReader(_read), whole_files=True)
"""Requests in JSON, one a line or one a file."""
