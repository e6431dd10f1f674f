"""A mind whose questions and answers are facts of a goal: they are on its log, and count against its budgets."""

from __future__ import annotations

from fleetlore.errors import MindRefused
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.turn import find_exceeded_axis
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.models.base import Model, ModelReply, ModelRequest, estimate_tokens


class RecordedModel:
    """Another mind, told of."""

    def __init__(self, book: GoalJournal, mind: Model, *, purpose: str) -> None:
        self._journal, self._model, self._purpose = book, mind, purpose

    @property
    def name(self) -> str:
        """The other's."""
        return self._model.name

    async def reply(self, ask: ModelRequest) -> ModelReply:
        """The other's answer; `MindRefused` if the question would pass what the goal, or one above it, may spend."""
        teller = self._journal.event_factory
        if axis := self._find_exceeded_axis(ask):
            raise MindRefused(f"the goal's budget of {axis} is spent, so nothing was asked; `lore goal raise` gives it more")
        return await ask_and_record(
            self._journal,
            self._model,
            ask,
            agent=teller.agent,
            scopes={"goal": teller.goal, **teller.scopes},
            purpose=self._purpose,
            new_id=self._journal.new_id,
        )

    def _find_exceeded_axis(self, ask: ModelRequest) -> str | None:
        book = self._journal
        attempt = book.state.attempt
        tokens, usd = (0, 0.0) if attempt is None else (attempt.tokens, attempt.usd)
        expected = estimate_tokens(f"{ask.system or ''}{ask.prompt}")
        axis = find_exceeded_axis([book.state, *book.parents], tokens + expected, usd, book.current_time())
        return axis if axis in ("tokens", "usd") else None
