"""What rules wait for. A watch sees every event of its scope in order, and is asked from time to time about the clock.

It has seen only the last few thousand events: what it does not know counts as new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.log.base import matches_kind
from fleetlore.operations.costs import CostBudget
from fleetlore.server.notifications.rules import Rule
from fleetlore.server.notifications.schedule import Schedule
from fleetlore.server.notifications.scheduled_brief import BriefPeriod, find_period
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.phrases import clean_text, end_sentence, format_span, spell_number
from fleetlore.views import fleet, session_status
from fleetlore.views.agent_status_rules import find_standing_effect
from fleetlore.views.event_text import event_stamp
from fleetlore.views.fleet import SILENT_AFTER, FleetAgent
from fleetlore.views.outcomes import session
from fleetlore.views.outcomes.fold import is_row
from fleetlore.views.outcomes.record import Outcome, make_record
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.outcomes.troubles import find_troubles
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.across_sessions import find_patterns_across
from fleetlore.views.patterns.kinds import all_kinds
from fleetlore.views.patterns.model import Finding
from fleetlore.views.patterns.session_rules import make_open_struggle
from fleetlore.views.patterns.steps import is_spent
from fleetlore.views.patterns.wording import describe_finding
from fleetlore.views.thread_names import Naming

TURNS = ("session.turn_ended", "driver.attempt_completed")
"""Kinds that end a turn of an agent."""
ASKING = frozenset(("session.turn_ended", "tool.called"))
"""Kinds that may ask the person a question."""
NEARLY_SPENT = 0.8
"""The share of a budget from which it is nearly spent."""
MANY_SETBACKS = 3
"""This many setbacks without a recovery are a struggle worth a notification."""
DONE_STATES = frozenset(("completed", "done", "delivered"))
"""New states of a mission that mean success."""
STRUGGLE = "struggle_and_recovery"
LONGEST_LINE = 500
MOST_SESSIONS = 200
"""Sessions that a watch follows; the one that was silent longest is dropped."""
MOST_KNOWN = 5000
_RULES = default_rules()

Words: TypeAlias = Callable[[Event, Naming], str]
Counter: TypeAlias = Callable[[str, str | None], int]
"""Number of turns of a scope that ended before a position."""


MeasureBudgets: TypeAlias = Callable[[datetime], Sequence[CostBudget]]
"""The budgets of the current day, week and month, and what is spent of them."""


class Occasion(NamedTuple):
    """Something that a rule waited for."""

    key: str
    """Identifies the occasion, whenever it is found."""
    cause: str
    """Id of the event it is about."""
    at: datetime
    """When it happened."""
    words: Words
    event: Event | None = None
    """The event itself, if it has just come."""
    arc: Finding | None = None
    period: BriefPeriod | None = None
    """Of a scheduled brief: what it covers."""


class TriggerWatch:
    """What one rule waits for."""

    needs_history = False
    """Whether earlier events matter."""

    def on_event(self, event: Event) -> Iterable[Occasion]:
        """Handle one more event; return the occasions it brings."""
        del event
        return ()

    def find_due(self, now: datetime) -> Iterable[Occasion]:
        """Time-based occasions at a moment, found before or not."""
        del now
        return ()


def make_watch(rule: Rule, count: Counter, measure: MeasureBudgets = lambda now: []) -> TriggerWatch:
    """The watch for a rule."""
    match rule.by:
        case "kind":
            return EventWatch(lambda event: matches_kind(event.kind, (rule.what,)))
        case "arc":
            return ClosedPatternWatch(rule.what)
        case "brief":
            return ScheduledBriefWatch(rule.schedule)
        case "when":
            return WATCHES[rule.what](rule, count, measure)


class EventWatch(TriggerWatch):
    """Every event that satisfies a condition."""

    def __init__(self, condition: Callable[[Event], bool]) -> None:
        self._condition = condition

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the event if it satisfies the condition."""
        if self._condition(event):
            yield make_occasion(event)


