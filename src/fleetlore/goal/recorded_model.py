"""A model whose calls are recorded in the goal's log and count against its budget.

The driver uses it for judges and memory; the agent's own model calls are recorded by `model_harness.py`.
"""

from __future__ import annotations

from fleetlore.errors import ModelRefused
from fleetlore.goal.journal import GoalJournal
from fleetlore.goal.turn import count_reservations, list_exceeded_axes
from fleetlore.kernel.recorded_model import ask_and_record
from fleetlore.models.base import Model, ModelReply, ModelRequest, estimate_tokens


class RecordedModel:
    """Wraps a model, and records every call in the goal's journal."""

    def __init__(self, journal: GoalJournal, model: Model, *, purpose: str) -> None:
        self._journal, self._model, self._purpose = journal, model, purpose

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self._model.name

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Ask the wrapped model. Raises `ModelRefused` if the call would exceed the budget of the goal or of a parent goal."""
        event_factory = self._journal.event_factory
        if axis := self._find_exceeded_axis(request):
            raise ModelRefused(f"the goal's budget of {axis} is spent, so nothing was asked; `lore goal raise` gives it more")
        return await ask_and_record(
            self._journal,
            self._model,
            request,
            agent=event_factory.agent,
            scopes={"goal": event_factory.goal, **event_factory.scopes},
            purpose=self._purpose,
            new_id=self._journal.new_id,
        )

    def _find_exceeded_axis(self, request: ModelRequest) -> str | None:
        journal = self._journal
        attempt = journal.state.attempt
        tokens, usd = (0, 0.0) if attempt is None else (attempt.tokens, attempt.usd)
        expected = estimate_tokens(f"{request.system or ''}{request.prompt}")
        goals = [journal.state, *count_reservations(journal.parents, journal.state.id)]
        axes = list_exceeded_axes(goals, tokens + expected, usd, journal.current_time())
        return next((axis for axis in axes if axis in ("tokens", "usd")), None)
