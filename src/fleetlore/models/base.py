"""The interface to models: `Model`, what it is asked (`ModelRequest`), and what it answers (`ModelReply`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, to_builtins

from fleetlore.errors import InvalidModelAddress

JsonSchema: TypeAlias = dict[str, Any]
"""The JSON schema of the object that an answer must have."""

FinishReason: TypeAlias = Literal["stop", "length", "filtered", "other"]
"""Why an answer ended: complete, `max_tokens` reached, withheld by the endpoint, or unknown."""

ChatRole: TypeAlias = Literal["user", "assistant", "tool"]
"""Who wrote an earlier message: the user, the model, or a tool that it called."""

DEFAULT_TIMEOUT_SECONDS = 120.0
"""Default time for one answer, including all attempts."""


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens of one answer. `input` does not include cached tokens."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False
    """Whether the endpoint reported nothing, and the numbers are estimates from the text."""

    @property
    def total(self) -> int:
        """Sum of all tokens."""
        return self.input + self.output + self.cache_read + self.cache_write


_TOOL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """A tool that a model may call."""

    name: str
    description: str
    schema: JsonSchema
    """JSON schema of its arguments, which are an object. Calls are validated against it."""

    def __post_init__(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            raise InvalidModelAddress(f"{self.name[:80]!r} is no name of a tool; up to 64 letters, digits, _ and -, a letter first")


class ModelToolCall(Struct, frozen=True, kw_only=True):
    """A tool call that a model asks for."""

    id: str
    """Identifies the call when its result is sent back; unique within an answer."""
    name: str
    arguments: dict[str, Any]
    """Validated against the tool's schema."""


class ChatMessage(Struct, frozen=True, kw_only=True):
    """A message of an earlier turn."""

    role: ChatRole
    text: str = ""
    calls: tuple[ModelToolCall, ...] = ()
    """The tool calls of a model's message."""
    call: str | None = None
    """For a tool's message: the id of the call whose result it is."""
    failed: bool = False
    """For a tool's message: whether the call failed; `text` says why."""


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A prompt, and how it is to be answered."""

    prompt: str
    """May be empty if `messages` end with tool results to be answered."""
    system: str | None = None
    messages: tuple[ChatMessage, ...] = ()
    """Earlier messages, oldest first."""
    tools: tuple[ToolDefinition, ...] = ()
    """Tools that the model may call. Cannot be combined with `schema`."""
    schema: JsonSchema | None = None
    """Schema of the object that the answer must be; `None` for prose."""
    max_tokens: int = 1024
    temperature: float | None = None
    timeout: float | None = None
    """Seconds including all attempts; `None` for the model's default."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    role: str | None = None
    """Who asks: `judge`, or an agent's name. Scripted answers are chosen by it; it is never sent."""
    on_text: Callable[[str], None] | None = None
    """Called with each piece of prose as it arrives. Together they are the reply's `text`; nothing is repeated."""

    def __post_init__(self) -> None:
        if self.tools and self.schema is not None:
            raise InvalidModelAddress("a question takes either tools or a schema; make the object that is wanted a tool's arguments")
        if len({tool.name for tool in self.tools}) < len(self.tools):
            raise InvalidModelAddress(f"two tools of one name: {', '.join(tool.name for tool in self.tools)}")

    @property
    def newest_text(self) -> str:
        """The newest text, which is to be answered."""
        return self.prompt or (self.messages[-1].text if self.messages else "")

    @property
    def context_json(self) -> str:
        """What the model reads besides system and prompt: earlier messages and tools, as JSON; empty if there are none."""
        return "".join(json.dumps(to_builtins(item), ensure_ascii=False) for item in (*self.messages, *self.tools))


class ModelReply(Struct, frozen=True, kw_only=True):
    """A model's answer, and what it cost."""

    text: str
    data: dict[str, Any] | None = None
    """The object that was asked for; valid against the schema."""
    calls: tuple[ModelToolCall, ...] = ()
    """The tool calls that the model asks for, in order; `text` may be empty then."""
    usage: TokenUsage = TokenUsage()
    usd: float | None = None
    """The cost that the endpoint reports; else that from the price table, once the reply is recorded."""
    model: str = ""
    """The model's name as the endpoint reports it."""
    latency_ms: int = 0
    """From the request to the last token, including all attempts."""
    finish: FinishReason = "stop"
    attempts: int = 1
    message_id: str | None = None
    request_id: str | None = None
    event: str | None = None
    """The id of its `model.replied` event, once it is recorded."""


class Model(Protocol):
    """Anything that answers a prompt. Concurrent calls are allowed."""

    @property
    def name(self) -> str:
        """Provider and model, as in `openai:gpt-5-mini`."""

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Answer a request. Raises `ModelError` if there is no usable answer. May be cancelled at any time."""


def estimate_tokens(text: str) -> int:
    """Estimated number of tokens of a text: a quarter of its bytes, rounded up."""
    return (len(text.encode(errors="surrogatepass")) + 3) // 4


def estimate_usage(request: ModelRequest, text: str) -> TokenUsage:
    """Estimated usage of an answer whose endpoint reports none."""
    return TokenUsage(
        input=estimate_tokens((request.system or "") + request.context_json + request.prompt), output=estimate_tokens(text), estimated=True
    )
