"""As much of what was said as a prompt has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetlore.models.base import Message
from fleetlore.prompts.tokens import estimate

if TYPE_CHECKING:
    from fleetlore.views.conversation_state import Conversation, Entry

NO_ANSWER = "(That turn failed before an answer was given.)"
LONGEST_ENTRY = 8000
"""Characters of one thing said that go into a prompt."""


def fitting(history: Sequence[Entry], tokens: int) -> list[Entry]:
    """The newest that fit into so many tokens; they begin with something that the user said, or there are none."""
    left, first = tokens, len(history)
    for index in range(len(history) - 1, -1, -1):
        left -= estimate(history[index].text[:LONGEST_ENTRY])
        if left < 0:
            break
        if history[index].role == "user":
            first = index
    return list(history[first:])


def messages(session: Conversation, tokens: int) -> tuple[Message, ...]:
    """What was said before this turn, for a mind that is asked about it now."""
    earlier = [entry for entry in session.history if entry.turn < session.turn or session.open is None]
    return tuple(_message(entry) for entry in fitting(earlier, tokens))


def _message(entry: Entry) -> Message:
    if entry.role == "error":
        return Message(role="assistant", text=NO_ANSWER)
    return Message(role=entry.role, text=entry.text[:LONGEST_ENTRY])
