"""Taking in an answer piece by piece, from endpoints of which nothing is certain."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from fleetlore.errors import MindNonsense
from fleetlore.minds.base import Finish, Usage

MOST_CHARS = 1 << 18
"""An answer that is longer is no answer."""


class Heard(Struct):
    """What has come of one answer so far."""

    parts: list[str] = field(default_factory=list)
    size: int = 0
    """Characters."""
    usage: Usage | None = None
    usd: float | None = None
    model: str | None = None
    finish: Finish | None = None
    """`None`: the answer did not end."""
    message_id: str | None = None
    request_id: str | None = None

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)

    def add(self, text: object) -> bool:
        """Take in more; whether it was anything."""
        if not isinstance(text, str) or not text:
            return False
        self.parts.append(text)
        self.size += len(text)
        if self.size > MOST_CHARS:
            raise MindNonsense(f"it is longer than {MOST_CHARS} characters; set max_tokens lower", text=self.text[:400])
        return True


def dig(value: Any, *steps: str | int) -> Any:
    """What lies so deep in an answer, of which nothing is certain; `None` if it is not there."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = getattr(value, step, None)
    return value


def count_of(value: Any) -> int:
    """A number of tokens, or nought if it cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def text_of(value: Any) -> str | None:
    """A name or an id of reasonable length."""
    return value if isinstance(value, str) and 0 < len(value) <= 200 else None
