"""Reserves what the next call of an agent may cost, so that goals that share a budget cannot all spend the rest of it.

Before a turn, and after each use that a turn reports, a goal stores `goal.reserved` on every goal that it is part of. It is stored on
the condition that the topmost of them has not changed, so of several goals that want the rest one gets it. The others wait, or their
turn is stopped, until what was reserved is spent or released. See docs/decisions/0018-reservations.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.resources import RunBlocking
from fleetlore.kernel.journal import JournalDecision
from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Coordination
from fleetlore.views.goal_state import GoalState, Reservation, current_usage

FIRST_CALL = Reservation(tokens=32_000, usd=0.25)
"""What is reserved while no goal below the same parent has reported anything."""
MARGIN = 2
"""The next call may cost this many times the largest so far."""
LONGEST_CALL = timedelta(minutes=10)
"""An older reservation does not count: its agent waits for something else, perhaps for us."""
POLL_SECONDS = 0.25


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
