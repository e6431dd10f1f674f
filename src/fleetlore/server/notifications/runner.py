"""Runs one rule along the log: sends what it finds, records it, then commits the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event as Flag
from time import monotonic
from typing import NamedTuple

from fleetlore import clock
from fleetlore.errors import Forgotten
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.ingest.read_ahead import LogReadAhead
from fleetlore.ingest.ship_filter import withhold_private
from fleetlore.log.base import TOWN, Position, event_scopes
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import OWN_FAMILY, Rule
from fleetlore.server.notifications.scheduled_brief import BriefPeriod, compose_brief, is_empty, read_brief
from fleetlore.server.notifications.send import SendResult
from fleetlore.server.notifications.triggers import TURNS, MeasureBudgets, Occasion, find_turn_scope, format_line, make_watch
from fleetlore.views import names
from fleetlore.views.approvals import ENDING_KINDS
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.thread_names import Naming, make_naming

CHUNK = 100
REPLAYED_EVENTS = 5000
"""Events before the cursor that a rule reads when it starts, to know the current state."""
ACTOR = "fleetlore"
PAGES = {"needs you": "now", "stuck": "now", "looping": "now", "failed": "now", "progress": "now", "budget": "costs"}
WAITING_KINDS = ("approval.requested", "session.waiting")
"""The page for each trigger; the brief for all others."""


class Timing(NamedTuple):
    """Intervals and timeouts, in seconds."""

    lease: float = 30.0
    """Duration of the lease."""
    again: float = 5.0
    """Between attempts to take the lease or to reopen the log."""
    beat: float = 0.25
    """Between checks while the lease is held."""
    tick: float = 1.0
    """How long a rule waits for events before it checks the clock."""
    check: float = 5.0
    """Between checks for time-based triggers."""
    commit: float = 10.0
    """Maximum age of a cursor while nothing is sent."""
    pause: float = 1.0
    """Before the second attempt; each further pause is `growth` times as long, with jitter."""
    growth: float = 3.0
    longest: float = 30.0
    tries: int = 5
    end: float = 2.0
    """How long stopping waits for sends in progress."""


class RuleContext(NamedTuple):
    """What a `RuleRun` needs."""

    log: BlockingRecorder
    shared: Coordination
    send: Callable[[Rule, Message], tuple[SendResult, int]]
    """Sends with retries; returns the outcome and the number of attempts. May raise `Stopped`."""
    is_ours: Callable[[], bool]
    """Whether the lease is still held."""
    naming: Callable[[], Naming] | None
    """Display names; `None` to collect them from the newest events."""
    url: str | None
    now: clock.Clock
    timing: Timing
    outcome_rules: OutcomeRules
    """Prices and flags for briefs."""
    budgets: MeasureBudgets


class Stopped(Exception):
    """The walk must end; what was not sent yet is not sent here."""


class RuleRun:
    """One rule, running from its cursor on."""

    def __init__(self, rule: Rule, context: RuleContext, stopped: Flag) -> None:
        self.rule = rule
        self._context, self._log, self._stopped = context, context.log, stopped
        self._watch = make_watch(rule, self._turns_before, context.budgets)
        self._names = names.initial()
        self._at: Position | None = None
        """Everything up to here was handled."""
        self._committed: Position | None = None
        self._committed_at = self._checked_at = 0.0
        self._found: set[str] = set()
        """Keys of the last check's time-based occasions, all handled."""

    def run(self) -> None:
        """Run until stopped."""
        self._resume_at_cursor()
        reader = LogReadAhead(self._log, after=self._at)
        try:
            while not self._stopped.is_set():
                self._run_step(reader)
        except Stopped:
            pass
        finally:
            reader.close()
        self._commit_cursor()

    def _run_step(self, reader: LogReadAhead) -> None:
        timing = self._context.timing
        for event in reader.take_events(CHUNK, timeout=timing.tick):
            self._handle_event(event)
        if monotonic() - self._checked_at >= timing.check:
            self._check_timed_triggers()
        if monotonic() - self._committed_at >= timing.commit:
            self._commit_cursor()

    def _resume_at_cursor(self) -> None:
        """Resume at the cursor; a new rule starts at the head."""
        head, cursor = self._log.head(), self._context.shared.load_cursor(self.rule.cursor)
        self._at = head if cursor is None or head is None or cursor > head else cursor  # after the head: a backup was restored
        if self._watch.needs_history:
            self._replay_recent()
        if cursor is None:
            # What is already the case is not news to a new rule. The cursor says that it has begun, so it is stored after that.
            self._found = {occasion.key for occasion in self._watch.find_due(self._context.now())}
            self._commit_cursor()
        self._committed = self._at
        self._committed_at = monotonic()

    def _replay_recent(self) -> None:
        """Read older events to know the current state, without sending anything."""
        events = list(self._log.read(newest_first=True, limit=REPLAYED_EVENTS))
        for event in reversed(events):
            if event.position is not None and self._at is not None and event.position <= self._at:
                self._learn_names(event)
                for _ in self._find_occasions(event):
                    pass

    def _learn_names(self, event: Event) -> None:
        if self._context.naming is None and event.kind in names.NAMING_KINDS:
            self._names = names.apply(self._names, event)

    def _find_occasions(self, event: Event) -> Iterable[Occasion]:
        if event.kind.startswith(OWN_FAMILY) or event.kind == "log.gap":
            return ()
        return self._watch.on_event(event) if self.rule.scope == TOWN or self.rule.scope in event_scopes(event) else ()

    def _turns_before(self, scope: str, position: Position | None) -> int:
        """Number of turns that ended before a position."""
        return sum(find_turn_scope(event) == scope for event in self._log.read(scope, before=position, kinds=TURNS))

    def _handle_event(self, event: Event) -> None:
        if self._stopped.is_set():
            raise Stopped
        self._learn_names(event)
        results = [self._handle_occasion(occasion) for occasion in self._find_occasions(event)]
        self._at = event.position or self._at
        if any(results):
            self._commit_cursor()

    def _check_timed_triggers(self) -> None:
        """Check time-based triggers.

        A silence has no event to move a cursor past, so the log decides whether it was sent.
        """
        self._checked_at = monotonic()
        found = {occasion.key: occasion for occasion in self._watch.find_due(self._context.now())}
        for key, occasion in found.items():
            if key not in self._found:
                self._handle_occasion(occasion)
        self._found = set(found)

    def _handle_occasion(self, occasion: Occasion) -> bool:
        """Send an occasion, unless it is too old or was sent before; return whether it was sent."""
        if self._context.now() - occasion.at > self.rule.max_age:
            return False
        id = notice_id(self.rule, occasion)
        if self._log.get([id]) or self._is_answered(occasion.event):
            return False
        message = self._compose_brief(id, occasion.period) if occasion.period is not None else self._compose_message(occasion)
        if message is None:
            return False
        outcome, attempts = self._context.send(self.rule, message)
        self._record_sent(message, occasion, outcome, attempts)
        return True

    def _is_answered(self, event: Event | None) -> bool:
        """Whether a person has answered meanwhile: nobody needs to be notified of that any more."""
        if self.rule.what != "needs you" or event is None or event.run is None or event.kind not in WAITING_KINDS:
            return False
        later = self._log.read(f"run:{event.run}", after=event.position, kinds=ENDING_KINDS)
        return any(each.at is not None and event.at is not None and each.at > event.at and each.agent == event.agent for each in later)

    def _compose_message(self, occasion: Occasion) -> Message | None:
        event = occasion.event or next(iter(self._log.get([occasion.cause])), None)
        if event is None:  # erased meanwhile
            return None
        return compose_message(self.rule, occasion, event, self._find_naming(), url=self._context.url)

    def _compose_brief(self, id: str, period: BriefPeriod) -> Message | None:
        brief = read_brief(self._log, self.rule, period, self._context.outcome_rules, self._context.now())
        return None if is_empty(brief) else compose_brief(self.rule, id, brief, period, actor=ACTOR, url=self._context.url)

    def _find_naming(self) -> Naming:
        return make_naming(self._names) if self._context.naming is None else self._context.naming()

    def _record_sent(self, message: Message, occasion: Occasion, outcome: SendResult, attempts: int) -> None:
        try:
            self._log.append([make_sent_event(self.rule, message, occasion, outcome, attempts)])
        except Forgotten:  # the record was erased, so it was sent
            return

    def _commit_cursor(self) -> None:
        self._committed_at = monotonic()
        if self._at is not None and self._at != self._committed and self._context.is_ours():
            self._context.shared.commit_cursor(self.rule.cursor, self._at)
            self._committed = self._at


