"""Taking in an answer piece by piece, from endpoints of which nothing is certain."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field

from fleetlore.errors import MindNonsense
from fleetlore.models.base import FinishReason, TokenUsage
from fleetlore.models.text_stream import TextStream

MAX_ANSWER_CHARS = 1 << 18
"""An answer that is longer is no answer; what it wants to call counts."""
MAX_TOOL_CALLS = 32
"""An answer that wants to call more at once wants nothing sensible."""


class PartialToolCall(Struct):
    """What has come of one call so far."""

    place: int
    """Where in the answer it stands."""
    id: str | None = None
    name: str | None = None
    parts: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """All of them, as they were written."""
        return "".join(self.parts)


class StreamAccumulator(Struct):
    """What has come of one answer so far."""

    parts: list[str] = field(default_factory=list)
    half: str = ""
    """The first half of a character whose second has not come."""
    size: int = 0
    """Characters."""
    usage: TokenUsage | None = None
    usd: float | None = None
    model: str | None = None
    finish: FinishReason | None = None
    """`None`: the answer did not end."""
    message_id: str | None = None
    request_id: str | None = None
    wants_calls: bool = False
    """Whether there are tools: else what looks like a call is none."""
    calls: list[PartialToolCall] = field(default_factory=list)
    speech: TextStream | None = None
    """Whoever hears it while it comes."""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)

    @property
    def written_text(self) -> str:
        """All that the model wrote, what it wants to call included."""
        return self.text + "".join(f"{call.name}{call.arguments}" for call in self.calls)

    def add_text(self, text: object) -> bool:
        """Take in more; whether it was anything."""
        if not isinstance(text, str) or not text:
            return False
        text = text if text.isascii() and not self.half else self._join_surrogates(text)
        self.parts.append(text)
        self._count_chars(len(text))
        if self.speech:
            self.speech.feed(text)
        return True

    def _join_surrogates(self, text: str) -> str:
        """Without halves of characters, which no file can hold; one that ends a piece waits for the next."""
        text, self.half = self.half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def add_call_piece(self, place: object, *, id: object = None, name: object = None, arguments: object = None) -> bool:
        """Take in a piece of a call; whether it was anything. Another id is another call, wherever it says that it stands."""
        if not self.wants_calls:
            return False
        known, title = parse_short_text(id), parse_short_text(name)
        begun = self._find_or_start_call(place if isinstance(place, int) else 0, known)
        begun.id, begun.name = begun.id or known, begun.name or title
        piece = json.dumps(arguments) if isinstance(arguments, dict) else arguments
        if not isinstance(piece, str) or not piece:
            return known is not None or title is not None
        begun.parts.append(piece)
        self._count_chars(len(piece))
        return True

    def _find_or_start_call(self, place: int, id: str | None) -> PartialToolCall:
        for one in reversed(self.calls):
            if one.place == place and (id is None or one.id is None or one.id == id):
                return one
        if len(self.calls) >= MAX_TOOL_CALLS:
            raise MindNonsense(f"it calls more than {MAX_TOOL_CALLS} tools at once", text=self.text[:400])
        self.calls.append(PartialToolCall(place=place, id=id))
        return self.calls[-1]

    def _count_chars(self, length: int) -> None:
        self.size += length
        if self.size > MAX_ANSWER_CHARS:
            raise MindNonsense(f"it is longer than {MAX_ANSWER_CHARS} characters; set max_tokens lower", text=self.text[:400])


def get_nested(value: Any, *steps: str | int) -> Any:
    """What lies so deep in an answer, of which nothing is certain; `None` if it is not there."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = getattr(value, step, None)
    return value


def parse_count(value: Any) -> int:
    """A number of tokens, or nought if it cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def parse_short_text(value: Any) -> str | None:
    """A name or an id of reasonable length."""
    return value if isinstance(value, str) and 0 < len(value) <= 200 else None
