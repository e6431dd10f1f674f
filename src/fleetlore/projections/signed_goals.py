"""The goals fold on a sealed log: once a goal has a signed event, only signed events count for it.

A goal without any signed event (started before the log was sealed, or by another driver) is shown as reported and is
not in `signed`. With the operator key, signatures are verified; without it, only the key's name is checked.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import field

from fleetlore.events.envelope import Event
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.views import goals
from fleetlore.views.goals import GoalsState

SignatureCheck: TypeAlias = Literal["none", "named", "checked"]
"""What events need: nothing, a signature that names the key, or a verified signature."""

_MAX_SIGNED_GOALS = 4 * goals.GOALS_KEPT


class SignedGoals(GoalsState, kw_only=True):
    """All goals, and which of them are signed."""

    signed: set[str] = field(default_factory=set)


class SignedGoalsFold:
    """The fold for a log with this seal, or with none."""

    VERSION = goals.VERSION

    def __init__(self, seal: Seal | None = None, operator: OperatorKey | None = None) -> None:
        self._key, self._operator = None if seal is None else seal.key, operator

    @property
    def signatures(self) -> SignatureCheck:
        """What events need on this log."""
        if self._key is None:
            return "none"
        return "named" if self._operator is None else "checked"

    @property
    def name(self) -> str:
        """Name of the view; it depends on how signatures are checked."""
        return "goals" if self._key is None else f"goals-{self._key}-{self.signatures}"

    def is_signed(self, event: Event) -> bool:
        """Whether an event is signed, as far as this fold can check."""
        if self._operator is not None:
            return self._operator.has_signed(event)
        return event.mac is not None and event.mac.key == self._key

    def initial(self) -> SignedGoals:
        """The state before the first event."""
        return SignedGoals()

    def apply(self, state: SignedGoals, event: Event) -> SignedGoals:
        """Return the state after one more event; modifies the given one."""
        if self._key is None or event.goal is None or not goals.is_goal_kind(event.kind) or self._is_trusted(state, event, event.goal):
            goals.apply(state, event)
        return state

    def _is_trusted(self, state: SignedGoals, event: Event, id: str) -> bool:
        is_signed = self.is_signed(event)
        if is_signed and id not in state.signed:
            state.goals.pop(id, None)  # unsigned reports from before do not count
            if len(state.signed) >= _MAX_SIGNED_GOALS:
                state.signed &= state.goals.keys()
            state.signed.add(id)
        elif not is_signed and id in state.signed:
            goal = state.goals.get(id)
            if goal is not None and event.kind == "control.requested":
                goal.unsigned += 1
            return False
        return True
