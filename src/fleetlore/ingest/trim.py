"""Cuts off the oldest part of a log and stores its totals in one `log.trimmed` event.

Views are checkpointed before the cut. If a crash comes between the event and the cut, the next trim finishes it. The
sums over all `log.trimmed` events are those of everything ever trimmed. On a sealed log the event is signed, and only
a signed one is finished. docs/privacy.md describes the feature.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from fleetlore.errors import Busy, Conflict
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Expect, Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.seal import OperatorKey, is_trusted_event
from fleetlore.projections.runner import LogView, ProgressCallback, Runner, make_view
from fleetlore.projections.store import ProjectionStore
from fleetlore.projections.time_index import TIME_INDEX_VIEW, position_at
from fleetlore.views import cost_sums, fleet
from fleetlore.views.costs import Costs
from fleetlore.views.event_text import event_stamp
from fleetlore.views.town_payloads import is_remote_event

# --- Totals of a part of a log: counts, times and costs, including earlier trims.

MAX_NAMES = 500
"""Agents, and kinds, that are listed by name."""
OTHERS_KEY = "others"
_TOKEN_FIELDS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


class TrimTotals:
    """Adds up events in log order."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._spending = costs.unpruned, costs.initial()
        self._gone = self._events = 0
        self._kinds: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._first: str | None = None
        self._last: str | None = None

    def add_event(self, event: Event) -> None:
        """Add an event; the totals of an earlier trim are included."""
        self._gone += 1
        self._spending = self._costs.apply(self._spending, event)
        if event.kind == "log.trimmed" and (event.origin is None or event.origin.log is None):
            self._add_earlier_trim(event.data)
            return
        self._events += 1
        self._kinds[event.kind] += 1
        if event.agent is not None:
            self._agents[event.agent] += 1
        self._extend_time_range(_format_time(event_stamp(event)[0]))

    @property
    def is_settled(self) -> bool:
        """Whether the added costs are final, so that no event that stays in the log can supersede one of them."""
        return self._spending.is_settled

    def remove_superseded(self, event: Event) -> None:
        """Subtract costs that are also counted by `event`, a reply that stays in the log."""
        self._costs.remove_superseded(self._spending, event)

    def _add_earlier_trim(self, data: dict[str, Any]) -> None:
        self._events += _count_or_zero(data.get("events"))
        for counter, name in ((self._kinds, "counts"), (self._agents, "agents")):
            counts = data.get(name)
            for key, value in counts.items() if isinstance(counts, dict) else ():
                counter[key] += _count_or_zero(value)
        for name in ("first_at", "last_at"):
            if isinstance(at := data.get(name), str):
                self._extend_time_range(at)

    def _extend_time_range(self, at: str) -> None:
        self._first = at if self._first is None else min(self._first, at)
        self._last = at if self._last is None else max(self._last, at)

    def to_event_data(self) -> dict[str, Any]:
        """The data of `log.trimmed`, plus `gone`, the number of added events, which is not stored in the event."""
        spent = cost_sums.sum_total(self._spending)
        tokens = {name: value for name in _TOKEN_FIELDS if (value := getattr(spent, name))}
        return {
            "gone": self._gone,
            "events": self._events,
            "counts": _keep_largest(self._kinds),
            "agents": _keep_largest(self._agents),
            **tokens,
            **({"usd": round(spent.usd, 9)} if spent.usd else {}),
            **({"first_at": self._first, "last_at": self._last} if self._first else {}),
        }


