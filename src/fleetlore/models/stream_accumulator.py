"""Collects a streamed answer piece by piece, from endpoints that may send anything.

`openai.py` and `anthropic.py` feed it; `parse_reply.py` turns it into a reply.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, field

from fleetlore.errors import UnusableAnswer
from fleetlore.models.base import FinishReason, TokenUsage
from fleetlore.models.text_stream import TextStream

MAX_ANSWER_CHARS = 1 << 18
"""A longer answer is an error; tool calls count, too."""
MAX_TOOL_CALLS = 32
"""More tool calls in one answer are an error."""


class PartialToolCall(Struct):
    """A tool call received so far."""

    index: int
    """Its position in the answer."""
    id: str | None = None
    name: str | None = None
    parts: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments as JSON text."""
        return "".join(self.parts)


class StreamAccumulator(Struct):
    """An answer received so far."""

    parts: list[str] = field(default_factory=list)
    pending_surrogate: str = ""
    """A high surrogate at the end of a piece, whose second half has not arrived."""
    size: int = 0
    """Characters received."""
    usage: TokenUsage | None = None
    usd: float | None = None
    model: str | None = None
    finish: FinishReason | None = None
    """`None`: the answer has not ended."""
    message_id: str | None = None
    request_id: str | None = None
    wants_calls: bool = False
    """Whether the request has tools; else what looks like a call is ignored."""
    calls: list[PartialToolCall] = field(default_factory=list)
    text_stream: TextStream | None = None
    """Passes the text on while it arrives."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.parts)

    @property
    def written_text(self) -> str:
        """Everything the model wrote, including tool calls."""
        return self.text + "".join(f"{call.name}{call.arguments}" for call in self.calls)

    def add_text(self, text: object) -> bool:
        """Add a piece of text. Returns whether there was any."""
        if not isinstance(text, str) or not text:
            return False
        text = text if text.isascii() and not self.pending_surrogate else self._join_surrogates(text)
        self.parts.append(text)
        self._count_chars(len(text))
        if self.text_stream:
            self.text_stream.feed(text)
        return True

    def _join_surrogates(self, text: str) -> str:
        """Joins surrogate pairs across pieces and replaces lone surrogates."""
        text, self.pending_surrogate = self.pending_surrogate + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.pending_surrogate = text[:-1], text[-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def add_call_piece(self, index: object, *, id: object = None, name: object = None, arguments: object = None) -> bool:
        """Add a piece of a tool call. Returns whether there was any. A different id starts a new call, whatever its index."""
        if not self.wants_calls:
            return False
        call_id, call_name = parse_short_text(id), parse_short_text(name)
        call = self._find_or_start_call(index if isinstance(index, int) else 0, call_id)
        call.id, call.name = call.id or call_id, call.name or call_name
        piece = json.dumps(arguments) if isinstance(arguments, dict) else arguments
        if not isinstance(piece, str) or not piece:
            return call_id is not None or call_name is not None
        call.parts.append(piece)
        self._count_chars(len(piece))
        return True

    def _find_or_start_call(self, index: int, id: str | None) -> PartialToolCall:
        for call in reversed(self.calls):
            if call.index == index and (id is None or call.id is None or call.id == id):
                return call
        if len(self.calls) >= MAX_TOOL_CALLS:
            raise UnusableAnswer(f"it calls more than {MAX_TOOL_CALLS} tools at once", text=self.text[:400])
        self.calls.append(PartialToolCall(index=index, id=id))
        return self.calls[-1]

    def _count_chars(self, length: int) -> None:
        self.size += length
        if self.size > MAX_ANSWER_CHARS:
            raise UnusableAnswer(f"it is longer than {MAX_ANSWER_CHARS} characters; set max_tokens lower", text=self.text[:400])


def get_nested(value: Any, *path: str | int) -> Any:
    """A nested value of a response that may have any shape; `None` if it is missing."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = getattr(value, key, None)
    return value


def parse_count(value: Any) -> int:
    """A number of tokens, or 0 if it is not a plausible one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def parse_short_text(value: Any) -> str | None:
    """A name or id of reasonable length, or `None`."""
    return value if isinstance(value, str) and 0 < len(value) <= 200 else None
