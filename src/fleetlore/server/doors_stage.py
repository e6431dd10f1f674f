"""`POST /api/stage/inject`: a visitor breaks into a run. Whoever plays it finds the visitor on the log, as it finds everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.events.envelope import Event
from fleetlore.server.doors_frame import Answer, door, positions
from fleetlore.server.doors_reading import Body, read_body, text_of
from fleetlore.server.doors_storing import store
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.house import House

VISITOR = "visitor"
LONGEST = 4000


class Injection(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a visitor says, and to whom."""

    run: Annotated[str, Meta(min_length=1, max_length=500)]
    text: Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=r"\S")]
    label: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    """What the visitor is called."""


@door("stage")
async def inject(request: Request, house: House) -> Answer:
    """Store one `user.injected`. It steers, so it needs more than the right to write."""
    await house.keys.need(request, "admin")
    body = await read_body(request, house.limits)
    return positions(await house.store(body, _take, house, body))


def _take(house: House, body: Body) -> list[str]:
    said = _read(body.unpack(house.limits.body))
    _need_open(house.log, said.run)
    return store(house.log, [house.log.admit(_event(said, _turn(house, said.run)))])


def _read(raw: bytes) -> Injection:
    try:
        return msgspec.json.decode(text_of(raw), type=Injection)
    except msgspec.ValidationError as error:
        raise Problem(422, f'{error}; send {{"run": …, "text": …}}, and a "label" if you like') from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, f"not JSON: {error}") from error


def _need_open(log: BlockingRecorder, run: str) -> None:
    """Refuse what nobody could hear."""
    scope = f"run:{run}"
    if next(iter(log.read(scope, limit=1)), None) is None:
        raise Problem(404, "there is no such run on this log; `GET /api/stage` lists those there are")
    if next(iter(log.read(scope, kinds=["run.finished"], limit=1)), None) is not None:
        raise Problem(409, "this run is over, and nobody hears a visitor any more; `lore stage run` begins another")


def _turn(house: House, run: str) -> int | None:
    with house.desk.looking(None, ["stage"]) as look:
        found = look.states["stage"].runs.get(run)
        return None if found is None else found.turn


def _event(said: Injection, turn: int | None) -> Event:
    told = {"turn": turn, "label": said.label}
    data = {name: value for name, value in told.items() if value is not None}
    return Event(kind="user.injected", actor=VISITOR, run=said.run, text=said.text.strip(), data=data)


ROUTES = [Route("/api/stage/inject", inject, methods=["POST"])]
