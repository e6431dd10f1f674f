"""`POST /api/events`: events as JSON, as an array or as NDJSON; and CloudEvents in structured, batched and binary mode."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.dialects import cloudevents
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.ingest.shipment import strip_shipped_place
from fleetlore.server.endpoints.request_body import (
    BodyPiece,
    RequestBody,
    parse_single,
    read_body,
    read_media_type,
    split_array,
    split_json,
    split_lines,
)
from fleetlore.server.endpoints.response import EndpointResult, counted_endpoint, parse_traceparent, positions_result
from fleetlore.server.endpoints.store import Decode, admit_pieces, store_records
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import AppContext


# --- CloudEvents in binary mode: attributes in `ce-*` headers, data in the body. They are converted to structured mode.

HEADER_PREFIX = b"ce-"
STRUCTURED_PREFIX = "application/cloudevents"
_MAX_HEADER_BYTES = 8 * 1024
_match_name = re.compile(rb"[a-z0-9]+").fullmatch
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_match_json = re.compile(r"(application|text)/(.+\+)?json").fullmatch


def is_binary(request: Request, media_type: str) -> bool:
    """Whether a request is a CloudEvent in binary mode: `ce-*` headers, and not the media type of structured mode."""
    return "ce-specversion" in request.headers and not media_type.startswith(STRUCTURED_PREFIX)


def parse_ce_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the CloudEvents attributes in `ce-*` headers; raise `DialectError` for a malformed one."""
    attributes: dict[str, str] = {}
    for header, value in headers:
        if not header.lower().startswith(HEADER_PREFIX):
            continue
        name = header.lower()[len(HEADER_PREFIX) :]
        if not _match_name(name) or name in (b"data", b"datacontenttype"):
            raise DialectError(
                f"ce-{name.decode('latin-1')[:40]}", "not a valid attribute name; use lower-case letters and digits, as in ce-type"
            )
        if name.decode() in attributes:
            raise DialectError(f"ce-{name.decode()}", "the header is given twice")
        attributes[name.decode()] = _decode_header(name.decode(), value)
    return attributes


def _decode_header(name: str, raw: bytes) -> str:
    """Remove quotes, decode percent-encoding, then decode UTF-8."""
    if len(raw) > _MAX_HEADER_BYTES:
        raise DialectError(f"ce-{name[:40]}", f"longer than {_MAX_HEADER_BYTES} bytes")
    if len(raw) > 1 and raw.startswith(b'"') and raw.endswith(b'"'):
        raw = _ESCAPED.sub(rb"\1", raw[1:-1])
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise DialectError(f"ce-{name[:40]}", f"not UTF-8 after percent-decoding: {error.reason}") from error


def to_structured(attributes: Mapping[str, str], media_type: str, body: bytes) -> bytes:
    """A CloudEvent in structured mode; a `Problem` if the body should be JSON and is not."""
    record: dict[str, object] = dict(attributes)
    if media_type:
        record["datacontenttype"] = media_type
    if body:
        record |= _data_fields(media_type, body)
    return msgspec.json.encode(record)


def _data_fields(media_type: str, body: bytes) -> dict[str, object]:
    if not media_type or _match_json(media_type):
        return {"data": msgspec.Raw(parse_single(body).raw)}
    try:
        return {"data": body.decode()}
    except UnicodeDecodeError:
        return {"data_base64": b64encode(body).decode()}


# --- the endpoint

LOG_KIND_PREFIX = "log."


class BodyFormat(NamedTuple):
    """How a body of one content type is split and decoded."""

    split: Callable[[bytes], Iterable[BodyPiece]]
    decode: Decode
    is_whole: bool = True
    """Whether the body is parsed as one document. Such a body has a lower size limit than NDJSON."""


def _single_piece(raw: bytes) -> list[BodyPiece]:
    return [parse_single(raw)]


def _decode_event(raw: bytes) -> Event:
    return _check_event(codec.decode_event(raw))


def _decode_cloudevent(raw: bytes) -> Event:
    return _check_event(cloudevents.DIALECT.decode(raw))


def _check_event(event: Event) -> Event:
    """Refuse `log.*` kinds and remove `origin.log`: views and `lore ship` rely on them, so clients must not set them."""
    if event.kind.startswith(LOG_KIND_PREFIX):
        raise InvalidEvent("$.kind", f"{event.kind} is what the log says of itself; use `lore forget` or `lore trim`")
    return strip_shipped_place(event)


_LINES_FORMAT = BodyFormat(split_lines, _decode_event, is_whole=False)
BODY_FORMATS: Mapping[str, BodyFormat] = {
    "application/json": BodyFormat(split_json, _decode_event),
    "application/x-ndjson": _LINES_FORMAT,
    "application/ndjson": _LINES_FORMAT,
    "application/jsonl": _LINES_FORMAT,
    "application/cloudevents+json": BodyFormat(_single_piece, _decode_cloudevent),
    "application/cloudevents-batch+json": BodyFormat(split_array, _decode_cloudevent),
}
"""Content-Type → format."""


@counted_endpoint("events")
async def post_events(request: Request, context: AppContext) -> EndpointResult:
    """Store all events in one append, or none. Events with known ids are not stored again; the response has their positions."""
    await context.keys.require_scope(request, "write")
    format = _choose_format(request)
    trace = parse_traceparent(request)
    body = await read_body(request, context.limits)
    limit = context.limits.body if format.is_whole else context.limits.unpacked
    return positions_result(
        await context.run_storing(body, _store_body, context.log, body, format, limit, trace.traceparent if trace else None)
    )


def _choose_format(request: Request) -> BodyFormat:
    media_type = read_media_type(request)
    if is_binary(request, media_type):
        return _binary_format(request, media_type)
    if media_type not in BODY_FORMATS:
        accepted = ", ".join(BODY_FORMATS)
        detail = f"{media_type[:60] or 'a body without a Content-Type'} is not accepted; use one of {accepted}, or ce-* headers"
        raise Problem(415, detail, headers={"accept-post": accepted}, accepted=list(BODY_FORMATS))
    return BODY_FORMATS[media_type]


def _binary_format(request: Request, media_type: str) -> BodyFormat:
    try:
        attributes = parse_ce_headers(request.headers.raw)
    except DialectError as error:
        raise Problem(400, str(error)) from error
    return BodyFormat(lambda raw: [BodyPiece("index", 0, to_structured(attributes, media_type, raw))], _decode_cloudevent)


def _store_body(log: BlockingRecorder, body: RequestBody, format: BodyFormat, limit: int, trace: str | None) -> list[str]:
    return store_records(log, admit_pieces(log, format.split(body.decompress(limit)), format.decode, trace=trace))


ROUTES = [Route("/api/events", post_events, methods=["POST"])]