class BudgetWatch(EventWatch):
    """A goal or run whose budget is spent, and the budget of a day, week or month that is nearly or completely spent."""

    def __init__(self, measure: MeasureBudgets) -> None:
        super().__init__(is_spent)
        self._measure = measure

    def find_due(self, now: datetime) -> Iterator[Occasion]:
        """The budgets of the current day, week and month of which 80 % or all is spent."""
        for budget in self._measure(now):
            share = budget.used_usd / budget.limit_usd if budget.limit_usd > 0 else 1.0
            if share >= NEARLY_SPENT:
                yield _make_budget_occasion(budget, "spent" if share >= 1 else "nearly spent", now)


def _make_budget_occasion(budget: CostBudget, state: str, now: datetime) -> Occasion:
    text = f"The budget of this {budget.period} is {state}: ${budget.used_usd:,.2f} of ${budget.limit_usd:,.2f}"
    key = f"costs {budget.period} {budget.since.isoformat()} {state}"
    event = Event(id=derive_id("notify", key.encode()), at=now, kind="costs.budget", actor="fleetlore", text=text)
    return Occasion(key, "", now, lambda event, naming: text, event)


class ScheduledBriefWatch(TriggerWatch):
    """The newest scheduled time of a brief."""

    def __init__(self, schedule: Schedule | None) -> None:
        self._schedule = schedule

    def find_due(self, now: datetime) -> Iterator[Occasion]:
        """The brief that was due last."""
        if self._schedule is not None:
            period = find_period(self._schedule, now)
            yield Occasion(period.key, "", period.until, lambda event, naming: "", period=period)


def is_done(event: Event) -> bool:
    """Whether a task, a goal, a run or a mission was delivered."""
    if event.kind == "town.mission_state_changed":
        return (event.new_state or "").lower() in DONE_STATES
    return find_beat(event) == "deliver"


def is_failed(event: Event) -> bool:
    """Whether a turn, a task, an agent or a goal failed."""
    if event.kind == "session.turn_ended":
        return session_status.end_of_turn(event) == "failed"
    if event.kind == "driver.goal_completed":
        return find_beat(event) == "setback"
    return event.kind in ("town.task_failed", "town.agent_failed")


class FinishedWatch(TriggerWatch):
    """Sessions that end their turn and wait for nothing, and what is delivered otherwise."""

    needs_history = True

    def __init__(self) -> None:
        self._fleet = fleet.initial()

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the event if it finishes something."""
        self._fleet = fleet.apply(self._fleet, event)
        if event.kind == "session.turn_ended":
            state = self._fleet.sessions.get(event.run or "")
            if state is None or event.agent != state.agent:  # the turn of a helper
                return
            found = session_status.decide_status(state, event_stamp(event)[0])
            if found.status == "finished" and found.waiting_for is None:
                yield make_occasion(event)
        elif event.run is None and is_done(event):
            yield make_occasion(event)


class LoopWatch(TriggerWatch):
    """Sessions that fail in the same way again and again; once for each loop."""

    needs_history = True

    def __init__(self) -> None:
        self._fleet = fleet.initial()

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the failure that makes it a loop."""
        self._fleet = fleet.apply(self._fleet, event)
        state = self._fleet.sessions.get(event.run or "")
        if event.kind == "tool.failed" and state is not None and state.failures == session_status.LOOP:
            yield make_occasion(event, _describe_loop)


def _describe_loop(event: Event, naming: Naming) -> str:
    what = clean_text(event.text or "", LONGEST_LINE) or "the same call fails again and again"
    return f"{naming.agent(event.agent or '')} is in a loop: {what}"


