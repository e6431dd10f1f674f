"""What an exporter of OTLP is answered, in the format that it speaks: binary or JSON.

The three messages are so small that they are written here, without the library that reading needs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from fleetlore.server.doors.frame import JSON
from fleetlore.server.problems import Problem

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
