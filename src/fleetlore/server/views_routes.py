"""GET routes of the API: the views (`view_table.py`), stored events, search and `/api/meta`."""

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
from fleetlore.events.visibility import READER, can_see
from fleetlore.log.base import Position, position_after
from fleetlore.projections import search
from fleetlore.projections.newest_events import read_newest
from fleetlore.server import queries
from fleetlore.server.answers.evidence import read_evidence
from fleetlore.server.context import AppContext
from fleetlore.server.problems import Problem
from fleetlore.server.types import common
from fleetlore.server.view_table import VIEWS, ApiView
from fleetlore.views.fleet import SILENT_AFTER

JSON = "application/json"
_COSTLY_PATHS = frozenset(("/api/timeline",))
"""Slow views: made once for all requests at the same head, and a few at a time, like views of the past and searches."""
MAX_PAGE_BYTES = 8 << 20
"""Of events in one response."""


def json_response(value: Any) -> Response:
    """A response with a JSON body."""
    return Response(msgspec.json.encode(value), media_type=JSON)


def _view_handler(view: ApiView) -> Callable[[Request], Awaitable[Response]]:
    async def get_view(request: Request) -> Response:
        context: AppContext = request.app.state.context
        await context.keys.need(request, "read")
        query = queries.parse_query(request, view.query)
        is_costly = view.path in _COSTLY_PATHS or query.as_of is not None
        made = (
            context.run_costly(request, _render_view, context, view, query)
            if is_costly
            else context.run(_render_view, context, view, query)
        )
        return Response(await made, media_type=JSON)

    return get_view


def _render_view(context: AppContext, view: ApiView, query: queries.AsOfQuery) -> bytes:
    view_cache = context.view_cache
    position = view_cache.resolve_position(query.as_of)

    def make() -> bytes:
        return msgspec.json.encode(view.make(view_cache, query, position))

    return context.share_answer(view.path, query, position, make, is_shared=view.path in _COSTLY_PATHS)


async def get_evidence(request: Request) -> Response:
    """What source events show: commands with their output, edits as diffs, texts."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    query = queries.parse_query(request, queries.EvidenceQuery)
    return json_response(await context.run(read_evidence, context.log, query.id))


async def get_events(request: Request) -> Response:
    """Stored events, by scope, kind and position, or by their ids."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    return json_response(await context.run(_read_events, context, queries.parse_query(request, queries.EventsQuery)))


def _read_events(context: AppContext, query: queries.EventsQuery) -> common.Events:
    end = _end_position(context, query.as_of)
    if query.id:
        found = [event for event in context.log.get(query.id) if end is None or (event.position or "") < end]
        return common.Events(events=[_event_json(event) for event in found], next=None)
    is_newest = query.order == "newest" or (query.order is None and query.after is None and query.since is None)
    scope = context.view_cache.resolve_scope(query.scope)
    before = context.view_cache.check_position(query.before, "before")
    if is_newest and query.after is None:
        events: Iterable[Event] = read_newest(
            context.log,
            context.view_cache.newest_blocks(),
            scope,
            kinds=query.kind,
            since=query.since,
            before=before,
            end=end,
            limit=query.limit,
        )
    else:
        events = context.log.read(
            scope,
            after=query.after,
            before=min(filter(None, (before, end)), default=None),
            kinds=query.kind,
            since=query.since,
            newest_first=is_newest,
            limit=query.limit,
        )
    return _fill_page(events, query.limit)


def _fill_page(events: Iterable[Event], limit: int) -> common.Events:
    """Up to `limit` events, fewer if they are large; `next` is where the next page begins."""
    page: list[dict[str, Any]] = []
    size = 0
    for event in events:
        raw = codec.encode_event(event)
        page.append(msgspec.json.decode(raw) | {"position": event.position})
        size += len(raw)
        if size > MAX_PAGE_BYTES or len(page) == limit:
            return common.Events(events=page, next=event.position)
    return common.Events(events=page, next=None)


