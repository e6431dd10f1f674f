"""`POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP, binary and JSON, as any exporter of OpenTelemetry's sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.dialects.otlp import protobuf as otlp_protobuf
from fleetlore.dialects.otlp import reader
from fleetlore.dialects.otlp.reader import ParsedTraces
from fleetlore.programs import registry
from fleetlore.server.endpoints.request_body import Body, media_type, read_body
from fleetlore.server.endpoints.response import JSON, Answer, door
from fleetlore.server.endpoints.store import Kept, keep, told
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import House


# --- What an exporter of OTLP is answered, in the format that it speaks: binary or JSON.

PROTOBUF = "application/x-protobuf"

_CODES = {400: 3, 401: 16, 403: 7, 408: 4, 413: 8, 415: 3, 429: 8, 503: 14}
"""Status of HTTP → code of google.rpc.Status."""
_INTERNAL = 13
_NO_ROOM_FOR = {"retry-after": "60"}


def success(media_type: str, *, rejected: int, what: str, message: str) -> Response:
    """An Export…ServiceResponse; `what` is the field that counts those left out: `rejectedSpans` or `rejectedLogRecords`."""
    if media_type == PROTOBUF:
        partial = _number(1, rejected) + _text(2, message) if rejected else b""
        return Response(_bytes(1, partial) if partial else b"", media_type=PROTOBUF)
    said: dict[str, Any] = {"partialSuccess": {what: str(rejected), "errorMessage": message}} if rejected else {}
    return Response(msgspec.json.encode(said), media_type=JSON)


def failure(media_type: str, problem: Problem) -> Response:
    """A google.rpc.Status. Exporters send again what is answered with 429 or 503, and nothing else."""
    status, headers = problem.status, dict(problem.headers)
    if status in (410, 422):
        status = 400
    elif status == 507:
        status, headers = 503, headers | _NO_ROOM_FOR
    code = _CODES.get(status, _INTERNAL)
    if media_type == PROTOBUF:
        return Response(_number(1, code) + _text(2, problem.detail), status, headers, PROTOBUF)
    return Response(msgspec.json.encode({"code": code, "message": problem.detail}), status, headers, JSON)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode(errors="replace")) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


# ---


class Signal(NamedTuple):
    """One of the things that exporters send."""

    take: Callable[..., ParsedTraces]
    rejected: str
    """What the answer calls those left out."""
    of: str
    parses_protobuf: bool = True
    """Whether a binary body is parsed, which needs the extra."""


def _take_logs(body: bytes, *, protobuf: bool) -> ParsedTraces:
    return ParsedTraces(reader.read_logs(body, protobuf=protobuf, programs=registry.load_telemetry()))


def _take_traces(body: bytes, *, protobuf: bool) -> ParsedTraces:
    return reader.parse_traces(body, protobuf=protobuf, programs=registry.load_telemetry())


TRACES = Signal(_take_traces, "rejectedSpans", "spans")
LOGS = Signal(_take_logs, "rejectedLogRecords", "log records")
METRICS = Signal(reader.discard_metrics, "rejectedDataPoints", "data points", parses_protobuf=False)


def _refuse(request: Request, problem: Problem) -> Response:
    """In the request's own format; where that is not known, as JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return failure(kind if kind == PROTOBUF else JSON, problem)


@door("traces", refuse=_refuse)
async def post_traces(request: Request, house: House) -> Answer:
    """Store what spans tell of agents, models and tools. A span that is sent again stores nothing."""
    return await _export(request, house, TRACES)


@door("logs", refuse=_refuse)
async def post_logs(request: Request, house: House) -> Answer:
    """Store what log records tell of agents, models and tools."""
    return await _export(request, house, LOGS)


@door("metrics", refuse=_refuse)
async def post_metrics(request: Request, house: House) -> Answer:
    """Accept metrics and discard them, so that exporters that send all three signals do not report a failed export."""
    return await _export(request, house, METRICS)


async def _export(request: Request, house: House, signal: Signal) -> Answer:
    await house.keys.need(request, "write")
    kind = _format(request, signal)
    body = await read_body(request, house.limits)
    unreadable, kept = await house.store(body, _take, house.log, body, signal, kind == PROTOBUF, house.limits.body)
    rejected = unreadable + len({event.trace or event.id for event, _ in kept.refused})
    response = success(kind, rejected=rejected, what=signal.rejected, message=_message(signal, unreadable, kept))
    return Answer(response, events=len(kept.positions), refused=rejected)


def _format(request: Request, signal: Signal) -> str:
    kind = media_type(request)
    if kind not in (PROTOBUF, JSON):
        raise Problem(415, f"{kind[:60] or 'a body without a Content-Type'} is not read here; send {PROTOBUF} or {JSON}")
    if kind == PROTOBUF and signal.parses_protobuf and not otlp_protobuf.is_protobuf_installed():
        detail = "OTLP in protobuf needs the extra here: pip install 'fleetlore[otlp]'; or have the exporter send JSON (http/json)"
        raise Problem(415, detail, headers={"accept-post": JSON})
    return kind


def _take(log: BlockingRecorder, body: Body, signal: Signal, protobuf: bool, limit: int) -> tuple[int, Kept]:
    raw = body.unpack(limit)
    found = told(lambda: signal.take(raw, protobuf=protobuf))
    return found.unreadable, keep(log, found.events)


def _message(signal: Signal, unreadable: int, kept: Kept) -> str:
    """Why some were left out: of each sort, the first."""
    reasons = [f"{unreadable} {signal.of} have no valid trace and span id"] if unreadable else []
    return "; ".join([*reasons, *(str(error) for _, error in kept.refused[:1])])


ROUTES = [
    Route("/v1/traces", post_traces, methods=["POST"]),
    Route("/v1/logs", post_logs, methods=["POST"]),
    Route("/v1/metrics", post_metrics, methods=["POST"]),
]
