"""The seam: whatever answers a prompt, and what it is asked and answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, to_builtins

from fleetlore.errors import InvalidMind

JsonSchema: TypeAlias = dict[str, Any]
"""A JSON schema of the object that is wanted."""

FinishReason: TypeAlias = Literal["stop", "length", "filtered", "other"]
"""Why an answer ended: it was complete, it reached `max_tokens`, the endpoint withheld it, or it does not say."""

ChatRole: TypeAlias = Literal["user", "assistant", "tool"]
"""Who said an earlier message: whoever asks, the model, or a tool that it had called."""

DEFAULT_TIMEOUT_SECONDS = 120.0
"""Seconds for one answer, every attempt included, where nothing is said."""


class TokenUsage(Struct, frozen=True, kw_only=True):
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


_TOOL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """What a model may call, besides answering or instead."""

    name: str
    description: str
    schema: JsonSchema
    """Of its arguments, which are an object; calls are checked against it."""

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            raise InvalidMind(f"{self.name[:80]!r} is no name of a tool; up to 64 letters, digits, _ and -, a letter first")


class ModelToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool, as a model wants it."""

    id: str
    """By which its result is given back; no two calls of an answer share one."""
    name: str
    arguments: dict[str, Any]
    """They fit the tool's schema."""


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message of an earlier turn."""

    role: ChatRole
    text: str = ""
    calls: tuple[ModelToolCall, ...] = ()
    """What the model called with it."""
    call: str | None = None
    """Of a tool's: the id of the call whose result this is."""
    failed: bool = False
    """Of a tool's: whether it could not do what was wanted; `text` says why."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One prompt, and how it is to be answered."""

    prompt: str
    """May be empty where `messages` end with what is to be answered: the results of tools."""
    system: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    """What was said before, oldest first."""
    tools: tuple[ToolDefinition, ...] = ()
    """What may be called; not together with a `schema`."""
    schema: JsonSchema | None = None
    """The object that is wanted; `None` for prose."""
    max_tokens: int = 1024
    temperature: float | None = None
    timeout: float | None = None
    """Seconds, every attempt included; `None` for the mind's own."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    role: str | None = None
    """Who asks: `judge`, or an agent's name. Scripts choose by it; it is never sent."""
    hear: Callable[[str], None] | None = None
    """Called with each piece of prose as it comes. Together they are the reply's `text`; never is a word said twice."""

    def __post_init__(self) -> None:
        if self.tools and self.schema is not None:
            raise InvalidMind("a question takes either tools or a schema; make the object that is wanted a tool's arguments")
        if len({tool.name for tool in self.tools}) < len(self.tools):
            raise InvalidMind(f"two tools of one name: {', '.join(tool.name for tool in self.tools)}")

    @property
    def newest_text(self) -> str:
        """What was said last, and is to be answered."""
        return self.prompt or (self.messages[-1].text if self.messages else "")

    @property
    def context_json(self) -> str:
        """What the model reads besides system and prompt: earlier messages and tools, as JSON; nothing if there are none."""
        return "".join(json.dumps(to_builtins(each), ensure_ascii=False) for each in (*self.messages, *self.tools))


class ModelReply(Struct, frozen=True, kw_only=True):
    """What a mind answered, and what that took."""

    text: str
    data: dict[str, Any] | None = None
    """The object that was wanted; it fits the schema."""
    calls: tuple[ModelToolCall, ...] = ()
    """What it wants to call, in its order; `text` may then be empty."""
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    """What the endpoint says that it cost; else what the table of prices says, once it is recorded."""
    model: str = ""
    """As the endpoint names it."""
    latency_ms: int = 0
    """From the question to the last word, every attempt included."""
    finish: FinishReason = "stop"
    attempts: int = 1
    message_id: str | None = None
    request_id: str | None = None
    event: str | None = None
    """The id of the `model.replied` that tells of it, once it is recorded."""


class Model(Protocol):
    """Anything that answers a prompt. Many may ask at once."""

    @property
    def name(self) -> str:
        """Its provider and model, as in `openai:gpt-5-mini`."""

    async def reply(self, ask: ModelRequest) -> ModelReply:
        """The answer; a `MindError` if there is none that can be used. May be cancelled at any moment."""


def estimate_tokens(text: str) -> int:
    """How many tokens a text may be, where nobody says: a quarter of its bytes, rounded up."""
    return (len(text.encode(errors="surrogatepass")) + 3) // 4


def estimate_usage(ask: ModelRequest, text: str) -> TokenUsage:
    """What an answer may have taken, where the endpoint does not say."""
    return TokenUsage(
        input=estimate_tokens((ask.system or "") + ask.context_json + ask.prompt), output=estimate_tokens(text), estimated=True
    )
