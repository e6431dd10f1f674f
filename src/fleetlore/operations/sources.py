"""What operations read: a log, its views at the head or in the past, outcome records and search.

`OnDemandSource` folds (computes from events) views on request, for commands, `lore mcp` and Python; the HTTP server's source has views
that are kept up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, tzinfo
from functools import cache, cached_property
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from fleetlore import clock
from fleetlore.errors import AmbiguousName, Denied, Invalid, UnknownName
from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN, Position
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.runner import FoldRun, LogView, Runner, advance_folds, make_view
from fleetlore.projections.store import ProjectionStore, is_anchor_valid

if TYPE_CHECKING:
    from fleetlore.graph.settings import GraphSettings
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.seal import OperatorKey, Seal
    from fleetlore.projections import search
    from fleetlore.projections.outcomes import OutcomeQuery
    from fleetlore.projections.signed_views import SignedGoalsFold, SignedTownFold
    from fleetlore.settings import Settings
    from fleetlore.story.reading import ReadPeriod
    from fleetlore.views.costs import Costs
    from fleetlore.views.outcomes.record import Outcome
    from fleetlore.views.outcomes.rules import OutcomeRules
    from fleetlore.views.task_outcomes import TaskOutcome
    from fleetlore.views.thread_names import Naming
    from fleetlore.views.time_ranges import TimeBlock

MOST_NAMED_SESSIONS = 2000
"""How many of the newest sessions can be found by their displayed name."""
MAX_INLINE_EVENTS = 2000
"""Up to so many unindexed events are indexed within a search."""
INDEXING_SECONDS = 5.0
"""How long one search may update the index."""
VIEW_NAMES = ("calendar", "fleet", "goals", "names", "pace", "sessions", "stage", "threads", "town", "costs", "arcs")

FindStore: TypeAlias = Callable[[], ProjectionStore | None]
AskKey: TypeAlias = "Callable[[Coordination, str], OperatorKey | None]"
Progress: TypeAlias = Callable[[], AbstractContextManager[Callable[[int, int], None] | None]]


class ViewSnapshot(NamedTuple):
    """The states of some views at one position. States at the head change after the block: copy what you keep."""

    states: Mapping[str, Any]
    log: BlockingRecorder
    position: Position | None
    at: datetime | None
    """The newest event time up to that position."""
    now: datetime
    is_live: bool
    caught_up: bool

    @property
    def naming(self) -> Naming:
        """Display names of agents, tasks and so on."""
        from fleetlore.views.thread_names import make_naming

        return make_naming(self.states["names"])

    def head_fields(self) -> dict[str, Any]:
        """The fields with which every response over HTTP begins."""
        return {"as_of": self.position, "at": self.at, "live": self.is_live, "caught_up": self.caught_up}


class ViewSource(Protocol):
    """What operations read. All methods block."""

    @property
    def log(self) -> BlockingRecorder:
        """The log itself."""

    @property
    def town(self) -> str:
        """The town (partition of the log)."""

    @property
    def costs_fold(self) -> Costs:
        """The fold of costs, with its price list."""

    @property
    def settings(self) -> Settings | None:
        """The settings that the log was opened with; `None` for the defaults."""

    @property
    def coordination(self) -> Coordination | None:
        """Leases, cursors and the seal of the log; `None` if it has none."""

    def now(self) -> datetime:
        """The time, by the clock of the source."""

    def find_key(self, why: str) -> OperatorKey | None:
        """The operator key; `None` if the log is not sealed. `why` completes the passphrase prompt, for example "to add agents"."""

    def snapshot(self, position: Position | None, views: Sequence[str]) -> AbstractContextManager[ViewSnapshot]:
        """Some views at the head (`None`), or as of a position."""

    def open_view(self, name: str, key: OperatorKey | None = None) -> AbstractContextManager[tuple[Any, bool]]:
        """One view at the head, and whether all of the log is in it.

        With the key, signatures of a sealed log are verified, so that forged events do not count.
        """

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words, newest first; and whether older ones may be missing."""

    def newest_blocks(self) -> list[TimeBlock]:
        """The blocks of the time index that `read_newest` needs; none while the log is still being read."""

    @property
    def goals_fold(self) -> SignedGoalsFold:
        """The fold of goals, which knows which events are signed."""

    def load_graph_settings(self) -> GraphSettings:
        """The settings of graph agents; `ConfigError` if they are wrong."""

    def find_store(self) -> ProjectionStore | None:
        """The projection store, if it is worthwhile and possible."""

    def find_outcomes(self, wanted: OutcomeQuery, now: datetime | None = None) -> list[Outcome]:
        """The outcome records of sessions, the newest first; as of the current time unless given."""

    def list_tasks(self, wanted: OutcomeQuery) -> list[TaskOutcome]:
        """What happened to tasks, the newest last."""

    def list_active_times(self, wanted: OutcomeQuery) -> list[datetime]:
        """When sessions and tasks began and when they were last active, in no order."""

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None, *, whole: bool = False) -> ReadPeriod:
        """The records of a period. Without one: all records if `whole`, else those of the newest day with a session or other event."""

    def resolve_position(self, as_of: str | None) -> Position | None:
        """The position for `as_of`, a position or a time; `None` is the head. `Invalid` if it is neither."""

    def show_progress(self) -> AbstractContextManager[Callable[[int, int], None] | None]:
        """Context manager that yields a progress callback `(done, total)`; it yields `None` if there is nobody to show progress to."""


