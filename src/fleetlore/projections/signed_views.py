"""The states of goals and of the town. On a sealed log, one that requires signatures, unsigned events change nothing that matters.

A goal with a signed event ignores unsigned ones. A goal without any (started before the log was sealed, or by another driver) is shown
as reported and is not in `signed`. In a town anybody may create tasks, send and acknowledge messages, and take notes; everything else
needs the operator key, so an agent with a shell can neither approve its own work nor end somebody else's.

With the operator key, signatures are verified; without it, only the key's name is checked.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import field

from fleetlore.events.envelope import Event
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.views import goals, town
from fleetlore.views.goals import GoalsState
from fleetlore.views.town_state import TownState

SignatureCheck: TypeAlias = Literal["none", "named", "checked"]
"""What events need: nothing, a signature that names the key, or a verified signature."""

_MAX_SIGNED_GOALS = 4 * goals.GOALS_KEPT
"""Bounds the memory. What is forgotten first are goals that the view has dropped, so no unsigned event changes a goal that is shown."""


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
        """Whether an event is signed. Without the operator key only the name of the key is compared, and the signature is not verified."""
        if self._operator is not None:
            return self._operator.has_signed(event)
        return event.mac is not None and event.mac.key == self._key

    def initial(self) -> SignedGoals:
        """The state before the first event."""
        return SignedGoals()

    def apply(self, state: SignedGoals, event: Event) -> SignedGoals:
        """Return the state after one more event; modifies the given one."""
        needs_signature = self._key is not None and event.goal is not None and goals.is_goal_kind(event.kind)
        if event.goal is None or not needs_signature:
            goals.apply(state, event)
        elif self.is_signed(event):
            _note_signed_goal(state, event.goal)
            goals.apply(state, event)
        elif event.goal not in state.signed:
            goals.apply(state, event)
        elif event.kind == "control.requested" and (goal := state.goals.get(event.goal)) is not None:
            goal.unsigned += 1  # people are told that their request was ignored
        return state


def _note_signed_goal(state: SignedGoals, id: str) -> None:
    if id in state.signed:
        return
    state.goals.pop(id, None)  # unsigned reports from before do not count
    if len(state.signed) >= _MAX_SIGNED_GOALS:
        state.signed &= state.goals.keys()
    state.signed.add(id)


# --- the town


UNSIGNED_KINDS = frozenset(("work.message_sent", "work.message_acked", "town.mission_event"))
"""Kinds that never need a signature."""


class SignedTownFold:
    """The fold for a log with this seal, or with none.

    With the operator key, signatures are verified; without it, only the key's name is checked.
    """

    VERSION = town.VERSION

    def __init__(self, seal: Seal | None = None, operator: OperatorKey | None = None) -> None:
        self._key, self._operator = None if seal is None else seal.key, operator

    @property
    def name(self) -> str:
        """Name of the view; it depends on how signatures are checked."""
        if self._key is None:
            return "town"
        return f"town-{self._key}-{'named' if self._operator is None else 'checked'}"

    def initial(self) -> TownState:
        """An empty town."""
        return town.initial()

    def apply(self, state: TownState, event: Event) -> TownState:
        """Return the town after one more event; modifies the given one."""
        return town.apply(state, event) if self.is_trusted(event) else town.reject_event(state, event)

    def is_trusted(self, event: Event) -> bool:
        """Whether an event counts."""
        if self._key is None or event.kind not in town.EVENT_HANDLERS or event.kind in UNSIGNED_KINDS:
            return True
        if event.kind == "work.task_created" and "item" not in event.data and "/" not in (event.task or ""):
            return True  # names with a slash belong to the tasks of mission items, and nobody else may create those
        if self._operator is not None:
            return self._operator.has_signed(event)
        return event.mac is not None and event.mac.key == self._key
