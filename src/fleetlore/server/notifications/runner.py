"""One rule on its way along the log: what it finds is sent, then recorded, and then its cursor moves on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Event as Flag
from time import monotonic
from typing import NamedTuple

from fleetlore import clock
from fleetlore.chronicle.naming import Naming, naming_of
from fleetlore.errors import Forgotten
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.ingest.read_ahead import LogReadAhead
from fleetlore.ingest.ship_filter import withhold
from fleetlore.log.base import TOWN, Position, event_scopes
from fleetlore.log.coordination import Coordination
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import OWN_FAMILY, Rule
from fleetlore.server.notifications.send import Outcome
from fleetlore.server.notifications.triggers import TURNS, Occasion, line_of, turn_of, watch_for
from fleetlore.views import names

CHUNK = 100
LOOK_BACK = 5000
"""So many events before its cursor a rule reads again when it starts, to know what is under way."""
ACTOR = "fleetlore"
PAGES = {"needs you": "fleet", "stuck": "fleet", "progress": "fleet", "budget": "costs"}
"""Where there is more to see; for all the rest, in the story."""


class Pace(NamedTuple):
    """How long everything takes, in seconds."""

    lease: float = 30.0
    """How long the right to notify lasts unless it is renewed."""
    again: float = 5.0
    """Between two looks whether the right is free, or the log is back."""
    beat: float = 0.25
    """Between two looks whether all is well."""
    tick: float = 1.0
    """How long a rule waits for events before it looks at the clock."""
    look: float = 5.0
    """Between two looks at what the clock brings."""
    commit: float = 10.0
    """How old a cursor may be where nothing was to be told."""
    pause: float = 1.0
    """Before the second try; each further pause is `growth` times as long, and a part of it is left to chance."""
    growth: float = 3.0
    longest: float = 30.0
    tries: int = 5
    end: float = 2.0
    """How long the end waits for what is under way."""


class Means(NamedTuple):
    """What a walk needs."""

    log: BlockingRecorder
    shared: Coordination
    send: Callable[[Rule, Message], tuple[Outcome, int]]
    """Sends until it arrives or there is no use in trying; answers how it ended, and after how many tries. May raise `Stopped`."""
    is_ours: Callable[[], bool]
    """Whether the right to notify is still here."""
    naming: Callable[[], Naming] | None
    """What everybody is called; `None`: as the newest events tell."""
    url: str | None
    now: clock.Clock
    pace: Pace


class Stopped(Exception):
    """The walk is to end, and what was not sent yet is not sent here."""


class Walk:
    """One rule, from its cursor on."""

    def __init__(self, rule: Rule, means: Means, over: Flag) -> None:
        self.rule = rule
        self._means, self._log, self._over = means, means.log, over
        self._watch = watch_for(rule, self._turns_before)
        self._names = names.initial()
        self._at: Position | None = None
        """Up to here everything was dealt with."""
        self._committed: Position | None = None
        self._committed_at = self._looked_at = 0.0
        self._found: set[str] = set()
        """What the last look at the clock found, which is dealt with."""

    def run(self) -> None:
        """Walk until it is over."""
        self._begin()
        outbox = LogReadAhead(self._log, after=self._at)
        try:
            while not self._over.is_set():
                self._step(outbox)
        except Stopped:
            pass
        finally:
            outbox.close()
        self._commit()

    def _step(self, outbox: LogReadAhead) -> None:
        pace = self._means.pace
        for event in outbox.take_events(CHUNK, timeout=pace.tick):
            self._see(event)
        if monotonic() - self._looked_at >= pace.look:
            self._look()
        if monotonic() - self._committed_at >= pace.commit:
            self._commit()

    def _begin(self) -> None:
        """Go on where the rule was left; a new one begins with what comes now."""
        head, known = self._log.head(), self._means.shared.load_cursor(self.rule.cursor)
        self._at = head if known is None or head is None or known > head else known  # behind the head: a backup was restored
        if known is None:
            self._commit()
        self._committed = self._at
        self._committed_at = monotonic()
        if self._watch.looks_back:
            self._look_back()
        if known is None:  # what is so already is no news to a new rule
            self._found = {occasion.key for occasion in self._watch.look(self._means.now())}

    def _look_back(self) -> None:
        """Learn what is under way; nothing of it is told."""
        before = list(self._log.read(newest_first=True, limit=LOOK_BACK))
        for event in reversed(before):
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

    def _turns_before(self, whose: str, position: Position | None) -> int:
        """How many turns were ended in the log before a position."""
        return sum(turn_of(event) == whose for event in self._log.read(whose, before=position, kinds=TURNS))

    def _see(self, event: Event) -> None:
        if self._over.is_set():
            raise Stopped
        self._know(event)
        told = [self._handle(occasion) for occasion in self._occasions(event)]
        self._at = event.position or self._at
        if any(told):
            self._commit()

    def _look(self) -> None:
        """What the clock brings: a silence has no event to move a cursor past, so it is the log that knows whether it was told."""
        self._looked_at = monotonic()
        found = {occasion.key: occasion for occasion in self._watch.look(self._means.now())}
        for key, occasion in found.items():
            if key not in self._found:
                self._handle(occasion)
        self._found = set(found)

    def _handle(self, occasion: Occasion) -> bool:
        """Tell of an occasion, unless it is old or was told before; answers whether it was told now."""
        if self._means.now() - occasion.at > self.rule.max_age:
            return False
        id = notice_id(self.rule, occasion)
        if self._log.get([id]):
            return False
        event = occasion.event or next(iter(self._log.get([occasion.cause])), None)
        if event is None:  # erased since
            return False
        message = compose(self.rule, occasion, event, self._naming(), url=self._means.url)
        outcome, attempts = self._means.send(self.rule, message)
        self._record(message, occasion, outcome, attempts)
        return True

    def _naming(self) -> Naming:
        return naming_of(self._names) if self._means.naming is None else self._means.naming()

    def _record(self, message: Message, occasion: Occasion, outcome: Outcome, attempts: int) -> None:
        try:
            self._log.append([sent(self.rule, message, occasion, outcome, attempts)])
        except Forgotten:  # somebody has erased it: then it was told
            return

    def _commit(self) -> None:
        self._committed_at = monotonic()
        if self._at is not None and self._at != self._committed and self._means.is_ours():
            self._means.shared.commit_cursor(self.rule.cursor, self._at)
            self._committed = self._at


def notice_id(rule: Rule, occasion: Occasion) -> str:
    """The id of the one notice of a rule about an occasion."""
    return derive_id("notify", f"{rule.name}\n{occasion.key}".encode())


def compose(rule: Rule, occasion: Occasion, event: Event, naming: Naming, *, url: str | None = None) -> Message:
    """What is told, and no prompts or code with it unless the rule wants all."""
    shown = event if rule.full else _shared_part(event)
    return Message(
        id=notice_id(rule, occasion),
        rule=rule.name,
        when=rule.what,
        text=line_of(occasion, shown, naming),
        at=occasion.at,
        event=shown,
        arc=occasion.arc,
        url=None if url is None else f"{url.rstrip('/')}/{PAGES.get(rule.what, 'story')}",
    )


def _shared_part(event: Event) -> Event:
    try:
        return withhold(event)
    except RecursionError:  # nested too deeply to be looked through
        return Event(id=event.id, at=event.at, kind=event.kind, actor=event.actor, agent=event.agent, position=event.position)


def sent(rule: Rule, message: Message, occasion: Occasion, outcome: Outcome, attempts: int) -> Event:
    """The record of a notice. It is in no agent's or task's scope: to be told of is no sign of life."""
    data = {
        "rule": rule.name,
        "event": occasion.cause,
        "when": rule.what,
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
        cause=occasion.cause,
        text=message.text,
        visibility="system",
        data={key: value for key, value in data.items() if value is not None},
    )
