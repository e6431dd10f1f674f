"""Tools that give back what happened: the story of a scope, its events, and events by their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fleetlore.chronicle.grammar import plural
from fleetlore.events.envelope import SCOPE_FIELDS, Event
from fleetlore.events.visibility import Viewer, can_see
from fleetlore.log.base import Position
from fleetlore.projections import search as words_search
from fleetlore.projections.newest_events import read_newest
from fleetlore.server.answers import story as story_show
from fleetlore.server.mcp import requests, responses, times
from fleetlore.server.mcp.reading import head
from fleetlore.server.mcp.sanitise import (
    LINE,
    MOST_BYTES,
    clock_of,
    data_of,
    fill,
    going_on,
    line,
    place,
    quoted,
    size_of,
    told,
    with_dots,
)
from fleetlore.server.mcp.sources import Caller, Source, meant
from fleetlore.server.queries import zone_of
from fleetlore.server.types.common import ChapterRow
from fleetlore.views.event_text import event_line, event_stamp
from fleetlore.views.time_ranges import newest_blocks

EDGE = 50
"""Where a stretch of the log begins: if nothing there is as new as was asked for, what came before is not, either."""
MOST_LOOKED_AT = 2000
"""Events that are read for one page; where most of them are others' thoughts, the page ends there."""


# --- story


def story(source: Source, caller: Caller, ask: requests.Story) -> responses.Story:
    """What happened. What others only thought is not in it."""
    zone = zone_of(ask.tz)
    wanted = story_show.Wanted(meant(source, ask.scope), place(source.log, ask.page), ask.limit, ask.detail, zone)
    with source.looking(None, story_show.NEEDS) as look:
        start, views, since = head(look), story_show.known(look, wanted.scope), times.parse_since(ask.since, now=look.now, zone=zone)
        began = look.head()
    stretch, more = _stretch(story_show.read(source.log, wanted, views, None), since, caller)
    found = story_show.tell(stretch, wanted, views, began)
    chapters = _newest(found.chapters)
    return responses.Story(
        **start,
        next=more,
        opening=line(found.opening, 2 * LINE),
        chapters=chapters,
        left_out=sum(len(each.sentences) for each in found.chapters) - sum(len(each.sentences) for each in chapters),
        closing=line(found.closing, 2 * LINE) if ask.page is None else "",
    )


def _stretch(read: story_show.Stretch, since: datetime | None, caller: Caller) -> tuple[story_show.Stretch, Position | None]:
    """What of it may be told, and where what came before it ends."""
    is_recent = [since is None or event_stamp(event)[0] >= since for event in read.told]
    seen = [event for event, recent in zip(read.told, is_recent, strict=True) if recent and can_see(event, Viewer(caller.name))]
    lead_in = [event for event in read.lead_in if can_see(event, Viewer(caller.name))]
    return story_show.Stretch(seen, lead_in), read.more if any(is_recent[:EDGE]) else None


def _newest(chapters: list[ChapterRow]) -> list[responses.Chapter]:
    """The last chapters, as many as there is room for."""
    return fill(reversed(chapters), _chapter, limit=len(chapters))[::-1]


