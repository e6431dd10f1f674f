"""`POST /hooks/claude-code`, `/hooks/codex`: what coding programs say at each step; and `/hooks/heartbeat`, a sign of life.

The same call may come by `lore hook`, too: it is then one event. The transcript that a call names is read first where it is one of
this machine's, for it tells the same with more in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, ValidationError, json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore.dialects.nexus import from_heartbeat
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.server.doors import forges as doors_forges
from fleetlore.server.doors.calls import PROGRAMS, Call, take_call
from fleetlore.server.doors.frame import JSON, Answer, door, last_word, positions
from fleetlore.server.doors.reading import Body, media_type, object_of, read_body
from fleetlore.server.doors.storing import keep_all
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.house import House

_LOOPBACK = ("127.", "::1", "::ffff:127.")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@door("hook")
async def post_call(request: Request, house: House) -> Answer:
    """Store one call of a program's hook. The answer is an empty object, by which the program changes nothing."""
    await house.keys.need(request, "write")
    _need_json(request)
    call = Call(last_word(request), house.clock(), is_local(request))
    body = await read_body(request, house.limits)
    stored = await house.store(body, _take_call, house, body, call)
    return Answer(Response(b"{}", media_type=JSON), events=len(stored))


def _take_call(house: House, body: Body, call: Call) -> list[str]:
    return take_call(house.log, house.settings, call, body.unpack(house.limits.body))


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and through nobody else's hands."""
    is_near = request.client is not None and request.client.host.startswith(_LOOPBACK)
    return is_near and not any(name in request.headers for name in _FORWARDED)


class Heartbeat(Struct, forbid_unknown_fields=True):
    """A sign of life, as it is posted; the last five as nexus writes it, which names only the model."""

    agent: str | None = None
    text: str | None = None
    task: str | None = None
    mission: str | None = None
    run: str | None = None
    state: str | None = None
    model: str | None = None
    cycle: int | None = None
    status: str | None = None
    pid: int | None = None
    timestamp: float | str | None = None


_OF_NEXUS = ("model", "cycle", "status", "pid", "timestamp")


@door("heartbeat")
async def post_heartbeat(request: Request, house: House) -> Answer:
    """Store a sign of life of one agent."""
    await house.keys.need(request, "write")
    _need_json(request)
    body = await read_body(request, house.limits)
    return positions(await house.store(body, _take_heartbeat, house.log, body, house.limits.body))


def _take_heartbeat(log: BlockingRecorder, body: Body, limit: int) -> list[str]:
    raw = object_of(body.unpack(limit)).raw
    try:
        beat = json.decode(raw, type=Heartbeat)
    except ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise InvalidEvent(path.rstrip("`") or "$", f'{reason}; a heartbeat is as {{"agent": "ada", "text": "still at it"}}') from error
    except (ValueError, RecursionError) as error:
        raise DialectError("$", f"not JSON: {error}") from error
    if beat.agent is None and beat.model is None:
        raise InvalidEvent("$.agent", 'missing; a heartbeat is as {"agent": "ada", "text": "still at it"}')
    return keep_all(log, [_told_by(beat)])


def _told_by(beat: Heartbeat) -> Event:
    data: dict[str, Any] = {"state": beat.state} | {name: getattr(beat, name) for name in _OF_NEXUS}
    data = {name: value for name, value in data.items() if value is not None}
    theirs = from_heartbeat(data)
    text = beat.text or (theirs.text if "cycle" in data or "status" in data else None)
    scopes: dict[str, Any] = {"task": beat.task, "mission": beat.mission, "run": beat.run}
    agent = beat.model if beat.agent is None else beat.agent
    return Event(kind=theirs.kind, at=theirs.at, agent=agent, text=text, data=data, **scopes)


def _need_json(request: Request) -> None:
    if (kind := media_type(request)) != JSON:
        raise Problem(415, f"{kind[:60] or 'a body without a Content-Type'} is not read here; send {JSON}")


ROUTES = [
    *doors_forges.ROUTES,
    *(Route(f"/hooks/{program}", post_call, methods=["POST"]) for program in PROGRAMS),
    Route("/hooks/heartbeat", post_heartbeat, methods=["POST"]),
]