class NeedsPersonWatch(TriggerWatch):
    """Agents and missions that start to need a person; no repetition while they do."""

    needs_history = True

    def __init__(self) -> None:
        self._fleet = fleet.initial()

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the event if somebody newly needs a person because of it."""
        if find_standing_effect(event) != "needs you":
            needed = self._needs_person(event.agent)
            self._fleet = fleet.apply(self._fleet, event)
            if event.kind in ASKING and not needed and self._needs_person(event.agent):
                yield make_occasion(event)
            return
        before = self._find_in_need()
        self._fleet = fleet.apply(self._fleet, event)
        if self._find_in_need() - before or self._is_about_nobody_known(event):
            yield make_occasion(event)

    def _needs_person(self, name: str | None) -> bool:
        agent = self._fleet.agents.get(name) if name is not None else None
        return agent is not None and agent.standing == "needs you"

    def _find_in_need(self) -> set[tuple[str, str]]:
        agents = {("agent", name) for name, agent in self._fleet.agents.items() if agent.standing == "needs you"}
        return agents | {("mission", name) for name in self._fleet.asking}

    def _is_about_nobody_known(self, event: Event) -> bool:
        if event.agent is not None or (event.kind == "town.mission_help_needed" and event.mission is not None):
            return False
        return self._fleet.held.keys().isdisjoint((f"goal:{event.goal}", f"run:{event.run}"))


class ProgressWatch(TriggerWatch):
    """Every n turns of an agent or, without one, of a goal or run, counted from the beginning of the log."""

    def __init__(self, every: int, count: Counter) -> None:
        self._every, self._count = every, count
        self._turns: dict[str, int] = {}

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the event if it ends such a turn."""
        if event.kind not in TURNS:
            return
        scope = find_turn_scope(event)
        if scope not in self._turns:
            self._turns[scope] = self._count(scope, event.position)
        self._turns[scope] += 1
        if self._turns[scope] % self._every == 0:
            yield make_occasion(event, _describe_turns(scope, self._turns[scope]))


def find_turn_scope(event: Event) -> str:
    """The scope whose turn an event ends."""
    for kind in ("agent", "goal", "run"):
        if (name := getattr(event, kind)) is not None:
            return f"{kind}:{name}"
    return "town"


def _describe_turns(scope: str, turns: int) -> Words:
    kind, _, name = scope.partition(":")

    def describe(_: Event, naming: Naming) -> str:
        who = naming.agent(name) if kind == "agent" else naming.label(scope)
        return f"{who} has come to the end of {spell_number(turns)} {'turn' if turns == 1 else 'turns'}"

    return describe


class PatternWatch(TriggerWatch):
    """A watch that follows the steps of threads and the facts of sessions."""

    needs_history = True

    def __init__(self) -> None:
        self._patterns = pattern_fold.initial()
        self._sessions: dict[str, SessionState] = {}
        self._touched: set[str] = set()
        """Sessions with events since they were last looked at."""

    def on_event(self, event: Event) -> Iterable[Occasion]:
        """Add the event to its thread or session."""
        pattern_fold.apply(self._patterns, event)
        if event.run is not None and event.kind in session.KINDS:
            state = self._sessions.pop(event.run, None) or session.begin_session(event.run)
            self._sessions[event.run] = session.apply(state, event, _RULES)  # the one that moved last is last
            self._touched.add(event.run)
            if len(self._sessions) > MOST_SESSIONS:
                dropped = next(iter(self._sessions))
                del self._sessions[dropped]
                self._touched.discard(dropped)
        return ()


