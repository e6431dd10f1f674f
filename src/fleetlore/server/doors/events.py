"""`POST /api/events`: events as they are, one, many or one a line; and CloudEvents, in each of their three forms over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from fleetlore.dialects import cloudevents
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.intake.shipment import without_place
from fleetlore.server.doors.cloudevents import attributes_of, is_binary, record_of
from fleetlore.server.doors.frame import Answer, door, positions
from fleetlore.server.doors.reading import Body, Piece, elements_of, lines_of, media_type, object_of, one_or_many, read_body
from fleetlore.server.doors.storing import Decode, admit_all, store
from fleetlore.server.doors.trace import trace_of
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.house import House


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
    return without_place(event)


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
