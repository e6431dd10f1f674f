"""Reads the newest events by the time at which they happened, in whatever order they were stored.

`lore setup` imports months of history after the newest days. In log order the oldest session would look like the
newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import heappop, heappush

from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.chronology import EventOrder, event_order
from fleetlore.projections.thread_events import Selection, read_selection
from fleetlore.views.event_text import event_stamp
from fleetlore.views.time_ranges import TimeBlock


def read_newest(
    log: BlockingRecorder,
    blocks: Sequence[TimeBlock],
    scope: Selection = TOWN,
    *,
    kinds: Sequence[str] = (),
    since: datetime | None = None,
    before: Position | None = None,
    end: Position | None = None,
    limit: int,
) -> Iterable[Event]:
    """Return the newest events of a scope, newest first. `blocks` come from the log's time index.

    `before`: only events after the one at this position, in this order (paging). `end`: only events stored before
    this position.
    """
    if not blocks:
        ends = [position for position in (before, end) if position is not None]
        return read_selection(log, scope, kinds=kinds, since=since, before=min(ends, default=None), newest_first=True, limit=limit)
    cursor = None if before is None else _order_at(log, before)
    if limit <= 0 or (before is not None and cursor is None):
        return []
    found: list[tuple[EventOrder, int, Event]] = []
    for block in blocks:
        if len(found) == limit and block.high < event_stamp(found[0][2])[0]:
            break
        if cursor is not None and block.through is not None and block.low > cursor[0][0][0]:
            continue
        for event in read_selection(log, scope, after=block.after, before=end, kinds=kinds, since=since):
            if block.through is not None and (event.position or "") > block.through:
                break
            order = event_order(event)
            if cursor is None or order < cursor:
                # `id` is a tie-breaker, because events cannot be compared.
                heappush(found, (order, id(event), event))
                if len(found) > limit:
                    heappop(found)
    return [event for _, _, event in sorted(found, key=lambda entry: entry[0], reverse=True)]


def _order_at(log: BlockingRecorder, position: Position) -> EventOrder | None:
    """Sort key of the event at a position; if it is gone, of the event before it."""
    if not (position.isascii() and position.isdecimal()):
        raise Invalid(f"not a position of this log: {position!r}; take one as `lore events --json` prints it")
    event = next(iter(log.read(before=position_after(position), newest_first=True, limit=1)), None)
    return None if event is None else event_order(event)
