"""Whether the server lives, can work, and what it has counted."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetlore.errors import LogError
from fleetlore.server.context import House
from fleetlore.server.metrics import CONTENT_TYPE
from fleetlore.server.problems import Problem
from fleetlore.server.types import common

ANSWER_SECONDS = 2.0
"""How long the log may take to say where it ends."""


async def healthz(request: Request) -> Response:
    """The loop turns."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The log can be read and followed. Views that are still being folded do not count: they answer with what they have."""
    house: House = request.app.state.house
    warm = house.desk.warm
    trouble = house.feed.trouble or warm.last_failure or await _trouble(house)
    if trouble and not await _may_read(house, request):
        trouble = "the log cannot be read just now; who may read is told why"
    ready = common.Ready(
        ready=trouble is None,
        caught_up=warm.caught_up,
        done=warm.folded_count,
        total=max(warm.total, warm.folded_count),
        detail=trouble or "",
    )
    return Response(msgspec.json.encode(ready), 200 if ready.ready else 503, media_type="application/json")


async def _trouble(house: House) -> str | None:
    """Why the log cannot be read. It is asked once for all who want to know, for one that is gone may take long to say so."""
    asking = house.asking
    if asking is None or asking.done():
        asking = house.asking = asyncio.ensure_future(house.run(_ask, house))
    await asyncio.wait((asking,), timeout=ANSWER_SECONDS)
    return asking.result() if asking.done() else f"the log has not answered within {ANSWER_SECONDS:g} s"


async def _may_read(house: House, request: Request) -> bool:
    try:
        await house.keys.need(request, "read")
    except (Problem, LogError):
        return False
    return True


def _ask(house: House) -> str | None:
    try:
        house.log.head()
    except LogError as error:
        return str(error)
    return None


async def metrics(request: Request) -> Response:
    """The counts, for Prometheus."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    return Response(await house.run(house.meters.page), media_type=CONTENT_TYPE)


ROUTES = [
    Route("/healthz", healthz, methods=["GET"]),
    Route("/readyz", readyz, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
]
