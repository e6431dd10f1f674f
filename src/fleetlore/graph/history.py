"""Selects as much of a conversation's history as a prompt has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetlore.models.base import ChatMessage
from fleetlore.prompts.build import estimate_tokens

if TYPE_CHECKING:
    from fleetlore.views.conversation_state import Conversation, Entry

NO_ANSWER = "(That turn failed before an answer was given.)"
MAX_ENTRY_LENGTH = 8000
"""Characters of one entry that go into a prompt."""


def select_recent_entries(history: Sequence[Entry], tokens: int) -> list[Entry]:
    """The newest entries that fit into `tokens`; they start with a user message, or there are none."""
    remaining, first = tokens, len(history)
    for index in range(len(history) - 1, -1, -1):
        remaining -= estimate_tokens(history[index].text[:MAX_ENTRY_LENGTH])
        if remaining < 0:
            break
        if history[index].role == "user":
            first = index
    return list(history[first:])


def build_history_messages(session: Conversation, tokens: int) -> tuple[ChatMessage, ...]:
    """The conversation before the current turn, as chat messages."""
    earlier = [entry for entry in session.history if entry.turn < session.turn or session.open is None]
    return tuple(_build_message(entry) for entry in select_recent_entries(earlier, tokens))


def _build_message(entry: Entry) -> ChatMessage:
    if entry.role == "error":
        return ChatMessage(role="assistant", text=NO_ANSWER)
    return ChatMessage(role=entry.role, text=entry.text[:MAX_ENTRY_LENGTH])
