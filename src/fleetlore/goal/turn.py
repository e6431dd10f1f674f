"""Runs one turn of an agent: records its progress, enforces budgets, also shared ones, and cancels it on request.

The driver creates one `TurnRunner` per turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from fleetlore.errors import LogError
from fleetlore.events.budget_axes import BudgetUse, count_event, is_exhausted, list_axes, list_uses, remaining_amount
from fleetlore.events.driver_types import BudgetAxis
from fleetlore.events.envelope import Event
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.resources import GoalResources, RunBlocking
from fleetlore.kernel.journal import JournalDecision
from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Coordination
from fleetlore.programs.harness import RemainingBudget, TurnOutcome, TurnProgress, TurnRequest, TurnResult
from fleetlore.tasks import wait_uncancelled
from fleetlore.views.goal_state import GoalState, Reservation, add_usage, current_usage, unreported_usage

FLUSH_SECONDS = 0.25
MAX_RECORDED_EVENTS = 100
SIDE_EFFECT_KINDS = frozenset(("model.called", "tool.called", "goal.tool_effect"))
"""Events that are stored before an agent in this process continues."""
LOG_CHECK_SECONDS = 1.0
RESERVED_PREFIXES = ("driver.", "control.", "goal.", "work.", "log.")
"""Kinds that only the driver and people may write. From an agent they are dropped, except for `goal.tool_effect`."""


class TurnRunner:
    """Runs one turn, which can be cancelled."""

    def __init__(
        self,
        journal: GoalJournal,
        resources: GoalResources,
        turn_request: TurnRequest,
        *,
        session: str | None,
        shared_budget: SharedBudget,
    ) -> None:
        """`session` is the session id that the log already knows."""
        self._shared_budget = shared_budget
        self._journal, self._resources, self._harness, self._turn_request, self._session = (
            journal,
            resources,
            resources.harness,
            turn_request,
            session,
        )
        self._usd = 0.0
        self._reported_tokens, self._reported_usd = 0, 0.0
        spent, below = journal.state.spent.others, journal.state.below.others
        self._own_others = {name: used - below.get(name, 0) for name, used in spent.items()}
        self._task: asyncio.Task[TurnResult] | None = None
        self._cancelled_as: TurnOutcome | None = None
        self._progress = TurnProgress()
        self._log_checked_at = journal.ticks()
        self._is_in_process = resources.harness.name == "mind"

    async def run(self) -> TurnResult:
        """Run the turn to its end. On cancellation, the agent is stopped first."""
        if self._journal.state.cancel is not None:  # cancelled before it started
            return self.partial_result()
        self._task = self._journal.spawn(self._harness.take_turn(self._turn_request, self._on_progress))
        flush_task = self._journal.spawn(self._flush_periodically())
        try:
            # The first cancellation lets the harness shut the agent down cleanly; a second one cancels that shutdown.
            await wait_uncancelled(self._task, self._task.cancel)
        finally:
            flush_task.cancel()
        if self._task.cancelled() and self._cancelled_as is not None:
            return self.partial_result(self._cancelled_as)
        result = self._task.result()
        return result if result.usd is not None else replace(result, usd=self._progress.usd)

    @property
    def progress(self) -> TurnProgress:
        """Session, words and usage so far."""
        return self._progress

    def cancel_turn(self, how: TurnOutcome) -> None:
        """Stop the agent; the turn then ends with this outcome."""
        if self._task is not None and not self._task.done() and self._cancelled_as is None:
            self._cancelled_as = how
            self._task.cancel()

    def partial_result(self, how: TurnOutcome = "stopped") -> TurnResult:
        """The result of a turn that was stopped before its end."""
        progress = self._progress
        return TurnResult(
            how=how,
            words=progress.words or "",
            session=progress.session,
            tokens=progress.tokens,
            usd=progress.usd,
            context=progress.context,
            model=progress.model,
        )

    # --- progress

    async def _on_progress(self, progress: TurnProgress) -> TurnOutcome | None:
        journal = self._journal
        events = [journal.event_factory.assign_to_goal(event) for event in progress.events if _is_agent_event(event)]
        self._usd += sum(self._resources.reply_cost(event) for event in events if event.kind == "model.replied")
        for event in events:
            count_event(self._own_others, event, "goal")
        self._update_progress(progress)
        reports = self._report_to_parents()
        journal.record([*self._session_and_process_events(progress), *events, *reports])
        # Sibling goals must see what was spent before anybody spends more of a shared budget.
        is_due = bool(reports) or progress.process is not None or journal.recorded_count >= MAX_RECORDED_EVENTS
        if is_due or (self._is_in_process and any(event.kind in SIDE_EFFECT_KINDS for event in progress.events)):
            await journal.flush()
        stop = self._cancelled_as or await self._check_budget(must_read=bool(reports))
        return stop or (await self._reserve_next_call() if reports else None)

    async def _reserve_next_call(self) -> TurnOutcome | None:
        """Reserve budget for the next call. If none is free, an in-process agent waits here; a program is stopped and resumed later."""
        while await self._shared_budget.reserve_call(keeps=not self._is_in_process):
            if not self._is_in_process:
                return "stopped"
            await self._journal.sleep(SIBLING_POLL_SECONDS)
            if stop := self._cancelled_as or self.find_stop_reason():
                return stop
        return self.find_stop_reason()  # what others spent meanwhile

    def _update_progress(self, progress: TurnProgress) -> None:
        """Numbers only grow, and fields that an update leaves out keep their value."""
        previous = self._progress
        self._progress = TurnProgress(
            session=progress.session or previous.session,
            model=progress.model or previous.model,
            tokens=max(progress.tokens, previous.tokens),
            usd=max(progress.usd or 0.0, previous.usd or 0.0, self._usd) or None,
            context=previous.context if progress.context is None else progress.context,
            words=progress.words or previous.words,
        )

    def _session_and_process_events(self, progress: TurnProgress) -> Sequence[Event]:
        factory, turn_request = self._journal.event_factory, self._turn_request
        events = []
        if progress.session is not None and progress.session != self._session:
            events.append(
                factory.session_bound(
                    progress.session, harness=self._harness.name, model=self._progress.model, workspace=turn_request.workspace
                )
            )
            self._session = progress.session
        if progress.process is not None:
            events.append(factory.process_started(progress.process, turn_request.mark))
        return events

    def _report_to_parents(self) -> list[Event]:
        """Events for what was spent since the last report, so that sibling goals see it before the turn ends. Empty without parents."""
        journal, progress = self._journal, self._progress
        tokens, usd = progress.tokens - self._reported_tokens, (progress.usd or 0.0) - self._reported_usd
        if not journal.parents or (tokens <= 0 and usd <= 0):
            return []
        self._reported_tokens, self._reported_usd = progress.tokens, progress.usd or 0.0
        goal_ids = [journal.state.id, *(goal.id for goal in journal.parents)]
        return journal.event_factory.spent_by_child(goal_ids, turns=0, tokens=max(0, tokens), usd=max(0.0, usd))

    async def _check_budget(self, *, must_read: bool) -> TurnOutcome | None:
        """Whether the turn must stop because a budget of the goal or of a parent is spent.

        The log is read before stopping, after each use of a shared budget (`must_read`), and at least every
        `LOG_CHECK_SECONDS`: a person may have raised the budget or cancelled the goal, or a sibling may have spent from it.
        """
        now = self._journal.ticks()
        reason = self.find_stop_reason()
        if reason is None and not must_read and now - self._log_checked_at < LOG_CHECK_SECONDS:
            return None
        self._log_checked_at = now
        with suppress(LogError):  # the next write reports it
            await self._journal.catch_up()
        return self.find_stop_reason()

    def find_stop_reason(self) -> TurnOutcome | None:
        """The outcome with which the turn must stop now, from the state already read from the log; `None` to continue."""
        journal = self._journal
        if journal.state.cancel is not None:
            return "stopped"
        now = journal.current_time()
        goals, progress = [journal.state, *journal.parents], self._progress
        return "over_budget" if find_exceeded_axis(goals, progress.tokens, progress.usd, now, self._own_others) else None

    async def _flush_periodically(self) -> None:
        while True:
            await self._journal.sleep(FLUSH_SECONDS)
            with suppress(LogError):  # the next write reports it
                await self._journal.flush()


def _is_agent_event(event: Event) -> bool:
    return event.kind == "goal.tool_effect" or not event.kind.startswith(RESERVED_PREFIXES)


def find_exceeded_axis(
    goals: Sequence[GoalState], tokens: int, usd: float | None, now: datetime, own_others: Mapping[str, float] | None = None
) -> BudgetAxis | None:
    """The first exhausted budget axis (tokens, USD, …), including `tokens` and `usd` of the open turn. `goals`: a goal, then its parents.

    `own_others` is the goal's own usage (without child goals) of axes counted from events; it counts where it exceeds the log's.
    """
    return next(iter(list_exceeded_axes(goals, tokens, usd, now, own_others)), None)


def list_exceeded_axes(
    goals: Sequence[GoalState], tokens: int, usd: float | None, now: datetime, own_others: Mapping[str, float] | None = None
) -> list[BudgetAxis]:
    """Like `find_exceeded_axis`, but all of them."""
    own, *parents = goals
    if own_others:
        below = own.below.others
        others = {name: max(own.spent.others.get(name, 0), used + below.get(name, 0)) for name, used in own_others.items()}
        own = replace(own, spent=replace(own.spent, others=own.spent.others | others))
    return [use.axis for uses in _uses_with_turn([own, *parents], tokens, usd or 0.0, now) for use in uses if is_exhausted(use)]


def _uses_with_turn(goals: Sequence[GoalState], tokens: int, usd: float, now: datetime) -> list[list[BudgetUse]]:
    """For a goal and each of its parents: the use of each budget that grows within a turn, including the open turn."""
    own, *parents = goals
    unreported = unreported_usage(own, tokens=tokens, usd=usd)
    own_usage = replace(current_usage(own, now), tokens=own.spent.tokens + tokens, usd=own.spent.usd + usd)
    rows = [row for row in list_axes("goal") if row.grows_in_turn]
    return [
        list_uses(rows, own_usage, own.limits),
        *(list_uses(rows, add_usage(current_usage(goal, now), unreported), goal.limits) for goal in parents),
    ]


def remaining_budget(goals: Sequence[GoalState], now: datetime) -> RemainingBudget:
    """What a turn may still spend. `goals` is a goal followed by its parents. Amounts reserved by sibling goals are not available."""
    own, *parents = goals
    uses = [use for uses in _uses_with_turn([own, *count_reservations(parents, own.id)], 0, 0.0, now) for use in uses]
    tokens, usd, seconds = (remaining_amount(use for use in uses if use.axis == axis) for axis in ("tokens", "usd", "wall_time"))
    return RemainingBudget(tokens=None if tokens is None else int(tokens), usd=usd, seconds=None if seconds is None else max(1.0, seconds))


# --- shared budgets: what the next call may cost is reserved, so that goals that share a budget cannot all spend the rest of it
#
# Before a turn, and after each use that a turn reports, a goal stores `goal.reserved` on every goal that it is part of. It is stored on
# the condition that the topmost of them has not changed, so of several goals that want the rest one gets it. The others wait, or their
# turn is stopped, until what was reserved is spent or released. See docs/decisions/0018-reservations.md.


FIRST_CALL = Reservation(tokens=32_000, usd=0.25)
"""What is reserved while no goal below the same parent has reported anything."""
MARGIN = 2
"""The next call may cost this many times the largest so far."""
LONGEST_CALL = timedelta(minutes=10)
"""An older reservation does not count: its agent waits for something else, perhaps for us."""
SIBLING_POLL_SECONDS = 0.25


def estimate_call(parents: Sequence[GoalState]) -> Reservation:
    """What the next call may cost, by the largest that the goals below these parents have reported."""
    tokens, usd = max(goal.largest_call.tokens for goal in parents), max(goal.largest_call.usd for goal in parents)
    return Reservation(tokens=MARGIN * tokens or FIRST_CALL.tokens, usd=MARGIN * usd or FIRST_CALL.usd)


def find_blockers(
    parents: Sequence[GoalState], own_id: str, wanted: Reservation, now: datetime, *, ignored: Collection[str] = ()
) -> set[str]:
    """The goals whose reservations leave too little of a shared budget. Without any, a goal may spend what is left."""
    own_ids, blockers = {own_id, *(goal.id for goal in parents), *ignored}, set[str]()
    for goal in parents:
        others = {
            id: one
            for id, one in goal.reserved.items()
            if id not in own_ids and (one.at is None or now - one.at < LONGEST_CALL)  # our parents may wait for us
        }
        used, limits = current_usage(goal, now), goal.limits
        for name in ("turns", "tokens", "usd"):
            limit, reserved = getattr(limits, name), sum(getattr(one, name) for one in others.values())
            if limit is not None and reserved > 0 and getattr(used, name) + reserved + getattr(wanted, name) > limit:
                blockers |= {id for id, one in others.items() if getattr(one, name) > 0}
    return blockers


def count_reservations(parents: Sequence[GoalState], own_id: str) -> list[GoalState]:
    """The parents as if the goals beside this one had spent what they reserved."""
    counted = []
    for goal in parents:
        others = [one for id, one in goal.reserved.items() if id != own_id]
        spent = replace(
            goal.spent, tokens=goal.spent.tokens + sum(one.tokens for one in others), usd=goal.spent.usd + sum(one.usd for one in others)
        )
        counted.append(replace(goal, spent=spent))
    return counted


class SharedBudget:
    """The reservations of one goal."""

    def __init__(self, journal: GoalJournal, coordination: Coordination, run_blocking: RunBlocking) -> None:
        self._journal, self._coordination, self._run_blocking = journal, coordination, run_blocking

    async def reserve_call(self, *, turns: int = 0, keeps: bool = False) -> set[str]:
        """Reserve the next call, and a turn if it begins one; returns the goals to wait for, none if it is reserved.

        If it cannot be reserved, what was reserved before is released, unless the caller `keeps` it for a call that may be under way.
        """
        journal, gone = self._journal, frozenset[str]()
        if not journal.parents:
            return set()
        while True:
            blockers = (await journal.decide(partial(self._decide, turns, keeps, gone), is_current=True)).answer
            await journal.catch_up()  # it was stored on other goals
            found = [id for id in blockers if await self._is_driver_gone(id)]
            if not found:
                return blockers
            gone = gone.union(found)

    async def release(self) -> None:
        """Release what is reserved, because no call follows."""
        reserve = self._journal.event_factory.reserved_by_child
        await self._journal.append([reserve(goal.id) for goal in self._journal.parents if self._journal.state.id in goal.reserved])

    def _decide(self, turns: int, keeps: bool, gone: Collection[str], state: GoalState) -> JournalDecision[set[str]]:
        """Reserve if there is room, and release what goals reserved that nobody drives any more; else release."""
        parents, now, reserve = self._journal.parents, self._journal.current_time(), self._journal.event_factory.reserved_by_child
        guard, held = f"goal:{parents[-1].id}", [goal.reserved.get(state.id) for goal in parents]
        wanted = replace(estimate_call(parents), turns=turns or max(0 if one is None else one.turns for one in held))
        if blockers := find_blockers(parents, state.id, wanted, now, ignored=gone):
            return JournalDecision([reserve(goal.id) for goal in parents if state.id in goal.reserved and not keeps], guard, blockers)
        released = [reserve(goal.id, below=id) for goal in parents for id in goal.reserved if id in gone]
        if not released and all(one is not None and _is_same(one, wanted, now) for one in held):
            return JournalDecision([], guard, blockers)
        reserved = [reserve(goal.id, turns=wanted.turns, tokens=wanted.tokens, usd=wanted.usd) for goal in parents]
        return JournalDecision([*released, *reserved], guard, blockers)

    async def _is_driver_gone(self, goal_id: str) -> bool:
        lease = await self._run_blocking(self._coordination.find_lease, f"goal:{goal_id}")
        return lease is None or is_dead(lease.holder)


def _is_same(held: Reservation, wanted: Reservation, now: datetime) -> bool:
    """Whether a reservation need not be stored again."""
    return replace(held, at=None) == wanted and held.at is not None and now - held.at < LONGEST_CALL / 10
