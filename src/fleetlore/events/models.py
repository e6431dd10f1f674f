"""`model.*`, `context.*`: model calls, replies and costs."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from fleetlore.events.payload import Beat, Payload


class Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One block of a prompt: its size, and how much was left out."""

    name: str
    tokens: int | None = None
    events: int | None = None
    left_out: int | None = None


class ModelCalled(Payload, frozen=True, kw_only=True):
    """A model was called."""

    kind: ClassVar[str] = "model.called"
    beat: ClassVar[Beat] = "pulse"
    model: str | None = None
    provider: str | None = None
    purpose: str | None = None
    call_id: str | None = None
    attempt: int | None = None
    prompt_tokens: int | None = None
    """Estimate made before the call."""
    prompt_chars: int | None = None
    prompt_sha256: str | None = None
    prompt: str | None = None
    """The full text, only if configured to be stored."""
    system: str | None = None


class ModelReplied(Payload, frozen=True, kw_only=True):
    """A model replied."""

    kind: ClassVar[str] = "model.replied"
    beat: ClassVar[Beat] = "pulse"
    model: str | None = None
    provider: str | None = None
    input: int | None = None
    """Input tokens, without those from the cache."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    """Part of `cache_write` that is kept for an hour, which costs more."""
    usd: float | None = None
    latency_ms: float | None = None
    attempts: int | None = None
    estimated: bool | None = None
    """True if the endpoint reported no usage and the tokens are estimated."""
    message_id: str | None = None
    request_id: str | None = None
    call_id: str | None = None
    stop_reason: str | None = None
    said: str | None = None
    """The full text; `text` has only its first line."""
    row: str | None = None
    """The program's own id of the record that holds the text."""
    partial: bool | None = None
    """True if the source ended before the reply did; a complete one with the same ids replaces it."""
    whole: str | None = None
    """For a partial reply: the id of the complete one."""
    speed: str | None = None
    """`fast` if a higher price was paid for a faster reply."""
    source: str | None = None
    """What made the call, if known: a product, a feature, a tier."""
    limits: list[dict[str, Any]] | None = None
    """Limits of the plan: `window_minutes`, `used_percent`, perhaps `resets_at`."""


class ModelFailed(Payload, frozen=True, kw_only=True):
    """A model call failed."""

    kind: ClassVar[str] = "model.failed"
    beat: ClassVar[Beat] = "setback"
    model: str | None = None
    provider: str | None = None
    error: str | None = None
    status: int | None = None
    retry_after_ms: float | None = None
    attempt: int | None = None
    call_id: str | None = None
    latency_ms: float | None = None


class ContextBuilt(Payload, frozen=True, kw_only=True):
    """The prompt for an agent's turn was built."""

    kind: ClassVar[str] = "context.built"
    beat: ClassVar[Beat] = "pulse"
    role: str | None = None
    blocks: tuple[Block, ...] = ()
    tokens: int | None = None
    budget: int | None = None
    tokenizer: str | None = None
    events: tuple[str, ...] = ()
    """Ids of the events in the prompt."""
    as_of: str | None = None
    """The position up to which the log was read."""