def resolve_scope(source: ViewSource, scope: str, *, may_be_new: bool = False) -> str:
    """Convert a scope with a logged or displayed name to the log's scope. `UnknownName` if there is none, unless `may_be_new`."""
    if scope == TOWN:
        return scope
    from fleetlore.projections import name_lookup

    try:
        return name_lookup.resolve_scope(source.log, scope, lambda: source.snapshot(None, name_lookup.NEEDS), may_be_new=may_be_new)
    except UnknownName as unknown:
        kind, _, name = scope.partition(":")
        if kind not in ("run", "agent"):
            raise
        found, named = _find_sessions_by_id(source, name), list[tuple[str, "Outcome"]]()
        if not found:
            named = _list_session_names(source)
            found = [outcome for shown, outcome in named if shown == _fold_name(name)]
        ids = list(dict.fromkeys(outcome.session if kind == "run" else outcome.agent for outcome in found))
        if len(ids) > 1:
            listed = ", ".join(ids[: name_lookup.MAX_CANDIDATES])
            raise AmbiguousName(kind, name, [f"{kind}:{id}" for id in ids], listed) from None
        if ids:
            return f"{kind}:{ids[0]}"
        from difflib import get_close_matches

        close = get_close_matches(_fold_name(name), [shown for shown, _ in named], n=1, cutoff=0.75)
        if not close:
            raise
        similar = [f"{kind}:{outcome.name}" for shown, outcome in named if shown == close[0]][:1]
        raise UnknownName(kind, name, (*similar, *unknown.suggestions)[: name_lookup.MAX_SUGGESTIONS], name_lookup.HINTS[kind]) from None


def _list_session_names(source: ViewSource) -> list[tuple[str, Outcome]]:
    """The newest sessions with the names that pages and lists show, to compare with."""
    from fleetlore.projections.outcomes import OutcomeQuery

    return [(_fold_name(outcome.name), outcome) for outcome in source.find_outcomes(OutcomeQuery(limit=MOST_NAMED_SESSIONS))]


def _find_sessions_by_id(source: ViewSource, name: str) -> list[Outcome]:
    """The sessions whose ids begin with a name, or with what follows its program: the views know names of the newest sessions only."""
    from fleetlore.projections.name_lookup import MAX_CANDIDATES, MIN_ID_CHARS
    from fleetlore.projections.outcomes import OutcomeQuery

    prefix = name.rpartition("/")[2]
    if len(prefix) < MIN_ID_CHARS or " " in prefix:
        return []
    return source.find_outcomes(OutcomeQuery(prefix=prefix, limit=MAX_CANDIDATES + 1))


def _fold_name(name: str) -> str:
    return " ".join(name.split()).casefold()


# --- views by name


def _make_plain_view(name: str) -> LogView[Any]:
    """The view with this name, if it needs no prices or keys; its module is imported only now."""
    if name == "calendar":
        from fleetlore.projections.time_index import TIME_INDEX_VIEW

        return TIME_INDEX_VIEW
    if name == "arcs":
        return _make_patterns_view()
    from importlib import import_module

    module = {"pace": "activity", "sessions": "conversations"}.get(name, name)
    return make_view(import_module(f"fleetlore.views.{module}"), name)


def _make_patterns_view() -> LogView[Any]:
    """The steps of every thread; patterns of installed packages are part of the version."""
    from fleetlore.events.installed_kinds import combine_version
    from fleetlore.views.patterns import fold
    from fleetlore.views.patterns.installed import installed_patterns

    return LogView(
        name="arcs",
        version=combine_version(fold.VERSION, installed_patterns().patterns),
        state=fold.PatternState,
        initial=fold.initial,
        apply=fold.apply,
        encode=fold.encode,
        decode=fold.decode,
    )


def build_views(costs: Costs, goals: SignedGoalsFold, town: SignedTownFold | None = None) -> dict[str, LogView[Any]]:
    """All views, by name."""
    from fleetlore.projections.signed_views import SignedTownFold

    folds: dict[str, Any] = {"costs": costs, "goals": goals, "town": town or SignedTownFold()}
    return {name: make_view(folds[name], folds[name].name) if name in folds else _make_plain_view(name) for name in VIEW_NAMES}


