"""The oldest part of a log cut off, and what it came to left behind in one `log.trimmed`. docs/privacy.md tells more.

What views have folded of it is kept first. A crash between the fact and the cut is made good by the next trim; the sums of
all `log.trimmed` that a log holds are those of all that it was ever trimmed of. On a sealed log the fact is signed, and a cut is
made good only for one that is.
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
from fleetlore.projections.runner import LogView, ProgressCallback, Runner, view_of
from fleetlore.projections.store import ProjectionStore
from fleetlore.projections.time_index import TIME_INDEX_VIEW, position_at
from fleetlore.views import cost_sums, fleet
from fleetlore.views.costs import Costs
from fleetlore.views.event_text import event_stamp
from fleetlore.views.town_payloads import is_remote_event

# --- What a part of a log came to: counts, times and costs, with those of what had been trimmed before it.

MAX_NAMES = 500
"""Of agents, and of kinds, that are told one by one."""
OTHERS_KEY = "others"
_TOKEN_FIELDS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


class TrimTotals:
    """Adds up events in the order of the log."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._spending = costs.unpruned, costs.initial()
        self._gone = self._events = 0
        self._kinds: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._first: str | None = None
        self._last: str | None = None

    def add_event(self, event: Event) -> None:
        """One more; what an earlier trim of this log told of itself is taken over."""
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
        """Whether nothing that stays in the log can count again what was added."""
        return self._spending.is_settled

    def remove_superseded(self, event: Event) -> None:
        """Leave what a reply counts that stays in the log to it."""
        self._costs.remove_superseded(self._spending, event)

    def _add_earlier_trim(self, data: dict[str, Any]) -> None:
        self._events += _count_or_zero(data.get("events"))
        for counter, name in ((self._kinds, "counts"), (self._agents, "agents")):
            told = data.get(name)
            for key, value in told.items() if isinstance(told, dict) else ():
                counter[key] += _count_or_zero(value)
        for name in ("first_at", "last_at"):
            if isinstance(at := data.get(name), str):
                self._extend_time_range(at)

    def _extend_time_range(self, at: str) -> None:
        self._first = at if self._first is None else min(self._first, at)
        self._last = at if self._last is None else max(self._last, at)

    def to_event_data(self) -> dict[str, Any]:
        """As `log.trimmed` says it; `gone` is how many events were added."""
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
    """The largest, and the others together."""
    largest = dict(sorted(counts.items(), key=lambda pair: (pair[0] == OTHERS_KEY, -pair[1], pair[0]))[:MAX_NAMES])
    rest = counts.total() - sum(largest.values())
    return largest | ({OTHERS_KEY: largest.get(OTHERS_KEY, 0) + rest} if rest else {})


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _count_or_zero(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


# ---

TRIM_ACTOR = "fleetlore"
TRIMMED_KIND = "log.trimmed"
REPLY_KIND = "model.replied"
MAX_RETRIES = 100
_MICROSECOND = timedelta(microseconds=1)


class TrimResult(Struct, frozen=True, kw_only=True):
    """What is to go, or went."""

    before: Position
    """Everything before this goes."""
    last: Position
    """The last that goes."""
    totals: dict[str, Any]
    """What the fact says of it."""

    @property
    def events(self) -> int:
        """How many go; what earlier trims took is not among them."""
        count: int = self.totals["gone"]
        return count


def find_position_before(
    log: BlockingRecorder, moment: datetime, *, store: ProjectionStore | None = None, progress: ProgressCallback | None = None
) -> Position | None:
    """The last position up to which everything happened before a moment; `None` if there is none."""
    try:
        return position_at(log, moment - _MICROSECOND, store=store, progress=progress)
    except OverflowError:  # before the first day there is nothing
        return None


def find_future_event(log: BlockingRecorder, after: Position | None, now: datetime) -> Event | None:
    """The event behind a place that says it is of the future, and so keeps everything behind it from growing old."""
    event = next(log.read(after=after, limit=1), None)
    return event if event is not None and event_stamp(event)[0] > now + timedelta(days=1) else None


def look(
    log: BlockingRecorder, last: Position, *, costs: Costs | None = None, progress: ProgressCallback | None = None
) -> TrimResult | None:
    """What a trim up to a position, that one included, would take; `None` if there is nothing."""
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
    """Cut off everything up to a position, that one included; `None` if nothing was there. Who is cut short does it again."""
    costs = costs or Costs()
    finish_interrupted_trim(log, key)
    for _ in range(MAX_RETRIES):
        head = log.head()
        found = look(log, last, costs=costs, progress=progress)
        if found is None:
            return None
        checkpoint_views(log, found.last, store, costs)
        if _append_trim_event(log, found, head, key):
            log.trim(found.before)
            return found
    raise Busy("another process trims or erases at this log all the time; try again when it has ended")


def finish_interrupted_trim(log: BlockingRecorder, key: OperatorKey | None = None) -> None:
    """Make the cut that the newest fact speaks of, if a crash came in between; that of a log of which this is a copy was made there."""
    fact, info = newest_trim_event(log, key), log.info()
    first = info.first
    before = None if fact is None or fact.data.get("log") != info.log_id else fact.data.get("before")
    if isinstance(before, str) and first is not None and len(before) == len(first) and before > first:
        log.trim(before)


def newest_trim_event(log: BlockingRecorder, key: OperatorKey | None = None) -> Event | None:
    """What was last said of this log's own trimming, and is believed: what came in with an import could have anything cut off."""
    facts = log.read(kinds=[TRIMMED_KIND], newest_first=True)
    return next((fact for fact in facts if not is_remote_event(fact) and is_trusted_event(fact, key)), None)


def checkpoint_views(log: BlockingRecorder, last: Position, store: ProjectionStore | None, costs: Costs) -> None:
    """Have every view that is kept know what goes: a checkpoint just before the cut."""
    if store is not None:
        for keep in _checkpoint_calls(log, store, costs):
            keep(last)


def _checkpoint_calls(log: BlockingRecorder, store: ProjectionStore, costs: Costs) -> Sequence[Callable[[Position], None]]:
    views: list[LogView[Any]] = [view_of(fleet, "fleet"), TIME_INDEX_VIEW, *(view_of(each, each.name) for each in (costs, costs.unpruned))]
    return [Runner(log, view, store).keep_checkpoint for view in views]


def _append_trim_event(log: BlockingRecorder, found: TrimResult, head: Position | None, key: OperatorKey | None) -> bool:
    """Append the fact, unless somebody else trimmed or erased since we looked."""
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
