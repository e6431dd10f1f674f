"""MCP tools for what happened: `story`, `events` and `search`. Private events of other agents are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.events.visibility import Viewer, can_see
from fleetlore.operations import events, periods
from fleetlore.operations.reading import parse_time_zone
from fleetlore.operations.sources import ViewSource, resolve_scope
from fleetlore.projections import search as text_search
from fleetlore.projections.chronology import event_order
from fleetlore.projections.newest_events import read_newest
from fleetlore.projections.thread_events import select_thread
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.reading import head_fields, read_fields, response_fields
from fleetlore.server.mcp.sanitise import (
    MAX_LINE_CHARS,
    MAX_PAGE_BYTES,
    check_page_position,
    clean_data,
    clean_line,
    fill_rows,
    format_time,
    join_fields,
    join_parts,
    json_size,
    next_page_hint,
    quote_lines,
)
from fleetlore.story.event_story import write_events
from fleetlore.story.paragraphs import StoryParagraph
from fleetlore.story.phrases import count_things
from fleetlore.views.event_text import event_line, event_stamp
from fleetlore.views.time_ranges import newest_blocks

EDGE_EVENTS = 50
"""If none of the oldest so many events of a page is as new as `since`, there is no earlier page."""
MAX_EVENTS_READ = 2000
"""Events read for one page; the page ends there even if most of them are hidden from the caller."""


# --- story


def get_story(source: ViewSource, caller: Caller, request: requests.StoryRequest) -> responses.StoryResponse:
    """The tool `story`: paragraphs of a period, or in full detail a page of events. Without private events of others."""
    if request.detail == "full":
        return _describe_events(source, caller, request)
    since = times.parse_since(request.since, now=source.now(), zone=parse_time_zone(request.tz))
    wanted = periods.ReadStory(scope=request.scope, since=since, tz=request.tz, detail=request.detail)
    read = periods.read_story(caller.open_context(source), wanted)
    return _fill_story(head_fields(read), read.story.title, read.story.paragraphs, read.story.bill, next=None)


def _describe_events(source: ViewSource, caller: Caller, request: requests.StoryRequest) -> responses.StoryResponse:
    """A page of events, the newest first page by page."""
    zone, scope = parse_time_zone(request.tz), resolve_scope(source, request.scope)
    page = check_page_position(source.log, request.page)
    with source.snapshot(None, ("names", "threads")) as snapshot:
        head, naming = response_fields(snapshot), snapshot.naming
        since = times.parse_since(request.since, now=snapshot.now, zone=zone)
        selection, blocks = select_thread(scope, snapshot.states["threads"]), newest_blocks(snapshot.states["calendar"])
    found = list(read_newest(source.log, blocks, selection, before=page, limit=request.limit + 1))
    more = found[request.limit - 1].position if len(found) > request.limit else None
    events = [event for event in reversed(found[: request.limit]) if since is None or event_stamp(event)[0] >= since]
    visible = sorted((event for event in events if can_see(event, Viewer(caller.name))), key=event_order)
    if since is not None and not any(event_stamp(event)[0] >= since for event in found[: request.limit][-EDGE_EVENTS:]):
        more = None
    paragraphs = list(write_events(visible, zone=zone, name_of=naming.agent))
    return _fill_story(head, f"{count_things(len(visible), 'event') or 'No events'}.", paragraphs, "", next=more)


def _fill_story(
    head: dict[str, Any], title: str, paragraphs: Sequence[StoryParagraph], bill: str, *, next: str | None
) -> responses.StoryResponse:
    """The response with as many of the last paragraphs as have room."""
    chapters = fill_rows(reversed(paragraphs), _chapter_text, limit=len(paragraphs))[::-1]
    return responses.StoryResponse(
        **head,
        next=next,
        opening=clean_line(title, 2 * MAX_LINE_CHARS),
        chapters=chapters,
        left_out=sum(len(each.sentences) for each in paragraphs) - sum(len(each.sentences) for each in chapters),
        closing=clean_line(bill, 2 * MAX_LINE_CHARS),
    )


def _chapter_text(paragraph: StoryParagraph) -> responses.ChapterText:
    """One paragraph; only the end of a very long one."""
    last = fill_rows(
        reversed(paragraph.sentences),
        lambda sentence: clean_line(sentence.text),
        limit=len(paragraph.sentences),
        max_bytes=MAX_PAGE_BYTES // 2,
    )
    return responses.ChapterText(
        title=clean_line(paragraph.title), sentences=last[::-1], first_at=paragraph.started, last_at=paragraph.ended
    )


def render_story(response: responses.StoryResponse) -> str:
    """The story as text."""
    left_out = count_things(response.left_out, "sentence")
    return join_parts(
        quote_lines(response.opening),
        f"The first {left_out} of it had no room: ask with a smaller limit, or less detail." if response.left_out else "",
        *(quote_lines(f"[{format_time(each.first_at)}] {each.title}", *_indent_lines(each.sentences)) for each in response.chapters),
        quote_lines(response.closing),
        next_page_hint(response.next),
    )


def _indent_lines(sentences: list[str]) -> list[str]:
    return [f"  {sentence}" for sentence in sentences]


# --- events


def list_events(source: ViewSource, caller: Caller, request: requests.EventsRequest) -> responses.EventsResponse:
    """The tool `events`."""
    page, since = check_page_position(source.log, request.page), times.parse_since(request.since, now=source.now())
    head = read_fields(source)
    wanted = events.ListEvents(scope=request.scope, kind=request.kind, since=since, limit=MAX_EVENTS_READ + 1, order=request.order)
    wanted = replace(wanted, before=page) if request.order == "newest" else replace(wanted, after=page)
    rows, next, hidden = _fill_page(events.find_events(caller.open_context(source), wanted), caller, request)
    return responses.EventsResponse(**head, next=next, events=rows, hidden=hidden)


def _fill_page(found: Iterable[Event], caller: Caller, request: requests.EventsRequest) -> tuple[list[responses.EventRow], str | None, int]:
    """The rows of one page, where the next one begins, and how many events were hidden."""
    rows: list[responses.EventRow] = []
    size, hidden, last = 0, 0, None
    for looked_at, event in enumerate(found):
        if looked_at == MAX_EVENTS_READ or len(rows) == request.limit:
            return rows, last, hidden
        if can_see(event, Viewer(caller.name)):
            row = event_row(event, with_data=request.data)
            size += json_size(row)
            if rows and size > MAX_PAGE_BYTES:
                return rows, last, hidden
            rows.append(row)
        else:
            hidden += 1
        last = event.position
    return rows, None, hidden


def event_row(event: Event, *, with_data: bool = False, text: str | None = None) -> responses.EventRow:
    """One event as a row."""
    states = [event.old_state, event.new_state] if event.old_state or event.new_state else []
    return responses.EventRow(
        id=event.id or "",
        position=event.position or "",
        kind=event.kind,
        actor=event.actor or "",
        at=event.at,
        text=clean_line(text or event_line(event)),
        scopes={name: value for name in SCOPE_FIELDS if (value := getattr(event, name))},
        state=clean_line(" → ".join(each or "?" for each in states)),
        visibility=event.visibility,
        data=clean_data(event) if with_data else None,
    )


def render_events(response: responses.EventsResponse) -> str:
    """Events as text."""
    count = len(response.events)
    return join_parts(
        "There is nothing more here." if not count and response.next is None else f"{count:,} {'event' if count == 1 else 'events'}:",
        quote_lines(*map(render_event_row, response.events)),
        f"{response.hidden:,} that are others' own were passed over." if response.hidden else "",
        "Older events are still being indexed, and may be missing: ask again in a while." if response.indexing else "",
        next_page_hint(response.next),
    )


def render_event_row(event: responses.EventRow) -> str:
    """One event as a line."""
    scopes = ", ".join(f"{name}:{value}" for name, value in event.scopes.items() if value != event.actor)
    return join_fields(format_time(event.at), event.kind, event.actor, scopes, event.state, event.text)


# --- search


def search_events(source: ViewSource, caller: Caller, request: requests.SearchRequest) -> responses.EventsResponse:
    """The tool `search`."""
    page = check_page_position(source.log, request.page)
    with source.snapshot(None, ()) as snapshot:
        head, since = response_fields(snapshot), times.parse_since(request.since, now=snapshot.now)
    terms = text_search.parse_terms(request.q)
    filter = text_search.SearchFilter(resolve_scope(source, request.scope), tuple(request.kind), since, page)
    visible, indexing = _search_visible(source, caller, request, filter)
    rows = fill_rows(visible, lambda event: event_row(event, text=_matching_line(event, terms)), limit=request.limit)
    next = rows[-1].position if len(rows) < len(visible) else None
    return responses.EventsResponse(**head, next=next, events=rows, indexing=indexing)


def _matching_line(event: Event, terms: Sequence[text_search.SearchTerm]) -> str:
    """The event's usual line if it contains a match, else an excerpt around the match."""
    own = event_line(event) or ""
    return own if text_search.find_matches(own, terms) else text_search.make_excerpt(event, terms)


def _search_visible(
    source: ViewSource, caller: Caller, request: requests.SearchRequest, filter: text_search.SearchFilter
) -> tuple[list[Event], bool]:
    """Visible events, up to one more than the limit. The number of hidden ones is not returned: it would allow guessing their content."""
    visible: list[Event] = []
    while True:
        found, indexing = source.find(request.q, filter, request.limit + 1)
        visible += [event for event in found if can_see(event, Viewer(caller.name))]
        if len(visible) > request.limit or len(found) <= request.limit:
            return visible[: request.limit + 1], indexing
        filter = filter._replace(before=found[-1].position)
