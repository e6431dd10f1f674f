"""`POST /api/stage/inject`: a visitor breaks into a run. Whoever plays it finds the visitor on the log, as it finds everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.events.envelope import Event
from fleetlore.server.endpoints.request_body import Body, read_as, read_body
from fleetlore.server.endpoints.response import Answer, door, positions
from fleetlore.server.endpoints.store import store
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import House

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
    said = read_as(body.unpack(house.limits.body), Injection, 'send {"run": …, "text": …}, and a "label" if you like')
    turn = _turn(house, said.run)
    return store(house.log, [house.log.admit(_event(said, turn))])


def _turn(house: House, run: str) -> int | None:
    """At which turn a run is, where the view keeps it; refuses what nobody could hear."""
    with house.desk.looking(None, ["stage"]) as look:
        found = look.states["stage"].runs.get(run)
        turn, is_over = (None, False) if found is None else (found.turn, found.finish is not None)
    if is_over or (found is None and _has(house.log, run, ["run.finished"])):
        raise Problem(409, "this run is over, and nobody hears a visitor any more; `lore stage run` begins another")
    if found is None and not _has(house.log, run):
        raise Problem(404, "there is no such run on this log; `GET /api/stage` lists those there are")
    return turn


def _has(log: BlockingRecorder, run: str, kinds: Sequence[str] = ()) -> bool:
    return next(iter(log.read(f"run:{run}", kinds=kinds, limit=1)), None) is not None


def _event(said: Injection, turn: int | None) -> Event:
    told = {"turn": turn, "label": said.label}
    data = {name: value for name, value in told.items() if value is not None}
    return Event(kind="user.injected", actor=VISITOR, run=said.run, text=said.text.strip(), data=data)


ROUTES = [Route("/api/stage/inject", inject, methods=["POST"])]