class LazyViews(Mapping[str, LogView[Any]]):
    """All views of a log by name, each made when it is first needed."""

    def __init__(self, make_costs: Callable[[], Costs], find_seal: Callable[[], Seal | None], key: OperatorKey | None = None) -> None:
        self.make_costs, self._find_seal, self._key = cache(make_costs), find_seal, key
        self._made: dict[str, LogView[Any]] = {}

    def with_key(self, key: OperatorKey) -> LazyViews:
        """The same views, with signatures verified."""
        return LazyViews(self.make_costs, self._find_seal, key)

    def __getitem__(self, name: str) -> LogView[Any]:
        """The view with this name."""
        if name not in self._made:
            self._made[name] = self._make_view(name)
        return self._made[name]

    def _make_view(self, name: str) -> LogView[Any]:
        # Each fold is imported only for its own view: commands that need another one start faster.
        if name == "town":
            from fleetlore.projections.signed_views import SignedTownFold

            town = SignedTownFold(self._find_seal(), self._key)
            return make_view(town, town.name)
        if name == "goals":
            from fleetlore.projections.signed_views import SignedGoalsFold

            goals = SignedGoalsFold(self._find_seal(), self._key)
            return make_view(goals, goals.name)
        if name == "costs":
            costs = self.make_costs()
            return make_view(costs, costs.name)
        return _make_plain_view(name)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(VIEW_NAMES)

    def __len__(self) -> int:
        """How many there are."""
        return len(VIEW_NAMES)


# --- views on demand


