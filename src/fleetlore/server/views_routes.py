"""Reading over HTTP: the views, stored events, and the search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore import __version__, settings
from fleetlore.errors import Invalid
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.log.base import Position, position_after
from fleetlore.projections import search
from fleetlore.projections.newest_events import read_newest
from fleetlore.server import queries
from fleetlore.server.context import House
from fleetlore.server.types import common
from fleetlore.server.view_table import VIEWS, Shown, show_session
from fleetlore.views.fleet import SILENT_AFTER

JSON = "application/json"
_COSTLY = frozenset(("/api/brief", "/api/story", "/api/timeline"))
"""Views that are made once for all who look at the same head. As those of the past, and the search, they wait for their turn."""
MOST_BYTES = 8 << 20
"""Of events in one answer."""
FRESH = 5
"""Seconds for which they are: who says nothing falls silent, and what nobody touches stalls, though no event tells so."""


def answer(value: Any) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), media_type=JSON)


def _viewing(shown: Shown) -> Callable[[Request], Awaitable[Response]]:
    async def view(request: Request) -> Response:
        house: House = request.app.state.house
        await house.keys.need(request, "read")
        query = queries.read(request, shown.query)
        is_costly = shown.path in _COSTLY or query.as_of is not None
        made = house.look(request, _view, house, shown, query) if is_costly else house.run(_view, house, shown, query)
        return Response(await made, media_type=JSON)

    return view


def _view(house: House, shown: Shown, query: queries.AsOf) -> bytes:
    desk = house.desk
    position = desk.place(query.as_of)

    def make() -> bytes:
        return msgspec.json.encode(shown.make(desk, query, position))

    is_shared = position is None and shown.path in _COSTLY and desk.warm.caught_up
    known = (house.log.head() or "") if is_shared else position
    fresh = int(house.clock().timestamp() // FRESH) if is_shared else None
    return desk.answer((shown.path, fresh, msgspec.json.encode(query)), known, make, is_newest=is_shared)


async def session(request: Request) -> Response:
    """The outcome record of one session."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    query = queries.read(request, queries.AsOf)
    return answer(await house.run(_session, house, request.path_params["id"], query))


def _session(house: House, id: str, query: queries.AsOf) -> common.Session:
    return show_session(house.desk, id, house.desk.place(query.as_of))


async def events(request: Request) -> Response:
    """Stored events: by scope, kind and place, or by their ids."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    return answer(await house.run(_events, house, queries.read(request, queries.EventsQuery)))


def _events(house: House, query: queries.EventsQuery) -> common.Events:
    end = _end(house, query.as_of)
    if query.id:
        found = [event for event in house.log.get(query.id) if end is None or (event.position or "") < end]
        return common.Events(events=[_raw(event) for event in found], next=None)
    is_newest = query.order == "newest" or (query.order is None and query.after is None and query.since is None)
    scope = house.desk.scope(query.scope)
    before = house.desk.check_place(query.before, "before")
    if is_newest and query.after is None:
        events: Iterable[Event] = read_newest(
            house.log,
            house.desk.newest_blocks(),
            scope,
            kinds=query.kind,
            since=query.since,
            before=before,
            end=end,
            limit=query.limit,
        )
    else:
        events = house.log.read(
            scope,
            after=query.after,
            before=min(filter(None, (before, end)), default=None),
            kinds=query.kind,
            since=query.since,
            newest_first=is_newest,
            limit=query.limit,
        )
    return _page(events, query.limit)


def _page(found: Iterable[Event], limit: int) -> common.Events:
    """As many as are wanted, fewer if they are long: `next` leads on."""
    shown: list[dict[str, Any]] = []
    size = 0
    for event in found:
        raw = codec.encode(event)
        shown.append(msgspec.json.decode(raw) | {"position": event.position})
        size += len(raw)
        if size > MOST_BYTES or len(shown) == limit:
            return common.Events(events=shown, next=event.position)
    return common.Events(events=shown, next=None)


def _end(house: House, as_of: str | None) -> Position | None:
    """The first position that was not known yet at a moment; `None` if all was."""
    position = house.desk.place(as_of)
    if position is None:
        return None
    return position_after(position) if position else house.desk.first()


def _raw(event: Event, **extra: Any) -> dict[str, Any]:
    """The canonical JSON of an event with its position."""
    plain: dict[str, Any] = msgspec.json.decode(codec.encode(event))
    return plain | {"position": event.position} | extra


async def find(request: Request) -> Response:
    """Events by their words."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    return answer(await house.look(request, _find, house, queries.read(request, queries.SearchQuery)))


def _find(house: House, query: queries.SearchQuery) -> common.Found:
    if not query.q.strip():
        raise Invalid("q: nothing to look for; say a word")
    by_time = bool(house.desk.newest_blocks())
    wanted = search.SearchFilter(house.desk.scope(query.scope), tuple(query.kind), before=_end(house, query.as_of), by_time=by_time)
    found, indexing = house.finder.find(query.q, wanted, query.limit)
    terms = search.parse_terms(query.q)
    return common.Found(events=[_raw(event, excerpt=search.make_excerpt(event, terms)) for event in found], indexing=indexing)


async def meta(request: Request) -> Response:
    """What this server shows, and how far it has read."""
    house: House = request.app.state.house
    await house.keys.need(request, "read")
    queries.read(request, queries.Query)
    scopes: list[str] = list(await house.keys.scopes(request))
    return answer(await house.run(_meta, house, scopes, await house.keys.is_sealed()))


def _meta(house: House, scopes: list[str], sealed: bool) -> common.Meta:
    warm = house.desk.warm
    with house.desk.looking(None, ()) as look:
        first_at, last_at = look.states["calendar"].first, look.at
    return common.Meta(
        town=house.town,
        log=settings.masked(house.url),
        version=__version__,
        head=house.log.head(),
        events=warm.folded_count if warm.caught_up else warm.total,
        first_at=first_at,
        last_at=last_at,
        caught_up=warm.caught_up,
        done=warm.folded_count,
        total=max(warm.total, warm.folded_count),
        token_needed_to_read=house.keys.needs_token_to_read,
        scopes_of_token=scopes,
        sealed=sealed,
        silent_after_seconds=SILENT_AFTER.total_seconds(),
    )


ROUTES = [
    Route("/api/events", events, methods=["GET"]),
    Route("/api/search", find, methods=["GET"]),
    Route("/api/meta", meta, methods=["GET"]),
    Route("/api/sessions/{id}", session, methods=["GET"]),
    *(Route(shown.path, _viewing(shown), methods=["GET"], name=shown.path) for shown in VIEWS),
]
