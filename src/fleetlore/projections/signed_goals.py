"""The fold of goals as far as they are to be believed: on a sealed log, what is told of a signed goal counts only if it is signed, too.

A goal that nothing signed tells of (begun before the log was sealed, or by somebody else's driver) is shown as what was said of it, and is
not among the signed ones. With the operator key signatures are checked; without it one can only see that there is one by that key.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import field

from fleetlore.events.envelope import Event
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.views import goals
from fleetlore.views.goals import GoalsState

SignatureCheck: TypeAlias = Literal["none", "named", "checked"]
"""What is asked of facts: nothing, that they name the key, or that the key has signed them."""

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
        """What is asked of facts here."""
        if self._key is None:
            return "none"
        return "named" if self._operator is None else "checked"

    @property
    def name(self) -> str:
        """That of the view: what is asked of facts makes another one of it."""
        return "goals" if self._key is None else f"goals-{self._key}-{self.signatures}"

    def is_signed(self, event: Event) -> bool:
        """Whether a fact is signed, as far as can be told here."""
        if self._operator is not None:
            return self._operator.has_signed(event)
        return event.mac is not None and event.mac.key == self._key

    def initial(self) -> SignedGoals:
        """The state before the first event."""
        return SignedGoals()

    def apply(self, state: SignedGoals, event: Event) -> SignedGoals:
        """The state after one more event; consumes the one that it is given."""
        if self._key is None or event.goal is None or event.kind not in goals.EVENT_HANDLERS or self._is_trusted(state, event, event.goal):
            goals.apply(state, event)
        return state

    def _is_trusted(self, state: SignedGoals, event: Event, id: str) -> bool:
        is_signed = self.is_signed(event)
        if is_signed and id not in state.signed:
            state.goals.pop(id, None)  # what was said of it before counts for nothing
            if len(state.signed) >= _MAX_SIGNED_GOALS:
                state.signed &= state.goals.keys()
            state.signed.add(id)
        elif not is_signed and id in state.signed:
            goal = state.goals.get(id)
            if goal is not None and event.kind == "control.requested":
                goal.unsigned += 1
            return False
        return True
