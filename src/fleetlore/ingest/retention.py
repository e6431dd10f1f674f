"""Applies the `[retention]` setting: trims events older than `keep_days`, at most once a day.

Called by every command that writes. docs/privacy.md describes the feature.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import NamedTuple

from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import Event
from fleetlore.ingest import trim as ingest_trim
from fleetlore.ingest.ship_position import SideUnavailable, has_landmark, make_landmark
from fleetlore.ingest.trim import TrimResult
from fleetlore.log.base import Position
from fleetlore.log.connect import connect, resolve_sqlite_path, split_url
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey
from fleetlore.projections.runner import ProgressCallback
from fleetlore.projections.store import open_store
from fleetlore.settings import Settings, mask_url
from fleetlore.views.costs import Costs
from fleetlore.views.event_text import event_stamp
from fleetlore.views.prices import Prices

TRIM_INTERVAL = timedelta(days=1)


class RetentionResult(NamedTuple):
    """The result of applying retention."""

    trim: TrimResult | None = None
    """What was trimmed; `None` if nothing."""
    note: str | None = None
    """Why events that are too old are still there."""


def retention_cutoff(settings: Settings, now: datetime) -> datetime | None:
    """Events before this time are too old; `None` if there is no limit."""
    try:
        return None if settings.keep_days.value is None else now - timedelta(days=settings.keep_days.value)
    except OverflowError:  # longer than the calendar
        return None


def apply_retention(
    log: BlockingRecorder, settings: Settings, now: datetime, *, progress: ProgressCallback | None = None, key: OperatorKey | None = None
) -> RetentionResult:
    """Trim what is too old, unless it was done within a day. Errors are returned as a note."""
    moment = retention_cutoff(settings, now)
    if moment is None or not _has_events_before(log, moment):
        return RetentionResult()
    try:
        if key is None and _is_sealed(settings):
            return RetentionResult(
                note="nothing was trimmed: this log is sealed; `lore trim` asks for its passphrase, and so does `lore up`"
            )
        ingest_trim.finish_interrupted_trim(log, key)
        if _was_trimmed_recently(log, now, key):
            return RetentionResult()
        return trim_events_before(log, settings, moment, now, progress=progress, key=key)
    except FleetloreError as error:
        return RetentionResult(note=f"nothing was trimmed: {error}")


def trim_events_before(
    log: BlockingRecorder,
    settings: Settings,
    moment: datetime,
    now: datetime,
    *,
    progress: ProgressCallback | None = None,
    key: OperatorKey | None = None,
) -> RetentionResult:
    """Trim events before a moment, unless they still have to be shipped."""
    store = open_store(log.info())
    with store or nullcontext():
        last = ingest_trim.find_position_before(log, moment, store=store, progress=progress)
        if last is None:
            return RetentionResult(note=explain_held_up(log, None, now))
        if note := explain_unshipped(log, settings, last):
            return RetentionResult(note=note)
        done = ingest_trim.trim_log(log, last, store=store, costs=make_costs(settings), progress=progress, key=key)
        return RetentionResult(done, explain_held_up(log, last, now))


def make_costs(settings: Settings) -> Costs:
    """The cost projection with the prices from the settings."""
    return Costs(Prices(settings.prices.value))


def explain_held_up(log: BlockingRecorder, after: Position | None, now: datetime) -> str | None:
    """Explain which event with a future date keeps older ones from being trimmed; `None` if there is none."""
    event = ingest_trim.find_future_event(log, after, now)
    if event is None:
        return None
    when = event_stamp(event)[0].date().isoformat()
    return f"the event at {event.position} says that it is of {when}: what came after it is kept; `lore trim --before POSITION` cuts it off"


def explain_unshipped(log: BlockingRecorder, settings: Settings, last: Position) -> str | None:
    """Explain why a trim up to `last` would remove events that `[ship]` has not sent yet; `None` if it would not."""
    to = settings.ship_to.value
    if to is None:
        return None
    try:
        shipped = _shipped_position(log, to, settings)
    except (FleetloreError, SideUnavailable, OSError) as error:
        return f"nothing was trimmed: {mask_url(to)} cannot say what was shipped ({error}); try again when it answers"
    if shipped is not None and shipped >= last:
        return None
    return f"nothing was trimmed: what would go was not shipped to {mask_url(to)} yet; run `lore ship --once` first"


def _shipped_position(log: BlockingRecorder, to: str, settings: Settings) -> Position | None:
    """The position up to which the target has this log."""
    scheme, path, options = split_url(to)
    if scheme == "sqlite" and not os.path.exists(resolve_sqlite_path(path)):
        return None
    town = options.get("town") or settings.town.value
    with connect(to, town=town).blocking() as target:
        newest: Event | None = next(target.read(f"source:{log.info().log_id}", newest_first=True, limit=1), None)
    landmark = None if newest is None else make_landmark(newest)
    return landmark.position if landmark is not None and has_landmark(log, landmark) else None


def _has_events_before(log: BlockingRecorder, moment: datetime) -> bool:
    first = next(log.read(limit=1), None)
    return first is not None and event_stamp(first)[0] < moment


def _is_sealed(settings: Settings) -> bool:
    if split_url(settings.log.value)[0] == "memory":
        return False
    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return shared.load_seal() is not None


def _was_trimmed_recently(log: BlockingRecorder, now: datetime, key: OperatorKey | None) -> bool:
    fact = ingest_trim.newest_trim_event(log, key)
    return fact is not None and event_stamp(fact)[0] > now - TRIM_INTERVAL
