"""`[retention]`: a log that lets go of what is older than it is meant to keep, at most once a day. docs/privacy.md tells more."""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import NamedTuple

from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.ingest import trim as ingest_trim
from fleetlore.ingest.ship_position import Lost, is_there, landmark_of
from fleetlore.ingest.trim import Trim
from fleetlore.log.base import Position
from fleetlore.log.connect import connect, file_of, split
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.projections.runner import Progress
from fleetlore.projections.store import open_store
from fleetlore.settings import Settings, masked
from fleetlore.views.costs import Costs
from fleetlore.views.event_text import stamp_of
from fleetlore.views.prices import Prices

ONCE = timedelta(days=1)


class Kept(NamedTuple):
    """What became of it."""

    trim: Trim | None = None
    """What went; `None`: nothing."""
    note: str | None = None
    """Why something that is too old is still there."""


def oldest_kept(settings: Settings, now: datetime) -> datetime | None:
    """What happened before this is too old for the log; `None` if nothing is."""
    try:
        return None if settings.keep_days.value is None else now - timedelta(days=settings.keep_days.value)
    except OverflowError:  # longer than the calendar is
        return None


def keep_to(
    log: BlockingRecorder, settings: Settings, now: datetime, *, progress: Progress | None = None, key: OperatorKey | None = None
) -> Kept:
    """Trim what `[retention]` says is too old, if that was not done today; for every command that writes. A trouble is a note."""
    moment = oldest_kept(settings, now)
    if moment is None or not _has_older(log, moment):
        return Kept()
    try:
        if key is None and _is_sealed(settings):
            return Kept(note="nothing was trimmed: this log is sealed; `lore trim` asks for its passphrase, and so does `lore up`")
        ingest_trim.finish(log, key)
        if _was_done(log, now, key):
            return Kept()
        return trim_before(log, settings, moment, now, progress=progress, key=key)
    except FleetloreError as error:
        return Kept(note=f"nothing was trimmed: {error}")


def trim_before(
    log: BlockingRecorder,
    settings: Settings,
    moment: datetime,
    now: datetime,
    *,
    progress: Progress | None = None,
    key: OperatorKey | None = None,
) -> Kept:
    """Trim what happened before a moment, unless it is still to be shipped."""
    store = open_store(log.info())
    with store or nullcontext():
        last = ingest_trim.place_before(log, moment, store=store, progress=progress)
        if last is None:
            return Kept(note=held_up(log, None, now))
        if note := unshipped(log, settings, last):
            return Kept(note=note)
        done = ingest_trim.trim(log, last, store=store, costs=costs_of(settings), progress=progress, key=key)
        return Kept(done, held_up(log, last, now))


def costs_of(settings: Settings) -> Costs:
    """The fold of costs with the prices that the settings name."""
    return Costs(Prices(settings.prices.value))


def held_up(log: BlockingRecorder, after: Position | None, now: datetime) -> str | None:
    """What to say where an event of the future keeps all behind it."""
    event = ingest_trim.is_held_up(log, after, now)
    if event is None:
        return None
    when = stamp_of(event)[0].date().isoformat()
    return f"the event at {event.position} says that it is of {when}: what came after it is kept; `lore trim --before POSITION` cuts it off"


def unshipped(log: BlockingRecorder, settings: Settings, last: Position) -> str | None:
    """Why a trim up to a position would take what `[ship]` has not carried on yet; `None` if it would not."""
    to = settings.ship_to.value
    if to is None:
        return None
    try:
        place = _shipped(log, to, settings)
    except (FleetloreError, Lost, OSError) as error:
        return f"nothing was trimmed: {masked(to)} cannot say what was shipped ({error}); try again when it answers"
    if place is not None and place >= last:
        return None
    return f"nothing was trimmed: what would go was not shipped to {masked(to)} yet; run `lore ship --once` first"


def _shipped(log: BlockingRecorder, to: str, settings: Settings) -> Position | None:
    """Up to where the target has this log."""
    scheme, path, options = split(to)
    if scheme == "sqlite" and not os.path.exists(file_of(path)):
        return None
    town = options.get("town") or settings.town.value
    with connect(to, town=town).blocking() as target:
        newest: Event | None = next(target.read(f"source:{log.info().log_id}", newest_first=True, limit=1), None)
    landmark = None if newest is None else landmark_of(newest)
    return landmark.position if landmark is not None and is_there(log, landmark) else None


def _has_older(log: BlockingRecorder, moment: datetime) -> bool:
    first = next(log.read(limit=1), None)
    return first is not None and stamp_of(first)[0] < moment


def _is_sealed(settings: Settings) -> bool:
    if split(settings.log.value)[0] == "memory":
        return False
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return shared.seal() is not None


def _was_done(log: BlockingRecorder, now: datetime, key: OperatorKey | None) -> bool:
    fact = ingest_trim.newest_fact(log, key)
    return fact is not None and stamp_of(fact)[0] > now - ONCE
