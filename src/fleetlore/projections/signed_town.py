"""The town fold on a sealed log: only signed events assign, end, approve or control work.

Anybody may create tasks, send and acknowledge messages, and take notes. Everything else needs the operator key, so an
agent with a shell can neither approve its own work nor end somebody else's.
"""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.views import town
from fleetlore.views.town_state import TownState

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
