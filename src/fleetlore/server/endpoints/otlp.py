"""`POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP, in protobuf and JSON, from any OpenTelemetry exporter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.dialects.otlp import protobuf as otlp_protobuf
from fleetlore.dialects.otlp import reader
from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.programs import registry
from fleetlore.server.endpoints.request_body import RequestBody, read_body, read_media_type
from fleetlore.server.endpoints.response import JSON, EndpointResult, counted_endpoint
from fleetlore.server.endpoints.store import StoreResult, decode_foreign, store_valid_events
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.server.context import AppContext


# --- Responses to exporters, in the format of the request.

PROTOBUF = "application/x-protobuf"

_CODES = {400: 3, 401: 16, 403: 7, 408: 4, 413: 8, 415: 3, 429: 8, 503: 14}
"""HTTP status → code of google.rpc.Status."""
_INTERNAL = 13
SETTLE_SECONDS = 2.0
_NO_ROOM_RETRY = {"retry-after": "60"}


def success_response(media_type: str, *, rejected: int, field: str, message: str) -> Response:
    """An Export…ServiceResponse; `field` counts what was left out: `rejectedSpans` or `rejectedLogRecords`."""
    if media_type == PROTOBUF:
        partial = _encode_int(1, rejected) + _encode_text(2, message) if rejected else b""
        return Response(_encode_bytes(1, partial) if partial else b"", media_type=PROTOBUF)
    body: dict[str, Any] = {"partialSuccess": {field: str(rejected), "errorMessage": message}} if rejected else {}
    return Response(msgspec.json.encode(body), media_type=JSON)


def failure_response(media_type: str, problem: Problem) -> Response:
    """A google.rpc.Status. Exporters retry 429 and 503 only, so other statuses are mapped accordingly."""
    status, headers = problem.status, dict(problem.headers)
    if status in (410, 422):
        status = 400
    elif status == 507:
        status, headers = 503, headers | _NO_ROOM_RETRY
    code = _CODES.get(status, _INTERNAL)
    if media_type == PROTOBUF:
        return Response(_encode_int(1, code) + _encode_text(2, problem.detail), status, headers, PROTOBUF)
    return Response(msgspec.json.encode({"code": code, "message": problem.detail}), status, headers, JSON)


def _encode_int(field: int, value: int) -> bytes:
    return _encode_varint(field << 3) + _encode_varint(value)


def _encode_text(field: int, value: str) -> bytes:
    return _encode_bytes(field, value.encode(errors="replace")) if value else b""


def _encode_bytes(field: int, value: bytes) -> bytes:
    return _encode_varint(field << 3 | 2) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


# --- the endpoints


Append: TypeAlias = Callable[[list[Event]], StoreResult]


class OtlpSignal(NamedTuple):
    """One of the three signals of OTLP."""

    store: Callable[[AppContext, bytes, bool, Append], tuple[int, StoreResult]]
    """Parses a body and stores its events. Returns the number of unreadable records, and what was stored."""
    rejected_field: str
    """The response field that counts what was left out."""
    noun: str
    parses_protobuf: bool = True
    """Whether a protobuf body is parsed, which needs the extra `otlp`."""


def _store_traces(context: AppContext, body: bytes, protobuf: bool, append: Append) -> tuple[int, StoreResult]:
    parsed = decode_foreign(lambda: reader.parse_spans(body, protobuf=protobuf, programs=registry.load_telemetry()))
    return parsed.unreadable, context.span_buffer.store(parsed.spans, lambda events: append([*parsed.events, *events]))


def _store_logs(context: AppContext, body: bytes, protobuf: bool, append: Append) -> tuple[int, StoreResult]:
    return 0, append(decode_foreign(lambda: reader.read_logs(body, protobuf=protobuf, programs=registry.load_telemetry())))


def _store_metrics(context: AppContext, body: bytes, protobuf: bool, append: Append) -> tuple[int, StoreResult]:
    return 0, append(decode_foreign(lambda: reader.read_metrics(body, protobuf=protobuf, programs=registry.load_telemetry())))


TRACES = OtlpSignal(_store_traces, "rejectedSpans", "spans")
LOGS = OtlpSignal(_store_logs, "rejectedLogRecords", "log records")
METRICS = OtlpSignal(_store_metrics, "rejectedDataPoints", "data points", parses_protobuf=False)


def _refuse_request(request: Request, problem: Problem) -> Response:
    """An error in the request's format; JSON if that is unknown."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return failure_response(kind if kind == PROTOBUF else JSON, problem)


