"""What an operation gets: the opened log, its views, who asks, and the key that signs on a sealed log.

CLI, server and MCP make one per request; Python programs make one with `open_context`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from fleetlore import clock
from fleetlore.errors import Busy, Invalid
from fleetlore.operations.sources import LazyViews, OnDemandSource, ViewSnapshot, ViewSource

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.log.base import Position
    from fleetlore.log.coordination import Coordination
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey, Seal
    from fleetlore.operations.sources import AskKey, FindStore, Progress
    from fleetlore.settings import Settings
    from fleetlore.town.commands import TownCommand
    from fleetlore.town.journal import StoredCommand
    from fleetlore.views.costs import Costs
    from fleetlore.views.outcomes.rules import OutcomeRules
    from fleetlore.views.town_state import TownState

SAVE_AFTER = 1000
"""A log with fewer events is folded before its projection store is open."""


_COMPLETE_LOGS: WeakSet[BlockingRecorder] = WeakSet()
"""Open logs that keep all events: describing a log can take as long as counting it."""


def check_complete_log(log: BlockingRecorder, settings: Settings | None, what: str) -> None:
    """`Invalid` for a log that drops or redacts events; `what` needs all of them, as in "a town needs"."""
    if log not in _COMPLETE_LOGS:
        if log.info().details.get("keeps", "everything") != "everything":
            raise Invalid(f"this log drops its oldest events (?keep=tinytown), but {what} all of them; choose another log with --log")
        _COMPLETE_LOGS.add(log)
    levels = None if settings is None else settings.redact_levels
    if levels is not None and levels.value:
        raise Invalid(
            f"[redact] level ({levels.source}) removes {', '.join(levels.value)} from events, but {what} them:"
            " agents would not know their tasks; remove `level`, or use other settings"
        )


class OperationContext:
    """One caller's access to one log. Not shared between threads, except for its source."""

    def __init__(self, source: ViewSource, *, actor: str, is_agent: bool = False, via: str = "api") -> None:
        self.source, self.log, self.now = source, source.log, source.now
        self.actor = actor
        """Who asks: the actor of stored events. Set by the edge, never by a request."""
        self.is_agent = is_agent
        """Whether the actor is an agent with a mailbox of its own, even if it is in no town."""
        self.via = via
        """Where the request came in: `terminal`, `page`, `mcp`; `api` in Python programs."""

    @property
    def town(self) -> str:
        """The town (partition of the log)."""
        return self.source.town

    def snapshot(self, *views: str, as_of: Position | None = None) -> AbstractContextManager[ViewSnapshot]:
        """Some views at the head, or as of a position; read them within the block."""
        return self.source.snapshot(as_of, views)

    def signing_key(self, why: str) -> OperatorKey | None:
        """The operator key; `None` if the log is not sealed. `why` ends the question for the passphrase, as in "to add agents"."""
        return self.source.find_key(why)

    def is_sealed(self) -> bool:
        """Whether the log is sealed, so that only signed control events are obeyed."""
        return self.source.coordination is not None and self.source.coordination.load_seal() is not None

    def find_holder(self, lease: str) -> str | None:
        """The living holder of a lease such as `goal:ID`; `None` if nobody holds it."""
        from fleetlore.kernel.lease import is_dead

        found = None if self.source.coordination is None else self.source.coordination.find_lease(lease)
        return None if found is None or is_dead(found.holder) else found.holder

    def require_complete_log(self, what: str) -> None:
        """`Invalid` for a log that drops or redacts events; `what` needs all of them, as in "a town needs"."""
        check_complete_log(self.log, self.source.settings, what)

    @contextmanager
    def open_town(self, key: OperatorKey | None = None) -> Iterator[TownState]:
        """The town at the head; read it within the block. `Invalid` becomes `Busy` while the log is still being read."""
        with self.source.open_view("town", key) as (town, caught_up):
            try:
                yield town
            except Invalid as error:
                if caught_up:
                    raise
                raise Busy(f"the log is still being read, and this has not come up; try again soon ({error})") from error

    def decide_town(
        self, make_commands: Callable[[TownState], Sequence[TownCommand]], *, why: str = "", key: OperatorKey | None = None
    ) -> list[StoredCommand]:
        """Make commands from the current town and store them; made again if another writer was faster.

        Only the first command may have a condition. `why` is what a sealed log's key is needed for; "" if no signature is needed, or
        if `key` is given. The town is read with the key, so that forged events of an agent do not count.
        """
        from fleetlore.town.journal import store_commands

        key = self.signing_key(why) if why else key

        def make() -> Sequence[TownCommand]:
            with self.open_town(key) as town:
                return make_commands(town)

        return store_commands(self.log, make, key=key)

    def store(self, events: Sequence[Event], key: OperatorKey | None = None) -> list[Event]:
        """Store events at once, signed if there is a key; all or none."""
        from fleetlore.kernel.journal import BlockingJournal, NoState

        return list(BlockingJournal(self.log, NoState(), scopes=(), key=key).append(events))


