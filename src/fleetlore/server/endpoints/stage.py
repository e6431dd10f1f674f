"""`POST /api/stage/inject`: a visitor says something in a running stage run. The run reads it from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from fleetlore.events.envelope import Event
from fleetlore.server.endpoints.request_body import RequestBody, decode_json, read_body
from fleetlore.server.endpoints.response import EndpointResult, counted_endpoint, positions_result
from fleetlore.server.endpoints.store import store_records
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import AppContext

VISITOR = "visitor"
MAX_TEXT_CHARS = 4000


class Injection(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a visitor says, and in which run."""

    run: Annotated[str, Meta(min_length=1, max_length=500)]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, pattern=r"\S")]
    label: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    """The visitor's name."""


@counted_endpoint("stage")
async def post_injection(request: Request, context: AppContext) -> EndpointResult:
    """Store one `user.injected`. Needs the scope `admin`, because it influences agents."""
    await context.keys.need(request, "admin")
    body = await read_body(request, context.limits)
    return positions_result(await context.run_storing(body, _store_injection, context, body))


def _store_injection(context: AppContext, body: RequestBody) -> list[str]:
    injection = decode_json(body.decompress(context.limits.body), Injection, 'send {"run": …, "text": …}, and a "label" if you like')
    turn = _current_turn(context, injection.run)
    return store_records(context.log, [context.log.admit(_injection_event(injection, turn))])


def _current_turn(context: AppContext, run: str) -> int | None:
    """The current turn of a run, `None` if the view dropped the run; a `Problem` if it is over or unknown."""
    with context.view_cache.snapshot(None, ["stage"]) as snapshot:
        found = snapshot.states["stage"].runs.get(run)
        turn, is_over = (None, False) if found is None else (found.turn, found.finish is not None)
    if is_over or (found is None and _has_events(context.log, run, ["run.finished"])):
        raise Problem(409, "this run has ended and takes no more messages; start another with `lore stage run`")
    if found is None and not _has_events(context.log, run):
        raise Problem(404, "there is no such run on this log; `GET /api/stage` lists those there are")
    return turn


def _has_events(log: BlockingRecorder, run: str, kinds: Sequence[str] = ()) -> bool:
    return next(iter(log.read(f"run:{run}", kinds=kinds, limit=1)), None) is not None


def _injection_event(injection: Injection, turn: int | None) -> Event:
    fields = {"turn": turn, "label": injection.label}
    data = {name: value for name, value in fields.items() if value is not None}
    return Event(kind="user.injected", actor=VISITOR, run=injection.run, text=injection.text.strip(), data=data)


ROUTES = [Route("/api/stage/inject", post_injection, methods=["POST"])]
