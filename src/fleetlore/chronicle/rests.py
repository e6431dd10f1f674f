"""Which rests a story tells: that a person is waited for, and what a person is answered."""

from __future__ import annotations

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see

WAITS = frozenset(("session.waiting", "goal.permission_asked", "goal.waiting"))
"""Somebody is waited for."""
TURN, ANSWER = "session.turn_ended", "model.replied"
HEARD = WAITS | {TURN, ANSWER}
"""Kinds of which some are told; of most others it is known at once that none is."""


class Ear:
    """Hears what is worth telling; an answer once, though the model's and the end of the turn both say it."""

    __slots__ = ("_answered",)

    def __init__(self) -> None:
        self._answered: str | None = None

    def hears(self, event: Event) -> bool:
        """Whether a story tells this rest."""
        kind = event.kind
        if kind in WAITS:
            return True
        if kind not in HEARD or not is_answer(event) or (kind == TURN and event.text == self._answered):
            return False
        self._answered = event.text
        return True


def is_answer(event: Event) -> bool:
    """Whether it ends a turn with words for the person who asked; those of a helper or of a goal's agent are told by who hears them."""
    if not event.text or not can_see(event, READER) or event.parent is not None or event.goal is not None:
        return False
    data = event.data
    return event.kind == TURN or (data.get("stop_reason") == "end_turn" and "said" in data and data.get("partial") is not True)