def _keep_largest(counts: Counter[str]) -> dict[str, int]:
    """Keep the largest counts; the others are added up."""
    largest = dict(sorted(counts.items(), key=lambda pair: (pair[0] == OTHERS_KEY, -pair[1], pair[0]))[:MAX_NAMES])
    rest = counts.total() - sum(largest.values())
    return largest | ({OTHERS_KEY: largest.get(OTHERS_KEY, 0) + rest} if rest else {})


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _count_or_zero(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


# --- Trim a log.

TRIM_ACTOR = "fleetlore"
TRIMMED_KIND = "log.trimmed"
REPLY_KIND = "model.replied"
MAX_RETRIES = 100
_MICROSECOND = timedelta(microseconds=1)


class TrimResult(Struct, frozen=True, kw_only=True):
    """What a trim removes or removed."""

    before: Position
    """Events before this position are removed."""
    last: Position
    """The last removed position."""
    totals: dict[str, Any]
    """Data of the `log.trimmed` event."""

    @property
    def events(self) -> int:
        """Number of removed events, without those of earlier trims."""
        count: int = self.totals["gone"]
        return count


def find_position_before(
    log: BlockingRecorder, moment: datetime, *, store: ProjectionStore | None = None, progress: ProgressCallback | None = None
) -> Position | None:
    """The last position such that every event up to it happened before `moment`; `None` if there is none."""
    try:
        return position_at(log, moment - _MICROSECOND, store=store, progress=progress)
    except OverflowError:  # before the first day of the calendar
        return None


def find_future_event(log: BlockingRecorder, after: Position | None, now: datetime) -> Event | None:
    """The event after a position if its date is in the future: it keeps later events from being trimmed."""
    event = next(log.read(after=after, limit=1), None)
    return event if event is not None and event_stamp(event)[0] > now + timedelta(days=1) else None


def plan_trim(
    log: BlockingRecorder, last: Position, *, costs: Costs | None = None, progress: ProgressCallback | None = None
) -> TrimResult | None:
    """Compute what a trim up to and including a position would remove; `None` if nothing."""
    total, totals, before = log.info().events, TrimTotals(costs or Costs()), position_after(last)
    newest = None
    for done, event in enumerate(log.read(before=before), 1):
        totals.add_event(event)
        newest = event.position
        if progress is not None and done % 1000 == 0:
            progress(done, total)
    if newest is None:
        return None
    for event in () if totals.is_settled else log.read(after=newest, kinds=[REPLY_KIND]):
        totals.remove_superseded(event)
    return TrimResult(before=before, last=newest, totals=totals.to_event_data())


def trim_log(
    log: BlockingRecorder,
    last: Position,
    *,
    store: ProjectionStore | None = None,
    costs: Costs | None = None,
    progress: ProgressCallback | None = None,
    key: OperatorKey | None = None,
) -> TrimResult | None:
    """Remove everything up to and including a position; `None` if there was nothing.

    Can be repeated after an interruption.
    """
    costs = costs or Costs()
    finish_interrupted_trim(log, key)
    for _ in range(MAX_RETRIES):
        head = log.head()
        found = plan_trim(log, last, costs=costs, progress=progress)
        if found is None:
            return None
        checkpoint_views(log, found.last, store, costs)
        if _append_trim_event(log, found, head, key):
            log.trim(found.before)
            return found
    raise Busy("another process trims or erases at this log all the time; try again when it has ended")


def finish_interrupted_trim(log: BlockingRecorder, key: OperatorKey | None = None) -> None:
    """Remove the events that the newest `log.trimmed` event announces, if a crash prevented that.

    Does nothing in a copy of another log: the `log.trimmed` events there refer to the original.
    """
    fact, info = newest_trim_event(log, key), log.info()
    first = info.first
    before = None if fact is None or fact.data.get("log") != info.log_id else fact.data.get("before")
    if isinstance(before, str) and first is not None and len(before) == len(first) and before > first:
        log.trim(before)


def newest_trim_event(log: BlockingRecorder, key: OperatorKey | None = None) -> Event | None:
    """The newest trusted `log.trimmed` of this log itself. Imported ones are ignored: they could cut off anything."""
    facts = log.read(kinds=[TRIMMED_KIND], newest_first=True)
    return next((fact for fact in facts if not is_remote_event(fact) and is_trusted_event(fact, key)), None)


def checkpoint_views(log: BlockingRecorder, last: Position, store: ProjectionStore | None, costs: Costs) -> None:
    """Save a checkpoint of every view just before the cut."""
    if store is not None:
        for save_checkpoint in _checkpoint_calls(log, store, costs):
            save_checkpoint(last)


def _checkpoint_calls(log: BlockingRecorder, store: ProjectionStore, costs: Costs) -> Sequence[Callable[[Position], None]]:
    views: list[LogView[Any]] = [
        make_view(fleet, "fleet"),
        TIME_INDEX_VIEW,
        *(make_view(each, each.name) for each in (costs, costs.unpruned)),
    ]
    return [Runner(log, view, store).keep_checkpoint for view in views]


def _append_trim_event(log: BlockingRecorder, found: TrimResult, head: Position | None, key: OperatorKey | None) -> bool:
    """Append the event, unless somebody trimmed or erased meanwhile; return whether it was appended."""
    data = {
        "log": log.info().log_id,
        "before": found.before,
        "last": found.last,
        **{key: value for key, value in found.totals.items() if key != "gone"},
    }
    fact = Event(kind=TRIMMED_KIND, actor=TRIM_ACTOR, text=_describe_trim(found.events), visibility="system", data=data)
    if key is not None:
        fact = key.sign_event(fact, admit=log.admit)
    for _ in range(MAX_RETRIES):
        try:
            log.append([fact], expect=Expect(TOWN, head))
        except Conflict:
            seen, head = head, log.head()
            if next(log.read(after=seen, kinds=[TRIMMED_KIND, "log.forgotten"], limit=1), None) is not None:
                return False
        else:
            return True
    raise Busy("the log is written to all the time; try again in a quieter moment")


def _describe_trim(count: int) -> str:
    return f"trimmed: the oldest {count:,} events" if count != 1 else "trimmed: the oldest event"
