"""`POST /api/events`: events as they are, one, many or one a line; and CloudEvents, in each of their three forms over HTTP."""

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
from fleetlore.server.endpoints.request_body import Body, Piece, elements_of, lines_of, media_type, object_of, one_or_many, read_body
from fleetlore.server.endpoints.response import Answer, door, positions, trace_of
from fleetlore.server.endpoints.store import Decode, admit_all, store
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import House


# --- CloudEvents in binary mode: attributes in `ce-*` headers, the data in the body. Here they become one JSON object.

PREFIX = b"ce-"
STRUCTURED = "application/cloudevents"
_LONGEST = 8 * 1024
_name = re.compile(rb"[a-z0-9]+").fullmatch
_escaped = re.compile(rb"\\(.)", re.DOTALL)
_is_json = re.compile(r"(application|text)/(.+\+)?json").fullmatch


def is_binary(request: Request, media_type: str) -> bool:
    """Whether a request is a CloudEvent in binary mode: it has their headers, and its body is none of theirs."""
    return "ce-specversion" in request.headers and not media_type.startswith(STRUCTURED)


def attributes_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The attributes that headers tell; `DialectError` for one that cannot be read."""
    attributes: dict[str, str] = {}
    for header, value in headers:
        if not header.lower().startswith(PREFIX):
            continue
        name = header.lower()[len(PREFIX) :]
        if not _name(name) or name in (b"data", b"datacontenttype"):
            raise DialectError(f"ce-{name.decode('latin-1')[:40]}", "no attribute is called so: letters and digits, as in ce-type")
        if name.decode() in attributes:
            raise DialectError(f"ce-{name.decode()}", "stands there twice")
        attributes[name.decode()] = _value(name.decode(), value)
    return attributes


def _value(name: str, raw: bytes) -> str:
    """A header's value: out of its quotes, then out of its percent signs, then out of UTF-8."""
    if len(raw) > _LONGEST:
        raise DialectError(f"ce-{name[:40]}", f"longer than {_LONGEST} bytes")
    if len(raw) > 1 and raw.startswith(b'"') and raw.endswith(b'"'):
        raw = _escaped.sub(rb"\1", raw[1:-1])
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise DialectError(f"ce-{name[:40]}", f"not UTF-8 behind its percent signs: {error.reason}") from error


def record_of(attributes: Mapping[str, str], media_type: str, body: bytes) -> bytes:
    """The same CloudEvent in its structured form; a `Problem` where JSON is promised, and is none."""
    record: dict[str, object] = dict(attributes)
    if media_type:
        record["datacontenttype"] = media_type
    if body:
        record |= _data(media_type, body)
    return msgspec.json.encode(record)


def _data(media_type: str, body: bytes) -> dict[str, object]:
    if not media_type or _is_json(media_type):
        return {"data": msgspec.Raw(object_of(body).raw)}
    try:
        return {"data": body.decode()}
    except UnicodeDecodeError:
        return {"data_base64": b64encode(body).decode()}


# ---

OWN = "log."


class Form(NamedTuple):
    """One way of writing events into a body."""

    cut: Callable[[bytes], Iterable[Piece]]
    decode: Decode
    is_whole: bool = True
    """Whether all of it is read at once, so that it must be shorter than what is read line by line."""


def _one(raw: bytes) -> list[Piece]:
    return [object_of(raw)]


def _ours(raw: bytes) -> Event:
    return _allowed(codec.decode(raw))


def _foreign(raw: bytes) -> Event:
    return _allowed(cloudevents.DIALECT.decode(raw))


def _allowed(event: Event) -> Event:
    """What the log says of itself, or a shipper of an event, nobody else does: views and shippers go by it."""
    if event.kind.startswith(OWN):
        raise InvalidEvent("$.kind", f"{event.kind} is what the log says of itself; `lore forget` and `lore trim` have it say so")
    return strip_shipped_place(event)


_LINES = Form(lines_of, _ours, is_whole=False)
FORMS: Mapping[str, Form] = {
    "application/json": Form(one_or_many, _ours),
    "application/x-ndjson": _LINES,
    "application/ndjson": _LINES,
    "application/jsonl": _LINES,
    "application/cloudevents+json": Form(_one, _foreign),
    "application/cloudevents-batch+json": Form(elements_of, _foreign),
}
"""What is read, by its Content-Type."""


@door("events")
async def post_events(request: Request, house: House) -> Answer:
    """Store events: all that fit into one append, or none. The same ids again answer the same positions."""
    await house.keys.need(request, "write")
    form = _form(request)
    trace = trace_of(request)
    body = await read_body(request, house.limits)
    limit = house.limits.body if form.is_whole else house.limits.unpacked
    return positions(await house.store(body, _take, house.log, body, form, limit, trace.traceparent if trace else None))


def _form(request: Request) -> Form:
    kind = media_type(request)
    if is_binary(request, kind):
        return _binary(request, kind)
    if kind not in FORMS:
        accepted = ", ".join(FORMS)
        detail = f"{kind[:60] or 'a body without a Content-Type'} is not read here; say what it is: {accepted}, or ce-* headers"
        raise Problem(415, detail, headers={"accept-post": accepted}, accepted=list(FORMS))
    return FORMS[kind]


def _binary(request: Request, kind: str) -> Form:
    """A CloudEvent whose attributes are headers, and whose data is the body."""
    try:
        attributes = attributes_of(request.headers.raw)
    except DialectError as error:
        raise Problem(400, str(error)) from error
    return Form(lambda raw: [Piece("index", 0, record_of(attributes, kind, raw))], _foreign)


def _take(log: BlockingRecorder, body: Body, form: Form, limit: int, trace: str | None) -> list[str]:
    return store(log, admit_all(log, form.cut(body.unpack(limit)), form.decode, trace=trace))


ROUTES = [Route("/api/events", post_events, methods=["POST"])]
