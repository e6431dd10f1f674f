"""Follow the prompts that people type while Claude Code works, by the `queue-operation` rows of a transcript.

`enqueue` has the text. What `dequeue` takes out becomes a `user` row, and `popAll` gives the text back to the person. What `remove`
takes out goes to the agent between two steps: newer programs write an `attachment/queued_command` row for it, older ones nothing.
So a removed prompt is held until the agent's next message, and reported then unless another row has reported it.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from fleetlore.dialects.fields import as_text, read_time
from fleetlore.dialects.wire import Record

MOST_PROMPTS = 50


class QueuedPrompt(Struct, kw_only=True):
    """A text in the queue. `key` identifies the row that put it there."""

    text: str
    key: str
    at: datetime | None = None


class PromptQueue(Struct, kw_only=True):
    """The texts that wait, and those that have left the queue for the agent."""

    waiting: list[QueuedPrompt] = field(default_factory=list)
    delivered: list[QueuedPrompt] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Texts that were reported as prompts without a row of their own."""

    def note(self, row: Record, *, key: str) -> None:
        """Take in one row."""
        operation, text, at = as_text(row.get("operation")), as_text(row.get("content")), read_time(row.get("timestamp"))
        if operation == "enqueue" and text is not None:
            self.waiting = [*self.waiting[1 - MOST_PROMPTS :], QueuedPrompt(text=text, key=key, at=at)]
        elif operation == "popAll":
            self.waiting.clear()
        elif operation in ("remove", "dequeue") and self.waiting:
            named = [place for place, prompt in enumerate(self.waiting) if prompt.text == text]
            prompt = self.waiting.pop(named[0] if named else 0)
            if operation == "remove":
                prompt.at = at or prompt.at
                self.delivered = [*self.delivered[1 - MOST_PROMPTS :], prompt]

    def drop(self, text: str) -> None:
        """Another row reports this text."""
        self.delivered = [prompt for prompt in self.delivered if prompt.text.strip() != text.strip()]

    def take_delivered(self) -> list[QueuedPrompt]:
        """The texts that reached the agent and that no other row has reported."""
        prompts, self.delivered = self.delivered, []
        self.told = [*self.told, *(prompt.text.strip() for prompt in prompts)][-MOST_PROMPTS:]
        return prompts

    def was_told(self, text: str) -> bool:
        """Whether a text was reported before its own row came; asked once for each such row."""
        is_known = text.strip() in self.told
        if is_known:
            self.told.remove(text.strip())
        return is_known