class OnDemandSource:
    """Computes views only when an operation is called, because many such processes may share one log and be idle most of the time.

    Folds are kept in memory and in the projection store, so that only new events are read. `refresh` is called before each read.
    """

    def __init__(
        self,
        log: BlockingRecorder,
        views: Mapping[str, LogView[Any]],
        find_store: FindStore = lambda: None,
        *,
        town: str,
        rules: OutcomeRules | Callable[[], OutcomeRules],
        refresh: Callable[[], None] = lambda: None,
        now: clock.Clock = clock.now,
        progress: Progress | None = None,
        settings: Settings | None = None,
        open_coordination: Callable[[], Coordination | None] = lambda: None,
        ask_key: AskKey | None = None,
    ) -> None:
        self.log, self.town, self.settings, self._open_coordination = log, town, settings, open_coordination
        self._get_rules, self._ask_key = rules, ask_key
        self._views, self._find_store, self._refresh, self._now, self._progress = views, find_store, refresh, now, progress
        self._folds: dict[str, FoldRun[Any]] = {}
        self._fold_lock = RLock()
        self._key: OperatorKey | None = None
        """The key that the folded views were read with."""
        self._asked_key: OperatorKey | None = None

    @cached_property
    def coordination(self) -> Coordination | None:
        """Leases, cursors and the seal of the log, opened when they are first needed: most reads never do."""
        return self._open_coordination()

    @property
    def _rules(self) -> OutcomeRules:
        made: OutcomeRules = self._get_rules() if callable(self._get_rules) else self._get_rules
        self._get_rules = made
        return made

    @property
    def costs_fold(self) -> Costs:
        """The fold of costs, with its price list."""
        return self._views.make_costs() if isinstance(self._views, LazyViews) else self._rules.costs

    def now(self) -> datetime:
        """The time."""
        return self._now()

    def find_key(self, why: str) -> OperatorKey | None:
        """The operator key; its passphrase is asked for once. `Denied` if nobody can be asked."""
        if self.coordination is None or self.coordination.load_seal() is None:
            return None
        if self._ask_key is None:
            raise Denied(f"this log is sealed, and its passphrase is needed {why}; use the `lore` command in a terminal")
        if self._asked_key is None:
            self._asked_key = self._ask_key(self.coordination, why)
        return self._asked_key

    @contextmanager
    def snapshot(self, position: Position | None, views: Sequence[str]) -> Iterator[ViewSnapshot]:
        """Some views at the head. They do not change within the block."""
        assert position is None, "only the head is folded on demand"
        with self._fold_lock:
            self._refresh()
            self._update_views({"calendar", *views})
            states = {name: fold.state for name, fold in self._folds.items()}
            at = self._folds["calendar"].position
            yield ViewSnapshot(states, self.log, at, states["calendar"].newest, self._now(), True, True)

    @contextmanager
    def open_view(self, name: str, key: OperatorKey | None = None) -> Iterator[tuple[Any, bool]]:
        """One view at the head, and no other; it does not change within the block."""
        with self._fold_lock:
            if key is not None and self._key is not key and isinstance(self._views, LazyViews):
                self._views, self._key, self._folds = self._views.with_key(key), key, {}
            self._refresh()
            self._update_views({name})
            yield self._folds[name].state, True

    def _update_views(self, names: set[str]) -> None:
        """Bring these views up to the head. After an erasure or a restored backup they are folded anew."""
        if any(fold.anchor is not None and not is_anchor_valid(self.log, fold.anchor) for fold in self._folds.values()):
            self._folds = {}
        store = self._find_store()
        while True:
            for name in names - set(self._folds):
                self._folds[name] = Runner(self.log, self._views[name], store).open_fold_run()
            wanted = [self._folds[name] for name in names]
            if self._advance_folds(wanted):
                break
            self._folds = {}
        for fold in wanted:
            fold.save_if_worthwhile()

    def _advance_folds(self, folds: list[FoldRun[Any]]) -> bool:
        if self._progress is None:
            return advance_folds(self.log, folds)
        with self._progress() as show:
            return advance_folds(self.log, folds, progress=show, total=self.log.info().events)

    def newest_blocks(self) -> list[TimeBlock]:
        """The blocks of the time index."""
        from fleetlore.views.time_ranges import newest_blocks

        with self.open_view("calendar") as (calendar, _):
            return newest_blocks(calendar)

    @property
    def goals_fold(self) -> SignedGoalsFold:
        """The fold of goals for the seal of the log."""
        from fleetlore.projections.signed_views import SignedGoalsFold

        return SignedGoalsFold(None if self.coordination is None else self.coordination.load_seal(), self._key)

    def load_graph_settings(self) -> GraphSettings:
        """The `[graph]` section of the settings."""
        from fleetlore.graph.settings import GraphSettings

        return GraphSettings() if self.settings is None else GraphSettings(**self.settings.graph.value)

    def find_store(self) -> ProjectionStore | None:
        """The projection store, if it is worthwhile and possible."""
        return self._find_store()

    def find_outcomes(self, wanted: OutcomeQuery, now: datetime | None = None) -> list[Outcome]:
        """The outcome records of sessions."""
        from fleetlore.projections import outcomes

        self._refresh()
        with self.show_progress() as progress:
            return outcomes.find_outcomes(
                self.log, now=now or self._now(), rules=self._rules, wanted=wanted, store=self._find_store(), progress=progress
            )

    def list_tasks(self, wanted: OutcomeQuery) -> list[TaskOutcome]:
        """What happened to tasks."""
        from fleetlore.projections import outcomes

        self._refresh()
        return outcomes.list_tasks(self.log, rules=self._rules, wanted=wanted, store=self._find_store())

    def list_active_times(self, wanted: OutcomeQuery) -> list[datetime]:
        """When sessions and tasks were active."""
        from fleetlore.projections import outcomes

        return outcomes.list_active_times(self.log, now=self._now(), rules=self._rules, wanted=wanted, store=self._find_store())

    def read_period(self, wanted: OutcomeQuery, zone: tzinfo, newest_event: datetime | None = None, *, whole: bool = False) -> ReadPeriod:
        """The records of a period."""
        from fleetlore.story.reading import read_records

        self._refresh()
        with self.show_progress() as progress:
            return read_records(
                self.log,
                now=self._now(),
                zone=zone,
                rules=self._rules,
                wanted=wanted,
                store=self._find_store(),
                newest_day=wanted.since is None and wanted.until is None and not whole,
                newest_event=newest_event,
                progress=progress,
            )

    def show_progress(self) -> AbstractContextManager[Callable[[int, int], None] | None]:
        """The progress bar of the terminal, if there is one."""
        return nullcontext() if self._progress is None else self._progress()

    def resolve_position(self, as_of: str | None) -> Position | None:
        """The head; only the server keeps views of the past."""
        if as_of is not None:
            raise Invalid("as_of: only the server shows the past; start it with `lore up`, and ask over HTTP")
        return None

    def find(self, text: str, wanted: search.SearchFilter, limit: int) -> tuple[list[Event], bool]:
        """Events by their words. A long log is indexed a few seconds per call; until it is done, only the newest events are searched."""
        from fleetlore.projections import search

        self._refresh()
        store, until = self._find_store(), monotonic() + INDEXING_SECONDS
        if self._progress is not None:  # a person waits, and sees how far it is
            with self._progress() as progress:
                return search.find_events(self.log, text, wanted=wanted, limit=limit, store=store, progress=progress), False
        if store is not None and search.count_unindexed(self.log, store) > MAX_INLINE_EVENTS:
            search.update_index(self.log, store, lambda: monotonic() >= until)
        if store is None or search.count_unindexed(self.log, store) <= MAX_INLINE_EVENTS:
            return search.find_events(self.log, text, wanted=wanted, limit=limit, store=store), False
        return search.find_events(self.log, text, wanted=wanted, limit=limit, scan_limit=search.NEWEST), True