@contextmanager
def open_context(
    *,
    log: str | None = None,
    town: str | None = None,
    actor: str,
    is_agent: bool = False,
    key: OperatorKey | None = None,
    now: clock.Clock = clock.now,
) -> Iterator[OperationContext]:
    """A context for a Python program: the log and town by URL and name, else those of the settings; closed after the block."""
    from fleetlore import settings as config
    from fleetlore.log.connect import connect
    from fleetlore.redact import Redactor

    settings = config.load_settings(log=log, town=town)
    redactor = Redactor(settings.redact_patterns.value) if settings.redact_patterns.value else None
    anonymise = None
    if settings.redact_levels.value:
        from fleetlore.ingest.anonymise import make_anonymiser

        anonymise = make_anonymiser(settings.redact_levels.value)
    ask_key = None if key is None else lambda coordination, why: key
    with (
        connect(
            settings.log.value,
            town=settings.town.value,
            redactor=redactor,
            anonymise=anonymise,
            keeps_whole_texts=settings.whole_texts.value,
        ).blocking() as recorder,
        open_source(recorder, settings, ask_key=ask_key, now=now) as source,
    ):
        yield OperationContext(source, actor=actor, is_agent=is_agent)


@contextmanager
def open_source(
    log: BlockingRecorder,
    settings: Settings,
    *,
    ask_key: AskKey | None = None,
    refresh: Callable[[], None] = lambda: None,
    progress: Progress | None = None,
    now: clock.Clock = clock.now,
    is_own_log: bool = True,
) -> Iterator[OnDemandSource]:
    """The views of an opened log, folded on demand in this process. The log stays open.

    `is_own_log`: whether the log is that of the settings, with its leases and its seal.
    """
    with ExitStack() as stack:

        def open_coordination() -> Coordination | None:
            from fleetlore.log.coordination import open_shared

            return stack.enter_context(open_shared(settings.log.value, town=settings.town.value)) if is_own_log else None

        def find_seal() -> Seal | None:
            return None if source.coordination is None else source.coordination.load_seal()

        def make_costs() -> Costs:
            from fleetlore.views.costs import Costs
            from fleetlore.views.prices import Prices

            return Costs(Prices(settings.prices.value))

        def make_rules() -> OutcomeRules:
            from fleetlore.views.outcomes.rules import read_outcome_rules

            return read_outcome_rules(settings)

        source = OnDemandSource(
            log,
            LazyViews(make_costs, find_seal),
            make_store_finder(log, stack),
            town=settings.town.value,
            rules=make_rules,
            refresh=refresh,
            progress=progress,
            now=now,
            settings=settings,
            open_coordination=open_coordination,
            ask_key=ask_key,
        )
        yield source


def make_store_finder(log: BlockingRecorder, stack: ExitStack) -> FindStore:
    """Opens the projection store once it is worthwhile; of a trimmed log the store may know more than is left."""
    from fleetlore.projections.store import open_store

    opened: list[Any] = []

    def find() -> Any:
        if not opened:
            info = log.info()
            if (info.events >= SAVE_AFTER or info.trimmed_before is not None) and (store := open_store(info)) is not None:
                opened.append(stack.enter_context(store))
        return opened[0] if opened else None

    return find
