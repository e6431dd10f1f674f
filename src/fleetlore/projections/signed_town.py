"""The fold of the town as far as it is to be believed: on a sealed log only what is signed gives work out, ends it, approves it or steers.

Anybody may write a task down, send and acknowledge messages, take notes; the rest is told by dispatchers, workers and people who know the
passphrase. So an agent with a shell can neither approve its own work nor end somebody else's.
"""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.log.seal import OperatorKey, Seal
from fleetlore.views import town
from fleetlore.views.town_state import TownState

UNSIGNED_KINDS = frozenset(("work.message_sent", "work.message_acked", "town.mission_event"))
"""What needs no signature on any log."""


class SignedTownFold:
    """The fold for a log with this seal, or with none. With the operator key signatures are checked; without it they are only seen."""

    VERSION = town.VERSION

    def __init__(self, seal: Seal | None = None, operator: OperatorKey | None = None) -> None:
        self._key, self._operator = None if seal is None else seal.key, operator

    @property
    def name(self) -> str:
        """That of the view: what is asked of facts makes another one of it."""
        if self._key is None:
            return "town"
        return f"town-{self._key}-{'named' if self._operator is None else 'checked'}"

    def initial(self) -> TownState:
        """An empty town."""
        return town.initial()

    def apply(self, state: TownState, event: Event) -> TownState:
        """The town after one more event; consumes the one that it is given."""
        return town.apply(state, event) if self.is_trusted(event) else town.reject_event(state, event)

    def is_trusted(self, event: Event) -> bool:
        """Whether a fact is believed."""
        if self._key is None or event.kind not in town.EVENT_HANDLERS or event.kind in UNSIGNED_KINDS:
            return True
        if event.kind == "work.task_created" and "item" not in event.data and "/" not in (event.task or ""):
            return True  # names with a slash are those of items' tasks: nobody takes them away from a mission
        if self._operator is not None:
            return self._operator.has_signed(event)
        return event.mac is not None and event.mac.key == self._key