def notice_id(rule: Rule, occasion: Occasion) -> str:
    """The id of a rule's notification about an occasion."""
    return derive_id("notify", f"{rule.name}\n{occasion.key}".encode())


def compose_message(rule: Rule, occasion: Occasion, event: Event, naming: Naming, *, url: str | None = None) -> Message:
    """Build the notification; prompts and code are withheld unless the rule wants them."""
    shown = event if rule.full else _shared_part(event)
    return Message(
        id=notice_id(rule, occasion),
        rule=rule.name,
        when=rule.what,
        text=format_line(occasion, shown, naming),
        at=occasion.at,
        event=shown,
        arc=occasion.arc,
        url=None if url is None else f"{url.rstrip('/')}/{PAGES.get(rule.what, 'brief')}",
    )


def _shared_part(event: Event) -> Event:
    try:
        return withhold_private(event)
    except RecursionError:  # nested too deeply
        return Event(id=event.id, at=event.at, kind=event.kind, actor=event.actor, agent=event.agent, position=event.position)


def make_sent_event(rule: Rule, message: Message, occasion: Occasion, outcome: SendResult, attempts: int) -> Event:
    """The record of a notification. It is in no agent's or task's scope, because it is no sign of life."""
    data = {
        "rule": rule.name,
        "event": occasion.cause or None,
        "when": message.when,
        "arc": None if occasion.arc is None else occasion.arc.kind,
        "via": rule.via,
        "to": rule.target.shown,
        "ok": outcome.error is None,
        "attempts": attempts,
        "error": outcome.error,
    }
    return Event(
        id=message.id,
        kind="notify.sent",
        actor=ACTOR,
        cause=occasion.cause or None,
        text=message.text.partition("\n")[0],
        visibility="system",
        data={key: value for key, value in data.items() if value is not None},
    )
