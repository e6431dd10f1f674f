"""Usage of a model call, and details of a failed one, as data for `model.replied` and `model.failed` events."""

from __future__ import annotations

from typing import Any

from fleetlore.errors import ModelBusy, ModelError
from fleetlore.models.base import ModelReply, TokenUsage


def reply_event_data(reply: ModelReply) -> dict[str, Any]:
    """Data of a `model.replied` event: usage, cost and ids, without the text."""
    return _token_counts(reply.usage) | {
        "model": reply.model or None,
        "usd": reply.usd,
        "latency_ms": reply.latency_ms,
        "stop_reason": reply.finish,
        "attempts": reply.attempts,
        "message_id": reply.message_id,
        "request_id": reply.request_id,
    }


def failure_event_data(error: BaseException) -> dict[str, Any]:
    """Data of a `model.failed` event besides the error message."""
    if not isinstance(error, ModelError):
        return {}
    retry_fields = {"retry_after_ms": error.retry_after * 1000} if isinstance(error, ModelBusy) and error.retry_after is not None else {}
    return {"status": error.status, "attempt": error.attempts, **retry_fields}


def _token_counts(usage: TokenUsage) -> dict[str, Any]:
    counts: dict[str, Any] = {"input": usage.input, "output": usage.output}
    counts |= {name: count for name in ("cache_read", "cache_write") if (count := getattr(usage, name))}
    return counts | ({"estimated": True} if usage.estimated else {})
