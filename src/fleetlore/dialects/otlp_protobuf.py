"""OTLP's binary form, read by OpenTelemetry's own messages into the shape that its JSON has. Needs the extra `otlp`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError

Signal = Literal["trace", "logs"]

_REQUESTS = {"trace": "ExportTraceServiceRequest", "logs": "ExportLogsServiceRequest"}


def read_binary(body: bytes, signal: Signal) -> Record:
    """One request as a plain object, ids in base64; `DialectError` for other bytes, and where the extra is missing."""
    try:
        service = import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")
        message, json_format = import_module("google.protobuf.message"), import_module("google.protobuf.json_format")
    except ImportError as error:
        raise DialectError("$", "OTLP in protobuf needs the extra: pip install 'fleetlore[otlp]'; or send JSON (http/json)") from error
    request: Any = getattr(service, _REQUESTS[signal])()
    try:
        request.ParseFromString(body)
        record: Record = json_format.MessageToDict(request)
    except (message.Error, ValueError, RecursionError) as error:
        raise DialectError("$", f"no {_REQUESTS[signal]} in protobuf: {error}") from error
    return record