class ClosedPatternWatch(PatternWatch):
    """Closed findings of one kind; never of a kind that is not shown (`Rule.note` says so)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        found = all_kinds().get(kind)
        self._kind = found if found is not None and found.shown else None
        self._known: dict[str, None] = {}
        self._records: dict[str, Outcome] = {}

    def on_event(self, event: Event) -> Iterator[Occasion]:
        """Return the findings that the event closes."""
        if self._kind is None:
            return
        super().on_event(event)
        at = event_stamp(event)[0]
        for finding in self._find_findings(event, at):
            key = f"{finding.kind} {finding.thread} {finding.first}"
            if finding.kind != self._kind.kind or finding.state != "closed" or key in self._known:
                continue
            self._known[key] = None
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            yield _make_finding_occasion(finding, key, at, event=event)

    def _find_findings(self, event: Event, at: datetime) -> Iterable[Finding]:
        assert self._kind is not None
        if event.run is None or event.kind not in session.KINDS:
            thread = pattern_fold.last_thread(self._patterns)
            return [] if thread is None else list(pattern_fold.find_in_thread(self._patterns, thread, at))
        state = self._sessions[event.run]
        if event.kind not in TURNS or not (self._kind.session or self._kind.sessions) or not is_row(state):
            return []
        record = self._records[event.run] = make_record(state, at)
        for run in self._records.keys() - self._sessions.keys():
            del self._records[run]
        return [*record.patterns, *(find_patterns_across(list(self._records.values())) if self._kind.sessions else ())]


class StuckWatch(PatternWatch):
    """Agents that fall silent while working, and series of setbacks. No event reports either."""

    def __init__(self) -> None:
        super().__init__()
        self._fleet = fleet.initial()
        self._struggles: dict[str, Finding] = {}
        """Session → the trouble that it is in."""

    def on_event(self, event: Event) -> Iterable[Occasion]:
        """Add the event to the fleet and to its thread or session."""
        self._fleet = fleet.apply(self._fleet, event)
        return super().on_event(event)

    def find_due(self, now: datetime) -> Iterator[Occasion]:
        """Silent agents, then agents with one setback after another."""
        for agent in self._fleet.agents.values():
            if fleet.standing_at(agent, now=now, session=fleet.find_session(self._fleet, agent)) == "silent":
                yield _make_silence_occasion(agent, now)
        for run in self._touched:
            self._find_struggle(self._sessions[run])
        self._touched.clear()
        for finding in (*pattern_fold.find_patterns(self._patterns, now), *self._struggles.values()):
            if finding.kind == STRUGGLE and finding.state == "open" and finding.count >= MANY_SETBACKS:
                yield _make_finding_occasion(finding, f"{STRUGGLE} {finding.thread} {finding.first}", finding.last_at)

    def _find_struggle(self, state: SessionState) -> None:
        self._struggles.pop(state.run, None)
        if state.status.turn != "running" or not is_row(state):
            return
        troubles = find_troubles(state.calls, state.failures, state.checks, state.edits, state.prompts, state.answers)
        for trouble in troubles:
            if trouble.ended is None and trouble.attempts >= MANY_SETBACKS:
                self._struggles[state.run] = make_open_struggle(state, trouble)


def _make_silence_occasion(agent: FleetAgent, now: datetime) -> Occasion:
    seen = agent.last_seen or now
    at_work = f", last at work on task {clean_text(agent.task, LONGEST_LINE)}" if agent.task else ""

    def describe(_: Event, naming: Naming) -> str:
        return f"No sign of life from {naming.agent(agent.name)} for {format_span(now - seen)}{at_work}"

    return Occasion(f"silent {agent.name} {seen.isoformat()}", agent.last_id or "", seen + SILENT_AFTER, describe)


def make_occasion(event: Event, text: Words | None = None) -> Occasion:
    """An event that is itself the occasion, with the chronicle's text or another."""
    return Occasion(event.id or "", event.id or "", event_stamp(event)[0], text or _describe_event, event)


def _describe_event(event: Event, naming: Naming) -> str:
    return EventDescriber(name_of=naming.agent).describe(event)


def _make_finding_occasion(finding: Finding, key: str, at: datetime, event: Event | None = None) -> Occasion:
    cause = finding.last if event is None else event.id or ""
    if finding.thread.startswith("run:"):
        finding = replace(finding, note="")  # it may quote a command's output, which only leaves with `full`
    return Occasion(key, cause, at, lambda _, naming: describe_finding(finding, naming), event, finding)


def format_line(occasion: Occasion, event: Event, naming: Naming) -> str:
    """The notification's text: one line of printable characters. Still untrusted."""
    text = "".join(letter if letter.isprintable() else " " for letter in occasion.words(event, naming))
    line = " ".join(text.split())
    return end_sentence(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rsplit(' ', 1)[0]}…")


WATCHES: Mapping[str, Callable[[Rule, Counter, MeasureBudgets], TriggerWatch]] = {
    "needs you": lambda rule, count, measure: NeedsPersonWatch(),
    "finished": lambda rule, count, measure: FinishedWatch(),
    "failed": lambda rule, count, measure: EventWatch(is_failed),
    "looping": lambda rule, count, measure: LoopWatch(),
    "stuck": lambda rule, count, measure: StuckWatch(),
    "budget": lambda rule, count, measure: BudgetWatch(measure),
    "done": lambda rule, count, measure: EventWatch(is_done),
    "progress": lambda rule, count, measure: ProgressWatch(rule.every, count),
}
"""`when` → its watch."""
