"""Whether the server lives, can work, and what it has counted."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fleetlore.errors import LogError
from fleetlore.server import shapes
from fleetlore.server.house import House
from fleetlore.server.meters import CONTENT_TYPE


async def healthz(request: Request) -> Response:
    """The loop turns."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The log can be read and followed. Views that are still being folded do not count: they answer with what they have."""
    house: House = request.app.state.house
    warm = house.desk.warm
    trouble = house.feed.trouble or warm.trouble or await house.run(_trouble, house)
    ready = shapes.Ready(
        ready=trouble is None,
        caught_up=warm.caught_up,
        done=warm.done,
        total=max(warm.total, warm.done),
        detail=trouble or "",
    )
    return Response(msgspec.json.encode(ready), 200 if ready.ready else 503, media_type="application/json")


def _trouble(house: House) -> str | None:
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