def _end_position(context: AppContext, as_of: str | None) -> Position | None:
    """The exclusive upper bound of positions for `as_of`; `None` for all."""
    position = context.view_cache.resolve_position(as_of)
    if position is None:
        return None
    return position_after(position) if position else context.view_cache.first_position()


def _event_json(event: Event, **extra: Any) -> dict[str, Any]:
    """An event as in its canonical JSON, with its position."""
    plain: dict[str, Any] = msgspec.json.decode(codec.encode_event(event))
    return plain | {"position": event.position} | extra


async def get_whole_text(request: Request) -> Response:
    """The whole text of a string that was cut from an event."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    queries.parse_query(request, queries.Query)
    text = await context.run(_read_whole_text, context, request.path_params["id"], request.path_params["sha256"])
    return Response(text.encode(), media_type="text/plain; charset=utf-8")


def _read_whole_text(context: AppContext, id: str, digest: str) -> str:
    """Raises `Problem` 404 also for a private event, so that nobody learns whether there is one."""
    event = next(iter(context.log.get([id])), None)
    text = context.log.get_blob(id, digest) if event is not None and can_see(event, READER) else None
    if text is None:
        raise Problem(404, "there is no such text: the event does not name it, is private or gone, or the log does not keep whole texts")
    return text


async def search_events(request: Request) -> Response:
    """Full-text search."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    return json_response(await context.run_costly(request, _search_events, context, queries.parse_query(request, queries.SearchQuery)))


def _search_events(context: AppContext, query: queries.SearchQuery) -> common.SearchHits:
    if not query.q.strip():
        raise Invalid("q: nothing to look for; say a word")
    by_time = bool(context.view_cache.newest_blocks())
    filter = search.SearchFilter(
        context.view_cache.resolve_scope(query.scope), tuple(query.kind), before=_end_position(context, query.as_of), by_time=by_time
    )
    found, indexing = context.search_index.find(query.q, filter, query.limit)
    terms = search.parse_terms(query.q)
    return common.SearchHits(events=[_event_json(event, excerpt=search.make_excerpt(event, terms)) for event in found], indexing=indexing)


async def get_meta(request: Request) -> Response:
    """The log, the version, the caller's rights, and how far the views have read."""
    context: AppContext = request.app.state.context
    await context.keys.need(request, "read")
    queries.parse_query(request, queries.Query)
    scopes: list[str] = list(await context.keys.scopes(request))
    return json_response(await context.run(_build_meta, context, scopes, await context.keys.is_sealed()))


def _build_meta(context: AppContext, scopes: list[str], sealed: bool) -> common.Meta:
    live_views = context.view_cache.live_views
    with context.view_cache.snapshot(None, ()) as snapshot:
        first_at, last_at = snapshot.states["calendar"].first, snapshot.at
    return common.Meta(
        town=context.town,
        log=settings.mask_url(context.url),
        version=__version__,
        head=context.log.head(),
        events=live_views.folded_count if live_views.caught_up else live_views.total,
        first_at=first_at,
        last_at=last_at,
        caught_up=live_views.caught_up,
        done=live_views.folded_count,
        total=max(live_views.total, live_views.folded_count),
        token_needed_to_read=context.keys.needs_token_to_read,
        scopes_of_token=scopes,
        sealed=sealed,
        silent_after_seconds=SILENT_AFTER.total_seconds(),
    )


ROUTES = [
    Route("/api/events", get_events, methods=["GET"]),
    Route("/api/events/{id}/texts/{sha256}", get_whole_text, methods=["GET"]),
    Route("/api/evidence", get_evidence, methods=["GET"]),
    Route("/api/search", search_events, methods=["GET"]),
    Route("/api/meta", get_meta, methods=["GET"]),
    *(Route(view.path, _view_handler(view), methods=["GET"], name=view.path) for view in VIEWS),
]
