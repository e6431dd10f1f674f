"""A mind whose questions and answers are facts of a goal: they are on its log, and count against its budgets."""

from __future__ import annotations

from fleetlore.errors import MindRefused
from fleetlore.goal.journal import Book
from fleetlore.goal.turn import axis_over
from fleetlore.kernel.recorded_model import asked
from fleetlore.models.base import Ask, Mind, Reply, estimate_tokens


class ToldMind:
    """Another mind, told of."""

    def __init__(self, book: Book, mind: Mind, *, purpose: str) -> None:
        self._book, self._mind, self._purpose = book, mind, purpose

    @property
    def name(self) -> str:
        """The other's."""
        return self._mind.name

    async def reply(self, ask: Ask) -> Reply:
        """The other's answer; `MindRefused` if the question would pass what the goal, or one above it, may spend."""
        teller = self._book.teller
        if axis := self._spent(ask):
            raise MindRefused(f"the goal's budget of {axis} is spent, so nothing was asked; `lore goal raise` gives it more")
        return await asked(
            self._book,
            self._mind,
            ask,
            agent=teller.agent,
            scopes={"goal": teller.goal, **teller.scopes},
            purpose=self._purpose,
            new_id=self._book.new_id,
        )

    def _spent(self, ask: Ask) -> str | None:
        book = self._book
        attempt = book.state.attempt
        tokens, usd = (0, 0.0) if attempt is None else (attempt.tokens, attempt.usd)
        expected = estimate_tokens(f"{ask.system or ''}{ask.prompt}")
        axis = axis_over([book.state, *book.above], tokens + expected, usd, book.moment())
        return axis if axis in ("tokens", "usd") else None