@counted_endpoint("traces", refuse=_refuse_request)
async def post_traces(request: Request, context: AppContext) -> EndpointResult:
    """Store events of agents, models and tools from spans. A repeated span stores nothing."""
    return await _handle_export(request, context, TRACES)


@counted_endpoint("logs", refuse=_refuse_request)
async def post_logs(request: Request, context: AppContext) -> EndpointResult:
    """Store events of agents, models and tools from log records."""
    return await _handle_export(request, context, LOGS)


@counted_endpoint("metrics", refuse=_refuse_request)
async def post_metrics(request: Request, context: AppContext) -> EndpointResult:
    """Store the token counters of coding agents; all other metrics are accepted and discarded, so that no export fails."""
    return await _handle_export(request, context, METRICS)


async def _handle_export(request: Request, context: AppContext, signal: OtlpSignal) -> EndpointResult:
    await context.keys.require_scope(request, "write")
    kind = _check_format(request, signal)
    body = await read_body(request, context.limits)
    unreadable, result = await context.run_storing(body, _store_signal, context, body, signal, kind == PROTOBUF)
    rejected = unreadable + len({event.trace or event.id for event, _ in result.refused})
    response = success_response(
        kind, rejected=rejected, field=signal.rejected_field, message=_rejection_message(signal, unreadable, result)
    )
    return EndpointResult(response, events=len(result.positions), refused=rejected)


def _check_format(request: Request, signal: OtlpSignal) -> str:
    kind = read_media_type(request)
    if kind not in (PROTOBUF, JSON):
        raise Problem(415, f"{kind[:60] or 'a body without a Content-Type'} is not read here; send {PROTOBUF} or {JSON}")
    if kind == PROTOBUF and signal.parses_protobuf and not otlp_protobuf.is_protobuf_installed():
        detail = "OTLP in protobuf needs the extra here: pip install 'fleetlore[otlp]'; or have the exporter send JSON (http/json)"
        raise Problem(415, detail, headers={"accept-post": JSON})
    return kind


def _store_signal(context: AppContext, body: RequestBody, signal: OtlpSignal, protobuf: bool) -> tuple[int, StoreResult]:
    return signal.store(context, body.decompress(context.limits.body), protobuf, partial(store_valid_events, context.log))


async def settle_spans(context: AppContext) -> None:
    """Store or announce spans that wait for their parents, every few seconds. Runs as long as the server."""
    while True:
        with suppress(FleetloreError):  # the log or the disk may be out of reach for a while; the spans are kept
            await context.run(context.span_buffer.settle_overdue, partial(store_valid_events, context.log))
        await asyncio.sleep(SETTLE_SECONDS)


def _rejection_message(signal: OtlpSignal, unreadable: int, result: StoreResult) -> str:
    """Why some were left out: unreadable ones, and the first refused event."""
    reasons = [f"{unreadable} {signal.noun} have no valid trace and span id"] if unreadable else []
    return "; ".join([*reasons, *(str(error) for _, error in result.refused[:1])])


ROUTES = [
    Route("/v1/traces", post_traces, methods=["POST"]),
    Route("/v1/logs", post_logs, methods=["POST"]),
    Route("/v1/metrics", post_metrics, methods=["POST"]),
]
