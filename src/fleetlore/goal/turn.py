"""One turn of an agent: what it may spend, what it does as it does it, and the ways in which it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from fleetlore.errors import LogError
from fleetlore.events.driver_types import BudgetAxis
from fleetlore.events.envelope import Event
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.resources import GoalResources
from fleetlore.process.shield import wait_uncancelled
from fleetlore.programs.harness import Ended, Heard, Order, RemainingBudget, TurnOutcome
from fleetlore.views.goal_state import GoalState, GoalUsage, elapsed_seconds, unreported_usage, used_tokens, used_usd

FLUSH_SECONDS = 0.25
MAX_QUEUED_EVENTS = 100
SIDE_EFFECT_KINDS = frozenset(("model.called", "tool.called", "goal.tool_effect"))
"""What is stored before an agent within this process goes on."""
LOG_CHECK_SECONDS = 1.0
RESERVED_PREFIXES = ("driver.", "control.", "goal.", "work.", "log.")
"""What only the driver and people say; of an agent's own words nothing of it is taken, but the effect of a tool."""


class TurnRunner:
    """Runs one turn, and can be called off."""

    def __init__(self, book: GoalJournal, crew: GoalResources, order: Order, *, session: str | None) -> None:
        """`session` is the one that the log knows of."""
        self._journal, self._resources, self._harness, self._order, self._session = book, crew, crew.harness, order, session
        self._usd = 0.0
        self._reported_tokens, self._reported_usd, self._reported_at = 0, 0.0, 0.0
        self._task: asyncio.Task[Ended] | None = None
        self._cancelled_as: TurnOutcome | None = None
        self._progress = Heard()
        self._log_checked_at = asyncio.get_running_loop().time()
        self._is_in_process = crew.harness.name == "mind"

    async def run(self) -> Ended:
        """To its end. Cancelled, it ends the agent first."""
        if self._journal.state.cancel is not None:  # somebody was quicker
            return self.partial_result()
        self._task = asyncio.create_task(self._harness.take_turn(self._order, self._on_progress))
        flushing = asyncio.create_task(self._flush_periodically())
        try:
            # Cancelled, it ends, however it does that; cancelled again, it hurries.
            await wait_uncancelled(self._task, self._task.cancel)
        finally:
            flushing.cancel()
        if self._task.cancelled() and self._cancelled_as is not None:
            return self.partial_result(self._cancelled_as)
        ended = self._task.result()
        return ended if ended.usd is not None else replace(ended, usd=self._progress.usd)

    @property
    def progress(self) -> Heard:
        """What came of it so far."""
        return self._progress

    def cancel_turn(self, how: TurnOutcome) -> None:
        """End it."""
        if self._task is not None and not self._task.done() and self._cancelled_as is None:
            self._cancelled_as = how
            self._task.cancel()

    def partial_result(self, how: TurnOutcome = "stopped") -> Ended:
        """How far it came, where it was called off."""
        heard = self._progress
        return Ended(
            how=how,
            words=heard.words or "",
            session=heard.session,
            tokens=heard.tokens,
            usd=heard.usd,
            context=heard.context,
            model=heard.model,
        )

    # --- what comes

    async def _on_progress(self, heard: Heard) -> TurnOutcome | None:
        book = self._journal
        events = [book.event_factory.assign_to_goal(event) for event in heard.events if _is_agent_event(event)]
        self._usd += sum(self._resources.reply_cost(event) for event in events if event.kind == "model.replied")
        self._update_progress(heard)
        waiting = book.enqueue_events([*self._session_and_process_events(heard), *events, *self._report_to_parents()])
        is_due = heard.process is not None or waiting >= MAX_QUEUED_EVENTS
        if is_due or (self._is_in_process and any(event.kind in SIDE_EFFECT_KINDS for event in heard.events)):
            await book.flush()
        return self._cancelled_as or await self._check_budget()

    def _update_progress(self, heard: Heard) -> None:
        """Figures only grow; what is not told again still holds."""
        last = self._progress
        self._progress = Heard(
            session=heard.session or last.session,
            model=heard.model or last.model,
            tokens=max(heard.tokens, last.tokens),
            usd=max(heard.usd or 0.0, last.usd or 0.0, self._usd) or None,
            context=last.context if heard.context is None else heard.context,
            words=heard.words or last.words,
        )

    def _session_and_process_events(self, heard: Heard) -> Sequence[Event]:
        teller, order = self._journal.event_factory, self._order
        events = []
        if heard.session is not None and heard.session != self._session:
            events.append(
                teller.session_bound(heard.session, harness=self._harness.name, model=self._progress.model, workspace=order.workspace)
            )
            self._session = heard.session
        if heard.process is not None:
            events.append(teller.process_started(heard.process, order.mark))
        return events

    def _report_to_parents(self) -> list[Event]:
        """Neighbours that share a budget are told of it while the turn lasts."""
        book, heard, now = self._journal, self._progress, asyncio.get_running_loop().time()
        tokens, usd = heard.tokens - self._reported_tokens, (heard.usd or 0.0) - self._reported_usd
        is_due = self._is_in_process or now - self._reported_at >= LOG_CHECK_SECONDS
        if not book.parents or not is_due or (tokens <= 0 and usd <= 0):
            return []
        self._reported_tokens, self._reported_usd, self._reported_at = heard.tokens, heard.usd or 0.0, now
        whom = [book.state.id, *(goal.id for goal in book.parents)]
        return book.event_factory.spent_by_child(whom, turns=0, tokens=max(0, tokens), usd=max(0.0, usd))

    async def _check_budget(self) -> TurnOutcome | None:
        """Whether a budget is used up by now, the goal's own or that of one above it. Before it ends by that, the log is read once more:
        somebody may have raised it, just as somebody may steer, or a neighbour spend what both share.
        """
        now = asyncio.get_running_loop().time()
        stop = self.find_stop_reason()
        if stop is None and now - self._log_checked_at < LOG_CHECK_SECONDS:
            return None
        self._log_checked_at = now
        with suppress(LogError):  # whoever writes next is told
            await self._journal.read_new_events()
        return self.find_stop_reason()

    def find_stop_reason(self) -> TurnOutcome | None:
        """Whether the turn is to end, by what the log says."""
        book = self._journal
        if book.state.cancel is not None:
            return "stopped"
        moment = book.current_time()
        return "over_budget" if find_exceeded_axis([book.state, *book.parents], self._progress.tokens, self._progress.usd, moment) else None

    async def _flush_periodically(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            with suppress(LogError):  # the same
                await self._journal.flush()


def _is_agent_event(event: Event) -> bool:
    return event.kind == "goal.tool_effect" or not event.kind.startswith(RESERVED_PREFIXES)


def find_exceeded_axis(goals: Sequence[GoalState], tokens: int, usd: float | None, now: datetime) -> BudgetAxis | None:
    """The budget that is used up by so much in the open turn, in one goal or those above it."""
    for goal, used in zip(goals, _spent_with_turn(goals, tokens, usd or 0.0), strict=True):
        if used.tokens >= goal.limits.tokens:
            return "tokens"
        if goal.limits.usd is not None and used.usd >= goal.limits.usd:
            return "usd"
        if elapsed_seconds(goal, now) >= goal.limits.seconds:
            return "wall_time"
        if goal.spent.denies >= goal.limits.denies:
            return "consecutive_denies"
    return None


def _spent_with_turn(goals: Sequence[GoalState], tokens: int, usd: float) -> list[GoalUsage]:
    """What a goal and those above it have used, with so much in its open turn."""
    own, *above = goals
    more = unreported_usage(own, tokens=tokens, usd=usd)
    first = GoalUsage(tokens=own.spent.tokens + tokens, usd=own.spent.usd + usd)
    return [first, *(GoalUsage(tokens=used_tokens(goal) + more.tokens, usd=used_usd(goal) + more.usd) for goal in above)]


def remaining_budget(goals: Sequence[GoalState], now: datetime) -> RemainingBudget:
    """What a turn may spend, by a goal and those above it."""
    used = list(zip(goals, _spent_with_turn(goals, 0, 0.0), strict=True))
    usd = [goal.limits.usd - each.usd for goal, each in used if goal.limits.usd is not None]
    return RemainingBudget(
        tokens=max(0, min(goal.limits.tokens - each.tokens for goal, each in used)),
        usd=max(0.0, min(usd)) if usd else None,
        seconds=max(1.0, min(goal.limits.seconds - elapsed_seconds(goal, now) for goal in goals)),
    )
