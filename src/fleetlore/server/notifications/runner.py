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
from fleetlore.server.notifications.triggers import TURNS, Occasion, line_of, turn_of, watch_for
from fleetlore.views import names
from fleetlore.views.outcomes.rules import OutcomeRules
from fleetlore.views.thread_names import Naming, naming_of

CHUNK = 100
LOOK_BACK = 5000
"""Events before the cursor that a rule reads when it starts, to know the current state."""
ACTOR = "fleetlore"
PAGES = {"needs you": "fleet", "stuck": "fleet", "progress": "fleet", "budget": "costs"}
"""The page for each trigger; the brief for all others."""


class Pace(NamedTuple):
    """Intervals and timeouts, in seconds."""

    lease: float = 30.0
    """Duration of the lease."""
    again: float = 5.0
    """Between attempts to take the lease or to reopen the log."""
    beat: float = 0.25
    """Between checks while the lease is held."""
    tick: float = 1.0
    """How long a rule waits for events before it checks the clock."""
    look: float = 5.0
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


class Means(NamedTuple):
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
    pace: Pace
    outcome_rules: OutcomeRules
    """Prices and flags for briefs."""


class Stopped(Exception):
    """The walk must end; what was not sent yet is not sent here."""


class RuleRun:
    """One rule, running from its cursor on."""

    def __init__(self, rule: Rule, means: Means, over: Flag) -> None:
        self.rule = rule
        self._means, self._log, self._over = means, means.log, over
        self._watch = watch_for(rule, self._turns_before)
        self._names = names.initial()
        self._at: Position | None = None
        """Everything up to here was handled."""
        self._committed: Position | None = None
        self._committed_at = self._looked_at = 0.0
        self._found: set[str] = set()
        """Keys of the last check's time-based occasions, all handled."""

    def run(self) -> None:
        """Run until stopped."""
        self._begin()
        reader = LogReadAhead(self._log, after=self._at)
        try:
            while not self._over.is_set():
                self._step(reader)
        except Stopped:
            pass
        finally:
            reader.close()
        self._commit()

    def _step(self, reader: LogReadAhead) -> None:
        pace = self._means.pace
        for event in reader.take_events(CHUNK, timeout=pace.tick):
            self._see(event)
        if monotonic() - self._looked_at >= pace.look:
            self._look()
        if monotonic() - self._committed_at >= pace.commit:
            self._commit()

    def _begin(self) -> None:
        """Resume at the cursor; a new rule starts at the head."""
        head, cursor = self._log.head(), self._means.shared.load_cursor(self.rule.cursor)
        self._at = head if cursor is None or head is None or cursor > head else cursor  # after the head: a backup was restored
        if cursor is None:
            self._commit()
        self._committed = self._at
        self._committed_at = monotonic()
        if self._watch.looks_back:
            self._look_back()
        if cursor is None:  # what is already the case is not news to a new rule
            self._found = {occasion.key for occasion in self._watch.look(self._means.now())}

    def _look_back(self) -> None:
        """Read older events to know the current state, without sending anything."""
        events = list(self._log.read(newest_first=True, limit=LOOK_BACK))
        for event in reversed(events):
            if event.position is not None and self._at is not None and event.position <= self._at:
                self._know(event)
                for _ in self._occasions(event):
                    pass

    def _know(self, event: Event) -> None:
        if self._means.naming is None and event.kind in names.NAMING_KINDS:
            self._names = names.apply(self._names, event)

    def _occasions(self, event: Event) -> Iterable[Occasion]:
        if event.kind.startswith(OWN_FAMILY) or event.kind == "log.gap":
            return ()
        return self._watch.see(event) if self.rule.scope == TOWN or self.rule.scope in event_scopes(event) else ()

    def _turns_before(self, scope: str, position: Position | None) -> int:
        """Number of turns that ended before a position."""
        return sum(turn_of(event) == scope for event in self._log.read(scope, before=position, kinds=TURNS))

    def _see(self, event: Event) -> None:
        if self._over.is_set():
            raise Stopped
        self._know(event)
        results = [self._handle(occasion) for occasion in self._occasions(event)]
        self._at = event.position or self._at
        if any(results):
            self._commit()

    def _look(self) -> None:
        """Check time-based triggers.

        A silence has no event to move a cursor past, so the log decides whether it was sent.
        """
        self._looked_at = monotonic()
        found = {occasion.key: occasion for occasion in self._watch.look(self._means.now())}
        for key, occasion in found.items():
            if key not in self._found:
                self._handle(occasion)
        self._found = set(found)

    def _handle(self, occasion: Occasion) -> bool:
        """Send an occasion, unless it is too old or was sent before; return whether it was sent."""
        if self._means.now() - occasion.at > self.rule.max_age:
            return False
        id = notice_id(self.rule, occasion)
        if self._log.get([id]):
            return False
        message = self._compose_brief(id, occasion.period) if occasion.period is not None else self._compose(occasion)
        if message is None:
            return False
        outcome, attempts = self._means.send(self.rule, message)
        self._record(message, occasion, outcome, attempts)
        return True

    def _compose(self, occasion: Occasion) -> Message | None:
        event = occasion.event or next(iter(self._log.get([occasion.cause])), None)
        if event is None:  # erased meanwhile
            return None
        return compose_message(self.rule, occasion, event, self._naming(), url=self._means.url)

    def _compose_brief(self, id: str, period: BriefPeriod) -> Message | None:
        brief = read_brief(self._log, self.rule, period, self._means.outcome_rules, self._means.now())
        return None if is_empty(brief) else compose_brief(self.rule, id, brief, period, actor=ACTOR, url=self._means.url)

    def _naming(self) -> Naming:
        return naming_of(self._names) if self._means.naming is None else self._means.naming()

    def _record(self, message: Message, occasion: Occasion, outcome: SendResult, attempts: int) -> None:
        try:
            self._log.append([make_sent_event(self.rule, message, occasion, outcome, attempts)])
        except Forgotten:  # the record was erased, so it was sent
            return

    def _commit(self) -> None:
        self._committed_at = monotonic()
        if self._at is not None and self._at != self._committed and self._means.is_ours():
            self._means.shared.commit_cursor(self.rule.cursor, self._at)
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
        text=line_of(occasion, shown, naming),
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
