"""The seam: whatever answers a prompt, and what it is asked and answers."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

Schema: TypeAlias = dict[str, Any]
"""A JSON schema of the object that is wanted."""

Finish: TypeAlias = Literal["stop", "length", "filtered", "other"]
"""Why an answer ended: it was complete, it reached `max_tokens`, the endpoint withheld it, or it does not say."""

TIMEOUT = 120.0
"""Seconds for one answer, every attempt included, where nothing is said."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one answer. `input` does not count those of the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False
    """Whether the endpoint said nothing, and these were reckoned from the text."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.input + self.output + self.cache_read + self.cache_write


class Ask(Struct, frozen=True, kw_only=True):
    """One prompt, and how it is to be answered."""

    prompt: str
    system: str | None = None
    schema: Schema | None = None
    """The object that is wanted; `None` for prose."""
    max_tokens: int = 1024
    temperature: float | None = None
    timeout: float | None = None
    """Seconds, every attempt included; `None` for the mind's own."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    role: str | None = None
    """Who asks: `judge`, or an agent's name. Scripts choose by it; it is never sent."""


class Reply(Struct, frozen=True, kw_only=True):
    """What a mind answered, and what that took."""

    text: str
    data: dict[str, Any] | None = None
    """The object that was wanted; it fits the schema."""
    usage: Usage = Usage()
    usd: float | None = None
    """What the endpoint says that it cost; else what the table of prices says, once it is recorded."""
    model: str = ""
    """As the endpoint names it."""
    latency_ms: int = 0
    """From the question to the last word, every attempt included."""
    finish: Finish = "stop"
    attempts: int = 1
    message_id: str | None = None
    request_id: str | None = None
    event: str | None = None
    """The id of the `model.replied` that tells of it, once it is recorded."""


class Mind(Protocol):
    """Anything that answers a prompt. Many may ask at once."""

    @property
    def name(self) -> str:
        """Its provider and model, as in `openai:gpt-5-mini`."""

    async def reply(self, ask: Ask) -> Reply:
        """The answer; a `MindError` if there is none that can be used. May be cancelled at any moment."""


def estimate_tokens(text: str) -> int:
    """How many tokens a text may be, where nobody says: a quarter of its bytes, rounded up."""
    return (len(text.encode(errors="surrogatepass")) + 3) // 4


def estimated_usage(ask: Ask, text: str) -> Usage:
    """What an answer may have taken, where the endpoint does not say."""
    return Usage(input=estimate_tokens((ask.system or "") + ask.prompt), output=estimate_tokens(text), estimated=True)
