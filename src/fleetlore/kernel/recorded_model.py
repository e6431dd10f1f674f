"""Calls models and records each call in the log: `model.called` before, `model.replied` or `model.failed` after. Used by every runtime.

An unusable answer still costs money: its usage is stored in `model.replied`, and the reason in a `model.failed` event after it. A crash in
between leaves a `model.called` without a successor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from fleetlore import clock
from fleetlore.errors import LogError, ModelError
from fleetlore.events.envelope import Event, Visibility
from fleetlore.models import usage as models_usage
from fleetlore.models.base import Model, ModelReply, ModelRequest, estimate_tokens
from fleetlore.views.prices import PICO, Prices, TokenCounts

KeepContent = Literal["sizes", "words"]
"""What is stored of prompts and answers: `sizes` stores sizes and a hash of the prompt, `words` also the full text."""


class EventAppender(Protocol):
    """Anything that stores events durably."""

    async def append(self, events: Sequence[Event]) -> object:
        """Store the events in this order."""


async def ask_and_record(
    log: EventAppender,
    model: Model,
    request: ModelRequest,
    *,
    agent: str,
    scopes: Mapping[str, str] | None = None,
    cause: str | None = None,
    purpose: str | None = None,
    data: Mapping[str, object] | None = None,
    keep: KeepContent = "sizes",
    prices: Prices | None = None,
    now: clock.Clock = clock.now,
    ticks: Callable[[], float] = clock.ticks,
    new_id: Callable[[], str] = clock.uuid7,
) -> ModelReply:
    """Call a model and record the call. `model.called` is durable before the request is sent.

    The returned reply includes its cost and the id of its event. `scopes` are additional envelope fields (`run`, `task`, …); `data` is
    added to each event (`turn`, …). Errors are recorded before they are raised; a `ModelError` gets the id of its event.
    """
    recorder = _CallRecorder(log, model.name, {"agent": agent, **(scopes or {})}, data or {}, purpose, keep, new_id)
    prices, start = prices or _default_prices(), ticks()
    try:
        await recorder.record_call(request, cause)
        reply = price_reply(await model.reply(request), prices, now)
        return replace(reply, event=await recorder.record_reply(reply))
    except ModelError as error:
        if isinstance(error.reply, ModelReply):
            error.reply = price_reply(error.reply, prices, now)
        error.event = await recorder.record_failure(error, ticks() - start)
        raise
    except LogError:
        raise
    except BaseException as error:
        with suppress(LogError):
            await recorder.record_failure(error, ticks() - start)
        raise


class _CallRecorder:
    """Records one model call and its result."""

    def __init__(
        self,
        log: EventAppender,
        name: str,
        envelope: Mapping[str, Any],
        data: Mapping[str, object],
        purpose: str | None,
        keep: KeepContent,
        new_id: Callable[[], str],
    ) -> None:
        provider, _, model = name.partition(":")
        self._log, self._envelope, self._keeps_content, self._new_id = log, envelope, keep == "words", new_id
        self._call_id = new_id()
        self._shared_data = {**data, "provider": provider, "model": model or name, "purpose": purpose, "call_id": self._call_id}

    async def record_call(self, request: ModelRequest, cause: str | None) -> None:
        prompt = "\n\n".join(filter(None, (request.context_json, request.prompt)))
        full_prompt = f"{request.system}\n\n{prompt}" if request.system else prompt
        sizes = {
            "prompt_tokens": estimate_tokens(full_prompt),
            "prompt_chars": len(full_prompt),
            "prompt_sha256": _request_hash(full_prompt),
        }
        content = {"prompt": prompt, "system": request.system} if self._keeps_content else {}
        await self._log.append([self._make_event("model.called", self._call_id, cause, sizes | content)])

    async def record_reply(self, reply: ModelReply) -> str:
        """Record the reply and return the event's id."""
        event = self._make_reply_event(reply)
        await self._log.append([event])
        return event.id or ""

    async def record_failure(self, error: BaseException, seconds: float) -> str:
        """Record the failure, and the reply if one was paid for; return the event's id."""
        paid_reply = [self._make_reply_event(error.reply)] if isinstance(error, ModelError) and isinstance(error.reply, ModelReply) else []
        data = {"error": _describe_error(error), **models_usage.failure_event_data(error)}
        if not paid_reply:  # otherwise the latency is stored in model.replied
            data["latency_ms"] = round(seconds * 1000)
        event = self._make_event("model.failed", self._new_id(), paid_reply[0].id if paid_reply else self._call_id, data)
        await self._log.append([*paid_reply, event])
        return event.id or ""

    def _make_reply_event(self, reply: ModelReply) -> Event:
        usage_data = models_usage.reply_event_data(reply) | {"model": reply.model or self._shared_data["model"]}
        content = {"said": reply.text} if self._keeps_content else {}
        return self._make_event("model.replied", self._new_id(), self._call_id, usage_data | content)

    def _make_event(self, kind: str, id: str, cause: str | None, data: Mapping[str, object]) -> Event:
        # Prompts may contain information that only this agent may see.
        visibility: Visibility = "private" if self._keeps_content else "public"
        known = {name: value for name, value in {**self._shared_data, **data}.items() if value is not None}
        return Event(id=id, kind=kind, cause=cause, visibility=visibility, data=known, **self._envelope)


@cache
def _default_prices() -> Prices:
    return Prices()


def price_reply(reply: ModelReply, prices: Prices, now: clock.Clock = clock.now) -> ModelReply:
    """Return the reply with its cost, from today's price table unless the endpoint reported it."""
    if reply.usd is not None:
        return reply
    price = prices.find_price(reply.model, now().date().isoformat())
    if price is None:
        return reply
    usage = reply.usage  # `compute_cost` returns picodollars
    return replace(reply, usd=price.compute_cost(TokenCounts(usage.input, usage.output, usage.cache_read, usage.cache_write)) / PICO)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"


def _request_hash(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
