"""Stored events: by scope, kind and position, by their ids, or by their words; and texts that were cut from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from fleetlore.errors import Invalid, NotFound
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.log.base import Position, position_after
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Kinds, PositionText, Scope, Text, Time
from fleetlore.operations.request import InvalidRequest, Request
from fleetlore.operations.sources import resolve_scope
from fleetlore.projections import search
from fleetlore.projections.newest_events import read_newest

MAX_PAGE_BYTES = 8 << 20
"""Of events in one response."""


# --- by scope, kind and position


class ListEvents(AsOfRequest, kw_only=True):
    """Stored events."""

    scope: Scope = "town"
    kind: Kinds = field(default_factory=list)
    id: Annotated[list[Text], Meta(max_length=100)] = field(default_factory=list)
    after: PositionText | None = None
    before: PositionText | None = None
    since: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = 100
    """`None`, which only programs can say, is for all."""
    order: Literal["oldest", "newest"] | None = None


class Events(Struct, kw_only=True):
    """Stored events, each as canonical JSON with its position."""

    events: list[dict[str, Any]]
    next: str | None
    """The next page's `before` (newest first) or `after` (oldest first)."""


def list_events(context: OperationContext, request: ListEvents) -> Events:
    """A page of events: the newest first, unless the request says where to begin."""
    found = find_events(context, request)
    if request.id:
        return Events(events=[_event_fields(event) for event in found], next=None)
    return _fill_page(found, request.limit)


def find_events(context: OperationContext, request: ListEvents, *, may_be_new: bool = False) -> Iterable[Event]:
    """The events themselves, read one by one. `may_be_new`: whether the scope may have no events yet."""
    end = _find_end(context, request.as_of)
    if request.id:
        return [event for event in context.log.get(request.id) if end is None or (event.position or "") < end]
    is_newest = request.order == "newest" or (request.order is None and request.after is None and request.since is None)
    scope = resolve_scope(context.source, request.scope, may_be_new=may_be_new)
    before = _check_position(context, request.before)
    if is_newest and request.after is None and request.limit is not None:
        return read_newest(
            context.log,
            context.source.newest_blocks(),
            scope,
            kinds=request.kind,
            since=request.since,
            before=before,
            end=end,
            limit=request.limit,
        )
    return context.log.read(
        scope,
        after=request.after,
        before=min(filter(None, (before, end)), default=None),
        kinds=request.kind,
        since=request.since,
        newest_first=is_newest,
        limit=request.limit,
    )


def _fill_page(events: Iterable[Event], limit: int | None) -> Events:
    """Up to `limit` events, fewer if they are large; `next` is where the next page begins."""
    page: list[dict[str, Any]] = []
    size = 0
    for event in events:
        raw = codec.encode_event(event)
        page.append(msgspec.json.decode(raw) | {"position": event.position})
        size += len(raw)
        if size > MAX_PAGE_BYTES or len(page) == limit:
            return Events(events=page, next=event.position)
    return Events(events=page, next=None)


def _find_end(context: OperationContext, as_of: str | None) -> Position | None:
    """The exclusive upper bound of positions for `as_of`; `None` for all."""
    position = context.source.resolve_position(as_of)
    if position is None:
        return None
    return position_after(position) if position else next((event.position for event in context.log.read(limit=1)), None)


def _check_position(context: OperationContext, before: Position | None) -> Position | None:
    """The position if it has the form of this log's positions, so that they can be compared; else `Invalid`."""
    if before is not None and (head := context.log.head()) is not None and len(before) != len(head):
        raise Invalid(f"before: not a position of this log: {before!r}; take one as the API gives it")
    return before


def _event_fields(event: Event, **extra: Any) -> dict[str, Any]:
    """An event as in its canonical JSON, with its position."""
    plain: dict[str, Any] = msgspec.json.decode(codec.encode_event(event))
    return plain | {"position": event.position} | extra


# --- by their words


class SearchEvents(AsOfRequest, kw_only=True):
    """Words."""

    q: Annotated[str, Meta(min_length=1, max_length=500)]
    scope: Scope = "town"
    kind: Kinds = field(default_factory=list)
    since: Annotated[Time, Meta(description="Only from then on.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class SearchHits(Struct, kw_only=True):
    """Search results, newest first."""

    events: list[dict[str, Any]]
    indexing: bool
    """Whether older events are still being indexed and may be missing."""


def search_events(context: OperationContext, request: SearchEvents) -> SearchHits:
    """Events with these words, the newest first, each with an excerpt."""
    found, indexing = find_matching_events(context, request)
    terms = search.parse_terms(request.q)
    return SearchHits(events=[_event_fields(event, excerpt=search.make_excerpt(event, terms)) for event in found], indexing=indexing)


def find_matching_events(context: OperationContext, request: SearchEvents) -> tuple[list[Event], bool]:
    """The events themselves, and whether older ones may be missing because they are not indexed yet."""
    if not request.q.strip():
        raise InvalidRequest("q: is empty; give a word to search for")
    by_time, scope = bool(context.source.newest_blocks()), resolve_scope(context.source, request.scope)
    end = _find_end(context, request.as_of)
    return context.source.find(
        request.q, search.SearchFilter(scope, tuple(request.kind), request.since, end, by_time=by_time), request.limit
    )


# --- whole texts


class ReadWholeText(Request, kw_only=True):
    """A string that was cut from an event."""

    id: Annotated[str, Meta(min_length=1, description="The event's")]
    sha256: Annotated[str, Meta(min_length=1, description="The digest in the event's `origin.cut`")]


class WholeText(Struct, kw_only=True):
    """The whole text. Untrusted."""

    text: str


def read_whole_text(context: OperationContext, request: ReadWholeText) -> WholeText:
    """The whole text of a string that was cut from an event. `NotFound` also for a private event, so that nobody learns of it."""
    event = next(iter(context.log.get([request.id])), None)
    text = context.log.get_blob(request.id, request.sha256) if event is not None and can_see(event, READER) else None
    if text is None:
        raise NotFound("text not found: the event does not name it, is private or erased, or the log does not keep whole texts")
    return WholeText(text=text)
