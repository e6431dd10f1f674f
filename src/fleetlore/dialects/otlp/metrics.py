"""Metrics of coding agents as events: their token counters, and a note for every other counter.

Tokens become `model.replied` with `source` `metrics`: sums of an interval, counted only for a session without a transcript, which has
each reply. Only differences (delta temporality) are counted; running totals are notes, because one export does not say what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.dialects.otlp.logs import LogEventContext, ProgramTelemetry, make_other_events, make_record_context
from fleetlore.dialects.otlp.values import Attributes, OtlpLogRecord, iterate_records, parse_attributes, parse_nanoseconds, parse_number
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

METRICS_SOURCE = "metrics"
TOKEN_FIELDS: Mapping[str, str] = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheCreation": "cache_write"}
"""Type of tokens, as the counter names it → our name."""
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_FORMS = ("sum", "gauge", "histogram", "exponentialHistogram")


class DataPoint(NamedTuple):
    """One value of a metric."""

    name: str
    unit: str | None
    value: float | None
    values: float | None
    """How many values a histogram has; `value` is their sum."""
    is_delta: bool
    start: object
    at: datetime | None
    attributes: Attributes
    resource: Attributes
    raw: bytes


def make_metric_events(request: Record, programs: Sequence[ProgramTelemetry]) -> list[Event]:
    """The events of a request's data points; metrics of other sources are ignored."""
    notes: list[Event] = []
    usage: dict[tuple[Any, ...], list[tuple[DataPoint, LogEventContext]]] = {}
    for point in _iterate_points(request):
        program = next((each for each in programs if each.token_metric and point.name.startswith(each.prefix)), None)
        if program is None or point.value is None:
            continue
        context = make_record_context(_as_record(point), point.name, program)
        word = point.name.removeprefix(program.prefix)
        if word in (program.token_metric, program.cost_metric) and point.is_delta and context.run is not None:
            key = (context.run, context.get_text("model"), str(point.start), context.at)
            usage.setdefault(key, []).append((point, context))
        else:
            notes += make_other_events(context)
    return [*(_make_usage_event(key, points) for key, points in usage.items()), *notes]


def _make_usage_event(key: tuple[Any, ...], points: Iterable[tuple[DataPoint, LogEventContext]]) -> Event:
    data: Record = {"source": METRICS_SOURCE}
    for point, context in points:
        data["model"] = context.get_text("model")
        if point.name == context.program.prefix + context.program.cost_metric:
            data["usd"] = data.get("usd", 0.0) + (point.value or 0.0)
        elif field := TOKEN_FIELDS.get(context.get_text("type") or ""):
            data[field] = data.get(field, 0) + round(point.value or 0)
    id = derive_id("otlp", "\0".join(("metrics", *map(str, key))).encode())
    return context.make_event("model.replied", id, data=data, visibility="system")


def _as_record(point: DataPoint) -> OtlpLogRecord:
    values = {"value": point.value, "count": point.values, "unit": point.unit, "delta": point.is_delta or None}
    attributes = {**point.attributes, **{key: value for key, value in values.items() if value is not None}}
    return OtlpLogRecord(
        at=point.at, name=point.name, body=None, trace=None, span=None, attributes=attributes, resource=point.resource, raw=point.raw
    )


def _iterate_points(request: Record) -> Iterator[DataPoint]:
    for resource, metric in iterate_records(request, "resourceMetrics", ("scopeMetrics",), "metrics"):
        name = as_text(metric.get("name")) or ""
        for form in (as_object(metric.get(key)) for key in _FORMS):
            points = form.get("dataPoints")
            for point in points if isinstance(points, list) else ():
                if isinstance(point, dict):
                    yield DataPoint(
                        name=name,
                        unit=as_text(metric.get("unit")),
                        value=next(
                            (value for key in ("asInt", "asDouble", "sum") if (value := _parse_value(point.get(key))) is not None), None
                        ),
                        values=_parse_value(point.get("count")),
                        is_delta=form.get("aggregationTemporality") in _DELTA,
                        start=point.get("startTimeUnixNano"),
                        at=parse_nanoseconds(point.get("timeUnixNano")),
                        attributes=parse_attributes(point.get("attributes")),
                        resource=resource,
                        raw=msgspec.json.encode([name, point], order="sorted"),
                    )


def _parse_value(value: object) -> float | None:
    """A number; whole numbers are texts in OTLP's JSON."""
    if isinstance(value, str) and value.removeprefix("-").isdigit() and len(value) < 20:
        return int(value)
    return parse_number(value)
