"""`model.*`, `context.*`: what was asked of a model, what it answered, and what that cost."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from fleetlore.events.payload import Beat, Payload


class Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One block of a prompt: how large it is, and what of it was left out."""

    name: str
    tokens: int | None = None
    events: int | None = None
    left_out: int | None = None


class ModelCalled(Payload, frozen=True, kw_only=True):
    """A model was asked."""

    kind: ClassVar[str] = "model.called"
    beat: ClassVar[Beat] = "pulse"
    model: str | None = None
    provider: str | None = None
    purpose: str | None = None
    call_id: str | None = None
    attempt: int | None = None
    prompt_tokens: int | None = None
    """The estimate made before the call."""
    prompt_chars: int | None = None
    prompt_sha256: str | None = None
    prompt: str | None = None
    """The words themselves, only where somebody wanted them kept."""
    system: str | None = None


class ModelReplied(Payload, frozen=True, kw_only=True):
    """A model answered."""

    kind: ClassVar[str] = "model.replied"
    beat: ClassVar[Beat] = "pulse"
    model: str | None = None
    provider: str | None = None
    input: int | None = None
    """Tokens read, those from the cache not counted."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    """Of those written to the cache, the ones that are kept for an hour, which cost more."""
    usd: float | None = None
    latency_ms: float | None = None
    attempts: int | None = None
    estimated: bool | None = None
    """Whether the tokens are an estimate, because the endpoint did not say."""
    message_id: str | None = None
    request_id: str | None = None
    call_id: str | None = None
    stop_reason: str | None = None
    said: str | None = None
    """All of its words, where `text` is only the first line."""
    row: str | None = None
    """The program's own id of the record that holds its last words."""
    partial: bool | None = None
    """True where the source ended before the answer did: a whole one with the same message and request takes its place."""
    whole: str | None = None
    """Of a partial one: the id under which the whole one is stored."""
    speed: str | None = None
    """`fast`, where a higher price was paid for an earlier answer."""
    source: str | None = None
    """What asked, where the source says so: a product, a feature, a tier."""


class ModelFailed(Payload, frozen=True, kw_only=True):
    """A model gave no answer."""

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
    """The prompt for an agent's turn was put together."""

    kind: ClassVar[str] = "context.built"
    beat: ClassVar[Beat] = "pulse"
    role: str | None = None
    blocks: tuple[Block, ...] = ()
    tokens: int | None = None
    budget: int | None = None
    tokenizer: str | None = None
    events: tuple[str, ...] = ()
    """Ids of the events that it tells."""
    as_of: str | None = None
    """The position up to which the log was read."""
