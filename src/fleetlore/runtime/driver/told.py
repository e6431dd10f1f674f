"""A mind whose questions and answers are facts of a goal: they are on its log, and count against its budgets."""

from __future__ import annotations

from fleetlore.minds.base import Ask, Mind, Reply
from fleetlore.runtime.driver.book import Book
from fleetlore.runtime.recording import asked


class ToldMind:
    """Another mind, told of."""

    def __init__(self, book: Book, mind: Mind, *, purpose: str) -> None:
        self._book, self._mind, self._purpose = book, mind, purpose

    @property
    def name(self) -> str:
        """The other's."""
        return self._mind.name

    async def reply(self, ask: Ask) -> Reply:
        """The other's answer."""
        teller = self._book.teller
        return await asked(
            self._book,
            self._mind,
            ask,
            agent=teller.agent,
            scopes={"goal": teller.goal, **teller.scopes},
            purpose=self._purpose,
            new_id=self._book.new_id,
        )