def _chapter(chapter: ChapterRow) -> responses.Chapter:
    """One chapter; of a very long one, the end."""
    last = fill(reversed(chapter.sentences), lambda sentence: line(sentence.text), limit=len(chapter.sentences), most=MOST_BYTES // 2)
    return responses.Chapter(title=line(chapter.title), sentences=last[::-1], first_at=chapter.first_at, last_at=chapter.last_at)


def story_told(answer: responses.Story) -> str:
    """The story as text."""
    left_out = plural(answer.left_out, "sentence")
    return told(
        quoted(answer.opening),
        f"The first {left_out} of it had no room: ask with a smaller limit, or less detail." if answer.left_out else "",
        *(quoted(f"[{clock_of(each.first_at)}] {each.title}", *_indented(each.sentences)) for each in answer.chapters),
        quoted(answer.closing),
        going_on(answer.next),
    )


def _indented(sentences: list[str]) -> list[str]:
    return [f"  {sentence}" for sentence in sentences]


# --- events


def events(source: Source, caller: Caller, ask: requests.Events) -> responses.Events:
    """Stored events."""
    scope, page, is_newest = meant(source, ask.scope), place(source.log, ask.page), ask.order == "newest"
    with source.looking(None, ()) as look:
        start, since = head(look), times.parse_since(ask.since, now=look.now)
        blocks = newest_blocks(look.states["calendar"]) if look.caught_up else []
    most = MOST_LOOKED_AT + 1
    if is_newest:
        found = read_newest(source.log, blocks, scope, before=page, kinds=ask.kind, since=since, limit=most)
    else:
        found = source.log.read(scope, after=page, kinds=ask.kind, since=since, limit=most)
    rows, next, hidden = _page(found, caller, ask)
    return responses.Events(**start, next=next, events=rows, hidden=hidden)


def _page(found: Iterable[Event], caller: Caller, ask: requests.Events) -> tuple[list[responses.Event], str | None, int]:
    """The rows of one page, where the next one begins, and how many events were passed over."""
    rows: list[responses.Event] = []
    size, hidden, last = 0, 0, None
    for looked_at, event in enumerate(found):
        if looked_at == MOST_LOOKED_AT or len(rows) == ask.limit:
            return rows, last, hidden
        if can_see(event, Viewer(caller.name)):
            row = row_of(event, with_data=ask.data)
            size += size_of(row)
            if rows and size > MOST_BYTES:
                return rows, last, hidden
            rows.append(row)
        else:
            hidden += 1
        last = event.position
    return rows, None, hidden


def row_of(event: Event, *, with_data: bool = False, text: str | None = None) -> responses.Event:
    """One event."""
    changed = [event.old_state, event.new_state] if event.old_state or event.new_state else []
    return responses.Event(
        id=event.id or "",
        position=event.position or "",
        kind=event.kind,
        actor=event.actor or "",
        at=event.at,
        text=line(text or event_line(event)),
        scopes={name: value for name in SCOPE_FIELDS if (value := getattr(event, name))},
        state=line(" → ".join(each or "?" for each in changed)),
        visibility=event.visibility,
        data=data_of(event) if with_data else None,
    )


def events_told(answer: responses.Events) -> str:
    """Events as text."""
    count = len(answer.events)
    return told(
        "There is nothing more here." if not count and answer.next is None else f"{count:,} {'event' if count == 1 else 'events'}:",
        quoted(*map(event_told, answer.events)),
        f"{answer.hidden:,} that are others' own were passed over." if answer.hidden else "",
        "Older events are still being indexed, and may be missing: ask again in a while." if answer.indexing else "",
        going_on(answer.next),
    )


def event_told(event: responses.Event) -> str:
    """One event as a line."""
    scopes = ", ".join(f"{name}:{value}" for name, value in event.scopes.items() if value != event.actor)
    return with_dots(clock_of(event.at), event.kind, event.actor, scopes, event.state, event.text)


# --- search


def search(source: Source, caller: Caller, ask: requests.Search) -> responses.Events:
    """Events by their words."""
    page = place(source.log, ask.page)
    with source.looking(None, ()) as look:
        start, since = head(look), times.parse_since(ask.since, now=look.now)
    terms = words_search.parse_terms(ask.q)
    wanted = words_search.SearchFilter(meant(source, ask.scope), tuple(ask.kind), since, page)
    seen, indexing = _found(source, caller, ask, wanted)
    rows = fill(seen, lambda event: row_of(event, text=_hit(event, terms)), limit=ask.limit)
    next = rows[-1].position if len(rows) < len(seen) else None
    return responses.Events(**start, next=next, events=rows, indexing=indexing)


def _hit(event: Event, terms: Sequence[words_search.SearchTerm]) -> str:
    """The event's own line if what was looked for is in it, else where it was found."""
    own = event_line(event) or ""
    return own if words_search.find_matches(own, terms) else words_search.make_excerpt(event, terms)


def _found(source: Source, caller: Caller, ask: requests.Search, wanted: words_search.SearchFilter) -> tuple[list[Event], bool]:
    """What the asker may see, one more than is wanted if there is. Nothing tells how much was passed over: else one could guess at it."""
    seen: list[Event] = []
    while True:
        found, indexing = source.find(ask.q, wanted, ask.limit + 1)
        seen += [event for event in found if can_see(event, Viewer(caller.name))]
        if len(seen) > ask.limit or len(found) <= ask.limit:
            return seen[: ask.limit + 1], indexing
        wanted = wanted._replace(before=found[-1].position)
